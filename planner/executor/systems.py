"""From a scenario and its plan to the records that the event loop runs on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from planner.curves import Curve
from planner.errors import InputError
from planner.executor.cache_pools import cache_fields
from planner.executor.control import convertible, scheduler_fields, slots, undivided, units
from planner.executor.kernel.records import (
    ACTOR,
    CLOCK,
    DECODE_POOL,
    DECODER,
    DOWN,
    FAULT_RECORD,
    FLOW,
    INSTANCE,
    LINK,
    LONG_LINE,
    NONE,
    POOL,
    POOL_CURVES,
    QUEUE,
    ROUND_ROBIN,
    ROUTE,
    SHARED_QUEUE,
    SHORT_LINE,
    SHORTEST_WORK,
    SLOT,
    UNIT,
    UP,
    Records,
    World,
)
from planner.executor.rebalancing import check_rebalance, rebalance_fields, stated_rebalance
from planner.executor.service import DecodeTimes, PrefillTimes, decode_times, prefill_times
from planner.results import Fleet, LinkPlan, PoolPlan, PoolShares
from planner.roofline import BLOCK_TOKENS
from planner.scenario import LinkExecution, Scenario, requests_of
from planner.schema import dotted
from planner.toml_lines import KeyPath
from planner.units import bytes_per_s
from planner.workload.traces import Blocks

Floats = NDArray[np.float64]
DISPATCH = {"shared-queue": SHARED_QUEUE, "join-shortest-work": SHORTEST_WORK, "round-robin": ROUND_ROBIN}
PEAK_WINDOW_S = 1.0
"""A link's peak is the most it carries in a window of so long."""
N_SAMPLES = 512
EMPTY_QUEUE = (NONE, NONE, 0)
Part = Literal["short", "long"]
PARTS: tuple[Part, Part] = ("short", "long")
"""Of a class: its routes for each, by whether they are for long prompts."""


@dataclass(frozen=True, eq=False)
class System:
    """The planned system in numbers, before any request; names and sizes by index."""

    prefill: tuple[PoolPlan, ...]
    """Pools with instances of their own."""
    decode: tuple[PoolPlan, ...]
    links: tuple[LinkPlan, ...]
    classes: tuple[str, ...]
    thresholds_tokens: Floats
    """Of every class; infinite where all go to the pools for short prompts, -1 where none do."""
    prefill_times: tuple[PrefillTimes, ...]
    decode_times: tuple[DecodeTimes, ...]
    scenario: Scenario
    converts: bool = False
    """Whether instances may change between the prefill pool for short prompts and the decode pool."""
    guests: tuple[tuple[PoolPlan, int], ...] = ()
    """Prefill pools on the instances of others, each with its host's index."""
    pool_shares: Mapping[str, PoolShares] = field(default_factory=dict)
    """By class, what each pool takes; absent classes: in proportion to the pools' rates."""

    @property
    def prefill_slots(self) -> list[int]:
        """Instances that every prefill pool may ever have."""
        return slots(self.prefill, self.decode, self.converts)[0]

    @property
    def decode_slots(self) -> list[int]:
        """Instances that every decode pool may ever have."""
        return slots(self.prefill, self.decode, self.converts)[1]

    @property
    def n_prefill(self) -> int:
        """Prefill instances of all pools."""
        return sum(pool.n_instances for pool in self.prefill)

    @property
    def n_decode(self) -> int:
        """Decode instances of all pools."""
        return sum(pool.n_instances for pool in self.decode)


