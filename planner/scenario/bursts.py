"""Arrivals other than those of independent users."""

from math import log
from typing import TYPE_CHECKING

from planner.scenario.execution import GammaArrivals
from planner.units import number

if TYPE_CHECKING:
    from planner.scenario.question import Scenario

IN_WORDS = {
    "bursts": "in bursts",
    "diurnal": "at a rate that follows the time of day",
    "recorded": "as a trace recorded them",
}


def uneven_arrivals(scenario: "Scenario") -> str:
    """Arrivals in words where they are not those of independent users (Poisson); else nothing.

    >>> from planner.scenario import read_scenario
    >>> uneven_arrivals(read_scenario("prfaas-paper"))
    ''
    >>> uneven_arrivals(read_scenario("prfaas-paper", ['execution.arrivals={kind="gamma",squared_cv=4.0}']))
    'with gaps of a squared_cv of 4'
    """
    stated = scenario.execution.arrivals
    if stated is not None and not isinstance(stated, GammaArrivals):
        return IN_WORDS[stated.kind]
    of_classes = [workload.arrivals.squared_cv for _, workload in scenario.workloads.values()]
    found = max(of_classes if stated is None else [stated.squared_cv], key=lambda value: abs(log(value)))
    return "" if found == 1 else f"with gaps of a squared_cv of {number(found)}"


def is_burstier(scenario: "Scenario") -> bool:
    """True if requests are known to arrive less evenly than those of independent users, so that they wait longer.

    >>> from planner.scenario import read_scenario
    >>> [
    ...     is_burstier(read_scenario("prfaas-paper", [f'execution.arrivals={{kind="gamma",squared_cv={cv}}}']))
    ...     for cv in (0.5, 4.0)
    ... ]
    [False, True]
    """
    stated = scenario.execution.arrivals
    if stated is not None and not isinstance(stated, GammaArrivals):
        return stated.kind != "recorded"
    of_classes = [workload.arrivals.squared_cv for _, workload in scenario.workloads.values()]
    found = of_classes if stated is None else [stated.squared_cv]
    return min(found) >= 1 < max(found)
