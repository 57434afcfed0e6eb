"""`planner scenario new` with options: whatever they say stands in a file that holds, and that is planned at once."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.cli.scenario_text import Wanted, scenario_text
from planner.errors import InputError, UsageError
from planner.scenario import Scenario, load_scenario, read_scenario
from planner.studies.instance_size import RequestLengths, accelerators_per_instance
from planner.workload.trace_arrivals import dispersion, rate_req_per_s

MODELS = ("llama-3.1-8b", "qwen3-235b", "kimi-linear-48b", "gpt-oss-120b")
CHIPS = ("h100-sxm", "l40s", "mi300x", "h20-141gb")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["scenario", "new", *arguments])


def written(*arguments: str) -> Scenario:
    found = new("mine", *arguments)
    assert found.exit_code == 0, (found.output, found.exception)
    return read_scenario("mine.toml")


def azure(path: Path, arrival_s: np.ndarray, tokens: int = 1000) -> str:
    """A trace in Azure's format."""
    start = np.datetime64("2026-01-01T00:00:00")
    times = [str(start + np.timedelta64(round(s * 1e6), "us")).replace("T", " ") for s in arrival_s]
    lines = [f"{time},{tokens + i % 7},{100 + i % 3}" for i, time in enumerate(times)]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def poisson(n: int, seed: int, rate: float = 4.0) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, n))


amounts = st.none() | st.floats(0.01, 1e4)
options = st.builds(
    Wanted,
    path=st.just(Path("mine.toml")),
    one_site=st.booleans(),
    model=st.none() | st.sampled_from(MODELS),
    hardware=st.none() | st.sampled_from(CHIPS),
    precision=st.none() | st.sampled_from(["bf16", "fp8"]),
    demand=amounts,
    slo_ttft=amounts,
    slo_tpot_ms=amounts,
    input_tokens=st.none() | st.floats(1, 1e5),
    output_tokens=st.none() | st.floats(1, 1e4),
    accelerators=st.none() | st.integers(1, 10**6),
    per_instance=st.none() | st.integers(1, 64),
    price=amounts,
)


@settings(phases=[Phase.explicit, Phase.generate])  # shrinking such a record takes minutes
@given(options, st.none() | st.floats(1, 99))
def test_whatever_options_say_stands_in_a_scenario_that_holds(drawn: Wanted, percentile: float | None) -> None:
    wanted = replace(drawn, percentile=None if drawn.slo_ttft is None else percentile)
    text, _ = scenario_text(wanted)
    found = load_scenario(text, "mine.toml", Path())
    local = found.pools["decode" if wanted.one_site else "pd-d"]
    near = lambda value: pytest.approx(value, rel=1e-5)  # noqa: E731
    assert wanted.model in (None, found.model.profile)
    assert wanted.hardware in (None, local.hardware)
    assert wanted.per_instance in (None, local.accelerators_per_instance)
    assert (found.objective == "min-cost") == (found.demand_req_per_s is not None)
    assert (found.slo is None) == (wanted.slo_ttft is None and wanted.slo_tpot_ms is None)
    if found.slo is not None:
        assert found.slo.ttft_percentile == near(wanted.percentile or 90.0)
    assert set(found.prices) == {pool.hardware for pool in found.pools.values()}
    if wanted.accelerators is not None:
        assert wanted.accelerators in found.sites[local.site].accelerators.values()
    assert bool(found.links) != wanted.one_site
    assert found.workload is not None
    stands = {
        "demand": found.demand_req_per_s,
        "slo_ttft": found.slo and found.slo.ttft_s,
        "slo_tpot_ms": found.slo and found.slo.tpot_ms,
        "price": found.prices[local.hardware].hourly_usd,
        "input_tokens": getattr(found.workload.lengths, "tokens", None),
    }
    asked = {name: getattr(wanted, name) for name in stands if getattr(wanted, name) is not None}
    assert {name: stands[name] for name in asked} == near(asked)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--one-site",),
        ("--one-site", "--model", "llama-3.1-8b", "--hardware", "l40s", "--demand", "3", "--slo-ttft", "2"),
        ("--one-site", "--model", "qwen3-32b", "--hardware", "h100-sxm", "--accelerators", "32", "--slo-ttft", "5"),
        ("--model", "qwen3-235b", "--demand", "2", "--hardware", "h20-141gb", "--remote-hardware", "b200-sxm"),
        ("--one-site", "--demand", "2", "--input", "6000", "--output", "300", "--price", "2.2"),
    ],
)
def test_a_new_scenario_is_checked_and_planned_as_it_stands(arguments: tuple[str, ...]) -> None:
    scenario = written(*arguments)
    assert CliRunner().invoke(app, ["scenario", "check", "mine.toml"]).exit_code == 0
    found = CliRunner().invoke(app, ["optimize", "mine.toml", "--no-run", "--format", "json"])
    assert found.exit_code == 0, (found.output, found.exception)
    plan = json.loads(found.stdout)
    assert plan["cost"]["usd_per_hour"] > 0
    assert scenario.demand_req_per_s in (None, plan["throughput_req_per_s"])


