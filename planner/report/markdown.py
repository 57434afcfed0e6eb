"""A case as a cost report in Markdown, with what runs made of its promises."""

from collections.abc import Collection, Iterator
from typing import Any

from planner.markdown_text import as_code, code
from planner.report import bottleneck_text, formats, phrases
from planner.report.decision import recommendation_text
from planner.report.figures import charts
from planner.report.markdown_tables import (
    answer_table,
    baselines_table,
    break_even_table,
    claims_table,
    comparisons_table,
    day_table,
    known_bill_table,
    pools_table,
    price_ratios_table,
    requests_table,
    rules_table,
    service_table,
)
from planner.report.markdown_template import escaped_record, rendered
from planner.report.reproduce import Reproduction
from planner.report.schedule_tables import schedule_table, schedule_words
from planner.report.study_tables import front_table, sensitivity_table
from planner.report.table import Table
from planner.report.tables import classes_table, latencies_table, link_table, period_table, setup_table
from planner.report.validation_tables import UNDECIDED, longer_run
from planner.results.case import Case, ClaimResult, PriceRatios
from planner.results.executed import Executed, ExecutedFigure, ExecutedLoad
from planner.results.scheduling import ScheduledRun
from planner.results.studies import Sensitivity
from planner.units import DASH, SECONDS_PER_HOUR, number, percent

TEMPLATE = "report.md.jinja"
PER_MILLION = 1e6


def report_markdown(case: Case, again: Reproduction | None = None) -> str:
    """The report of a case; figures are referred to as `figures/NAME.png`.

    Args:
        again: what else the report depends on; None: nothing.

    Returns:
        Markdown that ends in one newline and is the same for the same case.
    """
    case = escaped_record(case)
    return rendered(TEMPLATE, **_context(case, charts(case).keys(), again or Reproduction()))


def _context(case: Case, figures: Collection[str], again: Reproduction) -> dict[str, Any]:
    plan = case.plan
    return {
        "case": case,
        "plan": plan,
        **{each.__name__: each for each in CALLED},
        "formats": formats,
        "phrases": phrases,
        "figures": figures,
        "as_code": as_code,
        "changed": formats.listed(list(map(code, again.overrides))),
        "regenerate": regenerate_words(again),
        "percent": percent,
        "headline": formats.sentence(recommendation_text(plan)),
        "verdict": phrases.verdict_text(plan),
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
        "quality": phrases.quality(plan),
    }


def regenerate_words(again: Reproduction) -> str:
    """The way to make the report again."""
    where = "in this folder"
    if again.data:
        where += f" and with the folder of {formats.listed(list(map(code, again.data)))} in `PLANNER_DATA`"
    return f"To regenerate, {where}: {code(again.command())}"


def saturation_words(case: Case) -> str:
    """Meaning of saturation for a queue; nothing where nothing is saturated."""
    if not phrases.saturated(case.plan):
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


RATE = "req/s"


def executed_table(found: Executed) -> Table:
    """Every figure of every load by the paper's rule, as predicted, and as it came out."""
    headings = ["of the highest rate", ">req/s", "figure", ">paper's rule", ">predicted", ">executed"]
    headings += [">95 % interval", ">paper's rule off by", ">prediction off by", ">allowed", ""]
    return Table.untitled(headings, _rows(found))


def _rows(found: Executed) -> Iterator[list[str]]:
    for at in found.loads:
        start = [percent(at.load, 0), formats.figure(at.offered_req_per_s)]
        for name, unit, figure in _figures(at):
            yield [*start, name, *_cells(figure, unit)]
            start = ["", ""]
    yield ["kept full", "", "highest rate", *_cells(found.max_throughput_req_per_s, RATE)]


def _figures(at: ExecutedLoad) -> Iterator[tuple[str, str, ExecutedFigure]]:
    yield "TTFT mean", "s", at.ttft_mean_s
    yield "TTFT P90", "s", at.ttft_p90_s
    for name, figure in at.links_gbps.items():
        yield f"{name}, mean", "Gbps", figure


def _cells(figure: ExecutedFigure, unit: str) -> list[str]:
    digits = 4 if unit == RATE else 3
    low, high = (formats.figure(value, digits) for value in (figure.ci_low, figure.ci_high))
    return [
        _value(figure.by_paper, unit, digits),
        _value(figure.predicted, unit, digits),
        _value(figure.executed, unit, digits),
        DASH if figure.ci_low is None else f"{low} to {high}",
        formats.signed_percent(figure.error_of_paper),
        formats.signed_percent(figure.error),
        percent(figure.allowed, 0),
        _judged(figure),
    ]


