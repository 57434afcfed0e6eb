"""Changes of a scenario whose limits are in the way of a plan: a key each, and the values it may have, in order."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from math import ceil, floor, gcd, log10
from shlex import quote
from typing import Any

from pydantic import BaseModel

from planner.optimizer.problem import LARGEST_POOL
from planner.results.plan import Fleet, LinkPlan
from planner.scenario import Pool, Scenario, Slo
from planner.scenario.usual import USUAL
from planner.schema import dotted
from planner.toml_lines import KeyPath

BUDGET: KeyPath = ("budget_usd_per_hour",)
MANY = LARGEST_POOL - 1
"""Instances that hardly limit a pool; still a limit, as a pool without one is refused where no demand limits it."""
DEAREST = 1_000.0
"""Multiple of a budget up to which a larger one is looked for."""
LONGEST = 64.0
"""Multiple of a promised TTFT or time per token up to which a longer one is looked for, or the longest usual one."""
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
    """The values that a key may be given, as they are printed: one after another, upwards."""

    value: Callable[[int], Any]
    above: Callable[[float], int]
    """Number of the least value that is not below another."""
    below: Callable[[float], int]
    """Number of the greatest value that is not above another."""
    is_single: bool = False
    """Whether there is one value, which leaves a limit out."""


def step_multiples(step: int) -> Scale:
    """Multiples of a step.

    >>> step_multiples(8).value(step_multiples(8).above(17))
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


def only(value: object) -> Scale:
    """One value, which leaves a limit out.

    >>> only("free").value(1)
    'free'
    """
    return Scale(lambda _: value, lambda _: 1, lambda _: 0, is_single=True)


@dataclass(frozen=True, eq=False)
class Change:
    """A key of a scenario with the values it may have instead of what is stated, the nearest first."""

    key: KeyPath
    stated: Any
    scale: Scale
    is_more: bool
    """Whether it is more of it that would help."""
    farthest: Any
    """A value beyond which none is of use."""
    lifted: Callable[[Scenario], Scenario]
    """A scenario in which it is no limit,"""
    used: Callable[[Fleet], float]
    """and what a fleet for that takes of it."""

    @property
    def n_values(self) -> int:
        """Values up to the farthest."""
        return abs(self._number(self.farthest) - self._first)

    @property
    def is_stock(self) -> bool:
        """True if it is about accelerators of a site, or instances of a pool."""
        return self.key[0] in ("sites", "pools")

    def value(self, i: int) -> Any:
        """The i-th value; number 0 is what is stated, or lies just beside it where that is none of them."""
        return self.scale.value(self._first + (i if self.is_more else -i))

    def nearest(self, value: float) -> int:
        """The first of the values that is at least as good as another; 1 where what is stated is as good."""
        better = max(value, self.stated) if self.is_more else min(value, self.stated)
        return max(abs(self._number(better) - self._first), 1)

    def n_within(self, part: float) -> int:
        """Number of values within a part of what is stated, at least 1."""
        return self.nearest(self.stated * (1 + part if self.is_more else 1 - part))

    def at(self, scenario: Scenario, i: int) -> Scenario:
        """A scenario with the i-th value."""
        changed: Scenario = with_value(scenario, self.key, self.value(i))
        return changed

    def sentence(self, i: int) -> str:
        """As a way out."""
        sign = "=" if self.is_stock or self.scale.is_single else "at least" if self.is_more else "at most"
        return f"{dotted(self.key)} {sign} {_written(self.value(i))} (is {_written(self.stated)})"

    def option(self, i: int) -> str:
        """As an option of a command line."""
        value = self.value(i)
        text = value if isinstance(value, str) else _written(value)
        return f"--set {quote(f'{dotted(self.key)}={text}')}"

    @property
    def _first(self) -> int:
        return self.scale.below(self.stated) if self.is_more else self.scale.above(self.stated)

    def _number(self, value: float) -> int:
        return self.scale.above(value) if self.is_more else self.scale.below(value)


