"""Many models, classes, sites and periods: whether what a scenario says of them fits together, and what it says."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf
from typing import TYPE_CHECKING

from planner.errors import did_you_mean
from planner.schema import FieldError
from planner.toml_lines import KeyPath
from planner.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from planner.scenario.parts import Pool
    from planner.scenario.question import Scenario


def network_faults(scenario: Scenario) -> Iterator[FieldError]:
    """Faults where models, classes, sites, pools and periods do not fit together."""
    unknown = [*_unknown_models(scenario), *_unknown_classes(scenario)]
    yield from unknown
    yield from _class_site_faults(scenario)
    yield from _period_faults(scenario)
    yield from _rent_faults(scenario)
    if not unknown:  # else who serves what cannot be told
        yield from _foreign_classes(scenario)
        yield from _unserved_classes(scenario)


def _unknown(key: KeyPath, kind: str, name: str, known: Collection[str], table: str) -> Iterator[FieldError]:
    if name not in known:
        hint = did_you_mean(name, known) if known else f"the scenario has no [{table}]"
        yield FieldError(key, f"names the unknown {kind} '{name}' ({hint})")


def _unknown_models(scenario: Scenario) -> Iterator[FieldError]:
    places: list[tuple[KeyPath, str | None]]
    places = [(("classes", name, "model"), c.model) for name, c in scenario.classes.items()]
    places += [(("pools", name, "model"), pool.model) for name, pool in scenario.pools.items()]
    places += [(("measured", name, "model"), instance.model) for name, instance in scenario.measured.items()]
    for key, model in places:
        if model is not None:
            yield from _unknown(key, "model", model, scenario.models, "models.NAME")


def _class_site_faults(scenario: Scenario) -> Iterator[FieldError]:
    for name, request_class in scenario.classes.items():
        for site in request_class.sites:
            yield from _unknown(("classes", name, "sites", site), "site", site, scenario.sites, "sites.NAME")
        total = sum(request_class.sites.values())
        if request_class.sites and abs(total - 1) > 1e-9:
            message = f"has fractions that add up to {total:g} (they must add up to 1)"
            yield FieldError(("classes", name, "sites"), message)


def _pool_classes(scenario: Scenario) -> Iterator[tuple[KeyPath, Pool, str]]:
    """Every class that a pool names, with its key."""
    for name, pool in scenario.pools.items():
        yield from ((("pools", name, "classes", i), pool, class_name) for i, class_name in enumerate(pool.classes))


def _unknown_classes(scenario: Scenario) -> Iterator[FieldError]:
    for key, _, name in _pool_classes(scenario):
        yield from _unknown(key, "class", name, scenario.workloads, "classes.NAME")


def _foreign_classes(scenario: Scenario) -> Iterator[FieldError]:
    for key, pool, name in _pool_classes(scenario):
        if scenario.model_of(name) != pool.model:
            theirs, ours = _model_words(scenario.model_of(name)), _model_words(pool.model)
            yield FieldError(key, f"names the class '{name}' of {theirs} (a class of {ours}, which the pool serves)")


def _model_words(model: str | None) -> str:
    return "the default model" if model is None else f"the model '{model}'"


def _period_faults(scenario: Scenario) -> Iterator[FieldError]:
    anywhere = next((name for name in scenario.workloads if not _sites_of(scenario, name)), None)
    arriving = {site for request_class in scenario.classes.values() for site in request_class.sites}
    for name, period in scenario.periods.items():
        for site in period.by_site:
            key = ("periods", name, "by_site", site)
            if site not in scenario.sites:
                yield from _unknown(key, "site", site, scenario.sites, "sites.NAME")
            elif anywhere is None and site not in arriving:
                known = ", ".join(sorted(arriving))
                yield FieldError(key, f"names the site '{site}', where no class arrives (classes arrive at: {known})")
        if period.by_site and anywhere is not None:
            what = f"cannot apply to the class '{anywhere}', which does not say where it arrives"
            yield FieldError(("periods", name, "by_site"), f"{what} (give every class its sites, or leave by_site out)")
        for class_name in period.by_class:
            key = ("periods", name, "by_class", class_name)
            yield from _unknown(key, "class", class_name, scenario.workloads, "classes.NAME")
    if scenario.periods and not any(period.demand > 0 for period in scenario.periods.values()):
        yield FieldError(("periods",), "has no demand in any period (demand above 0 in at least one)")


def _rent_faults(scenario: Scenario) -> Iterator[FieldError]:
    """Pools that are rented by the period, of a question in which that cannot be."""
    for name, pool in scenario.pools.items():
        if pool.rent == "always":
            continue
        key = ("pools", name, "rent")
        if not scenario.periods:
            yield FieldError(key, 'is "by-period", and the scenario has no [periods] (periods, or rent = "always")')
        if scenario.objective != "min-cost":
            yield FieldError(
                key, f'is "by-period", and the objective {scenario.objective} pays for all hours (min-cost)'
            )
        if scenario.routing.role_conversion:
            yield FieldError(
                key, 'is "by-period", and routing.role_conversion keeps accelerators at all times (one of them)'
            )
        shortest_h = min((period.hours for period in scenario.periods.values()), default=inf)
        if pool.start_up_s > shortest_h * SECONDS_PER_HOUR:
            allowed = f"at most {shortest_h * SECONDS_PER_HOUR:g} s, the shortest period"
            yield FieldError(("pools", name, "start_up_s"), f"is {pool.start_up_s:g} ({allowed})")


def _sites_of(scenario: Scenario, class_name: str) -> Collection[str]:
    return scenario.classes[class_name].sites if class_name in scenario.classes else ()


def _unserved_classes(scenario: Scenario) -> Iterator[FieldError]:
    """Classes that no pool prefills, or decodes; a role that no pool has at all is a fault of its own."""
    for name in scenario.workloads:
        for role in _roles(scenario):
            sites = {p.site for p in scenario.pools.values() if p.role == role and name in scenario.classes_of(p)}
            if not sites:
                yield _unserved(scenario, name, role)
            elif role != "prefill":
                yield from _decoded_elsewhere(scenario, name, sites)


def _roles(scenario: Scenario) -> tuple[str, ...]:
    """Roles that some pool must have for every class: a colocated one is both."""
    found = {pool.role for pool in scenario.pools.values()}
    return ("colocated",) if "colocated" in found else tuple(role for role in ("prefill", "decode") if role in found)


def _unserved(scenario: Scenario, name: str, role: str) -> FieldError:
    if not scenario.classes:
        return FieldError(("pools",), f"has no {role} pool of the default model (at least one pool of each role)")
    allowed = f"a {role} pool of {_model_words(scenario.model_of(name))} that takes its class"
    return FieldError(("classes", name), f"no {role} pool serves it ({allowed})")


def _decoded_elsewhere(scenario: Scenario, name: str, decoding: Collection[str]) -> Iterator[FieldError]:
    """Sites where requests of a class arrive and are not decoded."""
    for site in _sites_of(scenario, name):
        if site in scenario.sites and site not in decoding:
            allowed = f"sites that decode it: {', '.join(sorted(decoding))}"
            yield FieldError(("classes", name, "sites", site), f"no pool at '{site}' decodes this class ({allowed})")
