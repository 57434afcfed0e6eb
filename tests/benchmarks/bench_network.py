"""How long fleets for many sites, kinds, models and hours take, build included, and how good they are proven to be.

    python tests/benchmarks/bench_network.py [--seeds 1 2] [--limit SECONDS] [--hours 24 48] [--conversion] [--spread]

Searches use the time they have: a day as much as `--limit`, longer and shorter spans in proportion. Wall times are of
the machine as it is; seconds of the processor stand beside them.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from time import monotonic, process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from network_scenarios import scale_scenario

from planner.errors import UndecidedError
from planner.optimizer import planning_problem
from planner.optimizer.network.search import network_search

SEEDS = (1, 2, 3, 4, 5)


def main() -> None:
    """Print a line for every seed, and the medians."""
    options = _options()
    medians = {}
    for n_hours in options.hours:
        took = [_one(seed, n_hours, options, False) for seed in options.seeds]
        medians[n_hours] = median(took)
        print(f"{n_hours} hours: median {median(took):.1f} s, worst {max(took):.1f} s")
    first, *others = options.hours
    for n_hours in others:
        print(f"{n_hours} h over {first} h: {medians[n_hours] / medians[first]:.2f}")
    if options.conversion:
        _one(options.seeds[0], options.hours[0], options, True)


def _one(seed: int, n_hours: int, options: argparse.Namespace, conversion: bool) -> float:
    """Seconds that a scenario takes, printed with what was found."""
    wall, cpu = monotonic(), process_time()
    scenario = scale_scenario(seed, n_hours, conversion=conversion, is_spread=options.spread)
    problem = planning_problem(scenario)
    try:
        found = network_search(problem, options.limit * n_hours / 24)
    except UndecidedError:
        found = None
    took = monotonic() - wall
    line = f"seed {seed}, {n_hours} h{', roles change' if conversion else ''}: {took:6.1f} s wall, "
    line += f"{process_time() - cpu:6.1f} s CPU"
    if found is not None:
        fleet = sum(found.operations[0].n_instances)
        line += f", gap {100 * found.gap:.2f} %, {found.objective:.1f} USD/h, bound {found.bound:.1f}, "
        line += f"{fleet} instances in {len(problem.pools)} pools"
    print(line if found is not None else f"{line}, undecided", flush=True)
    return took


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--hours", type=int, nargs="+", default=[24, 48])
    parser.add_argument("--limit", type=float, default=57.0, help="seconds for the search of a day")
    parser.add_argument("--conversion", action="store_true", help="also with roles that change by the hour")
    parser.add_argument(
        "--spread", action="store_true", help="prompts spread over their bins: any threshold is another"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