def test_rate_and_burstiness_of_a_trace_are_set_and_planned(in_folder: Path) -> None:
    trace = azure(in_folder / "real.csv", np.repeat(poisson(500, 1, 1.0), 4))
    found = written("--from", trace, "--one-site", "--model", "llama-3.1-8b", "--hardware", "h100-sxm")
    assert found.demand_req_per_s == pytest.approx(4.0, rel=0.1)
    assert found.workload is not None
    assert found.workload.arrivals.squared_cv == pytest.approx(4.0, rel=0.35)
    text = (in_folder / "mine.toml").read_text(encoding="utf-8")
    assert "as recorded: one over the mean gap between arrivals" in text
    assert "variance over mean of the arrivals in" in text
    plan = json.loads(CliRunner().invoke(app, ["optimize", "mine.toml", "--format", "json"]).stdout)
    assert plan["throughput_req_per_s"] == pytest.approx(found.demand_req_per_s)


def test_a_stated_demand_is_taken_in_place_of_the_recorded_one(in_folder: Path) -> None:
    trace = azure(in_folder / "real.csv", poisson(2000, 2))
    assert written("--from", trace, "--demand", "9").demand_req_per_s == 9


@pytest.mark.parametrize("n_together", [1, 3, 8])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_dispersion_of_arrivals_in_groups_is_the_size_of_the_groups(n_together: int, seed: int) -> None:
    """A compound Poisson process of groups of k has Var[N] / E[N] = k in every window."""
    arrival_s = np.repeat(poisson(30_000, seed), n_together)
    found = dispersion(arrival_s)
    assert found is not None
    assert found.value == pytest.approx(n_together, rel=5 * (2 / found.n_windows) ** 0.5)
    assert rate_req_per_s(arrival_s) == pytest.approx(4.0 * n_together, rel=0.03)


def test_the_dispersion_of_independent_gaps_tends_to_their_squared_variation() -> None:
    gaps = np.random.default_rng(3).gamma(0.5, 2.0, 200_000) / 20.0
    found = dispersion(np.cumsum(gaps))
    assert found is not None
    assert found.value == pytest.approx(2.0, rel=0.15)


@given(st.floats(0.01, 100.0), st.integers(2, 400))
def test_a_regular_trace_has_its_rate_and_no_dispersion(rate: float, n: int) -> None:
    arrival_s = np.arange(n) / rate
    found = dispersion(arrival_s)
    assert rate_req_per_s(arrival_s) == pytest.approx(rate)
    assert found is None or found.value < 0.1


