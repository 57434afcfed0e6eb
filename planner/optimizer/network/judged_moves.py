"""Plans with colocated pools brought within their promises, and improved, by the model that judges them.

Programs count the batches of colocated pools by one facet and one factor, and know nothing of their waits. So a plan is
sized once more at its own flows: sizes and ways of its colocated pools where cost is the objective, else its rate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, inf, log

import numpy as np

from planner.optimizer.network.cost import plan_cost
from planner.optimizer.network.period_operation import (
    PeriodOperation,
    busy_instances,
    late_fractions,
    link_gbps,
    period_waits,
    slowness,
)
from planner.optimizer.problem import Problem
from planner.optimizer.settings import SETTINGS
from planner.optimizer.sized import is_within_limits
from planner.optimizer.solution import Solution
from planner.queueing.ttft import Ttft
from planner.roots import last_kept
from planner.ties import first_largest
from planner.work_clock import work_s

TINY = 1e-9
LEAST_LATE = 1e-15
"""Of what may be late; less counts as none."""
SLOW, OVERFULL = 1e3, 1e6
"""What counts for more than late requests: tokens that are too slow, and pools and links that are too full."""
LEAST_MULTIPLE = 1e-2
"""Part of a plan's rate below which no promise is kept."""


def improved(problem: Problem, solution: Solution, below: Solution | None, deadline: float) -> Solution | None:
    """A plan within its promises at the flows of another one.

    Args:
        problem: the resolved scenario; some pool is colocated.
        below: the best plan so far; None: there is none.
        deadline: `work_s()` time to stop at.

    Returns:
        The plan at the least bill, or at the highest rate; None where there is none that is better than the best.
    """
    if problem.is_min_cost:
        return None if problem.has_sizes_by_period else _resized(problem, solution, below, deadline)
    return _at_kept_scale(problem, solution, below)


def excess(problem: Problem, operations: Sequence[PeriodOperation], ports: Sequence[Sequence[int]]) -> float:
    """Distance of a plan from its promises: at most 0 where it keeps them.

    Equation:
        logarithm of what is late over what may be, of the class and period where it is most; beyond any of these where
        tokens are too slow, and beyond those where a pool or link is asked for more than it has, by how much

    Args:
        problem: the resolved scenario.
        operations: what every period does.
        ports: ports of every tier of every link [count].
    """
    busy = {one.period: busy_instances(problem, one) for one in operations}
    overload = max(_overload(problem, one, busy[one.period], ports) for one in operations)
    if overload > 1 + TINY:
        return OVERFULL * overload
    most = LEAST_LATE
    if not any(spec.ttft_s is not None for spec in problem.classes):
        return log(most)
    for one in sorted(operations, key=lambda one: -max(busy[one.period])):
        waits = period_waits(problem, one, ports)
        for c, late in late_fractions(waits).items():
            most = max(most, late / (problem.classes[c].late_allowed + TINY))
        slow = max(slowness(waits).values(), default=0.0)
        if slow > 1:
            return SLOW * slow
        if most > 1:
            break
    return log(most)


def _overload(problem: Problem, one: PeriodOperation, busy: Sequence[float], ports: Sequence[Sequence[int]]) -> float:
    """Greatest part of a pool or link that a period asks for [fraction]."""
    pools = zip(busy, one.n_instances, strict=True)
    links = zip(link_gbps(problem, one), problem.gbps(ports), strict=True)
    return max(used / max(has, TINY) if used > TINY else 0.0 for used, has in (*pools, *links))


def _after_losses(problem: Problem, operations: Sequence[PeriodOperation]) -> Iterator[tuple[PeriodOperation, ...]]:
    """The plan, and the same flows with an instance of each pool in use lost, where that is to be survived."""
    yield tuple(operations)
    for i in range(len(problem.pools)) if "instance" in problem.scenario.spare.survive else ():
        if any(one.n_instances[i] for one in operations):
            yield tuple(_with_size(one, i, max(one.n_instances[i] - 1, 0)) for one in operations)


def _with_size(one: PeriodOperation, pool: int, n: int) -> PeriodOperation:
    return replace(one, n_instances=tuple(n if i == pool else m for i, m in enumerate(one.n_instances)))


def _is_kept(problem: Problem, solution: Solution) -> bool:
    return _worst(problem, solution) <= 0