def system(scenario: Scenario, fleet: Fleet, data_dirs: Sequence[Path] = ()) -> System:
    """The system that a plan describes.

    Args:
        scenario: the question that the plan answers.
        fleet: a plan, or one of its baselines.
        data_dirs: folders in which traces are looked for.

    Raises:
        InputError: the plan is not one of this scenario, its pools have no service times, its scheduler nothing to
            convert, or the rebalancing of its caches no link.
    """
    _check(scenario, fleet)
    used = [pool for pool in fleet.pools if pool.n_instances > 0]
    every = tuple(pool for pool in used if pool.role == "prefill")
    prefill, guests = _hosted(scenario, every)
    decode = tuple(pool for pool in used if pool.role == "decode")
    links = tuple(_link_of_run(scenario, link) for link in fleet.links)
    check_rebalance(scenario, prefill, links)
    contexts = _contexts(scenario, data_dirs)
    return System(
        prefill=prefill,
        decode=decode,
        links=links,
        classes=tuple(scenario.workloads),
        thresholds_tokens=_thresholds(scenario, fleet, every, data_dirs),
        prefill_times=tuple(prefill_times(scenario, pool.name) for pool in prefill),
        decode_times=tuple(
            decode_times(scenario, pool.name, _context_tokens(scenario, pool.name, contexts)) for pool in decode
        ),
        scenario=scenario,
        converts=convertible(scenario, prefill, decode),
        guests=guests,
        pool_shares={c.name: c.pool_shares for c in getattr(fleet, "classes", ()) if c.pool_shares},
    )


def _link_of_run(scenario: Scenario, link: LinkPlan) -> LinkPlan:
    """A link as planned; one that the plan leaves out with the bandwidth that the scenario states for it."""
    stated = scenario.execution.links.get(link.name)
    if link.capacity_gbps > 0 or stated is None or stated.spare_gbps is None:
        return link
    return link.model_copy(update={"capacity_gbps": stated.spare_gbps})


def _contexts(scenario: Scenario, data_dirs: Sequence[Path]) -> dict[str, float]:
    """Mean context of every class while it is decoded: prompt and half the output [tokens]."""
    found = {}
    for name in scenario.workloads:
        mix = requests_of(scenario, name, data_dirs)
        found[name] = mix.mean_total_tokens + mix.mean_output_tokens / 2
    return found


def _context_tokens(scenario: Scenario, pool: str, contexts: Mapping[str, float]) -> float:
    """Mean context of the classes that a pool serves [tokens]."""
    shares = {name: scenario.workloads[name][0] for name in scenario.classes_of(scenario.pools[pool])}
    return sum(share * contexts[name] for name, share in shares.items()) / sum(shares.values())


def _hosted(
    scenario: Scenario, pools: Sequence[PoolPlan]
) -> tuple[tuple[PoolPlan, ...], tuple[tuple[PoolPlan, int], ...]]:
    """Pools with instances of their own, and those on others' instances with their hosts' indices."""
    stated = scenario.execution.pools
    hosts = {pool.name: stated[pool.name].instances_of if pool.name in stated else None for pool in pools}
    own = tuple(pool for pool in pools if hosts[pool.name] is None)
    names = [pool.name for pool in own]
    missing = [name for name, host in hosts.items() if host is not None and host not in names]
    if missing:
        what = f"computes on instances of '{hosts[missing[0]]}', of which the plan has none"
        raise InputError(scenario.problem(("execution", "pools", missing[0]), what, "a plan that has some"))
    return own, tuple((pool, names.index(host)) for pool in pools if (host := hosts[pool.name]) is not None)


def _check(scenario: Scenario, fleet: Fleet) -> None:
    if keys := [key for key in scenario.network_keys if not _runs(scenario, key)]:
        what = "cannot be run: the executor runs one demand, each class of requests at one site or at any"
        raise InputError(scenario.problem(keys[0], what, f"a scenario without {', '.join(map(dotted, keys))}"))
    if scenario.execution.cache is not None and len({scenario.model_of(name) for name in scenario.workloads}) > 1:
        what = "is a pool of blocks of one size, and the classes are for several models"
        raise InputError(scenario.problem(("execution", "cache"), what, "one model, or no cache"))
    found = [
        scenario.problem(
            ("pools",), f"the plan's pool '{pool.name}' is not the scenario's", "the plan of this scenario"
        )
        for pool in fleet.pools
        if pool.name not in scenario.pools or scenario.pools[pool.name].role != pool.role
    ]
    found += [
        scenario.problem(
            ("links",), f"the plan's link '{link.name}' is not the scenario's", "the plan of this scenario"
        )
        for link in fleet.links
        if link.name not in scenario.links
    ]
    found += undivided(scenario, fleet.pools)
    for role in ("prefill", "decode"):
        if not any(pool.n_instances > 0 for pool in fleet.pools if pool.role == role):
            found.append(scenario.problem(("pools",), f"the plan has no {role} instance", "a plan that serves"))
    if found:
        raise InputError(found)


