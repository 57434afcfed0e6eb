"""Limits of a scenario that may be in the way of a plan: each a key, and the values it may have instead, in order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor, gcd, log10
from shlex import quote
from typing import Any, Literal

from pydantic import BaseModel

from planner.optimizer.problem import LARGEST_POOL
from planner.results import Fleet, LinkPlan
from planner.scenario import Pool, Scenario, Slo
from planner.schema import dotted
from planner.toml_lines import KeyPath

MANY = LARGEST_POOL - 1
"""Instances that hardly limit a pool; still a limit, as a pool without one is refused where no demand limits it."""
DEAREST = 1_000.0
"""Multiple of a budget up to which a larger one is looked for."""
LONGEST = 64.0
"""Multiple of a promised TTFT or time per token up to which a longer one is looked for."""
LEAST_PERCENTILE = 50.0
"""Percentile of a promised TTFT down to which a lower one is looked for."""
WIDEST = 1_000.0
"""Multiple of a bandwidth up to which a larger one is looked for."""
MOST_PORTS = 10_000
"""Ports of a size that a scenario may state."""
LEAST = 1e-3
"""Part of a demand down to which a lower one is looked for."""
DIGITS = 4
CENTS = 100


@dataclass(frozen=True)
class Scale:
    """The values that a key may be given, as numbers that are printed: one after another, upwards."""

    value: Callable[[int], float]
    above: Callable[[float], int]
    """Number of the least value that is not below another."""
    below: Callable[[float], int]
    """Number of the greatest value that is not above another."""


def whole(step: int) -> Scale:
    """Multiples of a step.

    >>> whole(8).value(whole(8).above(17))
    24
    """
    return Scale(lambda i: i * step, lambda x: ceil(x / step - 1e-9), lambda x: floor(x / step + 1e-9))


def significant() -> Scale:
    """Numbers of four digits.

    >>> scale = significant()
    >>> [scale.value(scale.above(x)) for x in (2.71828, 9999.5, 0.1)]
    [2.719, 10000.0, 0.1]
    >>> scale.value(scale.below(2.71828))
    2.718
    """
    first, span = 10 ** (DIGITS - 1), 9 * 10 ** (DIGITS - 1)

    def number_of(x: float, how: Callable[[float], int]) -> int:
        exponent = floor(log10(x))
        digits: float = round(x / 10.0**exponent * first, 6)
        return int(exponent * span + how(digits) - first)

    return Scale(
        lambda i: float(f"{i % span + first}e{i // span - DIGITS + 1}"),
        lambda x: number_of(x, ceil),
        lambda x: number_of(x, floor),
    )


def cents() -> Scale:
    """Amounts of money."""
    return Scale(lambda i: i / CENTS, lambda x: ceil(CENTS * x - 1e-6), lambda x: floor(CENTS * x + 1e-6))


@dataclass(frozen=True, eq=False)
class Change:
    """A key of a scenario with the values it may have instead of what is stated, the nearest first."""

    key: KeyPath
    sign: Literal["=", "at least", "at most"]
    stated: float
    scale: Scale
    is_more: bool
    """Whether it is more of it that would help."""
    farthest: float
    """A value beyond which none is of use."""
    lifted: Callable[[Scenario], Scenario]
    """A scenario in which it is no limit,"""
    used: Callable[[Fleet], float]
    """and what a fleet for that takes of it."""

    @property
    def n_values(self) -> int:
        """Values up to the farthest."""
        return abs(self._number(self.farthest) - self._first)

    def value(self, i: int) -> float:
        """The i-th value; number 0 is what is stated, or lies just beside it where that is none of them."""
        return self.scale.value(self._first + (i if self.is_more else -i))

    def nearest(self, value: float) -> int:
        """The first of the values that is at least as good as another; 1 where what is stated is as good."""
        better = max(value, self.stated) if self.is_more else min(value, self.stated)
        return max(abs(self._number(better) - self._first), 1)

    def n_within(self, part: float) -> int:
        """How many values lie within a part of what is stated, at least 1."""
        return self.nearest(self.stated * (1 + part if self.is_more else 1 - part))

    def at(self, scenario: Scenario, i: int) -> Scenario:
        """A scenario with the i-th value."""
        changed: Scenario = with_value(scenario, self.key, self.value(i))
        return changed

    def told(self, i: int) -> str:
        """As a way out."""
        return f"{dotted(self.key)} {self.sign} {self.value(i):.12g} (is {self.stated:.12g})"

    def option(self, i: int) -> str:
        """As an option of a command line."""
        return set_option(self.key, f"{self.value(i):.12g}")

    @property
    def _first(self) -> int:
        return self.scale.below(self.stated) if self.is_more else self.scale.above(self.stated)

    def _number(self, value: float) -> int:
        return self.scale.above(value) if self.is_more else self.scale.below(value)


def with_value(record: Any, key: KeyPath, value: object) -> Any:
    """A record or table with another value at a key; not checked again."""
    head, rest = key[0], key[1:]
    if isinstance(record, BaseModel):
        name = str(head)
        return record.model_copy(update={name: with_value(getattr(record, name), rest, value) if rest else value})
    if isinstance(head, int):
        return (*record[:head], with_value(record[head], rest, value) if rest else value, *record[head + 1 :])
    return {**record, head: with_value(record[head], rest, value) if rest else value}


def set_option(key: KeyPath, value: str) -> str:
    """An option that sets a key of a scenario, as it is typed.

    >>> set_option(("links", "wan", "tiers", 0, "max_ports"), "4")
    "--set 'links.wan.tiers[0].max_ports=4'"
    """
    return f"--set {quote(f'{dotted(key)}={value}')}"


def less_demand(scenario: Scenario) -> Iterator[Change]:
    """A lower demand, where one is to be served."""
    demand = scenario.demand_req_per_s
    if demand is not None and scenario.objective != "max-throughput":
        free = _fastest
        share, least = demand / mean_req_per_s(scenario), LEAST * demand
        key, used = ("demand_req_per_s",), lambda fleet: max(share * fleet.throughput_req_per_s, least)
        yield _change(scenario, key, "at most", significant(), least, free, used)


def _fastest(scenario: Scenario) -> Scenario:
    """The highest rate by capacity alone; where nothing limits a pool, with more instances than are of use."""
    pools = {
        name: pool.model_copy(update={"max_instances": MANY}) if pool.max_instances is None else pool
        for name, pool in scenario.pools.items()
    }
    classes = {name: part.model_copy(update={"slo": _untimed(part.slo)}) for name, part in scenario.classes.items()}
    changes = {"objective": "max-throughput", "pools": pools, "classes": classes, "slo": _untimed(scenario.slo)}
    return scenario.model_copy(update=changes)


def _untimed(slo: Slo | None) -> Slo | None:
    """A promise without what it says of TTFT."""
    return None if slo is None else slo.model_copy(update={"ttft_s": None})


def mean_req_per_s(scenario: Scenario) -> float:
    """Demand over all classes and the whole time [req/s]."""
    spans: list[tuple[str | None, float]] = [(name, period.hours) for name, period in scenario.periods.items()]
    spans = spans or [(None, 1.0)]
    served = sum(hours * sum(scenario.demand_of(c, None, p) for c in scenario.workloads) for p, hours in spans)
    return served / sum(hours for _, hours in spans)


def more_budget(scenario: Scenario) -> Iterator[Change]:
    """A larger budget."""
    if scenario.budget_usd_per_hour is not None:
        key: KeyPath = ("budget_usd_per_hour",)
        most = DEAREST * scenario.budget_usd_per_hour
        yield _change(scenario, key, "at least", cents(), most, _with(key, most), _bill)


def _bill(fleet: Fleet) -> float:
    return fleet.cost.usd_per_hour or 0.0


def laxer_promises(scenario: Scenario) -> Iterator[Change]:
    """A longer TTFT, fewer requests that keep it, or a longer time per token, of every promise of its own."""
    keys: list[KeyPath] = [("slo",), *(("classes", name, "slo") for name in scenario.classes)]
    for key in keys:
        slo = scenario.slo if len(key) == 1 else scenario.classes[str(key[1])].slo
        for field in ("ttft_s", "tpot_ms"):
            if slo is not None and (limit := getattr(slo, field)) is not None:
                at, most = (*key, field), LONGEST * limit
                yield _change(scenario, at, "at least", significant(), most, _with(at, most), _always(most))
        if slo is not None and slo.ttft_s is not None and slo.ttft_percentile > LEAST_PERCENTILE:
            at, least = (*key, "ttft_percentile"), LEAST_PERCENTILE
            yield _change(scenario, at, "at most", whole(1), least, _with(at, least), _always(least))


def wider_links(scenario: Scenario) -> Iterator[Change]:
    """More bandwidth of every link, and where its ports are chosen, larger ones or more of them."""
    for name, link in scenario.links.items():
        if link.capacity_gbps != "free" and not link.tiers:  # else its ports may be chosen, which is left to say
            yield _wider(scenario, ("links", name), name, link.capacity_gbps)
        for i, tier in enumerate(link.tiers if link.capacity_gbps == "free" else ()):
            ports: KeyPath = ("links", name, "tiers", i, "max_ports")
            if tier.max_ports < MOST_PORTS:
                free, used = _with(ports, MOST_PORTS), _link_use(name, _ports_of(i))
                yield _change(scenario, ports, "at least", whole(1), MOST_PORTS, free, used)
            yield _wider(scenario, ports[:-1], name, tier.capacity_gbps, tier.max_ports)


def _wider(scenario: Scenario, key: KeyPath, link: str, stated_gbps: float, n_ports: int = 1) -> Change:
    """More bandwidth of a link, or of each of its ports of one size."""
    wide, most = (*key, "capacity_gbps"), WIDEST * stated_gbps
    used = _link_use(link, lambda one: one.mean_gbps / n_ports)
    return _change(scenario, wide, "at least", significant(), most, _with(wide, most), used)


def _ports_of(tier: int) -> Callable[[LinkPlan], float]:
    return lambda one: one.ports_by_tier[tier]


def _link_use(link: str, of: Callable[[LinkPlan], float]) -> Callable[[Fleet], float]:
    """A figure of a fleet's link."""
    return lambda fleet: sum(of(one) for one in fleet.links if one.name == link)