def _at_kept_scale(problem: Problem, solution: Solution, below: Solution | None) -> Solution | None:
    """The flows at the highest rate at which every promise is kept, with the threshold that leaves most."""
    found = _kept_scale(problem, solution, 0.0 if below is None else below.scale)
    for factor in SETTINGS.threshold_factors if found is not None and _has_one_threshold(problem, found) else ():
        for _ in range(SETTINGS.most_in_row):
            moved = _with_threshold(found, factor) if found else None
            better = None if moved is None or found is None else _kept_scale(problem, moved, found.scale)
            if better is None:
                break
            found = better
    return found


def _has_one_threshold(problem: Problem, solution: Solution) -> bool:
    """True if one threshold divides the prompts of one class between batches and a prefill pool, and none is stated."""
    flows = [flow for one in solution.operations for flow in one.flows]
    is_free = (
        problem.scenario.routing.threshold_tokens == "free" and len(problem.streams) == len(solution.operations) == 1
    )
    return is_free and len({f.threshold_tokens for f in flows}) == 1 and len({f.part for f in flows}) > 1


def _with_threshold(solution: Solution, factor: float) -> Solution:
    """The plan with a multiple of its threshold."""
    operations = (
        replace(one, flows=tuple(f._replace(threshold_tokens=factor * f.threshold_tokens) for f in one.flows))
        for one in solution.operations
    )
    return replace(solution, operations=tuple(operations))


def _kept_scale(problem: Problem, solution: Solution, above: float) -> Solution | None:
    """The plan at the highest scale of the demand at which it keeps every promise; None where that is not above one."""

    def late(multiple: float) -> float:
        scaled = solution.at(multiple).operations
        return max(excess(problem, ops, solution.ports) for ops in _after_losses(problem, scaled))

    room = _room(problem, solution)
    least = max(above / max(solution.scale, TINY) * (1 + SETTINGS.kept_scale), LEAST_MULTIPLE)
    if room == inf or least >= room or late(least) > 0:
        return None
    at = solution.at(last_kept(late, least, room * (1 - TINY), SETTINGS.kept_scale)[0])
    return replace(at, objective=at.scale)


def _room(problem: Problem, solution: Solution) -> float:
    """Multiple of the flows at which a pool or link is full, after any loss of an instance."""
    room, gbps = inf, problem.gbps(solution.ports)
    for ops in _after_losses(problem, solution.operations):
        for one in ops:
            pools = zip(busy_instances(problem, one), one.n_instances, strict=True)
            used = (*pools, *zip(link_gbps(problem, one), gbps, strict=True))
            room = min([room, *(has / busy for busy, has in used if busy > TINY)])
    return min(room, 1.0) if set(problem.scenario.spare.survive) - {"instance"} else room


def kept_ttft_s(problem: Problem, solution: Solution) -> float:
    """TTFT that a plan keeps for every class with a promise, each at its own percentile [s]; inf where none is kept.

    Args:
        problem: the resolved scenario; classes have promises on TTFT.
    """
    longest = 0.0
    for one in solution.operations:
        waits = period_waits(problem, one, solution.ports)
        is_full = _overload(problem, one, busy_instances(problem, one), solution.ports) > 1 + TINY
        if is_full or max(slowness(waits).values(), default=0.0) > 1:
            return inf
        for c, spec in enumerate(problem.classes):
            streams = [q for q, stream in enumerate(problem.streams) if stream.request_class == c]
            if spec.ttft_s is None or sum(one.rate_of(q) for q in streams) <= TINY:
                continue
            paths = waits.paths(streams)
            if paths is None:
                return inf
            longest = max(longest, Ttft.of(paths).quantile_s(1 - spec.late_allowed))
    return longest


def soonest(problem: Problem, solution: Solution) -> tuple[float, Solution]:
    """The least TTFT at the flows of a plan, with as many instances of its colocated pools as limits allow [s].

    Args:
        problem: the resolved scenario; classes have promises on TTFT.
    """
    best, best_s = solution, kept_ttft_s(problem, solution)
    used = [i for i, pool in enumerate(problem.pools) if pool.batching and solution.operations[0].n_instances[i]]
    for i in used if not problem.has_sizes_by_period else ():
        for v in _exchangeable(problem, i):
            at = _in_use(problem, best, i)
            most = _largest(problem, best, (at, v), (1, problem.pools[v].max_instances))
            ttft_s = inf if most is None else kept_ttft_s(problem, most)
            if most is not None and ttft_s < best_s:
                best, best_s = most, ttft_s
    return best_s, best


