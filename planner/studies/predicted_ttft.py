"""The distribution of TTFT that queueing predicts of a plan at a load, to be drawn beside its run."""

from collections.abc import Sequence
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from planner.comparison import Planned, posed_problem, solved
from planner.errors import PlannerError
from planner.results.plan import Fleet
from planner.results.run import TtftCurve
from planner.scenario import Scenario

N_POINTS = 400
LAST = 0.9995
"""Share of requests up to which the curve goes."""


def predicted_ttft(
    scenario: Scenario, fleet: Fleet, req_per_s: float, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0
) -> TtftCurve | None:
    """TTFT by share of requests of a fleet at a rate.

    Args:
        scenario: the question that the fleet answers.
        fleet: sizes, ports and threshold.
        req_per_s: rate of all requests [1/s].
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that settling how several routes share the load may take.

    Returns:
        The curve; of a network, or of classes with thresholds of their own, the percentiles that the plan states at its
        rate; None where queueing has no model, a pool has no steady state, or the plan states none.
    """
    if scenario.periods or (fleet.threshold_tokens is None and len(scenario.workloads) > 1):
        return _as_planned(fleet, req_per_s)
    try:
        problem = posed_problem(_fixed(scenario, fleet), data_dirs)
        solution = solved(problem, time_limit_s)
    except PlannerError:  # a fleet from a file may be none that the scenario allows; it can be run all the same
        return None
    found = Planned(problem, solution).ttft(req_per_s)
    if found is None:
        return None
    seconds = np.linspace(0.0, found.quantile_s(LAST), N_POINTS)
    return TtftCurve(tuple(seconds.tolist()), tuple((1 - found.survival(seconds)).tolist()), found.mean_s)


def _as_planned(fleet: Fleet, req_per_s: float) -> TtftCurve | None:
    """The percentiles of the plan, which are those at its own rate."""
    found = fleet.latency
    marks = found.ttft_p50_s, found.ttft_p90_s, found.ttft_p99_s
    if not isclose(req_per_s, fleet.throughput_req_per_s, rel_tol=1e-6) or found.ttft_mean_s is None:
        return None
    return TtftCurve(tuple(mark for mark in marks if mark is not None), (0.5, 0.9, 0.99), found.ttft_mean_s)


def _fixed(scenario: Scenario, fleet: Fleet) -> Scenario:
    """The scenario whose only plan is the fleet; promises and budget chose it and have done their part."""
    slo = scenario.slo
    changes: dict[str, Any] = {
        "objective": "max-throughput",
        "demand_req_per_s": None,
        "budget_usd_per_hour": None,
        "comparisons": {},
        "break_even": [],
        "report": {},
        "slo": None if slo is None or slo.tpot_ms is None else {"tpot_ms": slo.tpot_ms},
    }
    if fleet.threshold_tokens is not None:
        changes["routing.threshold_tokens"] = fleet.threshold_tokens
    changes |= {f"pools.{pool.name}.n_instances": pool.n_instances for pool in fleet.pools}
    changes |= {f"links.{k.name}.capacity_gbps": k.capacity_gbps for k in fleet.links if k.capacity_gbps > 0}
    on = {pool.key: pool.layout for pool in fleet.pools if pool.layout and scenario.pools[pool.key].layouts}
    return scenario.on_layouts(on).varied(changes)
