"""Every constraint of the formulation alone, as the LP file it makes of one tiny problem."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.optimizer import planning_problem
from planner.optimizer.capacity import first_thresholds, threshold_loads
from planner.optimizer.formulation import CONSTRAINTS, ProgramGoal, RoutedProgram, Sizing, build, variables
from planner.optimizer.problem import Problem
from planner.optimizer.solver import answer, run_highs
from tests.builders import FAST, GPUS, HOME, in_classes, problem_of
from tests.conftest import GOLDENS

NAMES = [function.__name__ for function in CONSTRAINTS]


def tiny_problem() -> Problem:
    """Two classes, three pools, two port sizes, a budget and a ratio: every constraint has a row, in round numbers."""
    chat = {
        "lengths": {"kind": "empirical", "tokens": [1000, 3000]},
        "output_lengths": {"kind": "constant", "tokens": 800},
    }
    files = {"lengths": {"kind": "constant", "tokens": 9000}, "output_lengths": {"kind": "constant", "tokens": 400}}
    line = {"tokens": [1000, 9000], "interpolation": "linear"}
    scenario = in_classes(
        {"chat": (0.75, chat), "files": (0.25, files)},
        {
            "measured.fast.prefill": {**line, "seconds": [0.25, 2.25]},
            "measured.fast.kv": {**line, "bytes": [1e9, 5e9]},
            "measured.home.prefill": {**line, "seconds": [0.5, 4.5]},
            f"sites.remote.accelerators.{FAST}": 3 * GPUS,
            f"sites.local.accelerators.{HOME}": 5 * GPUS,
            "links.wan.capacity_gbps": "free",
            "links.wan.tiers": [
                {"capacity_gbps": 10, "usd_per_hour": 2.0, "max_ports": 4},
                {"capacity_gbps": 100, "usd_per_hour": 15.0},
            ],
            "links.wan.usd_per_gb": 0.01,
            "budget_usd_per_hour": 200.0,
            "routing.prefill_to_decode": "2:3",
            "pools.near.min_instances": 1,
            "pools.near.max_instances": 4,
        },
    )
    return planning_problem(scenario)


def tiny_model() -> RoutedProgram:
    problem = tiny_problem()
    loads = [threshold_loads(problem, route, first_thresholds(problem, route)) for route in problem.routes]
    settled = Sizing((1,) * len(problem.pools), ((1, 0),))
    return variables(problem, loads, ProgramGoal("rate", excluded=(settled,)))


def written(program: RoutedProgram, path: Path) -> str:
    program.lp.writeLP(str(path))
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=NAMES)
def test_constraint_alone_is_the_golden_lp(constraint: Any, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    program = tiny_model()
    constraint(program)
    golden(f"lp/{constraint.__name__}.lp", written(program, tmp_path / "model.lp"))


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=NAMES)
def test_constraint_adds_rows_that_carry_its_name(constraint: Any) -> None:
    program = tiny_model()
    assert program.lp.numConstraints() == 0
    constraint(program)
    names = [row.name for row in program.lp.constraints()]
    assert names
    assert all(name.startswith(constraint.__name__) for name in names)


def test_every_constraint_has_a_golden_and_no_golden_is_orphaned() -> None:
    assert {path.stem for path in (GOLDENS / "lp").glob("*.lp")} == set(NAMES)
    assert len(set(NAMES)) == len(NAMES)


def test_every_constraint_says_which_inequality_it_is() -> None:
    assert all(any(sign in (f.__doc__ or "") for sign in ("<=", "=", ">=")) for f in CONSTRAINTS)


def rows_of(problem: Problem) -> list[str]:
    loads = [threshold_loads(problem, route, first_thresholds(problem, route)) for route in problem.routes]
    return [row.name for row in build(problem, loads, ProgramGoal("rate")).lp.constraints()]


def test_no_budget_and_no_ratio_leave_no_row() -> None:
    names = rows_of(problem_of())
    assert not [n for n in names if n.startswith(("bound_budget", "keep_prefill_to_decode"))]
    with_both = rows_of(problem_of({"budget_usd_per_hour": 100.0, "routing.prefill_to_decode": "1:1"}))
    assert {"bound_budget", "keep_prefill_to_decode"} <= set(with_both)


def test_a_solution_of_the_whole_model_satisfies_every_constraint_written_out() -> None:
    """The rows say what the docstrings say: checked on the numbers of a solved model."""
    problem = tiny_problem()
    loads = [threshold_loads(problem, route, first_thresholds(problem, route)) for route in problem.routes]
    program = build(problem, loads, ProgramGoal("rate"))
    found = answer(program, run_highs(program, 10))
    assert found is not None
    fast, near, decode = found.sizing.n_instances
    assert near * 3 == decode * 2
    assert fast <= 3
    assert near + decode <= 5
    assert sum(found.shares) == pytest.approx(found.rate)
    assert found.shares[0] == pytest.approx(0.75 * found.rate)
    long_s = sum(
        rate * candidates.long_s[k] for rate, candidates, k in zip(found.shares, loads, found.chosen, strict=True)
    )
    short_s = sum(
        rate * candidates.short_s[k] for rate, candidates, k in zip(found.shares, loads, found.chosen, strict=True)
    )
    sent = sum(
        rate * candidates.long_bytes[k] for rate, candidates, k in zip(found.shares, loads, found.chosen, strict=True)
    )
    assert long_s <= fast + 1e-6
    assert short_s <= near + 1e-6
    assert found.rate * (0.75 * 800 + 0.25 * 400) * 0.025 / 20 <= decode + 1e-6
    small, large = found.sizing.n_ports[0]
    assert sent * 8e-9 <= 10 * small + 100 * large + 1e-6
    traffic = 3600 * sent / 1e9 * 0.01
    assert 32 * fast + 16 * (near + decode) + 2 * small + 15 * large + traffic <= 200 + 1e-6


@pytest.mark.parametrize("k", range(3))
def test_loads_of_the_tiny_problem_are_those_computed_by_hand(k: int) -> None:
    """Chat prompts of 1000 and 3000 tokens take 0.25 and 0.75 s on the fast pool, 0.5 and 1.5 s near."""
    problem = tiny_problem()
    loads = threshold_loads(problem, problem.routes[0], np.array([-1.0, 1000.0, 3000.0])[k : k + 1])
    assert loads.long_fraction[0] == [1, 0.5, 0][k]
    assert loads.long_s[0] == pytest.approx([0.5, 0.375, 0][k])
    assert loads.short_s[0] == pytest.approx([0, 0.25, 1.0][k])
    assert loads.long_bytes[0] == pytest.approx([1.5e9, 1e9, 0][k])