def _largest(problem: Problem, solution: Solution, ways: tuple[int, int], sizes: tuple[int, int]) -> Solution | None:
    """The plan with the most instances within limits of the way to run a pool that takes over from another; or None.

    Valid: limits on sizes are upper ones from the least size on.
    """
    (pool, way), (low, high) = ways, sizes
    found = _of_size(problem, solution, pool, way, low) if low <= high else None
    while found is not None and low < high:
        middle = (low + high + 1) // 2
        larger = _of_size(problem, solution, pool, way, middle)
        found, low, high = (found, low, middle - 1) if larger is None else (larger, middle, high)
    return found


def _resized(problem: Problem, begun: Solution, below: Solution | None, deadline: float) -> Solution | None:
    """The flows with other sizes and ways of colocated pools, and fewer instances of others, at the least bill."""
    most = inf if below is None else below.objective
    best = _grown(problem, replace(begun, objective=plan_cost(problem, begun.operations, begun.ports)), most)
    if best is None:
        return None
    used = [i for i, pool in enumerate(problem.pools) if _has_options(problem, i) and best.operations[0].n_instances[i]]
    for i in used:
        for v in _exchangeable(problem, i):
            if work_s() < deadline:
                best = _fewest(problem, best, _in_use(problem, best, i), v, min(best.objective, most)) or best
    for i in range(len(problem.pools)):
        fewer: Solution | None = best
        while not _has_options(problem, i) and fewer is not None and fewer.operations[0].n_instances[i] > 0:
            best, fewer = fewer, _of_size(problem, fewer, i, i, fewer.operations[0].n_instances[i] - 1)
            if fewer is not None and not _is_kept(problem, fewer):
                fewer = None
        best = fewer or best
    return best if best.objective < most else None


def _has_options(problem: Problem, pool: int) -> bool:
    """True if a pool is one of several ways to run its instances, or has batches with prompts."""
    spec = problem.pools[pool]
    return spec.batching is not None or spec.key in problem.families


def _exchangeable(problem: Problem, pool: int) -> list[int]:
    """Pools that can take over all that a pool does, itself among them: at its site, for the same requests."""
    mine = problem.pools[pool]
    longest = max((problem.classes[c].mix.longest_tokens() for c in mine.classes), default=0.0)
    needed = min(mine.rates.longest_tokens, longest)
    return [
        i
        for i, one in enumerate(problem.pools)
        if (one.site, one.parts, one.role, one.classes) == (mine.site, mine.parts, mine.role, mine.classes)
        and one.rates.longest_tokens >= needed
    ]


def _in_use(problem: Problem, solution: Solution, pool: int) -> int:
    """The first pool in use that can take over what a pool does."""
    return next((i for i in _exchangeable(problem, pool) if solution.operations[0].n_instances[i]), pool)


def _grown(problem: Problem, solution: Solution, most: float) -> Solution | None:
    """The plan with more instances and ports until promises are kept; None where limits or a bill end that first.

    At each step there is more of that which takes most off the excess for its price; where nothing does, as all
    requests are late, more of the busiest pool.
    """
    found, over = solution, _worst(problem, solution)
    while over > 0:
        larger = [one for one in _larger(problem, found) if one.objective < most]
        if not larger:
            return None
        left = [_worst(problem, one) for one in larger]
        gains = [
            (over - now) / max(one.objective - found.objective, TINY) for one, now in zip(larger, left, strict=True)
        ]
        best = first_largest(np.array(gains))
        if gains[best] <= 0:
            best = first_largest(-np.array([_busiest(problem, one) for one in larger]))
        found, over = larger[best], left[best]
    return found if found.objective < most else None


def _busiest(problem: Problem, solution: Solution) -> float:
    """Greatest part of a pool or link that any period asks for [fraction]."""
    return max(_overload(problem, one, busy_instances(problem, one), solution.ports) for one in solution.operations)


