"""`planner calibrate` from outside: a profile that passes the gate, the same for the same points, and its refusals."""

import datetime
import hashlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import InputError, UsageError
from planner.profiles import check_profiles, stack_profile
from planner.profiles.stack_writer import as_written
from planner.roofline import factors_of
from planner.roofline.factors import PRIOR, PRIORS
from planner.studies.fidelity import fidelity
from tests.fidelity_points import SETTINGS, configurations, slower, timed, written

DAY = ("--date", "2026-01-31")
PLANTED = replace(PRIOR, request_overhead_s=0.07)
FITTED_KEYS = ("kernel_latency_us", "eager_launch_us", "request_overhead_ms")
"""Factors that a profile states, in its order."""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Points of one version on two models and two accelerators, and one point of another framework."""
    folder = tmp_path_factory.mktemp("points")
    own = timed(configurations(), PLANTED, SETTINGS)
    return written(folder / "mine.csv", [*own, replace(own[0], framework="sglang", framework_version=None)])


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Points of one model on one accelerator, for what needs a profile but not a good one."""
    return written(tmp_path / "few.csv", timed(configurations()[:6], PLANTED, SETTINGS))


@pytest.fixture(scope="module")
def made(file: Path) -> tuple[Path, str]:
    """A profile of them and what was printed."""
    out = file.parent / "vllm.toml"
    found = run(
        file, "--from-priors", "--stack", "vllm", "--out", out, "--memory-fraction", "0.9", "--source", "a test", *DAY
    )
    assert found.exit_code == 0, found.exception
    return out, found.stdout


def test_the_profile_passes_the_gate_and_reads_back(made: tuple[Path, str]) -> None:
    path, _ = made
    assert check_profiles([path]).problems == ()
    profile = stack_profile(str(path))
    assert profile == as_written(profile)


def test_the_profile_says_what_it_was_fitted_to(made: tuple[Path, str], file: Path) -> None:
    profile = stack_profile(str(made[0]))
    found = profile.calibration
    assert found is not None
    assert (profile.framework, found.date) == ("vllm", "2026-01-31")
    assert [(item.name, item.n_points, item.n_used) for item in found.points] == [("mine.csv", 49, 48)]
    assert [item.sha256 for item in found.points] == [hashlib.sha256(file.read_bytes()).hexdigest()]
    assert found.models == ("gpt-oss-120b", "qwen3-32b")
    assert found.hardware == ("h100-sxm", "h200-sxm")
    assert (found.input_tokens, found.n_accelerators) == ((1024, 4096), (2, 4))
    assert "a test" in profile.sources[found.source]
    assert len(found.groups) == 4
    assert {group.version for group in found.groups} == {"0.19.0"}


def test_what_was_planted_is_found_and_only_what_was_fitted_is_stated(made: tuple[Path, str]) -> None:
    profile = stack_profile(str(made[0]))
    assert tuple(profile.factors.stated) == FITTED_KEYS
    assert {factor.basis for factor in profile.factors.stated.values()} == {"calibrated"}
    found = vars(factors_of(profile))
    for name, value in vars(PLANTED).items():
        assert found[name] == pytest.approx(value, rel=0.1), name
    assert found["request_overhead_s"] == pytest.approx(0.07, rel=0.03)


def test_errors_in_sample_are_next_to_nothing_and_those_held_out_are_there(made: tuple[Path, str]) -> None:
    found = stack_profile(str(made[0])).calibration
    assert found is not None
    for errors in (found.in_sample, found.held_out_models, found.held_out_hardware):
        assert errors is not None
        assert errors.ttft is not None
        assert errors.tpot is not None
        assert errors.tpot.n == 48
    assert found.in_sample.tpot is not None
    assert found.in_sample.tpot.mean_abs < 0.02


def test_tables_hold_factors_errors_and_the_worst_residuals(made: tuple[Path, str]) -> None:
    _, text = made
    for words in ("Factors", "spread", "basis", "in sample", "models held out", "accelerators held out"):
        assert words in text
    assert "worst residuals" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_same_points_make_the_same_bytes_and_another_day_only_another_date(few: Path, tmp_path: Path) -> None:
    out, texts = tmp_path / "vllm.toml", list[str]()
    for day in ("2026-01-31", "2026-02-01"):
        assert run(few, "--stack", "vllm", "--out", out, "--force", "--date", day).exit_code == 0
        texts.append(out.read_text())
    assert texts[1].replace("2026-02-01", "2026-01-31") == texts[0] != texts[1]


def test_a_profile_has_its_own_name_the_day_and_what_is_said_and_else_what_is_shipped(
    few: Path, tmp_path: Path
) -> None:
    """A version may be named: the profile is its framework's."""
    out = tmp_path / "vllm-mine.toml"
    said = ("--chunk-tokens", "2048", "--reserves-output", "--format", "json")
    answer = json.loads(run(few, "--stack", "vllm-0.19", "--out", out, *said).stdout)
    assert answer["calibration"]["date"] == datetime.date.today().isoformat()
    assert answer["name"] == "vllm-mine"
    assert check_profiles([out]).problems == ()
    profile = stack_profile(str(out))
    assert profile.framework == "vllm"
    shipped = stack_profile("vllm").settings
    assert profile.settings == shipped.model_copy(update={"chunk_tokens": 2048, "reserves_output": True})


