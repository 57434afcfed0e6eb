"""A case as a cost report in Markdown."""

import re
from collections.abc import Collection
from importlib.resources import files
from typing import Any

from planner.markdown_text import as_code, code
from planner.report import bottleneck_text, executed_markdown, formats, markdown_tables, words
from planner.report.decision import recommendation_text
from planner.report.figures import charts
from planner.report.record_text import escaped_record
from planner.report.reproduce import Rerun
from planner.report.schedule_tables import schedule_words
from planner.results import Case, ClaimResult, PriceRatios, Sensitivity
from planner.units import SECONDS_PER_HOUR, number, percent

TEMPLATE = "report.md.jinja"
PER_MILLION = 1e6


def report_markdown(case: Case, again: Rerun | None = None) -> str:
    """The report of a case; figures are referred to as `figures/NAME.png`.

    Args:
        case: a plan with what it is held against.
        again: what else the report depends on; None: nothing.

    Returns:
        Markdown that ends in one newline and is the same for the same case.
    """
    from jinja2 import Environment, StrictUndefined

    case = escaped_record(case)
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, autoescape=False)
    template = files("planner.report").joinpath("templates", TEMPLATE).read_text(encoding="utf-8")
    text = environment.from_string(template).render(_context(case, charts(case).keys(), again or Rerun()))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _context(case: Case, figures: Collection[str], again: Rerun) -> dict[str, Any]:
    plan = case.plan
    return {
        "case": case,
        "plan": plan,
        "tables": markdown_tables,
        "executed": executed_markdown,
        "formats": formats,
        "words": words,
        "figures": figures,
        "as_code": as_code,
        "changed": formats.listed(list(map(code, again.overrides))),
        "regenerate": regenerate_words(again),
        "percent": percent,
        "headline": formats.sentence(recommendation_text(plan)),
        "verdict": words.verdict(plan),
        "several_classes": len(plan.classes) > 1,
        "saturation": saturation_words(case),
        "worth": worth_words(case.price_ratios) if case.price_ratios else "",
        "binding": [formats.sentence(bottleneck_text.bottleneck(b)) for b in plan.bottlenecks]
        or [formats.sentence(bottleneck_text.nothing_binds(plan))],
        "rule_words": rule_words(case),
        "break_even_words": break_even_words(case),
        "hours_words": hours_words(case),
        "schedule_words": formats.sentence(schedule_words(plan.schedule)) if plan.schedule else "",
        "unmoved": unmoved_words(case.sensitivity) if case.sensitivity else "",
        "claims": by_source(case.claims),
        "claims_words": claims_words(case.claims),
        "missed": [claim for claim in case.claims if claim.holds is False],
        "failed": [variant for variant in case.comparisons if variant.plan is None],
        "quality": words.quality(plan),
    }


def regenerate_words(again: Rerun) -> str:
    """The way to make the report again."""
    where = "in this folder"
    if again.data:
        where += f" and with the folder of {formats.listed(list(map(code, again.data)))} in `PLANNER_DATA`"
    return f"To regenerate, {where}: {code(again.command())}"


def saturation_words(case: Case) -> str:
    """Meaning of saturation for a queue; nothing where nothing is saturated."""
    if not words.saturated(case.plan):
        return ""
    return (
        f" at {formats.figure(case.plan.throughput_req_per_s)} req/s: a queue before a server that is never idle grows "
        "without end. State a `demand_req_per_s` below the highest rate to see waiting times"
    )


def worth_words(prices: PriceRatios) -> str:
    """Up to which price ratio the plan beats the fleet for the same money."""
    fast, home = prices.long_hardware, prices.home_hardware
    text = (
        f"One {fast} costs {prices.stated_ratio:.2f} times one {home} here. Against as many {home} as the same money "
        f"buys, the plan {_until(prices.break_even_cost)} if only accelerators are counted"
    )
    if prices.equal_bill_gain is not None:
        text += f", and {_until(prices.break_even_bill)} if the link is paid too"
    return f"{text}. Fleets grow by whole instances, so the gain falls in steps."


def _until(ratio: float | None) -> str:
    return (
        "serves more at every price ratio looked at" if ratio is None else f"serves more below a ratio of {ratio:.2f}"
    )