def _worst(problem: Problem, solution: Solution) -> float:
    return max(excess(problem, ops, solution.ports) for ops in _after_losses(problem, solution.operations))


def _larger(problem: Problem, solution: Solution) -> Iterator[Solution]:
    """The plan with a few more instances of a pool that it uses, or one more port of a link."""
    for i, n in enumerate(solution.operations[0].n_instances):
        more = _of_size(problem, solution, i, i, max(n + 1, ceil(SETTINGS.batch_growth * n))) if n else None
        if more is not None:
            yield more
    for j, (link, own) in enumerate(zip(problem.links, solution.ports, strict=True)):
        for k, tier in enumerate(link.tiers) if any(own) else ():
            if own[k] < tier.max_ports:
                ports = tuple(m + (k == t) for t, m in enumerate(own))
                one = replace(solution, ports=(*solution.ports[:j], ports, *solution.ports[j + 1 :]))
                yield replace(one, objective=plan_cost(problem, one.operations, one.ports))


def _fewest(problem: Problem, solution: Solution, pool: int, way: int, most: float) -> Solution | None:
    """The plan with the fewest instances of a way to run a pool that keep promises, for less than a bill; None without.

    Valid: more instances keep promises, too.
    """
    moved = _moved(solution, pool, way, 1)
    failed = ceil(max(busy_instances(problem, one)[way] for one in moved.operations) - TINY) - 1
    least = _of_size(problem, solution, pool, way, failed + 1)
    each = _unit(problem, way)
    if least is None or least.objective >= most or each <= 0:
        return None
    top = min(failed + ceil((most - least.objective) / each), problem.pools[way].max_instances)
    enough = _largest(problem, solution, (pool, way), (failed + 1, top))
    if enough is None or not _is_kept(problem, enough):
        return None
    top = enough.operations[0].n_instances[way]
    while top - failed > 1:
        middle = (failed + top) // 2
        one = _of_size(problem, solution, pool, way, middle)
        if one is not None and _is_kept(problem, one):
            enough, top = one, middle
        else:
            failed = middle
    return enough if enough.objective < most else None


def _unit(problem: Problem, pool: int) -> float:
    """Contribution of an instance to the objective."""
    spec = problem.pools[pool]
    return (spec.usd_per_hour or 0.0) if problem.is_priced else float(spec.n_accelerators)


def _moved(solution: Solution, pool: int, way: int, n: int) -> Solution:
    """The plan with what a pool does done by so many instances of a way to run it."""
    operations = []
    for one in solution.operations:
        flows = tuple(f._replace(arc=f.arc._replace(pool=way)) if f.arc.pool == pool else f for f in one.flows)
        decodings = tuple(d._replace(pool=way) if d.pool == pool else d for d in one.decodings)
        moved = _with_size(_with_size(one, pool, 0), way, n)
        operations.append(replace(moved, flows=flows, decodings=decodings))
    return replace(solution, operations=tuple(operations))


def _of_size(problem: Problem, solution: Solution, pool: int, way: int, n: int) -> Solution | None:
    """The plan with so many instances of a way to run a pool, and its bill; None where limits do not allow it."""
    found, (low, high) = _moved(solution, pool, way, n), _limits(problem, way)
    is_one_family = problem.pools[pool].key == problem.pools[way].key
    if not is_one_family and _limits(problem, pool)[0] > 0:
        return None
    if not low <= n <= high or not is_within_limits(problem, found.operations[0].n_instances):
        return None
    usd, budget = plan_cost(problem, found.operations, found.ports), problem.scenario.budget_usd_per_hour
    is_paid = budget is None or not problem.is_priced or usd <= budget * (1 + TINY)
    return replace(found, objective=usd) if is_paid else None


def _limits(problem: Problem, pool: int) -> tuple[int, int]:
    """Fewest and most instances of a pool, or of all ways to run it where it is one of several."""
    spec = problem.pools[pool]
    stated = problem.scenario.pools.get(spec.key)
    if stated is None or spec.key not in problem.families:
        return spec.min_instances, spec.max_instances
    fixed = None if stated.n_instances == "free" else stated.n_instances
    low, high = (stated.min_instances, stated.max_instances or spec.max_instances) if fixed is None else (fixed, fixed)
    return max(spec.min_instances, low), min(spec.max_instances, high)