def test_sources_that_nothing_cites_are_left_out(tmp_path: Path) -> None:
    out = tmp_path / "sglang.toml"
    points = timed(configurations("sglang")[:6], PLANTED, SETTINGS)
    found = run(written(tmp_path / "x.csv", points), "--stack", "sglang", "--catalogue", "--out", out, *DAY)
    assert found.exit_code == 0
    assert check_profiles([out]).problems == ()
    content = tomllib.loads(out.read_text())
    cited = {factor["source"] for factor in content["factors"].values()} | {content["calibration"]["source"]}
    cited |= {run["source"] for run in content["harnesses"].values()} | {*content["settings_sources"].values()}
    assert {*content["sources"]} == cited
    assert [item["name"] for item in content["calibration"]["points"]] == ["x.csv", "model profiles"]
    assert "qwen3.5-397b" in content["calibration"]["models"]


def test_the_catalogues_curves_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "sglang.toml"
    points = written(tmp_path / "x.csv", timed(configurations("sglang")[:6], PLANTED, SETTINGS))
    assert run(points, "--stack", "sglang", "--out", out, *DAY).exit_code == 0
    assert [item["name"] for item in tomllib.loads(out.read_text())["calibration"]["points"]] == ["x.csv"]


def test_a_fit_begins_at_the_shipped_stack_of_its_framework_unless_told_otherwise(tmp_path: Path) -> None:
    """Points that tell of no experts leave theirs where each begins."""
    file = written(tmp_path / "x.csv", timed(configurations()[:2], PLANTED, SETTINGS))
    found = []
    for name, options in (("vllm-near", ()), ("vllm-far", ("--from-priors",))):
        out = tmp_path / f"{name}.toml"
        assert run(file, "--stack", "vllm", "--out", out, *options, *DAY).exit_code == 0
        found.append(factors_of(stack_profile(str(out))))
    near, far = found
    assert near.request_overhead_s < far.request_overhead_s < PLANTED.request_overhead_s


def test_a_profile_of_ones_own_server_states_every_factor_and_which_of_them_its_points_move(few: Path) -> None:
    out = few.parent / "vllm-mine.toml"
    assert run(few, "--stack", "vllm", "--out", out, "--force", *DAY).exit_code == 0
    stated = stack_profile(str(out)).factors.stated
    assert len(stated) == len(PRIORS)
    assert stated["request_overhead_ms"].basis == "calibrated"
    assert (stated["burst"].basis, stated["burst"].source) == ("assumed", "shipped")


def test_a_new_framework_needs_no_shipped_profile(tmp_path: Path) -> None:
    out = tmp_path / "my-engine.toml"
    points = timed(configurations("My-Engine", None)[:6], PLANTED, SETTINGS)
    found = run(written(tmp_path / "x.csv", points), "--stack", "My-Engine", "--out", out, *DAY)
    assert found.exit_code == 0, found.exception
    assert check_profiles([out]).problems == ()
    content = tomllib.loads(out.read_text())
    assert content["framework"] == "my-engine"
    assert {*content["factors"]} == {*FITTED_KEYS}


def test_a_group_that_is_held_out_is_predicted_by_the_others_alone(tmp_path: Path) -> None:
    points = timed(configurations(version=None), PLANTED, SETTINGS)
    absurd = [slower([p], 40.0)[0] if p.hardware == "h100-sxm" else p for p in points]
    out = tmp_path / "vllm.toml"
    assert run(written(tmp_path / "x.csv", absurd), "--stack", "vllm", "--out", out, *DAY).exit_code == 0
    found = stack_profile(str(out)).calibration
    assert found is not None
    assert found.held_out_hardware is not None
    assert found.held_out_hardware.tpot is not None
    # From the sane one the absurd one comes out at a fortieth; from the absurd one the sane one comes out many times.
    assert found.held_out_hardware.tpot.mean_abs > 1.5


def test_a_single_model_and_accelerator_has_nothing_held_out(tmp_path: Path) -> None:
    points = timed(configurations()[:6], PLANTED, SETTINGS)
    out = tmp_path / "vllm.toml"
    assert run(written(tmp_path / "x.csv", points), "--stack", "vllm", "--out", out, *DAY).exit_code == 0
    found = stack_profile(str(out)).calibration
    assert found is not None
    assert (found.held_out_models, found.held_out_hardware) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        (("--stack", "lmdeploy", "--out", "lmdeploy.toml"), InputError, "frameworks found: sglang, vllm"),
        (("--stack", "vllm", "--out", "no/where/vllm.toml"), InputError, "cannot be written"),
        (("--stack", "vllm", "--out", "vllm"), UsageError, "is no name of a profile"),
        (("--stack", "vllm", "--out", "My Stack.toml"), UsageError, "is no name of a profile"),
        (("--stack", "vllm", "--out", "mine.toml"), UsageError, "a name that begins with vllm-"),
        (("--stack", "vllm", "--out", "vllmish.toml"), UsageError, "a name that begins with vllm-"),
        (("--stack", "vllm", "--out", "vllm.toml", "--date", "yesterday"), UsageError, "is no day"),
    ],
)
def test_what_cannot_be_fitted_is_said_and_nothing_is_written(
    arguments: tuple[str, ...],
    kind: type[Exception],
    says: str,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(file, *arguments)
    assert isinstance(found.exception, kind)
    assert says in str(found.exception)
    assert [*tmp_path.iterdir()] == []


def test_a_fitted_profile_predicts_its_points_through_fidelity(made: tuple[Path, str]) -> None:
    points = timed(configurations(), PLANTED, SETTINGS)
    found = fidelity(points, str(made[0]))
    assert found.tpot.mean_abs_error is not None
    assert found.tpot.mean_abs_error < 0.02
