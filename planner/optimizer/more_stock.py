"""No plan for want of accelerators or instances: how many would do, of one limit or of all that are short together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from planner.scenario import Scenario

Sizes = Callable[[Scenario], Mapping[str, int] | None]
"""Instances by pool of a plan of a scenario; None where there is none, or none was found in time."""


@dataclass(frozen=True)
class Limit:
    """What a scenario has of something, of which there may be too little."""

    key: tuple[str, str, str]
    """A site's accelerators of a kind, or the instances of a pool: table, name, and kind or field."""
    now: int
    most: int
    """More than this is of no use."""
    step: int
    """Accelerators of one instance; 1 where instances are counted."""

    def __str__(self) -> str:
        """As a scenario calls it."""
        table, name, rest = self.key
        return f"{table}.{name}.accelerators.{rest}" if table == "sites" else f"{table}.{name}.{rest}"

    def told(self, n: int) -> str:
        """As a way out."""
        return f"{self} = {n} (is {self.now})"

    def at(self, scenario: Scenario, n: int) -> Scenario:
        """The scenario with this much of it."""
        table, name, rest = self.key
        if table == "sites":
            stock = {**scenario.sites[name].accelerators, rest: n}
            sites = {**scenario.sites, name: scenario.sites[name].model_copy(update={"accelerators": stock})}
            return scenario.model_copy(update={"sites": sites})
        return _with_pool(scenario, name, {rest: n})

    def lifted(self, scenario: Scenario) -> Scenario:
        """The scenario with as much of it as could be of use."""
        table, name, rest = self.key
        if rest != "n_instances" or table == "sites":
            return self.at(scenario, self.most)
        free = {"n_instances": "free", "min_instances": self.now, "max_instances": self.most}
        return _with_pool(scenario, name, free)

    def used(self, scenario: Scenario, sizes: Mapping[str, int]) -> int:
        """What sizes take of it."""
        table, name, rest = self.key
        if table != "sites":
            return sizes.get(name, 0)
        kind = scenario.hardware_named(rest).name
        return sum(
            sizes.get(key, 0) * pool.accelerators_per_instance
            for key, pool in scenario.pools.items()
            if pool.site == name and scenario.hardware_of(pool).name == kind
        )


def _with_pool(scenario: Scenario, name: str, changes: Mapping[str, object]) -> Scenario:
    pools = {**scenario.pools, name: scenario.pools[name].model_copy(update=changes)}
    return scenario.model_copy(update={"pools": pools})


def stock_relaxations(scenario: Scenario, most: Mapping[str, int], plan: Sizes) -> Iterator[str]:
    """What more of every limit on accelerators or instances alone would do; else what of all together.

    Args:
        scenario: a question with a demand that has no plan.
        most: instances of every pool beyond which no more are of use.
        plan: plans a scenario.

    Returns:
        Ways out, each the least that was found to do with a plan of its own.
    """
    limits = [*_limits(scenario, most)]
    alone = [limit.told(n) for limit in limits if (n := _least(scenario, limit, plan)) is not None]
    yield from alone
    if not alone and (together := _together(scenario, limits, plan)):
        yield together


def together(scenario: Scenario, most: Mapping[str, int], plan: Sizes) -> Iterator[str]:
    """What more of several limits on accelerators or instances would do, where no single one is short."""
    if found := _together(scenario, [*_limits(scenario, most)], plan):
        yield found


def _limits(scenario: Scenario, most: Mapping[str, int]) -> Iterator[Limit]:
    for name, site in scenario.sites.items():
        for kind, n in site.accelerators.items():
            hardware = scenario.hardware_named(kind).name
            drawing = {
                key: pool.accelerators_per_instance
                for key, pool in scenario.pools.items()
                if pool.site == name and scenario.hardware_of(pool).name == hardware
            }
            enough = sum(most[key] * size for key, size in drawing.items())
            if enough > n:
                yield Limit(("sites", name, kind), n, enough, min(drawing.values()))
    for name, pool in scenario.pools.items():
        field = "max_instances" if pool.n_instances == "free" else "n_instances"
        limit = getattr(pool, field)
        if limit is not None and most[name] > limit:
            yield Limit(("pools", name, field), limit, most[name], 1)


def _least(scenario: Scenario, limit: Limit, plan: Sizes) -> int | None:
    """The least of one limit that does, in whole instances; None where no more of it does."""
    found = plan(limit.lifted(scenario))
    if found is None:
        return None
    short, enough = limit.now, limit.used(scenario, found)
    if enough <= short or plan(limit.at(scenario, enough)) is None:
        return None
    while enough - short > limit.step:
        middle = short + limit.step * ((enough - short) // (2 * limit.step))
        middle = max(middle, short + limit.step)
        if middle >= enough:
            break
        short, enough = (short, middle) if plan(limit.at(scenario, middle)) is not None else (middle, enough)
    return enough


def _together(scenario: Scenario, limits: list[Limit], plan: Sizes) -> str:
    """What of all limits together a fleet without them has; empty where even that does not help."""
    lifted = scenario
    for limit in limits:
        lifted = limit.lifted(lifted)
    found = plan(lifted) if len(limits) > 1 else None
    if found is None:
        return ""
    needed = [(limit, n) for limit in limits if (n := limit.used(scenario, found)) > limit.now]
    enough = scenario
    for limit, n in needed:
        enough = limit.at(enough, n)
    return " with ".join(limit.told(n) for limit, n in needed) if plan(enough) is not None else ""
