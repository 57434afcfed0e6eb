"""Waits predicted against long simulations: `python tests/benchmarks/bench_queueing.py`. No error makes it fail.

`--simulate` runs the simulations anew (about 15 minutes on one core) and rewrites `queueing_simulated.csv`; without it
the committed ones are read.
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.queue_simulation import (  # noqa: E402
    METRICS,
    RARE_WAITS,
    QueueCase,
    Simulated,
    all_cases,
    errors_beyond_interval,
    predicted_waits,
    read_simulated,
    simulated_well,
    write_simulated,
)

GOALS = {"Poisson": {"mean": 0.02, "p90": 0.04, "p99": 0.08}, "Gamma": {"mean": 0.05, "p90": 0.10, "p99": 0.15}}


def simulate() -> None:
    start = perf_counter()
    rows = []
    for case in all_cases():
        rows.append((case, *simulated_well(case)))
        print(f"\r{len(rows)} of {len(all_cases())}, {perf_counter() - start:.0f} s", end="", file=sys.stderr)
    write_simulated(rows)


def summary(kind: str, rows: list[tuple[QueueCase, Simulated, int]]) -> None:
    start = perf_counter()
    predicted = np.array([predicted_waits(case) for case, _, _ in rows])
    taken_s = (perf_counter() - start) / len(rows)
    measured = [found.value[1] * n >= RARE_WAITS for _, found, n in rows]
    errors = np.array([errors_beyond_interval(p, found) for p, (_, found, _) in zip(predicted, rows, strict=True)])
    n_rare = len(rows) - sum(measured)
    print(f"{kind} arrivals: {len(rows)} configurations, {1e3 * taken_s:.1f} ms a wait with five of its numbers")
    print(f"  {n_rare} with fewer than {RARE_WAITS} requests that waited are left out of relative errors")
    print(f"  {'':<10}{'goal':>8}{'worst':>8}{'95 %':>8}{'median':>8}  beyond goal")
    for column, metric in enumerate(METRICS):
        error = np.abs(errors[measured, column])
        goal = GOALS[kind].get(metric)
        beyond = "" if goal is None else f"{int((error > goal).sum())} of {len(error)}"
        worst, late, middle = (f"{100 * x:7.2f}%" for x in (error.max(), np.quantile(error, 0.95), np.median(error)))
        print(f"  {metric:<10}{'' if goal is None else f'{100 * goal:7.0f}%':>8}{worst}{late}{middle}  {beyond}")
    failures(
        kind, [row for row, seen in zip(rows, measured, strict=True) if seen], predicted[measured], errors[measured]
    )


def failures(
    kind: str, rows: list[tuple[QueueCase, Simulated, int]], predicted: np.ndarray, errors: np.ndarray
) -> None:
    for (case, found, _), p, error in zip(rows, predicted, errors, strict=True):
        for metric, goal in GOALS[kind].items():
            at = METRICS.index(metric)
            if abs(error[at]) > goal:
                print(
                    f"    {metric} {100 * error[at]:+.1f} %: c {case.n_servers}, u {case.utilization:.3f}, sigma "
                    f"{case.sigma:.3f}, scv {case.arrival_scv:.3f}; simulated {found.value[at]:.4f} +- "
                    f"{found.half_width[at]:.4f}, predicted {p[at]:.4f}; P(W > 0) {found.value[1]:.4f}"
                )


def main() -> None:
    if "--simulate" in sys.argv[1:]:
        simulate()
    rows = read_simulated()
    summary("Poisson", [row for row in rows if row[0].arrival_scv == 1.0])
    print()
    summary("Gamma", [row for row in rows if row[0].arrival_scv != 1.0])


if __name__ == "__main__":
    main()
