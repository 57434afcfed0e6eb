"""Waits predicted against long simulations: `python tests/benchmarks/bench_queueing.py`. No error makes it fail.

`--simulate` runs the simulations anew (about 15 minutes on one core) and rewrites `queueing_simulated.csv`; without it
the committed ones are read. `--unseen` judges by 240 configurations of other seeds instead (5 minutes), by which no
formula was chosen.
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from planner.queueing.service import Service
from planner.queueing.waits import gigc_wait, gigc_waits
from tests.queue_simulation import (
    METRICS,
    RARE_WAITS,
    QueueCase,
    Simulated,
    all_cases,
    cut_log_normal,
    drawn_cases,
    errors_beyond_interval,
    predicted_waits,
    read_simulated,
    simulated_waits,
    simulated_well,
    write_simulated,
)

N_UNSEEN, UNSEEN_SEED, UNSEEN_REQUESTS = 120, 991, 8_000_000
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
    first_s = (perf_counter() - start) / len(rows)
    measured = [found.value[1] * n >= RARE_WAITS for _, found, n in rows]
    errors = np.array([errors_beyond_interval(p, found) for p, (_, found, _) in zip(predicted, rows, strict=True)])
    n_rare = len(rows) - sum(measured)
    print(f"{kind} arrivals: {len(rows)} configurations, {1e3 * first_s:.1f} ms a wait, its tables included")
    again_s, each_s = warm_seconds(rows)
    print(f"  {1e3 * again_s:.2f} ms a wait and its P90 at another load, {1e3 * each_s:.3f} ms each of 64 at once")
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


def warm_seconds(rows: list[tuple[QueueCase, Simulated, int]]) -> tuple[float, float]:
    """Seconds of a wait and its P90 where its tables exist, and of each of many at once."""
    alone = together = 0.0
    for case, _, _ in rows[:40]:
        service, c = Service.of(*cut_log_normal(case.sigma)), case.n_servers
        gigc_wait(c, 0.5 * c, service, case.arrival_scv)
        start = perf_counter()
        gigc_wait(c, 0.6 * c, service, case.arrival_scv).quantile_s(0.9)
        alone += perf_counter() - start
        start = perf_counter()
        gigc_waits(c, c * np.linspace(0.3, 0.95, 64), service, case.arrival_scv)
        together += (perf_counter() - start) / 64
    return alone / 40, together / 40


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


def unseen() -> list[tuple[QueueCase, Simulated, int]]:
    cases = drawn_cases(N_UNSEEN, UNSEEN_SEED, poisson=True) + drawn_cases(N_UNSEEN, UNSEEN_SEED + 1, poisson=False)
    return [(case, simulated_waits(case, UNSEEN_REQUESTS), UNSEEN_REQUESTS) for case in cases]


def main() -> None:
    if "--simulate" in sys.argv[1:]:
        simulate()
    rows = unseen() if "--unseen" in sys.argv[1:] else read_simulated()
    summary("Poisson", [row for row in rows if row[0].arrival_scv == 1.0])
    print()
    summary("Gamma", [row for row in rows if row[0].arrival_scv != 1.0])


if __name__ == "__main__":
    main()