def _runs(scenario: Scenario, key: KeyPath) -> bool:
    """Whether the executor knows what a key of a network says: who is served where and with what, what is promised."""
    if key[0] == "classes":
        return key[-1] == "slo" or len(scenario.classes[str(key[1])].sites) == 1
    if key[0] == "pools":
        return key[-1] == "classes"
    return key[0] in ("models", "slo", "spare", "objective") or key == ("routing", "thresholds")


def _thresholds(scenario: Scenario, fleet: Fleet, prefill: Sequence[PoolPlan], data_dirs: Sequence[Path]) -> Floats:
    """Threshold of every class: the plan's; with one kind of pool no threshold decides anything."""
    kinds = {pool.prompts for pool in prefill}
    if kinds == {"short"}:
        return np.full(len(scenario.workloads), inf)
    if kinds == {"long"}:
        return np.full(len(scenario.workloads), -1.0)
    stated = {c.name: c.threshold_tokens for c in getattr(fleet, "classes", ())}
    found = []
    for name in scenario.workloads:
        threshold = fleet.threshold_tokens if stated.get(name) is None else stated[name]
        if threshold is None:  # the plan states how many are sent away; which follows from the lengths
            mix = requests_of(scenario, name, data_dirs)
            total, cached, weights = mix.atoms(4096)
            order = np.argsort(total - cached, kind="stable")
            kept = np.searchsorted(np.cumsum(weights[order]), 1.0 - fleet.offload_fraction)
            threshold = float((total - cached)[order][min(int(kept), order.size - 1)])
        found.append(threshold)
    return np.array(found, dtype=np.float64)


def world(
    plan: System,
    requests: Records,
    warm_up: int = 0,
    cool_down: int | None = None,
    closed: int | None = None,
    faults: Records | None = None,
    blocks: Blocks | None = None,
) -> World:
    """The records of a run, nothing happened yet.

    Args:
        plan: the system.
        requests: the requests, in order of arrival; changed by the run.
        warm_up: requests before the first that counts.
        cool_down: requests up to the last that counts; all if not given.
        closed: requests inside at any time, each that leaves letting the next one in; None: they arrive by themselves.
        faults: what happens to instances and links, in order of time; nothing if not given.
        blocks: blocks of every prompt, where the scenario has caches.
    """
    execution, n, sites = plan.scenario.execution, len(requests), list(plan.scenario.sites)
    has_fetches = execution.cache is not None
    links, fabrics = _links(plan)
    pools, routes, found = _pools(plan, sites), route_table(plan), np.zeros(0, dtype=UNIT)
    instances = _instances(plan, fabrics)
    decoders, decode_pools = _decoders(plan, sites)
    links["is_watched"][[k for k in routes["link"][routes["is_long"] == 1] if k != NONE]] = execution.scheduler.is_on
    if plan.converts:
        found = units(plan.prefill, plan.decode, pools)
        instances["unit"][found["instance"]] = decoders["unit"][found["decoder"]] = np.arange(len(found))
    n_instances, n_links, n_decoders = len(instances), len(links), len(decoders)
    sample_at = _sample_at(n, warm_up, n if cool_down is None else cool_down)
    curves = [c for t in plan.prefill_times for c in (t.service.curve, t.wire_bytes, t.handoff_bytes, t.held_bytes)]
    most_batch = max((t.batch_limit for t in plan.decode_times), default=1)
    actors = _actors(n_instances, n_decoders, n_links, len(found), len(plan.links))
    n_flows = max(n_instances, 1) * (execution.max_transfers + _prompts_in_a_pass(plan))
    return World(
        requests=requests,
        routes=routes,
        thresholds=plan.thresholds_tokens.copy(),
        **scheduler_fields(
            plan.scenario, plan.thresholds_tokens, pools, found, n_instances + n_decoders + 2 * n_links + 2
        ),
        pools=pools,
        instances=instances,
        queues=_filled(2 * max(n_instances, 1), QUEUE, EMPTY_QUEUE),
        decode_pools=decode_pools,
        decoders=decoders,
        decode_queues=_filled(len(decode_pools), QUEUE, EMPTY_QUEUE),
        step_s=_step_table(plan.decode_times),
        slots=np.zeros((n_decoders, most_batch), dtype=SLOT),
        links=links,
        flows=np.zeros((n_links, (n if has_fetches else min(n_flows, n)) + 1), dtype=FLOW),
        deliveries=_filled(n_links, QUEUE, EMPTY_QUEUE),
        curves=curve_table(curves),
        faults=np.zeros(0, dtype=FAULT_RECORD) if faults is None else faults,
        **cache_fields(plan.scenario, plan.links, blocks),
        **rebalance_fields(
            plan.scenario, plan.prefill, plan.links, blocks, n_instances + n_decoders + 2 * n_links + 4 + len(found)
        ),
        actors=actors,
        heap=np.zeros(len(actors), dtype=np.int32),
        clock=_clock(n_instances, n_decoders, n_links, closed, execution.max_retries),
        sample_at=sample_at,
        samples=np.zeros((len(sample_at), sample_columns(plan, n_links))),
    )