def more_stock(scenario: Scenario) -> Iterator[Change]:
    """More accelerators of a kind at a site, and more instances of a pool."""
    for name, site in scenario.sites.items():
        for kind in site.accelerators:
            drawing = _drawing(scenario, name, kind)
            if drawing:
                key = ("sites", name, "accelerators", kind)
                step = gcd(*(pool.accelerators_per_instance for pool in drawing.values()))
                free, used = _with(key, MANY * step), _accelerators_of(drawing)
                yield _change(scenario, key, "=", whole(step), MANY * step, free, used)
    for name, pool in scenario.pools.items():
        yield from _other_sizes(scenario, name, pool)


def _drawing(scenario: Scenario, site: str, kind: str) -> dict[str, Pool]:
    """Pools of a site on a kind of accelerators."""
    hardware = scenario.hardware_named(kind).name
    return {
        name: pool
        for name, pool in scenario.pools.items()
        if pool.site == site and scenario.hardware_of(pool).name == hardware
    }


def _other_sizes(scenario: Scenario, name: str, pool: Pool) -> Iterator[Change]:
    """Stated sizes and limits of a pool, each in the directions that may help."""

    def of(field: str, farthest: int, **free: object) -> Change:
        lifted = _with(("pools", name), pool.model_copy(update=free))
        return _change(scenario, ("pools", name, field), "=", whole(1), farthest, lifted, _instances_of(name))

    if pool.n_instances != "free":
        n: dict[str, object] = {"n_instances": "free"}
        yield of("n_instances", MANY, **n, min_instances=pool.n_instances, max_instances=MANY)
        if pool.n_instances > 0:
            yield of("n_instances", 0, **n, min_instances=0, max_instances=pool.n_instances)
        return
    if pool.max_instances is not None:
        yield of("max_instances", MANY, max_instances=MANY)
    if pool.min_instances > 0:
        yield of("min_instances", 0, min_instances=0)


def _instances_of(name: str) -> Callable[[Fleet], float]:
    """Instances of a pool in all its layouts."""
    return lambda fleet: sum(p.n_instances for p in fleet.pools if p.name == name or p.name.startswith(f"{name} "))


def _accelerators_of(pools: dict[str, Pool]) -> Callable[[Fleet], float]:
    return lambda fleet: sum(
        _instances_of(name)(fleet) * pool.accelerators_per_instance for name, pool in pools.items()
    )


def _with(key: KeyPath, value: object) -> Callable[[Scenario], Scenario]:
    return lambda scenario: with_value(scenario, key, value)


def _always(value: float) -> Callable[[Fleet], float]:
    return lambda _: value


def _change(
    scenario: Scenario,
    key: KeyPath,
    sign: Literal["=", "at least", "at most"],
    scale: Scale,
    farthest: float,
    lifted: Callable[[Scenario], Scenario],
    used: Callable[[Fleet], float],
) -> Change:
    stated: Any = scenario
    for part in key:
        stated = getattr(stated, str(part)) if isinstance(stated, BaseModel) else stated[part]
    return Change(key, sign, stated, scale, farthest > stated, farthest, lifted, used)
