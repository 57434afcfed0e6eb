"""Notes on a question itself, which a reader must know whatever answers it; classes that are alike."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from planner.notes import Note, note
from planner.profiles.architectures import GENERAL, Range
from planner.profiles.efficiency_checks import RANGES as EFFICIENCIES
from planner.profiles.figure_units import unit_hint
from planner.profiles.model_checks import measurement_faults
from planner.profiles.stack_checks import RANGES as FACTORS
from planner.scenario.own_profiles import own_profile_notes
from planner.scenario.usual import Usual, numbers_in, unusual, usual_at, usual_rent
from planner.schema import dotted
from planner.toml_lines import KeyPath
from planner.units import exact_number, number

if TYPE_CHECKING:
    from planner.scenario.question import Scenario

NOT_OF_THE_PLAN = ("comparisons", "claims", "break_even", "report")
"""Tables of variants, which are planned as scenarios of their own, and of what is shown beside the plan."""


def question_notes(scenario: "Scenario") -> Iterator[Note]:
    """Notes on what a scenario states: files in place of profiles of the catalogue, and values beyond what is usual."""
    yield from own_profile_notes(scenario)
    if scenario.users is not None and scenario.demand_req_per_s is not None:
        who = f"{scenario.users:,} users who think for {number(scenario.think_s)} s between answer and next request"
        text = f"runs are a closed loop of {who}; waits are predicted of an open one at the rate that is planned for"
        yield note("closed-population", text)
    for names in alike_classes(scenario):
        if len(names) > 1:
            text = f"classes {', '.join(names)} differ in nothing but their shares: they are planned as one"
            yield note("classes-alike", text)
    for name, own in scenario.stacks.items():
        if own.rests_on:
            yield note("own-points", f"times of stack {name} rest on {own.rests_on}")
    yield from _unusual_values(scenario)
    yield from _unusual_figures(scenario)
    for name, instance in scenario.measured.items():
        if name in scenario.stated.get("measured", {}):
            for fault, allowed in measurement_faults(instance):
                key = dotted(("measured", name, *fault.key))
                yield note("value-beyond-usual", f"{key} {fault.message}, beyond the usual {allowed}")


def _unusual_values(scenario: "Scenario") -> Iterator[Note]:
    """Of a list the first value counts."""
    said: set[tuple[str, ...]] = set()
    stated = {key: value for key, value in scenario.stated.items() if key not in NOT_OF_THE_PLAN}
    for key, value in numbers_in(stated):
        path = tuple(part for part in key if isinstance(part, str))
        usual = _usual_price(scenario, path) or usual_at(path)
        if usual is not None and path not in said and (found := list(unusual(dotted(key), value, usual))):
            said.add(path)
            yield from found


def _usual_price(scenario: "Scenario", path: tuple[str, ...]) -> Usual | None:
    if path[:1] != ("prices",) or path[-1] != "usd_per_accelerator_hour":
        return None
    return usual_rent(scenario.hardware_named(path[1]).rent_high_usd_per_hour)


def _unusual_figures(scenario: "Scenario") -> Iterator[Note]:
    """Assumed figures and factors beyond what the gate allows of profiles."""
    for name, items in scenario.assumed.items():
        ranges = {**GENERAL, **EFFICIENCIES}
        stated = {key: item.value for key, item in items.items()}
        yield from _beyond(("assumed", name), stated, ranges)
    for name, stack in scenario.stacks.items():
        yield from _beyond(("stacks", name, "factors"), stack.factors, FACTORS)


def _beyond(table: KeyPath, stated: Mapping[str, float], ranges: Mapping[str, Range]) -> Iterator[Note]:
    for key, value in stated.items():
        if key in ranges and value not in ranges[key]:
            hint = unit_hint(key, value, ranges[key])
            text = f"{dotted((*table, key))} = {exact_number(value)} is beyond the usual {ranges[key]}"
            yield note("value-beyond-usual", f"{text}; {hint}" if hint else text)


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
