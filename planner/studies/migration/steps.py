"""The order of steps from one fleet to another: every fleet on the way looked at, and what is missing where none is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from planner.errors import UndecidedError
from planner.results.current import BrokenStep, Order, Step
from planner.studies.migration.order import Sizes, Transition, furthest_additions, order_of
from planner.studies.migration.served_fleet import Fleets, Ports, accelerators_taken, links_gbps


@dataclass(frozen=True)
class Migration:
    """From one fleet to another."""

    fleets: Fleets
    begin: Sizes
    end: Sizes
    begin_ports: Ports
    end_ports: Ports

    @property
    def ports(self) -> Ports:
        """While pools change: links are widened before, and made narrower after."""
        return tuple(tuple(map(max, one, other)) for one, other in zip(self.begin_ports, self.end_ports, strict=True))

    def least_req_per_s(self) -> float:
        """Rate that every fleet on the way is to serve: what is asked for, and no more than both ends do [1/s]."""
        ends = (self.fleets.of(self.begin, self.begin_ports), self.fleets.of(self.end, self.end_ports))
        most = min(served.most_req_per_s for served in ends)
        demand = self.fleets.demand_req_per_s
        return most if demand is None else min(demand, most)

    def stock(self) -> tuple[int, ...]:
        """Accelerators of every inventory, and what stands where that is more."""
        problem = self.fleets.problem
        stated = (inventory.n_accelerators for inventory in problem.inventories)
        return tuple(map(max, stated, accelerators_taken(problem, self.begin)))

    def partial_transition(self, stock: Sequence[int], least_req_per_s: float) -> Transition:
        """The way with so many accelerators in every inventory."""
        fleets, ports = self.fleets, self.ports

        def fits(sizes: Sizes) -> bool:
            return all(a <= b for a, b in zip(accelerators_taken(fleets.problem, sizes), stock, strict=True))

        return Transition(
            self.begin,
            self.end,
            fits,
            lambda sizes: fleets.does(fleets.of(sizes, ports).most_req_per_s, least_req_per_s),
        )


def order(passage: Migration) -> Order:
    """Steps in which nothing that is asked for and served is lost; or what breaks every order, and what bridges it."""
    least = 0.0
    try:
        least = passage.least_req_per_s()
        way = passage.partial_transition(passage.stock(), least)
        path = order_of(way)
        if path is not None:
            return Order(steps=tuple(_steps(passage, path)), exists=True, least_req_per_s=least)
        bridged = _bridged(passage, least)
        return Order(
            steps=tuple(_steps(passage, bridged)),
            exists=False,
            least_req_per_s=least,
            broken=_broken(passage, way),
            spare_instances=_spare(passage, bridged),
        )
    except UndecidedError:
        return Order(steps=(), exists=None, least_req_per_s=least)


def _bridged(passage: Migration, least_req_per_s: float) -> list[Sizes]:
    """The order with the fewest instances beyond the stock."""
    low, high = 0, max(_beyond(passage), default=0)
    found = order_of(passage.partial_transition(_lent(passage, high), least_req_per_s))
    while high - low > 1:
        middle = (low + high) // 2
        path = order_of(passage.partial_transition(_lent(passage, middle), least_req_per_s))
        low, high, found = (low, middle, path) if path is not None else (middle, high, found)
    if found is None:
        raise UndecidedError("a fleet with all additions in place does not serve what its parts do")
    return found


def _beyond(passage: Migration) -> list[int]:
    """Instances of every inventory that all additions at once take beyond its stock."""
    together = accelerators_taken(passage.fleets.problem, tuple(map(max, passage.begin, passage.end)))
    return [
        max(ceil((taken - stock) / unit), 0)
        for taken, stock, unit in zip(together, passage.stock(), _units(passage), strict=True)
    ]


def _units(passage: Migration) -> list[int]:
    """Accelerators of the smallest instance that is added of every inventory."""
    problem = passage.fleets.problem
    grown = [m > n for n, m in zip(passage.begin, passage.end, strict=True)]
    return [
        min((problem.pools[i].n_accelerators for i in stock.pools if grown[i]), default=1)
        for stock in problem.inventories
    ]


def _lent(passage: Migration, n_instances: int) -> list[int]:
    """The stock with so many instances more in every inventory that lacks any."""
    each = zip(passage.stock(), _beyond(passage), _units(passage), strict=True)
    return [stock + min(n_instances, beyond) * unit for stock, beyond, unit in each]


def _spare(passage: Migration, path: Sequence[Sizes]) -> dict[str, int]:
    """Instances beyond the stock that a path takes at once, of the pools that it adds to."""
    problem, found = passage.fleets.problem, dict[str, int]()
    for v, (stock, inventory) in enumerate(zip(passage.stock(), problem.inventories, strict=True)):
        most = max(accelerators_taken(problem, sizes)[v] for sizes in path) - stock
        grown = [i for i in inventory.pools if passage.end[i] > passage.begin[i]]
        if most > 0:
            pool = min(grown, key=lambda i: problem.pools[i].n_accelerators)
            found[problem.pools[pool].name] = ceil(most / problem.pools[pool].n_accelerators)
    return found


def _broken(passage: Migration, way: Transition) -> BrokenStep:
    """The addition that there is no room for, and the removal that comes nearest to making some."""
    problem, fleets = passage.fleets.problem, passage.fleets
    stuck = furthest_additions(way)
    pool = next(i for i, (n, m) in enumerate(zip(stuck, passage.end, strict=True)) if n < m)
    spec, more = problem.pools[pool], _changed(stuck, pool, 1)
    over = zip(accelerators_taken(problem, more), passage.stock(), problem.inventories, strict=True)
    lacks, inventory = next((taken - stock, v) for taken, stock, v in over if pool in v.pools and taken > stock)
    removals = [i for i in inventory.pools if stuck[i] > passage.end[i]]
    left = {i: fleets.of(_changed(stuck, i, -1), passage.ports).most_req_per_s for i in removals}
    best = max(left, key=lambda i: left[i], default=None)
    return BrokenStep(
        changes=_pool_key(spec.name),
        lacks_accelerators=lacks,
        hardware=inventory.hardware,
        site=inventory.site,
        removal=None if best is None else problem.pools[best].name,
        serves_req_per_s=None if best is None else left[best],
    )


def _changed(sizes: Sizes, pool: int, by: int) -> Sizes:
    return (*sizes[:pool], sizes[pool] + by, *sizes[pool + 1 :])


def _pool_key(name: str) -> str:
    return f"pools.{name}.n_instances"


def _steps(passage: Migration, path: Sequence[Sizes]) -> Iterator[Step]:
    """Links that grow, then the pools in their order, then links that shrink."""
    yield from _link_steps(passage, passage.begin, passage.begin_ports, passage.ports)
    for before, after in pairwise(path):
        (i,) = (i for i, (n, m) in enumerate(zip(before, after, strict=True)) if n != m)
        key = _pool_key(passage.fleets.problem.pools[i].name)
        yield _step(passage, key, (before[i], after[i]), after, passage.ports)
    yield from _link_steps(passage, passage.end, passage.ports, passage.end_ports)


def _link_steps(passage: Migration, sizes: Sizes, before: Ports, after: Ports) -> Iterator[Step]:
    now, problem = list(before), passage.fleets.problem
    for j, link in enumerate(problem.links):
        if before[j] != after[j]:
            now[j] = after[j]
            gbps = link.gbps(before[j]), link.gbps(after[j])
            yield _step(passage, f"links.{link.name}.capacity_gbps", gbps, sizes, tuple(now))


def _step(passage: Migration, key: str, change: tuple[float, float], sizes: Sizes, ports: Ports) -> Step:
    fleets = passage.fleets
    served = fleets.of(sizes, ports)
    fleet = fleets.rented(sizes, ports).fleet(fleets.demand_req_per_s)
    return Step(
        changes=key,
        before=change[0],
        after=change[1],
        n_instances=named(fleets, sizes),
        links_gbps=links_gbps(fleets.problem, ports),
        threshold_tokens=None if fleet is None else fleet.threshold_tokens,
        serves_req_per_s=served.most_req_per_s,
        holds=fleets.does(served.most_req_per_s),
        usd_per_hour=None if fleet is None else fleet.cost.usd_per_hour,
    )


def named(fleets: Fleets, sizes: Sizes) -> dict[str, int]:
    """Instances by pool; of pools with several layouts those that there are."""
    pools, families = fleets.problem.pools, fleets.problem.families
    each = zip(pools, sizes, strict=True)
    return {pool.name: n for pool, n in each if n or pool.key not in families}
