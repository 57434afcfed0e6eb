"""Statements on a plan's cost, promises and rivals, and the figures of the plan that statements cite."""

import re
from typing import Any

from planner.report import bottleneck_text
from planner.report.decision import obtainable_fleets, rank
from planner.report.formats import figure, listed, seconds, sentence, signed_percent, small_percent
from planner.report.phrases import has_choice_of_place
from planner.results.explanation import Ground
from planner.results.fleet_merit import PERCENTILES
from planner.results.plan import Baseline, ClassPlan, Plan
from planner.results.plan_parts import Bottleneck
from planner.units import number, usd

STEP = re.compile(r"""\["(?P<quoted>[^"]*)"\]|\[(?P<plain>[^\[\]]*)\]|(?P<field>[^.\[\]]+)""")
"""An item of a list by its name, in quotes where that has brackets, or a field by its name."""
NAMES = ("name", "constraint")
"""Fields that items of lists are called by."""


class CitedFigures:
    """Figures of one plan, and which of them were asked for."""

    def __init__(self, plan: Plan) -> None:
        self._answer = plan.answer()
        self._asked: dict[str, Any] = {}

    def __call__(self, figure: str) -> Any:
        """A figure, such as `pools[pd-p].utilization`. Raises KeyError where the plan has none."""
        self._asked[figure] = value = figure_of(self._answer, figure)
        return value

    def cited_since_last(self) -> tuple[Ground, ...]:
        """Figures asked for since the last call, each once and in order."""
        found = tuple(Ground(figure=figure, value=value) for figure, value in self._asked.items())
        self._asked = {}
        return found


def figure_of(answer: Any, figure: str) -> Any:
    """A figure of an answer by its place.

    Raises:
        KeyError: there is none.

    >>> figure_of({"pools": [{"name": "near", "utilization": 0.5}]}, "pools[near].utilization")
    0.5
    """
    for step in STEP.finditer(figure):
        field = step["field"]
        answer = _item(answer, step["quoted"] or step["plain"]) if field is None else answer[field]
    return answer


def item_place(kind: str, name: str) -> str:
    """Where the item of a list is that is called so.

    >>> item_place("pools", "near"), item_place("bottlenecks", "links.wan.tiers[0].max_ports")
    ('pools[near]', 'bottlenecks["links.wan.tiers[0].max_ports"]')
    """
    return f'{kind}["{name}"]' if "[" in name else f"{kind}[{name}]"


def _item(items: Any, name: str) -> Any:
    """The item of a list that is called so. Raises KeyError."""
    for item in items:
        if any(item.get(key) == name for key in NAMES):
            return item
    raise KeyError(name)


MOST_LIMITS = 2
"""Constraints of which one more is told."""
BASES = ("measured", "calibrated", "inferred", "datasheet")
"""What service times may rest on, the best first."""


def explain_one_more(plan: Plan, at: CitedFigures) -> str | None:
    """Gain from one more instance, port or Gbps, in words."""
    stated = [item for item in plan.bottlenecks if not _is_promise(item)]
    if not stated:
        return sentence(bottleneck_text.nothing_binds(plan)) if plan.baselines or plan.bottlenecks else None
    for item in stated[:MOST_LIMITS]:
        _take(item, at)
    return " ".join(sentence(bottleneck_text.bottleneck(item)) for item in stated[:MOST_LIMITS])


def _is_promise(item: Bottleneck) -> bool:
    return "slo." in item.constraint


def _take(item: Bottleneck, at: CitedFigures) -> None:
    """Every figure that the sentence on a bottleneck may have."""
    where = item_place("bottlenecks", item.constraint)
    at(f"{where}.shadow_price")
    if item.planned_again is not None:
        for name in ("n_more", "least", "most"):
            at(f"{where}.planned_again.{name}")


def explain_promise(plan: Plan, at: CitedFigures) -> str | None:
    """Statement on what is promised, how near the plan is to it, and what it costs."""
    promised = [c for c in plan.classes if c.slo and "ttft_s" in c.slo]
    if not promised:
        if plan.objective == "min-ttft":
            return None
        for c in plan.classes:
            at(f"classes[{c.name}].slo")
        return "No TTFT is promised, so only capacity limits the plan."
    tightest = min(promised, key=_room)
    text = _promise_kept(tightest, at, len(promised) > 1, bool(plan.periods))
    if plan.goodput_req_per_s is not None:
        kept, without = figure(at("goodput_req_per_s")), figure(at("max_throughput_req_per_s"))
        text += f" The promise costs rate: it holds up to {kept} req/s, and without it {without} req/s could be served."
    for item in [item for item in plan.bottlenecks if _is_promise(item)][:1]:
        _take(item, at)
        text += f" {sentence(bottleneck_text.bottleneck(item))}"
    return text


def _room(c: ClassPlan) -> float:
    """Slack of a promise, as a fraction of it; all of it where the prediction is unknown."""
    slo = c.slo or {}
    predicted = _predicted(c)
    return 1.0 if predicted is None else 1 - predicted[1] / slo["ttft_s"]


