"""Stacks that rest on measured points of a scenario's own: fitted before the question is posed, and said to be."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import optimize
from planner.errors import InputError
from planner.profiles import stack_profile
from planner.roofline import Factors
from planner.roofline.stack import factors_of
from planner.scenario import Scenario, load_scenario
from planner.studies.fidelity import fidelity, with_fitted_stacks
from tests.fidelity_points import configurations, timed, written

SHIPPED = factors_of(stack_profile("vllm"))
OWN = replace(SHIPPED, kernel_latency_s=11e-6, request_overhead_s=0.15)
"""A server that is slower than what is shipped of its framework."""
TEXT = """
schema = "planner.scenario/1"
name = "own"
objective = "min-cost"
demand_req_per_s = 10
model = { profile = "llama-3.1-8b", stack = "mine" }
sites.home = {}
[workload]
lengths = { kind = "constant", tokens = 2000 }
output_lengths = { kind = "constant", tokens = 200 }
[prices.h100-sxm]
usd_per_accelerator_hour = 1.0
[pools.both]
site = "home"
hardware = "h100-sxm"
role = "colocated"
service_times = "roofline"
n_instances = "free"
accelerators_per_instance = 1
[stacks.mine]
like = "vllm"
points = ["own.csv"]
source = "our server at a few loads"
"""


def stated(folder: Path, n: int = 3, factors: Factors = OWN, text: str = TEXT) -> Scenario:
    """A scenario beside a file of a few points, timed by some factors."""
    points = timed(configurations()[:n], factors, stack_profile("vllm").settings)
    written(folder / "own.csv", points)
    return load_scenario(text, "own.toml", folder)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_few_points_bring_their_own_software_nearer(n: int, tmp_path: Path) -> None:
    fitted = with_fitted_stacks(stated(tmp_path, n)).stacks["mine"]
    assert fitted.points == ()
    assert fitted.factors["kernel_latency_us"] > 1.1 * SHIPPED.kernel_latency_s * 1e6
    assert f"{n} point" in fitted.rests_on
    assert "before" in fitted.rests_on


def test_what_no_fit_has_seen_is_predicted_better(tmp_path: Path) -> None:
    every = timed(configurations()[:7], OWN, stack_profile("vllm").settings)
    stated(tmp_path, 3)
    toml = tmp_path / "vllm-mine.toml"
    CliRunner().invoke(app, ["calibrate", str(tmp_path / "own.csv"), "--stack", "vllm", "--out", str(toml)])
    before, after = fidelity(every[3:], "vllm-unversioned"), fidelity(every[3:], str(toml))
    assert before.tpot.mean_abs_error is not None
    assert after.tpot.mean_abs_error is not None
    assert after.tpot.mean_abs_error < 0.7 * before.tpot.mean_abs_error


def test_points_as_the_shipped_stack_has_them_move_nothing_much(tmp_path: Path) -> None:
    fitted = with_fitted_stacks(stated(tmp_path, 3, SHIPPED)).stacks["mine"]
    shipped_us = SHIPPED.kernel_latency_s * 1e6
    assert fitted.factors.get("kernel_latency_us", shipped_us) == pytest.approx(shipped_us, rel=0.05)


def test_a_plan_rests_on_the_points_and_says_so(tmp_path: Path) -> None:
    plan = optimize(with_fitted_stacks(stated(tmp_path)))
    assert any(note.startswith("times of stack mine rest on 3 points of own.csv") for note in plan.notes)
    (pool,) = plan.pools
    shipped = optimize(stated(tmp_path, text=TEXT.replace('stack = "mine"', 'stack = "vllm"')))
    assert pool.stack == "mine"
    assert pool.capacity_req_per_s / pool.n_instances < shipped.pools[0].capacity_req_per_s / (
        shipped.pools[0].n_instances
    )


def test_the_command_fits_before_it_plans(tmp_path: Path) -> None:
    stated(tmp_path)
    (tmp_path / "own.toml").write_text(TEXT)
    found = CliRunner().invoke(app, ["optimize", str(tmp_path / "own.toml"), "--no-run"])
    assert found.exit_code == 0, found.exception
    assert "times of stack mine rest on 3 points" in " ".join(found.stdout.split())


def test_a_scenario_without_points_of_its_own_is_left_as_it_is(tmp_path: Path) -> None:
    plain = stated(tmp_path, text=TEXT.replace('points = ["own.csv"]\n', ""))
    assert with_fitted_stacks(plain) is plain


def test_points_that_were_not_fitted_are_no_stack_to_plan_with(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"stacks\.mine.*points.*not fitted yet"):
        optimize(stated(tmp_path))


@pytest.mark.parametrize(("content", "said"), [(None, "own.csv: cannot be read"), ("nonsense\n1\n", "own.csv")])
def test_files_that_hold_no_points_are_named(content: str | None, said: str, tmp_path: Path) -> None:
    asked = stated(tmp_path)
    path = tmp_path / "own.csv"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match=said):
        with_fitted_stacks(asked)


def test_points_that_nobody_can_predict_are_told_why(tmp_path: Path) -> None:
    asked = stated(tmp_path)
    path = tmp_path / "own.csv"
    written(path, [replace(one, model="nobody-7b") for one in configurations()[:2]])
    with pytest.raises(InputError, match="no point can be predicted"):
        with_fitted_stacks(asked)
