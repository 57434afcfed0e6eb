"""From a scenario and a period of its plan to the system that is run: pools, links and streams, with their times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.executor.colocated_pools import WAY_OUT, Colocated, colocated_pools
from planner.executor.control import convertible, slots, undivided
from planner.executor.kernel.records import Records
from planner.executor.rebalancing import check_rebalance
from planner.executor.routes import RoutesByPart, Topology, divided
from planner.executor.service import DecodeTimes, PrefillTimes, decode_times, prefill_times, source
from planner.executor.streams import RequestStream, chosen_period, streams_of
from planner.results.plan import Fleet, LinkPlan, Plan, PoolPlan
from planner.scenario import Scenario, requests_of

Guests = tuple[tuple[PoolPlan, int], ...]
"""Prefill pools on the instances of others, each with its host's index."""


@dataclass(frozen=True, eq=False)
class System:
    """The planned system in numbers, before any request; names and sizes by index."""

    scenario: Scenario
    period: str | None
    """Of the plan; None where it has one demand."""
    fleet: Fleet
    """The plan in that period."""
    prefill: tuple[PoolPlan, ...]
    """Pools with instances of their own, then the ways into colocated pools."""
    decode: tuple[PoolPlan, ...]
    """Pools, then the ways out of colocated ones."""
    links: tuple[LinkPlan, ...]
    streams: tuple[RequestStream, ...]
    ways: tuple[RoutesByPart, ...]
    """Of every stream."""
    prefill_times: tuple[PrefillTimes, ...]
    decode_times: tuple[DecodeTimes, ...]
    converts: bool = False
    """Whether instances may change between the prefill pool for short prompts and the decode pool."""
    guests: Guests = ()
    colocated: tuple[Colocated, ...] = ()
    full_req_per_s: Mapping[str, float] = field(default_factory=dict)
    """What an instance of every colocated pool does at the most, once it is known [1/s]."""

    @property
    def pools(self) -> tuple[PoolPlan, ...]:
        """All pools with instances of their own."""
        n = len(self.colocated)
        own = self.prefill[: len(self.prefill) - n], self.decode[: len(self.decode) - n]
        return (*own[0], *own[1], *(one.pool for one in self.colocated))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that are asked for, in the scenario's order."""
        return tuple(dict.fromkeys(stream.request_class for stream in self.streams))

    @property
    def class_of(self) -> NDArray[np.int64]:
        """Index among `classes` of every stream's class, shape (streams,)."""
        names = self.classes
        return np.array([names.index(stream.request_class) for stream in self.streams], dtype=np.int64)

    @property
    def class_rates(self) -> dict[str, float]:
        """Rate of every class at the plan's own rate [1/s]."""
        return {
            name: sum(stream.req_per_s for stream in self.streams if stream.request_class == name)
            for name in self.classes
        }

    @property
    def thresholds_tokens(self) -> NDArray[np.float64]:
        """Of every stream: more uncached tokens make a long prompt."""
        return np.array([stream.threshold.limit_tokens for stream in self.streams], dtype=np.float64)

    @property
    def places(self) -> list[int]:
        """Prompts that an instance of every prefill pool takes at once, one on each of its attention replicas."""
        return [times.service.places for times in self.prefill_times]

    @property
    def prefill_slots(self) -> list[int]:
        """Places that every prefill pool may ever have, those of an instance one after another."""
        most = slots(self.prefill, self.decode, self.converts)[0]
        return [n * places for n, places in zip(most, self.places, strict=True)]

    @property
    def decode_slots(self) -> list[int]:
        """Instances that every decode pool may ever have."""
        return slots(self.prefill, self.decode, self.converts)[1]

    def may_come(self, one: Colocated, requests: Records) -> NDArray[np.bool_]:
        """Requests of streams that have a way to a colocated pool; all where none has, shape (requests,)."""
        streams = [
            q
            for q, of_stream in enumerate(self.ways)
            if any(way.decode == one.way_out for of_part in of_stream.values() for way in of_part)
        ]
        found = np.isin(requests["request_class"], streams)
        return found if found.any() else np.ones(len(requests), dtype=bool)

    @property
    def n_prefill(self) -> int:
        """Places of the prefill instances of all pools."""
        own = self.prefill[: len(self.prefill) - len(self.colocated)]
        return sum(pool.n_instances * places for pool, places in zip(own, self.places, strict=False))


