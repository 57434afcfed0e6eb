"""The certificate of a plan, as tables for a terminal of a hundred columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import printed, remarks
from planner.report.validation_tables import check_row
from planner.results.certified import Certified, Promise, Round
from planner.results.plan import Plan
from planner.results.validation import Check
from planner.units import DASH, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

RATE = "throughput_req_per_s"
NOTHING = 1e-12
MOST_BROKEN = 4
"""Broken promises that are named."""


def certified_tables(plan: Plan) -> "list[RenderableType | None]":
    """Tables of what a run bore out of a plan, for people; nothing where none was asked for."""
    found = plan.certified
    if found is None:
        return []
    when = ("period",) if found.periods else ()
    predicted = (*when, "metric", ">predicted", ">executed", ">95 % interval", ">error")
    nearest = ""
    said = f"at {number(found.load)} of the plan's rate; error: predicted over executed, less one"
    if found.periods:
        nearest = "of every promise, the period that came nearest to breaking it"
        said = "of every prediction, the period that it was farthest off in; error: predicted over executed, less one"
    rows = (_when(check) + check_row(check)[:5] for check in _farthest(found))
    return [
        printed(promise_table("certified by running it", _nearest(found), nearest)),
        remarks("how it was certified", map(formats.sentence, _rows(found))),
        printed(Table.of("predictions beside the run", predicted, rows, said)),
    ]


def promise_table(title: str, promises: Sequence[Promise], caption: str = "") -> Table:
    """Promises beside a run, and what came of each."""
    when = ("period",) if any(p.period is not None for p in promises) else ()
    headings = (*when, "promise", ">promised", ">executed", ">95 % interval", "outcome")
    return Table.of(title, headings, map(_promise, promises), caption)


def _when(row: Promise | Check) -> tuple[str, ...]:
    return () if row.period is None else (row.period,)


def _nearest(found: Certified) -> list[Promise]:
    """Promises, each in the period that used most of what is allowed."""
    worst: dict[tuple[str | None, str], Promise] = {}
    for promise in found.promises:
        key = promise.request_class, promise.metric
        if key not in worst or _used(promise) > _used(worst[key]):
            worst[key] = promise
    return list(worst.values())


def _used(promise: Promise) -> float:
    """Used part of a limit: below 1 where there is room, whichever side of it is the good one."""
    if promise.metric == RATE:
        return promise.limit / max(promise.executed, NOTHING)
    return promise.executed / promise.limit


def _farthest(found: Certified) -> list[Check]:
    """Predictions, each in the period in which it was farthest off."""
    worst: dict[str, Check] = {}
    for check in found.checks:
        if check.metric not in worst or abs(check.relative_error) > abs(worst[check.metric].relative_error):
            worst[check.metric] = check
    return list(worst.values())


def _promise(promise: Promise) -> tuple[str, ...]:
    interval = DASH
    if promise.ci_low is not None and promise.ci_high is not None:
        interval = f"{number(promise.ci_low, 4)} to {number(promise.ci_high, 4)}"
    what = promise.metric if promise.request_class is None else f"{promise.metric}, {promise.request_class}"
    outcome = "undecided" if not promise.decided else "kept" if promise.holds else "broken"
    return (*_when(promise), what, number(promise.limit, 4), number(promise.executed, 4), interval, outcome)


def _rows(found: Certified) -> Iterator[str]:
    at = f"{number(found.load)} of {number(found.req_per_s, 4)} req/s"
    if found.periods:
        n = len(found.periods)
        at = "its demand" if n == 1 else f"its own demand in each of {n} periods"
    yield (
        f"{found.n_requests:,} requests in {found.n_replications} replications at {at}, "
        f"and as many with the system kept full; seed {found.seed}; "
        f"{percent(found.confidence, 0)} intervals, whose worse end must keep the promise"
    )
    allowed = {promise.metric: promise.allowed for promise in found.promises if promise.allowed > 0}
    if allowed:
        yield "allowed to be missed by: " + ", ".join(f"{name} {percent(a, 0)}" for name, a in allowed.items())
    if found.is_as_asked:
        yield "the plan held as it was asked for"
        return
    broken = list(dict.fromkeys(name for one in found.rounds for name in one.broken))
    more = f" and {len(broken) - MOST_BROKEN} more" if len(broken) > MOST_BROKEN else ""
    yield f"{len(found.rounds)} plans were run; not kept at first: {', '.join(broken[:MOST_BROKEN])}{more}"
    yield from _tightening(found.rounds[0], found.rounds[found.chosen])


def _tightening(first: Round, last: Round) -> Iterator[str]:
    """Values handed to the optimizer instead of what was asked for, and their price in claimed rate."""
    handed: tuple[tuple[str, float | None, float | None, str], ...] = (
        ("TTFT", first.ttft_s, last.ttft_s, "s"),
        *_by_class("TTFT", first.ttft_by_class_s, last.ttft_by_class_s, "s"),
        *_by_class("decode step", first.tpot_by_class_ms, last.tpot_by_class_ms, "ms"),
        ("decode step", first.tpot_ms, last.tpot_ms, "ms"),
        ("demand", first.demand_req_per_s, last.demand_req_per_s, "req/s"),
    )
    for what, asked, given, unit in handed:
        if asked is not None and given is not None and given > asked and what.startswith("TTFT"):
            yield f"{what} that the run bears out: {number(given, 4)} {unit} instead of {number(asked, 4)} {unit}"
        elif asked != given and asked is not None:
            yield f"handed to the optimizer: {what} of {number(given, 4)} {unit} instead of {number(asked, 4)} {unit}"
        elif asked != given:
            yield f"{what} that the run bears out: {number(given, 4)} {unit}"
    if first.req_per_s != last.req_per_s:
        yield f"claimed: {number(last.req_per_s, 4)} req/s instead of {number(first.req_per_s, 4)} req/s"


def _by_class(
    what: str, first: Mapping[str, float], last: Mapping[str, float], unit: str
) -> Iterator[tuple[str, float, float, str]]:
    for name in first:
        yield f"{what} of {name}", first[name], last.get(name, first[name]), unit
