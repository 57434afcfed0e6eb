"""A few rows make a profile: they move what they tell of, priors carry the rest, and the answer says which is which."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError
from planner.profiles import StackProfile, check_profiles, stack_profile
from planner.profiles.points import ServingPoint
from planner.profiles.stack import StackFactors
from planner.roofline.factors import PRIOR, PRIORS
from planner.studies.fidelity import fidelity
from tests.fidelity_points import POINT, SETTINGS, configurations, timed, written

SLOW = replace(PRIOR, request_overhead_s=0.14, kernel_latency_s=12e-6)
OPTIONS = ("--stack", "vllm", "--memory-fraction", "0.9", "--date", "2026-01-31")


def run(folder: Path, *points: list[ServingPoint], options: tuple[str, ...] = ()) -> tuple[StackProfile, str]:
    """A profile of several files, and what is printed of it."""
    files = [written(folder / f"bench{index}.csv", rows) for index, rows in enumerate(points)]
    out = folder / "vllm.toml"
    found = CliRunner().invoke(app, ["calibrate", *map(str, files), *OPTIONS, *options, "--out", str(out)])
    assert found.exit_code == 0, found.exception
    assert check_profiles([out]).problems == ()
    return stack_profile(str(out)), found.stdout


def assumed(profile: StackProfile) -> set[str]:
    return {key for key, factor in profile.factors.stated.items() if factor.basis == "assumed"}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([configurations()[:1]], id="one row"),
        pytest.param([configurations()[:2], configurations()[3:5]], id="two rows of one model in two files each"),
        pytest.param([configurations()[:2], configurations()[-2:]], id="two rows of two models"),
    ],
)
def test_few_rows_in_two_files_make_a_profile_that_says_what_rests_on_priors(
    rows: list[list[ServingPoint]], tmp_path: Path
) -> None:
    points = [timed(some, SLOW, SETTINGS) for some in rows]
    profile, said = run(tmp_path, *points, options=("--from-priors",))
    text, left = " ".join(said.split()), assumed(profile)
    n, n_factors = sum(map(len, rows)), len(profile.factors.stated)
    assert 0 < len(left) < n_factors
    assert f"{n} point{'s' * (n > 1)}: {n_factors - len(left)} of {n_factors} factors rest on them: " in text
    assert f"{len(left)} are as the fit began, and the points hardly move them: " in text
    told = set(text.partition("hardly move them: ")[2].replace(",", "").split())
    assert left <= told
    assert not (set(PRIORS) & told) - left
    for key, factor in profile.factors.stated.items():
        assert (factor.source == "priors") == (key in left)
    # Better than the priors alone, on the very rows.
    mine = [point for some in points for point in some]
    assert errors(mine, profile) < 0.6 * errors(mine, at_priors())


def errors(points: list[ServingPoint], profile: StackProfile) -> float:
    """Mean errors of TTFT and TPOT, added."""
    found = fidelity(points, profile=profile)
    assert found.ttft.mean_abs_error is not None
    assert found.tpot.mean_abs_error is not None
    return found.ttft.mean_abs_error + found.tpot.mean_abs_error


def at_priors() -> StackProfile:
    """vLLM as it is run, with the factors of any framework."""
    shipped = stack_profile("vllm")
    return shipped.model_copy(update={"factors": StackFactors(), "calibration": None})


def test_what_no_row_tells_of_stays_where_the_shipped_stack_has_it(tmp_path: Path) -> None:
    dense = [point for point in configurations() if point.model == "qwen3-32b"][:3]
    profile, _ = run(tmp_path, timed(dense, SLOW, SETTINGS))
    for key in ("moe_efficiency", "recurrence_efficiency"):
        factor = profile.factors.stated[key]
        assert (factor.basis, factor.source) == ("assumed", "shipped")
        assert factor.value == pytest.approx(PRIORS[key].value, rel=1e-3), "no shipped stack states it"


def test_no_band_is_claimed_where_nothing_was_held_out(tmp_path: Path) -> None:
    profile, said = run(tmp_path, timed(configurations()[:3], SLOW, SETTINGS))
    assert profile.calibration
    assert (profile.calibration.model_bands.prefill, profile.calibration.model_bands.decode) == (None, None)
    assert "no error band: it takes points of two models or accelerators" in " ".join(said.split())


def bench(path: Path, **more: Any) -> Path:
    """A result of vLLM's benchmark."""
    found = {
        "backend": "vllm",
        "model_id": "Qwen/Qwen3-32B-FP8",
        "max_concurrency": 4,
        "request_rate": "inf",
        "completed": 100,
        "total_input_tokens": 102_400,
        "total_output_tokens": 25_600,
        "median_ttft_ms": 80.0,
        "median_tpot_ms": 9.0,
        "duration": 100.0,
        "date": "20261120-101112",
    }
    path.write_text(json.dumps(found | more), encoding="utf-8")
    return path


def test_two_benchmark_files_of_a_quantised_copy_are_enough(tmp_path: Path) -> None:
    files = [
        bench(tmp_path / "a.json"),
        bench(tmp_path / "b.json", max_concurrency=16, median_ttft_ms=160.0, median_tpot_ms=11.5),
    ]
    out = tmp_path / "vllm-mine.toml"
    where = ("--hardware", "h200-sxm", "--tp-size", "2", "--framework-version", "0.19.0")
    found = CliRunner().invoke(app, ["calibrate", *map(str, files), *where, *OPTIONS, "--out", str(out)])
    assert found.exit_code == 0, found.exception
    assert "Qwen/Qwen3-32B-FP8: fp8 by its name, as no precision is stated (2 points)" in " ".join(found.stdout.split())
    calibration = stack_profile(str(out)).calibration
    assert calibration
    assert [(file.name, file.n_used) for file in calibration.points] == [("a.json", 1), ("b.json", 1)]


def test_no_row_that_can_be_predicted_makes_no_profile(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", [replace(POINT, model="nobody/knows-it")])
    found = CliRunner().invoke(app, ["calibrate", str(path), *OPTIONS, "--out", str(tmp_path / "vllm.toml")])
    with pytest.raises(InputError, match=r"0 points of vllm can be predicted, of 1 given \(at least 1; planner fid"):
        raise found.exception or AssertionError
    assert not (tmp_path / "vllm.toml").exists()