def system(scenario: Scenario, fleet: Fleet, data_dirs: Sequence[Path] = (), period: str | None = None) -> System:
    """The system that a plan describes, in one of its periods.

    Args:
        scenario: the question that the plan answers.
        fleet: a plan, or one of its baselines.
        data_dirs: folders in which traces are looked for.
        period: the period; None: the plan's only one, or its one demand.

    Raises:
        InputError: the plan is not one of this scenario or has no such period, its pools have no service times, its
            scheduler nothing to convert, or the rebalancing of its caches no link.
    """
    when = chosen_period(scenario, fleet, period)
    now = fleet.in_period(when) if when is not None and isinstance(fleet, Plan) else fleet
    _check(scenario, now)
    used = [pool for pool in now.pools if pool.n_instances > 0]
    own, guests = _hosted(scenario, [pool for pool in used if pool.role == "prefill"])
    decodes = tuple(pool for pool in used if pool.role == "decode")
    colocated = colocated_pools(scenario, used, len(own), len(decodes), data_dirs)
    prefill = (*own, *(one.door for one in colocated))
    decode = (*decodes, *(one.door for one in colocated))
    links = tuple(_link_of_run(scenario, link) for link in now.links)
    check_rebalance(scenario, prefill, links)
    through = Topology(scenario, (*((pool, p) for p, pool in enumerate(prefill)), *guests), decode, links)
    streams = streams_of(scenario, fleet, when, data_dirs)
    ways = tuple(map(through.stream_routes, streams))
    times = (
        *(prefill_times(source(scenario, pool.key, pool.layout)) for pool in own),
        *(one.way_in_times for one in colocated),
    )
    return System(
        scenario=scenario,
        period=None if when is None else when.name,
        fleet=now,
        prefill=prefill,
        decode=decode,
        links=links,
        streams=tuple(map(divided, streams, ways)),
        ways=ways,
        prefill_times=times,
        decode_times=(*_decode_times(scenario, decodes, data_dirs), *(WAY_OUT for _ in colocated)),
        converts=convertible(scenario, own, decodes, [found.service.places for found in times]),
        guests=guests,
        colocated=colocated,
    )


def _link_of_run(scenario: Scenario, link: LinkPlan) -> LinkPlan:
    """A link as planned; one that the plan leaves out with the bandwidth that the scenario states for it."""
    stated = scenario.execution.links.get(link.name)
    if link.capacity_gbps > 0 or stated is None or stated.spare_gbps is None:
        return link
    return link.model_copy(update={"capacity_gbps": stated.spare_gbps})


def _decode_times(scenario: Scenario, decode: Sequence[PoolPlan], data_dirs: Sequence[Path]) -> tuple[DecodeTimes, ...]:
    """Of every decode pool, which is set up for the classes that it serves, whatever share they have in a period."""
    contexts = _contexts(scenario, data_dirs)
    sources = (source(scenario, pool.key, pool.layout) for pool in decode)
    return tuple(decode_times(found, _context_tokens(scenario, found.key, contexts)) for found in sources)


def _contexts(scenario: Scenario, data_dirs: Sequence[Path]) -> dict[str, float]:
    """Mean context of every class while it is decoded: prompt and half the output [tokens]."""
    found = {}
    for name in scenario.workloads:
        mix = requests_of(scenario, name, data_dirs)
        found[name] = mix.mean_total_tokens + mix.mean_output_tokens / 2
    return found


def _context_tokens(scenario: Scenario, key: str, contexts: Mapping[str, float]) -> float:
    """Mean context of the classes that a pool serves [tokens]."""
    shares = {name: scenario.workloads[name][0] for name in scenario.classes_of(scenario.pools[key])}
    return sum(share * contexts[name] for name, share in shares.items()) / sum(shares.values())


def _hosted(scenario: Scenario, pools: Sequence[PoolPlan]) -> tuple[tuple[PoolPlan, ...], Guests]:
    """Pools with instances of their own, and those on others' instances with their hosts' indices."""
    stated = scenario.execution.pools
    hosts = {pool.name: stated[pool.key].instances_of if pool.key in stated else None for pool in pools}
    own = tuple(pool for pool in pools if hosts[pool.name] is None)
    keys = [pool.key for pool in own]
    missing = [pool.key for pool in pools if (host := hosts[pool.name]) is not None and host not in keys]
    if missing:
        what = f"computes on instances of '{stated[missing[0]].instances_of}', of which the plan has none"
        raise InputError(scenario.problem(("execution", "pools", missing[0]), what, "a plan that has some"))
    return own, tuple((pool, keys.index(host)) for pool in pools if (host := hosts[pool.name]) is not None)


def _check(scenario: Scenario, fleet: Fleet) -> None:
    if scenario.execution.cache is not None and len({scenario.model_of(name) for name in scenario.workloads}) > 1:
        what = "is a pool of blocks of one size, and the classes are for several models"
        raise InputError(scenario.problem(("execution", "cache"), what, "one model, or no cache"))
    ours = "the plan of this scenario"
    found = [
        scenario.problem(("pools",), f"the plan's pool '{pool.name}' is not the scenario's", ours)
        for pool in fleet.pools
        if not _is_ours(scenario, pool)
    ]
    found += [
        scenario.problem(("links",), f"the plan's link '{link.name}' is not the scenario's", ours)
        for link in fleet.links
        if link.name not in scenario.links
    ]
    found += undivided(scenario, fleet.pools)
    for role in ("prefill", "decode"):
        if not any(pool.n_instances > 0 for pool in fleet.pools if pool.role in (role, "colocated")):
            found.append(scenario.problem(("pools",), f"the plan has no {role} instance", "a plan that serves"))
    if found:
        raise InputError(found)


def _is_ours(scenario: Scenario, plan: PoolPlan) -> bool:
    """True if a pool of a plan is one of the scenario."""
    stated = scenario.pools.get(plan.key)
    return stated is not None and stated.role == plan.role
