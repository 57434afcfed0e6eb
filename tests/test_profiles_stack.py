"""Stack profiles: written, read back, shown, and checked; every planted fault is found alone at its line."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from planner.cli.profiles import app
from planner.errors import InputError
from planner.profiles import StackProfile, check_profiles, profile_names, stack_profile
from planner.profiles.folders import profile_dir
from planner.profiles.stack import RATE_FACTORS, Bands, Calibration, Errors, StackFactors
from planner.profiles.stack_checks import RANGES
from planner.profiles.stack_writer import as_written, stack_toml
from planner.roofline.factors import PRIOR
from planner.roofline.stack import factors_of
from planner.schema import TomlFile
from tests.planted import Planted, assert_found_alone, written
from tests.stacks import CALIBRATED, NAME

SHIPPED = profile_names("stack")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def read(text: str) -> StackProfile:
    return TomlFile(f"{NAME}.toml", text).record(StackProfile)


def calibrated() -> Calibration:
    found = read(CALIBRATED).calibration
    assert found
    return found


# The shipped ones


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_stack_holds_and_is_written_as_it_stands(name: str) -> None:
    assert check_profiles([profile_dir("stack") / f"{name}.toml"]).problems == ()
    assert as_written(stack_profile(name)) == stack_profile(name)


def test_the_frameworks_of_the_contract_are_shipped_with_their_settings() -> None:
    assert set(SHIPPED) >= {"vllm", "trtllm", "sglang"}
    assert not stack_profile("sglang").settings.quantized_kv
    assert stack_profile("trtllm").settings.reserves_output


def test_every_prior_of_the_roofline_is_plausible_and_every_factor_has_a_range() -> None:
    assert set(RANGES) == set(StackFactors.model_fields)
    for key, allowed in RANGES.items():
        stem, unit = (key[:-3], {"_us": 1e-6, "_ms": 1e-3}.get(key[-3:]))
        value = getattr(PRIOR, f"{stem}_s") / unit if unit else getattr(PRIOR, key)
        assert value in allowed, key


def test_factors_reach_the_roofline_in_seconds_and_those_not_stated_as_of_any_framework() -> None:
    found = factors_of(read(CALIBRATED))
    assert (found.gemm_efficiency, found.tile_rows) == (0.8712, 128.0)
    assert found.kernel_latency_s == pytest.approx(3.2e-6)
    assert found.host_step_s == pytest.approx(3.5e-3)
    lines = [line for line in CALIBRATED.splitlines() if not line.startswith(("tile_rows", "host_step_ms"))]
    rest = factors_of(read("\n".join(lines)))
    assert vars(rest) == vars(found) | {"tile_rows": PRIOR.tile_rows, "host_step_s": PRIOR.host_step_s}


# Writing


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=8)
NAMES = st.from_regex(r"\A[a-z0-9][a-z0-9.-]{0,8}\Z")
POSITIVE = st.floats(1e-9, 1e9)
FRACTIONS = st.floats(1e-6, 1.0)
COUNTS = st.integers(1, 10**9)
ERRORS = st.fixed_dictionaries(
    {"n": COUNTS, "mean_abs": POSITIVE, "median_abs": POSITIVE, "bias": st.floats(-1.0, 1e6)},
)
LATENCIES = st.fixed_dictionaries({}, optional={"ttft": ERRORS, "tpot": ERRORS})
BAND = st.fixed_dictionaries({"low": POSITIVE, "high": POSITIVE, "n": COUNTS})
BANDS = st.fixed_dictionaries({}, optional={"prefill": BAND, "decode": BAND})
SPAN = st.tuples(COUNTS, COUNTS)
GROUP = st.fixed_dictionaries(
    {"model": NAMES, "hardware": NAMES, "n_points": COUNTS},
    optional={"ttft_mean_abs": POSITIVE, "tpot_mean_abs": POSITIVE},
)
FILE = st.fixed_dictionaries(
    {"name": TEXTS, "sha256": st.from_regex(r"\A[0-9a-f]{64}\Z"), "n_points": COUNTS, "n_used": COUNTS}
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "chunk_tokens": st.integers(16, 10**9),
        "memory_fraction": FRACTIONS,
        "reserves_output": st.booleans(),
        "quantized_kv": st.booleans(),
        "prefill_first": st.booleans(),
        "splits_prompts": st.booleans(),
        "most_running": st.integers(1, 10**6),
    },
)


def factors(source: str) -> st.SearchStrategy[dict[str, object]]:
    bases = st.sampled_from(["calibrated", "measured", "quoted", "assumed"])

    def factor(least: float) -> st.SearchStrategy[dict[str, object]]:
        return st.fixed_dictionaries(
            {"value": st.floats(least, 1e9), "source": st.just(source), "basis": bases},
            optional={"spread_fraction": POSITIVE, "note": TEXTS},
        )

    each = {name: factor(1e-9 if name in RATE_FACTORS else 0) for name in StackFactors.model_fields}
    return st.fixed_dictionaries({}, optional=each)


def calibrations(source: str) -> st.SearchStrategy[dict[str, object]]:
    spans = dict.fromkeys(("input_tokens", "context_tokens", "batch", "n_accelerators"), SPAN)
    lists = {"points": st.lists(FILE, max_size=2).map(tuple)}
    lists |= dict.fromkeys(("models", "hardware"), st.lists(NAMES, max_size=3).map(tuple))
    optional = {"held_out_models": LATENCIES, "held_out_hardware": LATENCIES, "model_bands": BANDS}
    return st.fixed_dictionaries(
        {"date": st.dates().map(str), "source": st.just(source), **lists, **spans, "in_sample": LATENCIES},
        optional={**optional, "hardware_bands": BANDS, "groups": st.lists(GROUP, max_size=2).map(tuple)},
    )


def harnesses(source: str) -> st.SearchStrategy[dict[str, object]]:
    polling = st.fixed_dictionaries({"from_concurrency": st.integers(1, 512), "passes": st.integers(1, 100)})
    counts = ("tokens_per_pass", "most_running", "tokens_beyond_prompt")
    optional = {"shortest_fraction": FRACTIONS, "polling": st.lists(polling, max_size=2).map(tuple)}
    return st.fixed_dictionaries(
        {"source": st.just(source)}, optional={**optional, **dict.fromkeys(counts, st.integers(16, 10**6))}
    )


@st.composite
def profiles(draw: st.DrawFn) -> StackProfile:
    source = draw(TEXTS)
    head = st.fixed_dictionaries(
        {"name": NAMES, "title": TEXTS, "framework": NAMES, "settings": SETTINGS, "factors": factors(source)},
        optional={
            "aliases": st.lists(TEXTS, max_size=2).map(tuple),
            "calibration": calibrations(source),
            "harnesses": st.dictionaries(TEXTS, harnesses(source), max_size=2),
        },
    )
    sources = {source: draw(TEXTS)}
    return StackProfile.model_validate({"schema": "planner.stack/1", "sources": sources, **draw(head)})


@given(profiles())
def test_a_written_stack_reads_back_as_the_same_to_four_digits(profile: StackProfile) -> None:
    text = stack_toml(profile)
    found = read(text)
    assert found == as_written(profile)
    assert stack_toml(found) == text


def test_rounding_is_to_four_significant_digits_and_leaves_counts_alone() -> None:
    text = CALIBRATED.replace("0.8712", "0.871249").replace("28.0", "28.12345").replace("n = 190", "n = 190123")
    found = as_written(read(text))
    values = {key: factor.value for key, factor in found.factors.stated.items()}
    assert (values["gemm_efficiency"], values["request_overhead_ms"]) == (0.8712, 28.12)
    assert found.calibration
    assert found.calibration.in_sample.ttft
    assert found.calibration.in_sample.ttft.n == 190123


def test_a_written_stack_is_what_a_person_would_write() -> None:
    assert stack_toml(read(CALIBRATED)) == CALIBRATED


def test_parts_that_hold_nothing_are_left_out_and_those_that_say_so_are_kept() -> None:
    bare = calibrated().model_copy(
        update={"groups": (), "model_bands": Bands(), "hardware_bands": Bands(), "held_out_models": Errors()}
    )
    profile = read(CALIBRATED).model_copy(update={"calibration": bare})
    found = tomllib.loads(stack_toml(profile))["calibration"]
    assert not {"groups", "model_bands", "hardware_bands"} & set(found)
    assert found["held_out_models"] == {}
    assert read(stack_toml(profile)) == profile


def test_what_a_fit_leaves_is_accepted_by_the_gate(tmp_path: Path) -> None:
    assert check_profiles([written(tmp_path, NAME, stack_toml(read(CALIBRATED)))]).problems == ()


# The gate


def planted(old: str, new: str, key: str, says: str, at: str = "") -> Planted:
    return Planted(NAME, old, new, key, says, at, CALIBRATED)


FACTOR_FAULTS = {
    f"{key} {value:g}": planted(old, old.replace(was, str(value)), f"factors.{key}.value", says)
    for key, was, value, says in (
        ("gemm_efficiency", "0.8712", 0.0, "is 0 (at least 1e-09: times are divided by it)"),
        ("weight_read_fraction", "0.81", 0.0, "is 0 (at least 1e-09: times are divided by it)"),
        ("gemm_efficiency", "0.8712", 87.12, "(0.05 to 3)"),
        ("moe_efficiency", "0.75", 0.04, "(0.05 to 3)"),
        ("attention_efficiency", "1.1", 3.1, "(0.05 to 3)"),
        ("recurrence_efficiency", "1.0", 0.01, "(0.05 to 3)"),
        ("kv_read_efficiency", "0.9", 9.0, "(0.05 to 3)"),
        ("tile_rows", "128.0", 1024.0, "(0 to 512)"),
        ("weight_read_fraction", "0.81", 81.0, "weight_read_fraction is in parts of 1: 81 % are 0.81"),
        ("weight_read_fraction", "0.81", 0.2, "(0.3 to 1.5 parts of 1"),
        ("activation_traffic", "1.4", 0.4, "(0.5 to 10)"),
        ("kernel_latency_us", "3.2", 3200.0, "kernel_latency_us is in us: 3200 ns are 3.2"),
        ("collective_latency", "1.25", 12.5, "(0.05 to 10)"),
        ("replica_latency_us", "11.0", 11000.0, "11000 ns are 11"),
        ("step_overhead_ms", "0.45", 450.0, "step_overhead_ms is in ms: 450 us are 0.45"),
        ("sequence_overhead_us", "2.5", 2500.0, "2500 ns are 2.5"),
        ("host_step_ms", "3.5", 3500.0, "3500 us are 3.5"),
        ("host_sequence_us", "21.0", 2100.0, "2100 ns are 2.1"),
        ("eager_launch_us", "9.0", 9000.0, "9000 ns are 9"),
        ("request_overhead_ms", "28.0", 28000.0, "28000 us are 28"),
        ("prompt_token_us", "1.75", 175.0, "(0 to 100 us"),
        ("burst", "0.0", 5.5, "(0 to 5)"),
    )
    for old in [f"{key} = {{ value = {was}"]
}

GEMM = "gemm_efficiency = { value = 0.8712"
DATED = CALIBRATED[CALIBRATED.index("[calibration]") :]

FAULTS = {
    "unknown schema": planted("planner.stack/1", "planner.stack/2", "schema", "planner.stack/1"),
    "name unlike file": planted('name = "some-engine"\nti', 'name = "engine"\nti', "name", "the file's name"),
    "framework unlike file": planted(
        'framework = "some-engine"',
        'framework = "engine"',
        "framework",
        "is 'engine' (the file's name, 'some-engine', or",
    ),
    "negative factor": planted(GEMM, GEMM.replace("0.87", "-0.87"), "factors.gemm_efficiency.value", "greater than"),
    "text for a factor": planted(GEMM, GEMM.replace("0.8712", '"high"'), "factors.gemm_efficiency.value", "number"),
    "infinite factor": planted(GEMM, GEMM.replace("0.8712", "inf"), "factors.gemm_efficiency.value", "finite"),
    "unknown factor": planted(
        "burst = {",
        'bursts = { value = 1.0, source = "points", basis = "assumed" }\nburst = {',
        "factors.bursts",
        "burst",
    ),
    "unknown basis": planted('basis = "quoted"', 'basis = "guessed"', "factors.tile_rows.basis", "'calibrated', 'mea"),
    "unlisted source": planted(
        '128.0, source = "docs"', '128.0, source = "dogs"', "factors.tile_rows.source", "did you mean 'docs'"
    ),
    "unlisted source of the points": planted(
        '31"\nsource = "points"',
        '31"\nsource = "pints"',
        "calibration.source",
        "did you mean 'points'",
        at='source = "pints"',
    ),
    "idle source": planted(
        "[settings]", 'idle = "A book"\n\n[settings]', "sources.idle", "is cited by no factor, setting, harness or cal"
    ),
    "two budgets of a pass": planted(
        "tokens_per_pass = 16384\n",
        "tokens_per_pass = 16384\ntokens_beyond_prompt = 64\n",
        "harnesses.some-bench.tokens_beyond_prompt",
        "is there beside tokens_per_pass",
        at="tokens_beyond_prompt",
    ),
    "looks by falling load": planted(
        "from_concurrency = 16", "from_concurrency = 1", "harnesses.some-bench.polling", "begins at 1, 1 requests"
    ),
    "usual harness that is none": planted(
        'usual_harness = "some-bench"', 'usual_harness = "bench"', "settings.usual_harness", "[harnesses]: some-bench"
    ),
    "quoted without an address": planted(", https://example.org/engine", "", "sources.docs", "no address", at="docs ="),
    "calibrated to nothing": planted(
        DATED, "", "factors.gemm_efficiency.basis", "as are 16 others, but there is no [calibration]", at=GEMM
    ),
    "memory fraction in per cent": planted(
        "memory_fraction = 0.88", "memory_fraction = 88", "settings.memory_fraction", "less than or equal to 1"
    ),
    "no such day": planted("2026-01-31", "2026-02-31", "calibration.date", "a day of the calendar"),
    "date out of form": planted("2026-01-31", "31.1.2026", "calibration.date", "pattern"),
    "spans upside down": planted("[128, 32768]", "[32768, 128]", "calibration.input_tokens", "is 32768 to 128"),
    "contexts upside down": planted("[256, 34000]", "[34000, 256]", "calibration.context_tokens", "the lowest first"),
    "batches upside down": planted("[1, 256]", "[256, 1]", "calibration.batch", "the lowest first"),
    "instances upside down": planted("[1, 8]", "[8, 1]", "calibration.n_accelerators", "the lowest first"),
    "span of one": planted("[1, 8]", "[8]", "calibration.n_accelerators[1]", "is required"),
    "more used than there are": planted(
        "n_points = 210, n_used = 200",
        "n_points = 21, n_used = 200",
        "calibration.points[0].n_used",
        "0 to n_points = 21",
    ),
    "fewer used than none": planted("n_used = 20 ", "n_used = -20 ", "calibration.points[1].n_used", "got -20"),
    "no digest": planted(
        '"more_points.csv", sha256 = "0f', '"more_points.csv", sha256 = "xy', "calibration.points[1].sha256", "pattern"
    ),
    "file twice": planted(
        '"more_points.csv"', '"serving_points.csv" ', "calibration.points[1]", "repeats serving_points"
    ),
    "no model": planted('["qwen3-235b", "llama-3.1-70b"]', "[]", "calibration.models", "is empty"),
    "model without profile": planted(
        '["qwen3-235b", "llama', '["qwen3-253b", "llama', "calibration.models[0]", "did you mean 'qwen3-235b'?"
    ),
    "hardware without profile": planted(
        '"h100-sxm"]', '"h100-smx"]', "calibration.hardware[1]", "'h100-smx' has no hardware profile (did you mean"
    ),
    "hardware twice": planted('"h100-sxm"]', '"h200-sxm"]', "calibration.hardware[1]", "repeats h200-sxm (each once)"),
    "group of no model": planted(
        '{ model = "llama-3.1-70b"', '{ model = "llama-70b"', "calibration.groups[1].model", "has no model profile"
    ),
    "group of no hardware": planted(
        'hardware = "h100-sxm"', 'hardware = "h100"', "calibration.groups[1].hardware", "has no hardware profile"
    ),
    "group twice": planted(
        'model = "llama-3.1-70b", hardware = "h100-sxm"',
        'model = "qwen3-235b", hardware = "h200-sxm"',
        "calibration.groups[1]",
        "repeats qwen3-235b on h200-sxm",
        at='model = "qwen3-235b", hardware = "h200-sxm", n_points = 80',
    ),
    "band upside down": planted(
        "low = 0.78, high = 1.33", "low = 1.33, high = 0.78", "calibration.model_bands.prefill.low", "not below high"
    ),
    "band of nothing": planted(
        "low = 0.78, high = 1.33", "low = 1.0, high = 1.0", "calibration.model_bands.prefill.low", "not below high = 1"
    ),
    "band above": planted(
        "low = 0.87, high = 1.16", "low = 1.2, high = 1.6", "calibration.model_bands.decode.low", "is 1.2"
    ),
    "band below": planted(
        "low = 0.71, high = 1.45", "low = 0.4, high = 0.7", "calibration.hardware_bands.prefill.high", "high > 0.8"
    ),
    "negative error": planted(
        "n = 190, mean_abs = 0.121", "n = 190, mean_abs = -0.121", "calibration.in_sample.ttft.mean_abs", "greater than"
    ),
}


@pytest.mark.parametrize("fault", [*FACTOR_FAULTS.values(), *FAULTS.values()], ids=[*FACTOR_FAULTS, *FAULTS])
def test_a_planted_fault_is_found_alone_at_its_line(fault: Planted, tmp_path: Path) -> None:
    assert_found_alone(fault, tmp_path)


def test_every_factor_has_a_planted_fault() -> None:
    assert {fault.key.split(".")[1] for fault in FACTOR_FAULTS.values()} == set(RANGES)


def test_an_uncalibrated_stack_needs_no_points(tmp_path: Path) -> None:
    text = CALIBRATED.replace(DATED, "").replace('"calibrated"', '"assumed"')
    assert check_profiles([written(tmp_path, NAME, text)]).problems == ()


def test_factors_are_judged_where_the_schema_does_not_hold(tmp_path: Path) -> None:
    text = CALIBRATED.replace("0.8712", "87.12").replace('basis = "quoted"', 'basis = "guessed"')
    text = text.replace('framework = "some-engine"', 'framework = "engine"')
    found = check_profiles([written(tmp_path, NAME, text)]).problems
    assert [problem.key for problem in found] == [
        "framework",
        "factors.gemm_efficiency.value",
        "factors.tile_rows.basis",
    ]


@pytest.mark.parametrize("text", ["factors = 3", "[factors]\nburst = 3", "[factors]\nburst = { value = true }"])
def test_a_file_of_odd_shapes_is_refused_without_a_traceback(text: str, tmp_path: Path) -> None:
    found = check_profiles([written(tmp_path, NAME, f'schema = "planner.stack/1"\n{text}\n')])
    assert not found.holds


def test_two_stacks_of_one_alias_are_reported(tmp_path: Path) -> None:
    written(tmp_path, NAME, CALIBRATED)
    other = CALIBRATED.replace('"some-engine"', '"z-engine"')
    (problem,) = check_profiles([tmp_path, written(tmp_path, "z-engine", other)]).problems
    assert (Path(problem.file).name, problem.key) == ("z-engine.toml", "aliases[0]")


def test_two_stack_files_of_one_name_are_reported(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    text = CALIBRATED.replace('["Engine"]', "[]")
    paths = [written(folder, NAME, text) for folder in folders]
    (problem,) = check_profiles(paths).problems
    assert (problem.key, problem.file) == ("name", str(paths[1]))


def test_a_stack_may_name_models_and_hardware_in_the_folders_beside(tmp_path: Path) -> None:
    for kind in ("hardware", "model", "stack"):
        (tmp_path / f"{kind}_profiles").mkdir()
    text = CALIBRATED.replace('"h100-sxm"', '"my-chip"').replace('"llama-3.1-70b"', '"my-model"')
    path = written(tmp_path / "stack_profiles", NAME, text)
    assert len(check_profiles([path]).problems) == 4
    written(tmp_path / "hardware_profiles", "my-chip", "")
    written(tmp_path / "model_profiles", "my-model", "")
    assert check_profiles([path]).holds


# The command line


@pytest.fixture
def engine(tmp_path: Path) -> str:
    return str(written(tmp_path, NAME, CALIBRATED))


def cells(text: str, name: str) -> list[str]:
    row = next(line for line in text.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in row.strip("│").split("│")]


def test_show_prints_every_factor_with_spread_basis_and_source(engine: str) -> None:
    text = run("show", engine).stdout
    assert cells(text, "gemm_efficiency")[:5] == ["gemm_efficiency", "0.8712", "2.1 %", "calibrated", "points"]
    assert cells(text, "burst")[:3] == ["burst", "0", "–"]
    assert all(cells(text, key) for key in StackFactors.model_fields)
    assert max(map(len, text.splitlines())) <= 100


def test_show_prints_calibration_errors_and_sources(engine: str) -> None:
    text = run("show", engine).stdout
    assert cells(text, "in sample")[1:] == ["ttft", "190", "12.1 %", "8.4 %", "-1.2 %"]
    assert cells(text, "models held out")[1:] == ["ttft", "190", "18.2 %", "14.3 %", "3.1 %"]
    assert cells(text, "llama-3.1-70b") == ["llama-3.1-70b", "h100-sxm", "80", "–", "7.1 %"]
    assert "serving_points.csv: 200 of 210 points used" in text
    assert "https://example.org/engine" in text


def test_list_says_what_a_stack_was_fitted_to_and_how_well_it_does(engine: str) -> None:
    from planner.cli.common import print_rich
    from planner.cli.stack_tables import stacks_table

    profile = stack_profile(engine)
    table = stacks_table([profile, profile.model_copy(update={"calibration": None})])
    assert table.row_count == 2
    columns = [list(column.cells) for column in table.columns]
    assert columns[1][0] == "17 calibrated\n1 assumed\n1 quoted"
    assert columns[2] == ["2 models\n2 accelerators\n220 points", "–"]
    assert columns[3] == ["TTFT 12.1 %\nTPOT 6.6 %", "–"]
    assert columns[4] == ["TTFT 18.2 %\nTPOT 9.3 %", "–"]
    print_rich(table)


def test_list_shows_the_stacks_third() -> None:
    titles = [
        line.strip() for line in run("list").stdout.splitlines() if line.strip() in ("Hardware", "Models", "Stacks")
    ]
    assert titles == ["Hardware", "Models", "Stacks"]


def test_show_as_json_is_the_file(engine: str) -> None:
    found = json.loads(run("show", engine, "--format", "json").stdout)
    assert found == tomllib.loads(CALIBRATED) | {"factors": found["factors"], "settings_sources": {}}
    assert found["factors"]["tile_rows"] == {"value": 128.0, "source": "docs", "basis": "quoted"}


def test_a_stack_of_an_unknown_name_is_answered_with_the_choice() -> None:
    with pytest.raises(InputError, match=r"is no stack profile .*sglang, trtllm, vllm; or a path"):
        stack_profile("llama.cpp")