def break_even_words(case: Case) -> str:
    """Words on what the decisions are about, and which assumptions nobody varied."""
    titles = {variant.name: variant.title for variant in case.comparisons}
    others = dict.fromkeys(item.decides for item in case.break_even if item.decides in titles)
    goal = "a lower bill" if case.plan.objective == "min-cost" else "a higher rate"
    text = "".join(f" *Ahead of {name}* means {goal} than the variant {titles[name]!r}." for name in others)
    if case.not_varied:
        text += f" Assumed, and not varied: {formats.listed(list(map(as_code, case.not_varied)))}."
    return f"Where it turns more than once, the value nearest to the stated one is given.{text}"


def unmoved_words(found: Sensitivity) -> str:
    """Inputs of which no change makes a difference; nothing without any."""
    titles = [item.title for item in found.inputs if not item.matters]
    what = {"max-throughput": "the rate", "min-cost": "the bill", "min-ttft": "the TTFT"}[found.objective]
    return f"Neither {what} nor the best sizes change with: {', '.join(titles)}." if titles else ""


def hours_words(case: Case) -> str:
    """Cost of a day with a fleet for its busiest hour, in words."""
    hours = case.hours
    if not hours:
        return ""
    mean = sum(hour.demand_req_per_s for hour in hours) / len(hours)
    share = mean / max(hour.demand_req_per_s for hour in hours)
    text = (
        f"The fleet is that of the busiest hour, its thresholds are kept; over the day it serves "
        f"{formats.figure(mean)} req/s, {percent(share)} of that. Shape of the day: {case.hours_source}."
    )
    bills = [hour.usd_per_hour for hour in hours]
    if any(usd is None for usd in bills):
        return text
    usd_per_s = sum(usd or 0.0 for usd in bills) / len(bills) / SECONDS_PER_HOUR
    requests = case.requests
    tokens = {"input": requests.mean_total_tokens, "output": requests.mean_output_tokens}
    each = [
        f"{formats.figure(PER_MILLION * usd_per_s / mean / n)} USD per million {k} tokens" for k, n in tokens.items()
    ]
    return f"{text} Over the day that is {formats.listed(each)}."


def rule_words(case: Case) -> str:
    """Effect of planning with the mean length instead of the mean work, in words."""
    if case.other_rule is None:
        return ""
    exact, mean = sorted((case.plan, case.other_rule), key=lambda plan: plan.capacity_rule)
    more = mean.max_throughput_req_per_s / exact.max_throughput_req_per_s - 1
    if more <= formats.SMALL:
        return "Both rules agree here: the mean length does not promise more than the mean work allows."
    text = (
        "Prefill time bends upwards with length, so the mean prefill time is longer than that of the mean length "
        f"(Jensen's inequality). Counted by the mean length, a fleet seems to serve {percent(more)} more."
    )
    return text + _shortfall_words(case.rule_shortfall, mean.max_throughput_req_per_s)


def _shortfall_words(shortfall: float | None, promised: float) -> str:
    if shortfall is None:
        return ""
    if shortfall <= formats.SMALL:
        return " Here that promise can be held."
    return (
        f" Run at its sizes and threshold, that plan would hold {formats.figure(promised * (1 - shortfall), 4)} req/s: "
        f"{percent(shortfall)} less than it promises."
    )


def by_source(claims: tuple[ClaimResult, ...]) -> list[tuple[str, list[ClaimResult]]]:
    """Published figures by where they were published, in order of appearance."""
    groups: dict[str, list[ClaimResult]] = {}
    for claim in claims:
        groups.setdefault(claim.source, []).append(claim)
    return list(groups.items())


def claims_words(claims: tuple[ClaimResult, ...]) -> str:
    """Number of published figures that come out, in one sentence."""
    judged = [claim for claim in claims if claim.kind == "result" and claim.holds is not None]
    holding = sum(bool(claim.holds) for claim in judged)
    inputs = sum(claim.kind == "input" for claim in claims)
    text = f"Results within their tolerance: {holding} of {len(judged)}." if judged else ""
    if inputs:
        figures = "figure is an input" if inputs == 1 else "figures are inputs"
        text += f" {number(inputs)} {figures}, which the model cannot be said to reproduce."
    return text.strip()