def _predicted(c: ClassPlan) -> tuple[str, float] | None:
    """Name and value of the promised percentile, where the plan states it [s]."""
    percentile = (c.slo or {}).get("ttft_percentile")
    name = next((f"ttft_p{p}_s" for p in PERCENTILES if p == percentile), None)
    value = None if name is None else getattr(c.latency, name)
    return None if name is None or value is None else (name, value)


def _promise_kept(c: ClassPlan, at: CitedFigures, is_one_of_several: bool, is_of_a_day: bool) -> str:
    place = item_place("classes", c.name)
    limit, percentile = seconds(at(f"{place}.slo.ttft_s")), number(at(f"{place}.slo.ttft_percentile"))
    whose = f", nearest to it for {c.name}" if is_one_of_several else ""
    predicted = _predicted(c)
    value = None if predicted is None else seconds(at(f"{place}.latency.{predicted[0]}"))
    said = "" if value is None else f"; {value} is predicted"
    said += " over all periods" if said and is_of_a_day else ""
    if c.slo_run is not None and c.slo_run.executed_s is not None:
        executed = seconds(at(f"{place}.slo_run.executed_s"))
        low, high = (seconds(at(f"{place}.slo_run.{end}")) for end in ("ci_low_s", "ci_high_s"))
        said += f"; the run gives {executed} ({low} to {high}), so that it is {c.slo_run.outcome}"
    return f"The promise{whose}: {percentile} % of the first tokens within {limit}{said}."


def explain_cost(plan: Plan, at: CitedFigures) -> str:
    """The bill, and the dearest part of it."""
    if plan.cost.usd_per_hour is None:
        at("cost.missing_prices")
        return f"The bill is unknown, because these prices are missing: {listed(list(plan.cost.missing_prices))}."
    text = f"It costs {usd(at('cost.usd_per_hour'))} USD/h"
    if plan.cost.usd_per_million_input_tokens is not None:
        text += f", {figure(at('cost.usd_per_million_input_tokens'))} USD per million input tokens"
    parts = [(p.usd_per_hour, p.name, item_place("pools", p.name)) for p in plan.pools if p.usd_per_hour]
    parts += [(x.usd_per_hour, x.name, item_place("links", x.name)) for x in plan.links if x.usd_per_hour]
    if parts:
        _, name, place = max(parts)
        text += f". The dearest part is {name} with {usd(at(f'{place}.usd_per_hour'))} USD/h"
    return f"{text}."


def explain_other_fleets(plan: Plan, at: CitedFigures) -> str | None:
    """The strongest other fleet, beside the plan."""
    other = _strongest(plan)
    if other is None:
        return None
    place = item_place("baselines", other.name)
    serves = figure(at(f"{place}.goodput_req_per_s" if _has_goodput(other) else f"{place}.max_throughput_req_per_s"))
    bill = "" if other.cost.usd_per_hour is None else f" and costs {usd(at(f'{place}.cost.usd_per_hour'))} USD/h"
    text = f"The strongest other fleet, {other.name}, serves {serves} req/s at most{bill}"
    if plan.verdict.opponent == other.name and plan.verdict.margin_fraction is not None:
        text += f"; the plan gains {signed_percent(at('verdict.margin_fraction'))} over it"
    return f"{text}."


def _has_goodput(other: Baseline) -> bool:
    return other.goodput_req_per_s is not None


def _strongest(plan: Plan) -> Baseline | None:
    """The fleet of the verdict, else the best of those that can be had and do what the plan is for."""
    if plan.verdict.opponent is not None:
        return next((b for b in plan.baselines if b.name == plan.verdict.opponent), None)
    return min(obtainable_fleets(plan), key=lambda other: rank(plan, other), default=None)


def explain_gap(plan: Plan, at: CitedFigures) -> str:
    """Statement on what the search leaves open, and what it says nothing of."""
    units = {"max-throughput": "req/s", "min-cost": "USD/h", "min-ttft": "s"}
    bound = usd(at("bound")) if plan.objective == "min-cost" else number(at("bound"), 4)
    over = " at any threshold" if has_choice_of_place(plan) else ""
    over += " with the accelerators and layouts that the pools state" if any(b.changes for b in plan.baselines) else ""
    better = "more than" if plan.objective == "max-throughput" else "less than"
    return (
        f"The gap is {small_percent(at('gap'))}: no plan{over} can have {better} {bound} {units[plan.objective]}. "
        "The gap is about the search alone, not about errors in the service times."
    )


def explain_basis(plan: Plan, at: CitedFigures) -> str:
    """Statement on what the service times rest on, and what that may do to the bill."""
    named = {kind: [p.name for p in plan.pools if p.basis == kind and p.n_instances] for kind in BASES}
    for names in named.values():
        for name in names:
            at(f"pools[{name}].basis")
    text = "Service times are " + "; ".join(
        f"{kind} for {listed(names) if len(names) <= 4 else f'{names[0]} and {len(names) - 1} more pools'}"
        for kind, names in named.items()
        if names
    )
    band = plan.cost_band
    if band is not None and band.low_usd_per_hour is not None and band.high_usd_per_hour is not None:
        low, high = usd(at("cost_band.low_usd_per_hour")), usd(at("cost_band.high_usd_per_hour"))
        text += f". Over the 90 % band of their error the best plan costs {low} to {high} USD/h"
    return f"{text}."
