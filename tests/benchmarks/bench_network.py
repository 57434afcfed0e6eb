"""How good fleets for many sites, kinds, models and hours become within seconds of the processor, judging included.

    python tests/benchmarks/bench_network.py [--seeds 1 2] [--limit SECONDS] [--hours 24] [--sites 4] [--kinds 5]
        [--models 3] [--scenario east-west] [--conversion] [--spread]

The search has `--limit` seconds of work for a day, longer and shorter spans in proportion. Two commits are compared by
their lines for the same scenario and seed.
"""

import argparse
import os
import sys
from pathlib import Path
from statistics import median
from time import process_time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as commands have it
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from network_scenarios import scale_scenario

from planner.errors import UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.search import network_search
from planner.scenario import Scenario, read_scenario, scenario_path

SEEDS = (1, 2, 3, 4, 5)


def main() -> None:
    """Print a line for every seed, and the medians."""
    options = _options()
    for n_hours in options.hours:
        drawn = [(f"seed {seed}", _drawn(seed, n_hours, options)) for seed in options.seeds]
        named = [(name, read_scenario(str(scenario_path(name)))) for name in options.scenario]
        spent = [_one(name, scenario, options.limit * n_hours / 24) for name, scenario in named or drawn]
        print(f"{n_hours} hours: median {median(spent):.1f} CPU s, worst {max(spent):.1f} CPU s")


def _drawn(seed: int, n_hours: int, options: argparse.Namespace) -> Scenario:
    sizes = options.sites, options.kinds, options.models
    return scale_scenario(seed, n_hours, *sizes, conversion=options.conversion, is_spread=options.spread)


def _one(name: str, scenario: Scenario, limit_s: float) -> float:
    """Seconds of the processor that a scenario takes, printed with what was found."""
    begun_s = process_time()
    problem = planning_problem(scenario)
    posed_s = process_time()
    try:
        found = network_search(problem, limit_s)
    except UndecidedError:
        found = None
    line = f"{name}, {len(problem.periods)} h, {len(problem.pools)} pools: posed {posed_s - begun_s:.1f}, "
    line += f"searched {process_time() - posed_s:.1f} CPU s"
    if found is not None:
        line += f", {found.objective:.2f} USD/h, bound {found.bound:.2f}, gap {100 * found.gap:.2f} %"
    print(line if found is not None else f"{line}, undecided", flush=True)
    return process_time() - begun_s


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--hours", type=int, nargs="+", default=[24])
    parser.add_argument("--limit", type=float, default=57.0, help="seconds of work for the search of a day")
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--kinds", type=int, default=5, help="kinds of accelerators")
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--scenario", nargs="+", default=[], help="bundled scenarios instead of drawn ones")
    parser.add_argument("--conversion", action="store_true", help="roles change by the hour")
    parser.add_argument(
        "--spread", action="store_true", help="prompts spread over their bins: any threshold is another"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
