"""Checks that the parts of a question fit together: names of each other, shares, links, objectives and promises."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.errors import did_you_mean
from planner.scenario.assumptions import VERDICT
from planner.scenario.parts import MOST_ACCELERATORS
from planner.schema import FieldError
from planner.toml_lines import KeyPath

if TYPE_CHECKING:
    from planner.scenario.question import Scenario


def reference_faults(scenario: "Scenario") -> Iterator[FieldError]:
    """Faults where parts of a question do not fit together."""
    yield from _workload_faults(scenario)
    yield from _reference_faults(scenario)
    yield from _link_faults(scenario)
    yield from _objective_faults(scenario)
    yield from _break_even_faults(scenario)


def _workload_faults(scenario: "Scenario") -> Iterator[FieldError]:
    if (scenario.workload is None) == (not scenario.classes):
        yield FieldError(("workload",), "exactly one of workload and classes must be given")
    total = sum(c.share for c in scenario.classes.values())
    if scenario.classes and abs(total - 1) > 1e-9:
        yield FieldError(("classes",), f"has shares that add up to {total:g} (they must add up to 1)")


def _reference_faults(scenario: "Scenario") -> Iterator[FieldError]:
    places: list[tuple[KeyPath, str]] = [(("pools", n, "site"), pool.site) for n, pool in scenario.pools.items()]
    for name, link in scenario.links.items():
        places += [(("links", name, "from"), link.from_site), (("links", name, "to"), link.to_site)]
    for key, site in places:
        if site not in scenario.sites:
            yield FieldError(key, f"names the unknown site '{site}' ({did_you_mean(site, scenario.sites)})")
    for name, place in scenario.sites.items():
        for hardware, n in place.accelerators.items():
            if n > MOST_ACCELERATORS:  # not a limit of the field: baselines are made in proportion to prices
                yield FieldError(("sites", name, "accelerators", hardware), f"is {n} (at most {MOST_ACCELERATORS:,})")
    roles = {pool.role for pool in scenario.pools.values()}
    for role in ("prefill", "decode") if "colocated" not in roles else ():
        if role not in roles:
            yield FieldError(("pools",), f"has no {role} pool (at least one pool of each role)")


def _link_faults(scenario: "Scenario") -> Iterator[FieldError]:
    ends: dict[tuple[str, str], str] = {}
    for name, link in scenario.links.items():
        first = ends.setdefault((link.from_site, link.to_site), name)
        if first != name:
            yield FieldError(
                ("links", name), f"joins the same sites as links.{first} (one link a way, with port tiers)"
            )


def _objective_faults(scenario: "Scenario") -> Iterator[FieldError]:
    if scenario.objective != "max-throughput" and scenario.demand_req_per_s is None and scenario.users is None:
        yield FieldError(("demand_req_per_s",), f"is required by objective {scenario.objective} (a rate above 0)")
    yield from _population_faults(scenario)
    promises = {("slo",): scenario.slo} | {("classes", name, "slo"): c.slo for name, c in scenario.classes.items()}
    for key, slo in promises.items():
        if slo is not None and not slo.promises_something and scenario.objective != "min-ttft":
            yield FieldError(key, "promises nothing (give ttft_s, tpot_ms or both)")


def _population_faults(scenario: "Scenario") -> Iterator[FieldError]:
    """Faults of a closed population, and of what does not go with one."""
    if (scenario.users is None) != (scenario.think_s is None):
        stated, lacking = ("think_s", "users") if scenario.users is None else ("users", "think_s")
        yield FieldError((stated,), f"is given without {lacking} (both of a closed population, or a demand_req_per_s)")
    if scenario.users is None:
        return
    if scenario.objective == "max-throughput":
        yield FieldError(("users",), "is a demand, which max-throughput looks for (objective min-cost or min-ttft)")
    execution = scenario.execution
    own: dict[KeyPath, object] = {
        ("execution", "arrivals"): execution.arrivals,
        ("execution", "sessions"): execution.sessions,
    }
    for name, (_, workload) in scenario.workloads.items():
        place: KeyPath = ("classes", name, "workload") if name in scenario.classes else ("workload",)
        own[(*place, "arrivals")] = None if workload.arrivals.kind == "poisson" else workload.arrivals
    for key, given in {**own, ("periods",): scenario.periods or None}.items():
        if given is not None:
            yield FieldError(key, "says when requests come, and so do users (one of the two)")


def _break_even_faults(scenario: "Scenario") -> Iterator[FieldError]:
    known = (VERDICT, *scenario.comparisons)
    for i, item in enumerate(scenario.break_even):
        if item.decides not in known:
            hint = did_you_mean(item.decides, known)
            yield FieldError(("break_even", i, "decides"), f"names no comparison: '{item.decides}' ({hint})")