def test_a_trace_too_short_to_tell_is_taken_for_independent_users(in_folder: Path) -> None:
    found = written("--from", azure(in_folder / "short.csv", np.arange(5.0)), "--one-site")
    assert found.workload is not None
    assert found.workload.arrivals.squared_cv == 1.0
    assert "Too few requests to tell" in (in_folder / "mine.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("--model", "llama-3.1-70"), InputError, "--model: 'llama-3.1-70' is no model profile (did you mean"),
        (("--hardware", "h100-smx"), InputError, "--hardware: 'h100-smx' is no hardware profile (did you mean"),
        (("--remote-hardware", "h20"), InputError, "--remote-hardware: 'h20' is no hardware profile"),
        (("--model", "gone.toml"), InputError, "gone.toml"),
        (("--one-site", "--remote-hardware", "h200-sxm"), UsageError, "--one-site has none"),
        (
            ("--one-site", "--hardware", "rubin-cpx"),
            InputError,
            "scenario new: pools.prefill: rubin-cpx figures has no",
        ),
        (("--percentile", "95"), UsageError, "--percentile: is about --slo-ttft"),
        (("--from", "a.csv", "--input", "100"), UsageError, "--input: a trace brings its own lengths"),
        (("--from", "gone.csv"), InputError, "gone.csv"),
    ],
)
def test_what_cannot_be_is_one_message_and_no_file(
    arguments: tuple[str, ...], error: type[Exception], said: str, in_folder: Path
) -> None:
    found = new("mine", *arguments)
    assert isinstance(found.exception, error), (found.output, found.exception)
    assert said in str(found.exception)
    assert len(str(found.exception).splitlines()) == 1
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize("option", ["--demand", "--slo-ttft", "--slo-tpot-ms", "--input", "--output", "--price"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e300", "many"])
def test_a_number_that_is_none_is_a_fault_of_usage_and_leaves_no_file(option: str, value: str, in_folder: Path) -> None:
    found = new("mine", option, value)
    assert found.exit_code == 2
    assert option in found.stderr
    assert list(in_folder.iterdir()) == []


def test_a_file_is_written_over_only_when_told(in_folder: Path) -> None:
    (in_folder / "mine.toml").write_text("my work", encoding="utf-8")
    assert "--force" in str(new("mine").exception)
    assert (in_folder / "mine.toml").read_text(encoding="utf-8") == "my work"
    assert written("--force", "--one-site").sites.keys() == {"here"}


LENGTHS = RequestLengths(mean=2000, p90=4000, longest=32_000, output=300)


@pytest.mark.parametrize("hardware", CHIPS)
@pytest.mark.parametrize("model", MODELS)
def test_an_instance_grows_with_longer_prompts_and_stricter_promises(model: str, hardware: str) -> None:
    def size(longest: float, ttft_s: float | None) -> int:
        lengths = RequestLengths(LENGTHS.mean, LENGTHS.p90, longest, LENGTHS.output)
        return accelerators_per_instance(model, hardware, None, lengths, ttft_s)

    assert size(8_000, None) <= size(120_000, None)
    assert size(8_000, None) <= size(8_000, 1.0)


def test_an_instance_is_as_large_as_the_one_that_was_measured() -> None:
    assert accelerators_per_instance("prfaas-1t", "h20-141gb", "fp8", LENGTHS) == 8


@pytest.mark.parametrize("sites", [("--one-site",), ()])
def test_both_kinds_of_serving_are_offered_where_passes_with_prompts_can_be_timed(sites: tuple[str, ...]) -> None:
    roles = {"prefill", "decode"}
    timed = written(*sites, "--model", "llama-3.1-8b", "--hardware", "h100-sxm")
    assert {pool.role for pool in timed.pools.values()} == roles | {"colocated"}
    (colocated,) = (pool for pool in timed.pools.values() if pool.role == "colocated")
    alike = next(pool for pool in timed.pools.values() if pool.role == "decode")
    for key in ("site", "hardware", "layouts", "n_instances"):
        assert getattr(colocated, key) == getattr(alike, key)
    measured = written(*sites, "--model", "prfaas-1t", "--hardware", "h20-141gb", "--force")
    assert {pool.role for pool in measured.pools.values()} == roles