def sample_columns(plan: System, n_links: int) -> int:
    """Columns of a sample."""
    return 4 + 3 * len(plan.prefill) + 4 * len(plan.decode) + 5 + 2 * n_links


def _prompts_in_a_pass(plan: System) -> int:
    return plan.scenario.execution.chunk_tokens + 1 if plan.scenario.prefill_batching == "chunked" else 1


def _filled(n: int, dtype: np.dtype[Any], row: tuple[Any, ...]) -> Records:
    records = np.zeros(n, dtype=dtype)
    records[:] = row
    return records


def _sample_at(n: int, warm_up: int, cool_down: int) -> NDArray[np.int64]:
    """Arrivals to take samples at: evenly spread, the first that counts and the last among them."""
    return np.unique(
        np.concatenate([np.linspace(0, max(n - 1, 0), N_SAMPLES), [warm_up, cool_down - 1]]).astype(np.int64)
    )


def _pools(plan: System, sites: Sequence[str]) -> Records:
    scenario, pools = plan.scenario, np.zeros(len(plan.prefill), dtype=POOL)
    is_chunked, first = scenario.prefill_batching == "chunked", 0
    priority = scenario.execution.priority_tokens
    for p, (spec, times, n) in enumerate(zip(plan.prefill, plan.prefill_times, plan.prefill_slots, strict=True)):
        pool = pools[p]
        pool["first"], pool["n"] = first, n
        pool["n_idle"] = pool["n_up"] = spec.n_instances
        pool["site"] = sites.index(spec.site)
        pool["dispatch"], pool["is_chunked"] = DISPATCH[scenario.dispatch], is_chunked
        pool["chunk_tokens"] = scenario.execution.chunk_tokens
        pool["priority_tokens"] = -1.0 if priority is None else priority
        pool["max_transfers"], pool["n_layers"] = scenario.execution.max_transfers, times.n_layers
        for offset, curve in enumerate(POOL_CURVES):
            pool[curve] = len(POOL_CURVES) * p + offset
        pool["room_block_tokens"], pool["longest_tokens"] = BLOCK_TOKENS, inf
        if times.room is not None:
            pool["is_limited"], pool["room_bytes"] = 1, int(times.room.memory_bytes)
            pool["longest_tokens"] = times.room.longest_tokens
        pool["floor_s"] = times.service.floor_s
        pool["line"] = LONG_LINE if spec.prompts == "long" else SHORT_LINE
        first += n
    return pools


