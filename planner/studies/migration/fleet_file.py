"""The fleet that stands, read from a file: instances by pool, or the answer of `planner optimize`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from planner.errors import InputError, did_you_mean
from planner.errors import InputProblem as Fault
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import LinkSpec
from planner.ranges import NonNegative
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from planner.schema import Document, JsonFile, StrictModel, TomlFile, read_text

Instances = Annotated[int, Field(ge=0, le=1_000_000)]
PLAN = "planner.plan/1"
ALLOWED = 'instances by pool, such as {"pools": {"pd-p": 3}}, or an answer of planner optimize --format json'
SAME_GBPS = 1e-9
"""Relative difference of two bandwidths that are the same."""


class FleetFile(StrictModel):
    """Contents of a file that states the fleet that stands."""

    pools: dict[str, Instances]
    """Instances by pool of the plan."""
    links: dict[str, NonNegative] = {}
    """Bandwidth that is rented, by link [Gbps]."""
    threshold_tokens: NonNegative | None = None
    """Longest uncached prompt that stays with the pool for short ones [tokens]."""


@dataclass(frozen=True)
class ExistingFleet:
    """The fleet that stands, in the terms of a problem."""

    n_instances: tuple[int, ...]
    """Of every pool."""
    ports: tuple[tuple[int, ...], ...] | None
    """Of every tier of every link; None where the file says nothing of links."""
    threshold_tokens: float | None
    """None where the file does not say."""
    unnamed: tuple[str, ...]
    """Pools that the file does not name: none of them stands."""


@dataclass(frozen=True)
class StatedFleet:
    """The fleet that stands, as a file states it; the file is read once."""

    file: Document
    fleet: FleetFile
    layouts: Mapping[str, str] = field(default_factory=dict)
    """Layouts of its pools, where they are known."""


def stated_fleet(path: Path) -> StatedFleet:
    """The fleet of a TOML or JSON file. Raises InputError where the file is unreadable, or states none."""
    text = read_text(path)
    is_json = path.suffix == ".json" or (path.suffix != ".toml" and text.lstrip()[:1] == "{")
    file = JsonFile(str(path), text, ALLOWED) if is_json else TomlFile(str(path), text)
    if isinstance(file.data, Mapping) and file.data.get("schema") == PLAN:
        return _of_plan(file, plan_from(text, str(path)))
    return StatedFleet(file, file.record(FleetFile, _nested(file)))


def standing_fleet(named: StatedFleet, problem: Problem) -> ExistingFleet:
    """The fleet of a file in the terms of a question.

    Args:
        problem: the question, whose pools and links the file names.

    Raises:
        InputError: the file names what the question does not have.
    """
    file, stated = named.file, named.fleet
    pools = [pool.key for pool in problem.pools]
    links = [link.name for link in problem.links]
    table = ("pools",) if isinstance(file.data, Mapping) and "pools" in file.data else ()
    faults = [
        *_unknown(file, table, "pool", stated.pools, pools),
        *_unknown(file, ("links",), "link", stated.links, links),
    ]
    ports = {link.name: ports_of(link, stated.links.get(link.name, 0.0)) for link in problem.links}
    faults += [_no_ports(file, link) for link in problem.links if ports[link.name] is None]
    if faults:
        raise InputError(faults)
    return ExistingFleet(
        n_instances=tuple(stated.pools.get(name, 0) for name in pools),
        ports=tuple(ports[name] or () for name in links) if stated.links else None,
        threshold_tokens=stated.threshold_tokens,
        unnamed=tuple(name for name in dict.fromkeys(pools) if name not in stated.pools),
    )


def _nested(file: Document) -> dict[str, Any]:
    """The table of the file; one that has no `pools` is taken for them. Raises InputError."""
    if not isinstance(file.data, Mapping):
        raise InputError(file.problem((), "is no table", ALLOWED))
    data = dict(file.data)
    if "pools" not in data:
        data = {"pools": {k: v for k, v in data.items() if k not in FleetFile.model_fields}} | {
            k: v for k, v in data.items() if k in FleetFile.model_fields
        }
    if data["pools"] == {}:
        raise InputError(file.problem((), "names no pool", ALLOWED))
    return data


def _of_plan(file: Document, plan: Plan) -> StatedFleet:
    fleet = FleetFile(
        pools=plan.n_instances,
        links={link.name: link.capacity_gbps for link in plan.links},
        threshold_tokens=None if plan.threshold_tokens is None else max(plan.threshold_tokens, 0.0),
    )
    return StatedFleet(file, fleet, {pool.key: pool.layout for pool in plan.pools if pool.layout and pool.n_instances})


def _unknown(
    file: Document, table: tuple[str, ...], kind: str, names: Iterable[str], known: Iterable[str]
) -> Iterable[Fault]:
    for name in names:
        if name not in known:
            what = f"names no {kind} of the scenario"
            yield file.problem((*table, name), what, did_you_mean(name, known))


def _no_ports(file: Document, link: LinkSpec) -> Fault:
    sizes = ", ".join(f"{tier.max_ports} x {tier.capacity_gbps:g}" for tier in link.tiers)
    return file.problem(("links", link.name), "is no sum of the link's ports", f"0, or some of {sizes} Gbps")


def ports_of(link: LinkSpec, gbps: float) -> tuple[int, ...] | None:
    """Ports of every tier of a link that add up to a bandwidth, large ones first; None where none do.

    Args:
        gbps: the bandwidth [Gbps].
    """
    order = sorted(range(len(link.tiers)), key=lambda j: -link.tiers[j].capacity_gbps)
    room = SAME_GBPS * max(gbps, 1.0)

    def found(left: float, rest: list[int]) -> dict[int, int] | None:
        if abs(left) <= room:
            return dict.fromkeys(rest, 0)
        if not rest or left < 0:
            return None
        tier = link.tiers[rest[0]]
        for m in range(min(tier.max_ports, int((left + room) / tier.capacity_gbps)), -1, -1):
            if (others := found(left - m * tier.capacity_gbps, rest[1:])) is not None:
                return {rest[0]: m} | others
        return None

    chosen = found(gbps, order)
    return None if chosen is None else tuple(chosen[j] for j in range(len(link.tiers)))
