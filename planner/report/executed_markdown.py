"""Results of a plan that was run, as tables and words of a report in Markdown."""

from collections.abc import Iterator

from planner.report import formats
from planner.report.markdown_tables import table
from planner.report.validation_tables import UNDECIDED, longer_run
from planner.results import Case, Executed, ExecutedFigure, ExecutedLoad, ScheduledRun
from planner.units import DASH, number, percent

RATE = "req/s"


def executed(found: Executed) -> str:
    """Every figure of every load by the paper's rule, as predicted, and as it came out."""
    headings = ["of the highest rate", ">req/s", "figure", ">paper's rule", ">predicted", ">executed"]
    headings += [">95 % interval", ">paper's rule off by", ">prediction off by", ">allowed", ""]
    return table(headings, _rows(found))


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


def told(found: Executed) -> str:
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


def schedulers(case: Case) -> str:
    """Every pattern with every kind of scheduling; nothing where they were not compared."""
    found = None if case.executed is None else case.executed.schedulers
    if found is None:
        return ""
    headings = ["pattern", "scheduler", ">TTFT mean", ">95 % interval", ">P90", ">P99", ">req/s", ">dropped"]
    headings += [">converted", ">threshold, tokens"]
    return table(headings, (_scheduled(run, run.pattern != before) for before, run in _with_before(found.runs)))


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
