"""Classes of requests that nothing tells apart but their names."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.scenario.question import Scenario


def alike_classes(scenario: "Scenario") -> tuple[tuple[str, ...], ...]:
    """Names of classes, those together that are alike: of one model, workload, promise, homes, pools and times of day.

    A plan treats them as one class with the sum of their shares, so that a class that is cut in two asks nothing new.

    Args:
        scenario: the question.

    Returns:
        Every class once, groups and their members in the order of the scenario.
    """
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, (_, workload) in scenario.workloads.items():
        stated, slo = scenario.classes.get(name), scenario.slo_of(name)
        homes = () if stated is None else tuple(sorted(stated.sites.items()))
        pools = tuple(key for key, pool in scenario.pools.items() if name in scenario.classes_of(pool))
        factors = tuple(period.by_class.get(name, 1.0) for period in scenario.periods.values())
        promise = None if slo is None else slo.model_dump_json()
        kind = (scenario.model_of(name), workload.model_dump_json(), promise, homes, pools, factors)
        groups.setdefault(kind, []).append(name)
    return tuple(map(tuple, groups.values()))