def _judged(figure: ExecutedFigure) -> str:
    if not figure.decided:
        return UNDECIDED
    return {True: "holds", False: "**fails**", None: DASH}[figure.holds]


def _value(value: float | None, unit: str, digits: int) -> str:
    return DASH if value is None else f"{formats.figure(value, digits)} {unit}"


def executed_paragraph(found: Executed) -> str:
    """Paragraph on what was run, and how far both kinds of promise can be relied on."""
    judged = [figure for figure in found.figures if figure.predicted is not None]
    kept = sum(figure.holds is True for figure in judged)
    text = (
        f"Every row is a run of {number(found.n_requests)} requests in {found.n_replications} independent replications "
        f"(seed {found.seed}). Predictions within what is allowed: {kept} of {len(judged)}."
        f"{_undecided(found)}"
    )
    last = found.loads[-1]
    mean, p90 = last.ttft_mean_s, last.ttft_p90_s
    if mean.by_paper is None or p90.by_paper is None:
        return text
    longer = [formats.figure(figure.executed / figure.by_paper, 2) for figure in (mean, p90) if figure.by_paper]
    promised = f"{formats.seconds(mean.by_paper)} in the mean and {formats.seconds(p90.by_paper)} at P90"
    return (
        f"{text} The paper's rule counts prefill and what layer-wise streaming cannot hide of the transfer, and nobody "
        f"waits: it promises {promised}, at any load. At {percent(last.load, 0)} of the "
        f"highest rate requests take {' and '.join(longer)} times as long."
    )


def _undecided(found: Executed) -> str:
    """Predictions of which the runs are too short to tell; nothing without any."""
    open_ = [figure for figure in found.figures if not figure.decided]
    if not open_:
        return ""
    are = "is" if len(open_) == 1 else "are"
    enough = longer_run([figure.enough_requests(found.n_requests) for figure in open_])
    return f" {len(open_)} {are} undecided, as only a part of the interval is within what is allowed: {enough}."


def schedulers_table(case: Case) -> Table:
    """Every pattern with every kind of scheduling; nothing where they were not compared."""
    found = None if case.executed is None else case.executed.schedulers
    runs = () if found is None else found.runs
    headings = ["pattern", "scheduler", ">TTFT mean", ">95 % interval", ">P90", ">P99", ">req/s", ">dropped"]
    headings += [">converted", ">threshold, tokens"]
    return Table.untitled(headings, (_scheduled(run, run.pattern != before) for before, run in _with_before(runs)))


def _with_before(runs: tuple[ScheduledRun, ...]) -> Iterator[tuple[str, ScheduledRun]]:
    """Every run with the pattern of the one before it."""
    before = ""
    for run in runs:
        yield before, run
        before = run.pattern


def _scheduled(run: ScheduledRun, is_first: bool) -> list[str]:
    sure = run.intervals.get("ttft_mean_s")
    low, high = run.threshold_low_tokens, run.threshold_high_tokens
    span = DASH if low is None else number(low) if low == high else f"{number(low)} to {number(high)}"
    return [
        run.pattern if is_first else "",
        run.scheduler,
        formats.seconds(run.ttft_mean_s),
        DASH if sure is None else f"{formats.figure(sure.low)} to {formats.figure(sure.high)}",
        formats.seconds(run.ttft_p90_s),
        formats.seconds(run.ttft_p99_s),
        formats.figure(run.throughput_req_per_s),
        f"{run.n_dropped:,}" if run.n_dropped else DASH,
        f"{run.n_conversions:,}" if run.n_conversions else DASH,
        span,
    ]


def patterns(case: Case) -> list[str]:
    """Description of every pattern, and what was left out, a line each."""
    found = None if case.executed is None else case.executed.schedulers
    if found is None:
        return []
    return [f"*{pattern.name}*: {pattern.text}" for pattern in found.patterns] + list(
        map(formats.sentence, found.notes)
    )


CALLED = (
    setup_table,
    link_table,
    period_table,
    schedule_table,
    front_table,
    sensitivity_table,
    answer_table,
    pools_table,
    day_table,
    known_bill_table,
    latencies_table,
    classes_table,
    baselines_table,
    price_ratios_table,
    break_even_table,
    rules_table,
    claims_table,
    comparisons_table,
    requests_table,
    service_table,
    executed_table,
    executed_paragraph,
    schedulers_table,
    patterns,
)
"""Functions that the template calls, by their own names."""
