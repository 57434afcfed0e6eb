"""Demand and latencies of a serving benchmark's run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.benchmarks import BenchmarkRun, Statistics
from planner.errors import InputError, InputProblem
from planner.notes import Note, note
from planner.workload.observed.counted_lengths import CountedLengths, LengthCounter
from planner.workload.observed.demand import Observed

FEWEST_QUANTILES = 5
"""Of lengths, from which on these are taken to be spread evenly between one and the next."""
LATENCIES = {"ttft": {0.5: "p50", 0.9: "p90", 0.99: "p99"}, "tpot": {}}
"""Quantiles of latencies that plans state as well."""


def observed_bench(name: str, runs: Sequence[BenchmarkRun]) -> Observed:
    """The demand of the last run that completed requests.

    Raises:
        InputError: no run completed a request.
    """
    found = [run for run in runs if run.n_completed != 0]
    if not found:
        raise InputError(InputProblem(name, "completed", "is 0 in every run", "a benchmark that completed requests"))
    taken = f"{len(found)} runs are in the file; the last one is taken"
    last = _observed(found[-1])
    return replace(last, notes=(*last.notes, note("last-run-taken", taken))) if len(found) > 1 else last


def requests_run(found: Observed, *, is_closed_loop: bool) -> BenchmarkRun:
    """Recorded requests as a run that had their arrivals, or so many in flight as somebody else knows.

    Args:
        found: what was recorded.
        is_closed_loop: whether requests followed others, so that their rate is what came of it.
    """
    known = dict(found.latency_s)
    times = {figure: _recorded(known, figure) for figure in LATENCIES}
    return BenchmarkRun(
        tool="a table of requests",
        line=1,
        n_completed=sum(found.prompts.weights),
        prompts=Statistics(found.prompts.recorded_mean),
        outputs=Statistics(found.outputs.recorded_mean),
        ttft_s=times["ttft"],
        tpot_s=times["tpot"],
        served_req_per_s=found.req_per_s,
        request_rate_req_per_s=None if is_closed_loop else found.req_per_s,
        concurrency=None,
    )


def _recorded(known: Mapping[str, float], figure: str) -> Statistics | None:
    mean, median = known.get(f"{figure}_mean_s"), known.get(f"{figure}_p50_s")
    keys = {"median": f"{figure}_ms"}
    return None if mean is None else Statistics(mean, ((0.5, median),) if median else (), keys=keys)


def _observed(run: BenchmarkRun) -> Observed:
    prompts, outputs = (_counted(lengths, run.n_completed or 1.0) for lengths in (run.prompts, run.outputs))
    return Observed(
        what=f"{'' if run.n_completed is None else f'{run.n_completed:,.0f} '}requests of {run.tool}",
        prompts=prompts,
        outputs=outputs,
        req_per_s=run.request_rate_req_per_s or run.served_req_per_s,
        latency_s=tuple(_latencies(run)),
        notes=tuple(_notes(run)),
    )


def _notes(run: BenchmarkRun) -> Iterator[Note]:
    if not run.prompts.each and not run.prompts.quantiles:
        yield note(
            "tails-unknown",
            "only mean lengths are in the file (--save-detailed or --output-details writes each): tails are not seen",
        )
    if run.n_failed:
        yield note("requests-failed", f"{run.n_failed:,.0f} requests failed: lengths and latencies are of the others")


def _counted(lengths: Statistics, n: float) -> CountedLengths:
    """Every length, or buckets between quantiles, or the mean."""
    mean = lengths.mean or lengths.median or 1.0
    if lengths.each:
        counter = LengthCounter()
        counter.add(np.array(lengths.each, dtype=np.int64))
        return counter.found()
    values = [max(value, 1.0) for _, value in lengths.quantiles]
    if len(values) < FEWEST_QUANTILES or values[-1] - values[0] < 1:
        return CountedLengths((mean,), (n,), mean)
    points = {value: fraction for (fraction, _), value in zip(lengths.quantiles, values, strict=True)}
    edges = list(points)
    shares = np.diff([0.0, *list(points.values())[1:-1], 1.0])
    return CountedLengths(tuple(edges), tuple((shares * n).tolist()), mean)


def _latencies(run: BenchmarkRun) -> Iterator[tuple[str, float]]:
    """Means and quantiles of latencies under the names that plans have for them [s]."""
    for figure, names in LATENCIES.items():
        found: Statistics | None = getattr(run, f"{figure}_s")
        if found is None:
            continue
        if found.mean:
            yield f"{figure}_mean_s", found.mean
        for fraction, value in found.quantiles:
            if fraction in names and value:
                yield f"{figure}_{names[fraction]}_s", value