def _instances(plan: System, fabrics: Sequence[int]) -> Records:
    instances, i = np.zeros(sum(plan.prefill_slots), dtype=INSTANCE), 0
    instances["slowdown"] = 1.0
    instances["first"] = instances["last"] = instances["unit"] = NONE
    for p, (spec, n) in enumerate(zip(plan.prefill, plan.prefill_slots, strict=True)):
        for index in range(n):
            instances[i]["pool"], instances[i]["fabric"] = p, fabrics[i]
            instances[i]["is_up"] = UP if index < spec.n_instances else DOWN
            i += 1
    return instances


def _decoders(plan: System, sites: Sequence[str]) -> tuple[Records, Records]:
    decoders, pools = np.zeros(sum(plan.decode_slots), dtype=DECODER), np.zeros(len(plan.decode), dtype=DECODE_POOL)
    first, decoders["slowdown"] = 0, 1.0
    decoders["first"] = decoders["last"] = decoders["unit"] = NONE
    for p, (spec, times, n) in enumerate(zip(plan.decode, plan.decode_times, plan.decode_slots, strict=True)):
        decoders["pool"][first : first + n] = p
        decoders["is_up"][first : first + n] = np.where(np.arange(n) < spec.n_instances, UP, DOWN)
        memory = times.memory_bytes, times.state_bytes, times.bytes_per_token
        pools[p] = (first, n, sites.index(spec.site), times.batch_limit, *memory)
        first += n
    return decoders, pools


def _step_table(times: Sequence[DecodeTimes]) -> Floats:
    """Steps of every decode pool by batch; beyond a pool's limit nothing is ever read."""
    table = np.ones((len(times), max(t.batch_limit for t in times) + 1, 2))
    for p, t in enumerate(times):
        table[p, : t.batch_limit + 1] = t.step_s
    return table


def _links(plan: System) -> tuple[Records, list[int]]:
    """Links between sites, then one per prefill instance whose site states a fabric; and each instance's fabric."""
    rows, fabrics = [_link(plan, link) for link in plan.links], []
    for spec, n in zip(plan.prefill, plan.prefill_slots, strict=True):
        fabric = plan.scenario.sites[spec.site].fabric_gbps
        for _ in range(n):
            fabrics.append(NONE if fabric is None else len(rows))
            if fabric is not None:
                rows.append((bytes_per_s(fabric), inf, 1.0, 0.0, 0.0, 1.0, 1.0, 0))
    links, moves = np.zeros(len(rows), dtype=LINK), stated_rebalance(plan.scenario)
    links["move_fraction"] = 0.0 if moves is None else moves.link_fraction
    names = LINK.names or ()
    for k, row in enumerate(rows):
        for name, value in zip(names, row, strict=False):
            links[k][name] = value
    return links, fabrics


def _link(plan: System, link: LinkPlan) -> tuple[float, ...]:
    stated = plan.scenario.links[link.name]
    used = plan.scenario.execution.links.get(link.name, LinkExecution())
    limit = inf if used.connection_gbps is None else bytes_per_s(used.connection_gbps)
    return (
        bytes_per_s(link.capacity_gbps),
        limit,
        float(used.connections),
        stated.round_trip_ms / 2e3,
        bytes_per_s(used.background_gbps),
        float(used.background_connections),
        1.0,
        float(stated.destination_holds_prefix),
    )


def route_table(plan: System) -> Records:
    """Ways of every class: pools for its kind of prompt and decode pools they reach, in proportion to their rates."""
    rows = []
    prefill = [*((spec, p) for p, spec in enumerate(plan.prefill)), *plan.guests]
    for c, name in enumerate(plan.classes):
        ways = {
            part: [
                (p, d, *way)
                for spec, p in prefill
                for d in range(len(plan.decode))
                if _serves(plan, name, spec, d) and (way := _way(plan, (name, part), spec, d))
            ]
            for part in PARTS
        }
        if not any(ways.values()):
            what = "the plan has no way for it from prefill to decode"
            raise InputError(plan.scenario.problem(("classes", name), what, "the plan of this scenario"))
        for is_long, part in enumerate(PARTS):
            rows += _shared_out(c, is_long, ways[part] or ways[PARTS[1 - is_long]])
    return np.array(rows, dtype=ROUTE)


