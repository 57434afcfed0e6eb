"""How long planning takes, beside its goals: `python tests/benchmarks/bench_optimize.py`. No time makes it fail."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

N_RUNS = 5
N_RANDOM = 40
SIZED = ("size", "llama-3.1-70b", "h200-sxm", "--rate", "10", "--input", "2000", "--output", "300", "--ttft-ms", "2000")
PLAN_GOAL_S = 2.0
HELP_GOAL = 2.0


def process_s(*arguments: str) -> float:
    """Median wall time of a fresh Python process."""
    command = [sys.executable, *arguments]
    return median_s(lambda: subprocess.run(command, check=True, capture_output=True, cwd=ROOT))


def median_s(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(N_RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return median(times)


def line(what: str, seconds: float, beside: str = "") -> None:
    print(f"{what:<58}{1e3 * seconds:10.0f} ms  {beside}".rstrip())


def fresh_processes() -> None:
    print(f"fresh processes, start-up included, median of {N_RUNS}")
    planned = process_s("-m", "planner", "optimize", "prfaas-paper")
    line("planner optimize prfaas-paper", planned, f"goal {PLAN_GOAL_S:g} s: {planned / PLAN_GOAL_S:.2f} of it")
    line("planner size llama-3.1-70b h200-sxm", process_s("-m", "planner", *SIZED))
    imports, shown = process_s("-c", "import typer, rich"), process_s("-m", "planner", "--help")
    line('python -c "import typer, rich"', imports)
    line("planner --help", shown, f"{shown / imports:.2f} times that, goal at most {HELP_GOAL:g}")


def phases() -> None:
    """Every step of `planner optimize` in one warm process."""
    from planner.comparison import Planned
    from planner.comparison.baselines import baselines
    from planner.optimizer.free_routing import free_routing
    from planner.optimizer.layout_choice import planning_problem
    from planner.optimizer.prices.routed import routed_prices
    from planner.optimizer.single_route import sweep
    from planner.optimizer.strategies import best_solution
    from planner.scenario import read_scenario

    print(f"\nin process, warm, median of {N_RUNS}: prfaas-paper")
    scenario = read_scenario("prfaas-paper")
    problem = planning_problem(scenario)
    solution = best_solution(problem, 60.0)
    assert solution is not None
    assert solution.routed is not None
    fleet, routed = Planned(problem, solution).fleet, solution.routed
    steps: dict[str, Callable[[], Any]] = {
        "read_scenario": lambda: read_scenario("prfaas-paper"),
        "planning_problem": lambda: planning_problem(scenario),
        "search": lambda: best_solution(problem, 60.0),
        "figures (latency, cost)": lambda: Planned(problem, solution).fleet,
        "baselines": lambda: baselines(problem, fleet, 60.0),
        "shadow prices": lambda: routed_prices(problem, routed),
        "free_routing": lambda: free_routing(problem, solution, routed.highest_req_per_s),
        "sweep": lambda: sweep(problem, routed),
    }
    for what, work in steps.items():
        line(what, median_s(work))
    inside_search(problem)


def inside_search(problem: Any) -> None:
    """What search spends in the solver, and in how many programs."""
    from planner.optimizer.network.rows import Rows
    from planner.optimizer.strategies import best_solution

    solved, times = Rows.solved, []

    def timed(*arguments: Any) -> Any:
        start = perf_counter()
        try:
            return solved(*arguments)
        finally:
            times.append(perf_counter() - start)

    with patch.object(Rows, "solved", timed):
        best_solution(problem, 60.0)
    line(f"  of search: {len(times)} programs solved", sum(times))


def against_enumeration() -> None:
    """The mixed-integer model beside the exhaustive search it is tested against."""
    import numpy as np

    from planner.optimizer.layout_choice import planning_problem
    from planner.optimizer.strategies import best_solution
    from planner.scenario import read_scenario
    from tests.builders import Draw, problem_of
    from tests.exhaustive_search import exhaustive_search

    print("\nsearch (with a proof) beside enumeration (2,001 thresholds, no proof)")
    reference = planning_problem(read_scenario("prfaas-paper"))
    random = [problem_of(Draw(np.random.default_rng(seed)).question()) for seed in range(N_RANDOM)]
    for what, problems in (("prfaas-paper", [reference]), (f"{N_RANDOM} random small instances", random)):
        model = median_s(lambda cases=problems: [best_solution(p, 60.0) for p in cases])  # type: ignore[misc]
        tried = median_s(lambda cases=problems: [exhaustive_search(p) for p in cases])  # type: ignore[misc]
        line(f"{what}: search", model, f"{model / tried:.1f} times enumeration's {1e3 * tried:.0f} ms")


if __name__ == "__main__":
    fresh_processes()
    phases()
    against_enumeration()