def _written(value: Any) -> str:
    """A value as a scenario states it.

    >>> _written(2.5), _written("1:5"), _written(("link", "site")), _written([])
    ('2.5', '"1:5"', '["link", "site"]', '[]')
    """
    return f"{value:.12g}" if isinstance(value, int | float) else dumps(value)


def with_value(record: Any, key: KeyPath, value: object) -> Any:
    """A record or table with another value at a key; not checked again."""
    head, rest = key[0], key[1:]
    if isinstance(record, BaseModel):
        name = str(head)
        return record.model_copy(update={name: with_value(getattr(record, name), rest, value) if rest else value})
    if isinstance(head, int):
        return (*record[:head], with_value(record[head], rest, value) if rest else value, *record[head + 1 :])
    return {**record, head: with_value(record[head], rest, value) if rest else value}


def changes_of(scenario: Scenario) -> Iterator[Change]:
    """Every change that may let a scenario without a plan have one, in the order of the answer."""
    yield from _less_demand(scenario)
    yield from _more_budget(scenario)
    yield from _laxer_promises(scenario)
    yield from _wider_links(scenario)
    yield from _more_stock(scenario)
    yield from _left_out(scenario)


def _less_demand(scenario: Scenario) -> Iterator[Change]:
    """A lower demand, where one is to be served."""
    demand = scenario.demand_req_per_s
    if demand is not None and scenario.objective != "max-throughput":
        share, least = demand / mean_req_per_s(scenario), LEAST * demand

        def used(fleet: Fleet) -> float:
            return max(share * fleet.throughput_req_per_s, least)

        yield _change(scenario, ("demand_req_per_s",), significant(), least, used, lifted=_fastest)


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


def _more_budget(scenario: Scenario) -> Iterator[Change]:
    """A larger budget."""
    if scenario.budget_usd_per_hour is not None:
        most = DEAREST * scenario.budget_usd_per_hour
        yield _change(scenario, BUDGET, cents(), most, lambda fleet: fleet.cost.usd_per_hour or 0.0)


def _laxer_promises(scenario: Scenario) -> Iterator[Change]:
    """A longer TTFT, fewer requests that keep it, or a longer time per token, of every promise of its own."""
    keys: list[KeyPath] = [("slo",), *(("classes", name, "slo") for name in scenario.classes)]
    for key in keys:
        slo = scenario.slo if len(key) == 1 else scenario.classes[str(key[1])].slo
        for field in ("ttft_s", "tpot_ms"):
            if slo is not None and (limit := getattr(slo, field)) is not None:
                longest = max(LONGEST * limit, USUAL["slo", field].high)
                yield _change(scenario, (*key, field), significant(), longest)
        if slo is not None and slo.ttft_s is not None and slo.ttft_percentile > LEAST_PERCENTILE:
            yield _change(scenario, (*key, "ttft_percentile"), step_multiples(1), LEAST_PERCENTILE)


def _wider_links(scenario: Scenario) -> Iterator[Change]:
    """More bandwidth of every link, and where its ports are chosen, larger ones or more of them."""
    for name, link in scenario.links.items():
        if link.capacity_gbps != "free" and not link.tiers:  # else its ports may be chosen, which is left to say
            yield _wider(scenario, ("links", name), name, link.capacity_gbps)
        for i, tier in enumerate(link.tiers if link.capacity_gbps == "free" else ()):
            key: KeyPath = ("links", name, "tiers", i)
            if tier.max_ports < MOST_PORTS:
                yield _change(
                    scenario, (*key, "max_ports"), step_multiples(1), MOST_PORTS, _link_use(name, _ports_of(i))
                )
            yield _wider(scenario, key, name, tier.capacity_gbps, tier.max_ports)


def _wider(scenario: Scenario, key: KeyPath, link: str, stated_gbps: float, n_ports: int = 1) -> Change:
    """More bandwidth of a link, or of each of its ports of one size."""
    used = _link_use(link, lambda one: one.mean_gbps / n_ports)
    return _change(scenario, (*key, "capacity_gbps"), significant(), WIDEST * stated_gbps, used)