def _serves(plan: System, request_class: str, prefill: PoolPlan, d: int) -> bool:
    """Whether a prefill and a decode pool take a class, and decode is at its site where it states one."""
    scenario, decode = plan.scenario, plan.decode[d]
    stated = scenario.classes.get(request_class)
    takes = all(request_class in scenario.classes_of(scenario.pools[pool.name]) for pool in (prefill, decode))
    return takes and (stated is None or not stated.sites or decode.site in stated.sites)


def _way(plan: System, of: tuple[str, Part], spec: PoolPlan, d: int) -> tuple[int, float] | None:
    """Link from a prefill pool to a decode pool for a part of a class, and what speaks for this way; None: no way."""
    (request_class, part), decode = of, plan.decode[d]
    shares, ends = plan.pool_shares.get(request_class), (spec.site, decode.site)
    link = next((k for k, x in enumerate(plan.links) if (x.from_site, x.to_site) == ends and x.capacity_gbps > 0), NONE)
    if ends[0] != ends[1] and link == NONE:
        return None
    if shares is None:
        takes = spec.prompts or ("short" if link == NONE else "long")
        return (link, spec.offered_req_per_s * decode.offered_req_per_s) if takes == part else None
    weight = shares.get(part, {}).get(spec.name, 0.0) * shares.get("decode", {}).get(decode.name, 0.0)
    return (link, weight) if weight > 0 else None


def _shared_out(
    request_class: int, is_long: int, ways: Iterable[tuple[int, int, int, float]]
) -> list[tuple[int, int, int, int, int, float]]:
    ways = list(ways)
    weights = np.array([w for *_, w in ways])
    shares = np.cumsum(weights / weights.sum() if weights.sum() > 0 else np.full(len(ways), 1 / len(ways)))
    ends = [*shares[:-1].tolist(), 1.0]
    return [(request_class, is_long, p, k, d, end) for (p, d, k, _), end in zip(ways, ends, strict=True)]


def curve_table(curves: Sequence[Curve]) -> Floats:
    """Curves as one array of pieces: upper end, centre, four coefficients; short curves are filled up with their tail.

    >>> curve_table([Curve.affine(1.0, 2.0)]).shape
    (1, 2, 6)
    """
    most = max((len(c.coefficients) for c in curves), default=1)
    table = np.zeros((len(curves), most, 6))
    for i, curve in enumerate(curves):
        n = len(curve.coefficients)
        table[i, :n, 0] = [*curve.knots, inf]
        table[i, :n, 1] = [curve.knots[0], *curve.knots]
        table[i, :n, 2:] = curve.coefficients
        table[i, n:] = table[i, n - 1]
    return table


def _actors(n_instances: int, n_decoders: int, n_links: int, n_units: int, n_movers: int) -> Records:
    sizes = (n_instances, n_decoders, n_links, n_links, 1, 1, 1, 1, n_units, 1, n_movers)
    actors = np.zeros(sum(sizes), dtype=ACTOR)
    actors["place"] = NONE
    actors["index"] = np.concatenate([np.arange(n) for n in sizes])
    return actors


def _clock(n_instances: int, n_decoders: int, n_links: int, closed: int | None, max_retries: int) -> Records:
    clock = np.zeros(1, dtype=CLOCK)
    clock["first_decoder"] = n_instances
    clock["first_link"] = n_instances + n_decoders
    clock["first_delivery"] = n_instances + n_decoders + n_links
    clock["arrivals"] = n_instances + n_decoders + 2 * n_links
    clock["troubles"] = n_instances + n_decoders + 2 * n_links + 1
    clock["max_retries"] = max_retries
    clock["window_s"] = PEAK_WINDOW_S
    if closed is not None:
        clock["is_closed"], clock["n_due"] = 1, closed
    return clock
