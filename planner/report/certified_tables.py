"""What was certified of a plan, as tables for a terminal of a hundred columns."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.report import words
from planner.report.terminal import caption, empty_table, filled, remarks
from planner.report.validation_tables import check_row
from planner.results import Certified, Plan, Promise, Round
from planner.units import DASH, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType


def certified_tables(plan: Plan) -> "list[RenderableType | None]":
    """What a run bore out of a plan, for people; nothing where none was asked for."""
    found = plan.certified
    if found is None:
        return []
    promises = empty_table("certified by running it", "promise", ">promised", ">executed", ">95 % interval")
    checks = empty_table("predictions beside the run", "metric", ">predicted", ">executed", ">95 % interval", ">error")
    caption(checks, f"at {number(found.load)} of the plan's rate; error: predicted over executed, less one")
    return [
        filled(promises, map(_promise, found.promises)),
        remarks("how it was certified", map(words.sentence, _told(found))),
        filled(checks, (check_row(check)[:5] for check in found.checks)),
    ]


def _promise(promise: Promise) -> tuple[str, ...]:
    interval = DASH
    if promise.ci_low is not None and promise.ci_high is not None:
        interval = f"{number(promise.ci_low, 4)} to {number(promise.ci_high, 4)}"
    return promise.metric, number(promise.limit, 4), number(promise.executed, 4), interval


def _told(found: Certified) -> Iterator[str]:
    yield (
        f"{found.n_requests:,} requests in {found.n_replications} replications at {number(found.load)} of "
        f"{number(found.req_per_s, 4)} req/s, and as many with the system kept full; seed {found.seed}; "
        f"{percent(found.confidence, 0)} intervals, whose worse end must keep the promise"
    )
    allowed = {promise.metric: promise.allowed for promise in found.promises if promise.allowed > 0}
    if allowed:
        yield "allowed to be missed by: " + ", ".join(f"{name} {percent(a, 0)}" for name, a in allowed.items())
    if found.is_as_asked:
        yield "the plan held as it was asked for"
        return
    broken = ", ".join(dict.fromkeys(name for one in found.rounds for name in one.broken))
    yield f"{len(found.rounds)} plans were run; not kept at first: {broken}"
    yield from _tightening(found.rounds[0], found.rounds[found.chosen])


def _tightening(first: Round, last: Round) -> Iterator[str]:
    """What the optimizer was handed instead of what was asked for, and what it cost."""
    handed = (
        ("TTFT", first.ttft_s, last.ttft_s, "s"),
        ("decode step", first.tpot_ms, last.tpot_ms, "ms"),
        ("demand", first.demand_req_per_s, last.demand_req_per_s, "req/s"),
    )
    for what, asked, given, unit in handed:
        if asked != given and asked is not None:
            yield f"handed to the optimizer: {what} of {number(given, 4)} {unit} instead of {number(asked, 4)} {unit}"
        elif asked != given:
            yield f"{what} that the run bears out: {number(given, 4)} {unit}"
    if first.req_per_s != last.req_per_s:
        yield f"claimed: {number(last.req_per_s, 4)} req/s instead of {number(first.req_per_s, 4)} req/s"