def _ports_of(tier: int) -> Callable[[LinkPlan], float]:
    return lambda one: one.ports_by_tier[tier]


def _link_use(link: str, of: Callable[[LinkPlan], float]) -> Callable[[Fleet], float]:
    """A figure of a fleet's link."""
    return lambda fleet: sum(of(one) for one in fleet.links if one.name == link)


def _more_stock(scenario: Scenario) -> Iterator[Change]:
    """More accelerators of a kind at a site, and more instances of a pool."""
    for site, kind in ((name, kind) for name, at in scenario.sites.items() for kind in at.accelerators):
        hardware = scenario.hardware_named(kind).name
        drawing = {
            name: pool.accelerators_per_instance
            for name, pool in scenario.pools.items()
            if pool.site == site and scenario.hardware_of(pool).name == hardware
        }
        if drawing:
            key, step = ("sites", site, "accelerators", kind), gcd(*drawing.values())
            yield _change(scenario, key, step_multiples(step), MANY * step, _accelerators_of(drawing))
    for name, pool in scenario.pools.items():
        yield from _other_sizes(scenario, name, pool)


def _other_sizes(scenario: Scenario, name: str, pool: Pool) -> Iterator[Change]:
    """Stated sizes and limits of a pool, each in the directions that may help."""

    def of(field: str, farthest: int, **free: object) -> Change:
        lifted = _with(("pools", name), pool.model_copy(update=free))
        return _change(scenario, ("pools", name, field), step_multiples(1), farthest, _instances_of(name), lifted)

    n = pool.n_instances
    if n != "free":
        yield of("n_instances", MANY, n_instances="free", min_instances=n, max_instances=MANY)
        if n > 0:
            yield of("n_instances", 0, n_instances="free", min_instances=0, max_instances=n)
        return
    if pool.max_instances is not None:
        yield of("max_instances", MANY, max_instances=MANY)
    if pool.min_instances > 0:
        yield of("min_instances", 0, min_instances=0)


def _left_out(scenario: Scenario) -> Iterator[Change]:
    """Demands that can be left out: a ratio, losses to survive, a bandwidth where there are ports to buy."""
    keys: list[tuple[KeyPath, object]] = []
    if scenario.routing.prefill_to_decode != "free":
        keys.append((("routing", "prefill_to_decode"), "free"))
    if scenario.spare.survive:
        keys.append((("spare", "survive"), []))
    for name, link in scenario.links.items():
        if link.capacity_gbps != "free" and link.tiers:
            keys.append((("links", name, "capacity_gbps"), "free"))
    yield from (_change(scenario, key, only(value), value) for key, value in keys)


def _instances_of(name: str) -> Callable[[Fleet], float]:
    """Instances of a pool in all its layouts."""
    return lambda fleet: sum(p.n_instances for p in fleet.pools if p.name == name or p.name.startswith(f"{name} "))


def _accelerators_of(per_instance: Mapping[str, int]) -> Callable[[Fleet], float]:
    """Accelerators of pools, by their name."""
    return lambda fleet: sum(_instances_of(name)(fleet) * n for name, n in per_instance.items())


def _with(key: KeyPath, value: object) -> Callable[[Scenario], Scenario]:
    return lambda scenario: with_value(scenario, key, value)


def _change(
    scenario: Scenario,
    key: KeyPath,
    scale: Scale,
    farthest: Any,
    used: Callable[[Fleet], float] | None = None,
    lifted: Callable[[Scenario], Scenario] | None = None,
) -> Change:
    """A change of what is stated; without more said of it, the farthest value is no limit, and all of it is used."""
    stated: Any = scenario
    for part in key:
        stated = getattr(stated, str(part)) if isinstance(stated, BaseModel) else stated[part]
    is_more = isinstance(farthest, int | float) and farthest > stated
    return Change(key, stated, scale, is_more, farthest, lifted or _with(key, farthest), used or (lambda _: farthest))
