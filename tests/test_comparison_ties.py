"""Choices between options that differ by rounding alone: by the order of the options, not by a last digit."""

import numpy as np
import pytest

from planner.comparison import Planned, optimize, solved
from planner.comparison.baselines import Compared
from planner.comparison.verdict import verdict
from planner.optimizer.layout_choice import planning_problem
from planner.queueing.colocated import colocated_queue
from planner.queueing.pass_loop import PassLoop, Prompts
from planner.results.plan import Baseline
from tests.builders import small, small_with
from tests.test_cli_goldens import rounded

ULP = 2.3e-16
N_SHIFTS = 24


def shifts() -> np.ndarray:
    """Factors that change a number in its last digits, the first not at all."""
    return 1 + np.random.default_rng(1).integers(-3, 4, N_SHIFTS) * ULP * np.r_[0, np.ones(N_SHIFTS - 1)]


def test_times_to_first_token_do_not_hang_on_the_last_digits_of_prompts() -> None:
    rng = np.random.default_rng(2)
    tokens = np.sort(np.exp(rng.normal(9.0, 1.0, 48)))
    loop = PassLoop(lambda p, b: np.asarray(0.012 + 4e-5 * p + 1e-4 * b), 8192.0, 64)
    found = []
    for factor in shifts()[:4]:
        prompts = Prompts(tokens * factor, np.full(48, 1 / 48), 0.012 + 4e-5 * tokens, 300.0)
        times = colocated_queue(loop, prompts, 0.9).ttft
        found.append([times.mean_s, *(times.quantile_s(q) for q in (0.5, 0.9, 0.99))])
    assert np.ptp(found, axis=0) / np.min(found, axis=0) == pytest.approx(0.0, abs=1e-9)


def test_of_opponents_as_good_as_each_other_the_first_is_named() -> None:
    problem = planning_problem(small())
    plan = Planned(problem, solved(problem, 20.0)).fleet
    less = 0.9 * plan.max_throughput_req_per_s
    batched = plan.pools[-1].model_copy(update={"role": "colocated"})
    same = dict(plan) | {"pools": (batched,), "links": ()}
    for factor in (1 - 2 * ULP, 1.0, 1 + 2 * ULP):
        rivals = tuple(
            Baseline(**same | {"max_throughput_req_per_s": most}, name=name, title=name, ratio=1 / 0.9)
            for name, most in (("equal-bill-colocated", less), ("colocated", less * factor))
        )
        compared = Compared(rivals, (), frozenset(), frozenset())
        found = verdict(problem.scenario, problem.classes, plan, 0.0, compared).disaggregation
        assert found is not None
        assert found.opponent == "equal-bill-colocated"


@pytest.mark.parametrize("changes", [{}, {"objective": "min-cost", "demand_req_per_s": 2.0}])
def test_a_plan_is_the_same_where_measured_times_change_in_their_last_digits(changes: dict[str, object]) -> None:
    seconds, answers = small().measured["home"].prefill.seconds, []
    for factor in shifts()[:3]:
        shifted = {"measured.home.prefill.seconds": [float(s * factor) for s in seconds]}
        answer = optimize(small_with({**changes, **shifted})).answer()
        del answer["gap"]  # how far a solver went below its tolerance
        answers.append(rounded(answer))
    assert answers[1:] == answers[:-1]
