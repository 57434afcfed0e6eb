"""Predicted, executed and measured figures of a live run side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from planner.hybrid.live import LiveRecord, LiveRun
from planner.hybrid.timing import DecodePoint, Point, PrefillPoint, Timed
from planner.profiles import ModelProfile
from planner.results.live import LiveCheck, LiveLine, LivePass, LiveRepeat, LiveTtft
from planner.roofline import InstanceModel, kv_bytes
from planner.studies.live.execution import LiveExecution
from planner.studies.live.forecast import Forecast, point_seconds
from planner.studies.live.question import LINK_BYTES_PER_S, OWN_POINTS, Drawn

FloatArray = NDArray[np.float64]
TOLERANCE = {
    "prefill": 0.15,
    "decode": 0.15,
    "kv_bytes": 0.0,
    "ttft_mean_s": 0.20,
    "ttft_p90_s": 0.30,
    "tpot_mean_s": 0.20,
    "throughput_req_per_s": 0.10,
    "link_fraction": 0.10,
}
UNITS = {
    "kv_bytes": "B",
    "ttft_mean_s": "s",
    "ttft_p90_s": "s",
    "tpot_mean_s": "s",
    "throughput_req_per_s": "req/s",
    "link_fraction": "1",
}
N_LINE = 25
"""Points of a predicted line."""
DIGITS = 6


@dataclass(frozen=True, eq=False)
class ServedRuns:
    """Runs that were served, and what was told of them before."""

    model: ModelProfile
    plan: Forecast
    drawn: Drawn
    runs: Sequence[LiveRun]
    """Of the same requests, one after another."""
    executed: LiveExecution | None


def passes(
    promised: Mapping[Point, float], own: Sequence[Timed], executed: LiveExecution | None, n_rounds: int
) -> list[LivePass]:
    """Passes of the served model, round by round: of a round, the median over workers."""
    found = []
    for timed in own:
        point = timed.point
        rounds = np.median(np.reshape(timed.busy_s, (n_rounds, -1)), axis=1)
        found.append(
            LivePass(
                kind="decode" if isinstance(point, DecodePoint) else "prefill",
                size=point.batch if isinstance(point, DecodePoint) else point.new_tokens,
                context_tokens=point.context_tokens if isinstance(point, DecodePoint) else None,
                predicted_s=promised[point],
                executed_s=None if executed is None else executed.points[point],
                rounds_s=_rounded(rounds),
            )
        )
    return found


def pass_checks(found: Sequence[LivePass], own: Sequence[Timed]) -> list[LiveCheck]:
    """Prefill seconds by length and decode step by batch, in busy seconds; the interval holds 90 % of the tries."""
    checks = []
    for item, timed in zip(found, own, strict=True):
        name = f"prefill, {item.size} tokens" if item.kind == "prefill" else f"decode step, batch {item.size}"
        low, high = np.quantile(timed.busy_s, [0.05, 0.95]).tolist()
        values = item.predicted_s, item.executed_s, timed.median_s
        checks.append(metric_check(name, "s", values, (low, high), _spread(item.rounds_s), TOLERANCE[item.kind]))
    return checks


def run_checks(served: ServedRuns) -> list[LiveCheck]:
    """Checks of the served requests, all repeats together."""
    finished = [record for run in served.runs for record in run.finished]
    promised = promised_figures(served)
    one_by_one = [repeat(run) for run in served.runs]
    span_s = sum(_span_s(run) for run in served.runs)
    measured = {
        "kv_bytes": float(sum(record.kv_bytes for record in finished)) / len(served.runs),
        "ttft_mean_s": float(_ttft(finished).mean()),
        "ttft_p90_s": float(np.quantile(_ttft(finished), 0.9)),
        "tpot_mean_s": float(_tpot(finished).mean()),
        "throughput_req_per_s": len(finished) / span_s,
        "link_fraction": sum(run.link_bytes for run in served.runs) / span_s / LINK_BYTES_PER_S,
    }
    # Requests that were not served sent no cache: bytes are held against those of the ones that were.
    sizes = kv_bytes(served.model, [record.input_tokens for record in finished]).sum()
    promised |= {"kv_bytes": float(sizes) / len(served.runs)}
    n = len(served.drawn.gaps)
    intervals = {"ttft_mean_s": _interval(_ttft(finished), n), "tpot_mean_s": _interval(_tpot(finished), n)}
    executed = served.executed.metrics if served.executed else {}
    return [
        metric_check(
            name,
            UNITS[name],
            (promised[name], executed.get(name), value),
            intervals.get(name),
            _spread([getattr(one, name) for one in one_by_one]) if name != "kv_bytes" else None,
            TOLERANCE[name],
        )
        for name, value in measured.items()
    ]


def promised_figures(served: ServedRuns) -> dict[str, float]:
    """Figures told of the run before it; throughput and link over the time until the last request is served."""
    plan, drawn = served.plan, served.drawn
    in_system_s = plan.ttft_mean_s + (float(drawn.output_tokens.mean()) - 1) * plan.tpot_mean_s
    span_s = float(drawn.gaps.sum()) / plan.offered_req_per_s + in_system_s
    crosses = drawn.input_tokens[drawn.input_tokens > plan.threshold_tokens]
    return {
        "ttft_mean_s": plan.ttft_mean_s,
        "ttft_p90_s": plan.ttft_p90_s,
        "tpot_mean_s": plan.tpot_mean_s,
        "throughput_req_per_s": len(drawn.gaps) / span_s,
        "link_fraction": float(kv_bytes(served.model, crosses).sum()) / span_s / LINK_BYTES_PER_S,
    }


def repeat(run: LiveRun) -> LiveRepeat:
    """Figures of one pass through the requests."""
    finished, span_s = run.finished, _span_s(run)
    ttft, tpot = _ttft(finished), _tpot(finished)
    busy = sum(record.prefill_busy_s or 0.0 for record in finished)
    wall = sum(_prefill_wall_s(record) for record in finished if record.prefill_busy_s is not None)
    return LiveRepeat(
        n_finished=len(finished),
        n_dropped=len(run.dropped),
        served_s=run.duration_s,
        ttft_mean_s=float(ttft.mean()),
        ttft_p90_s=float(np.quantile(ttft, 0.9)),
        tpot_mean_s=float(tpot.mean()) if tpot.size else None,
        throughput_req_per_s=len(finished) / span_s,
        link_fraction=run.link_bytes / span_s / LINK_BYTES_PER_S,
        busy_fraction=busy / wall if wall else None,
    )


def ttft_of(served: ServedRuns) -> LiveTtft:
    """Times to first token of every request."""
    plan = served.plan
    return LiveTtft(
        fractions=plan.ttft_fractions,
        predicted_s=_rounded(plan.ttft_quantiles_s),
        executed_s=_rounded(np.sort(served.executed.ttft_s)) if served.executed else (),
        measured_s=tuple(_rounded(np.sort(_ttft(run.finished))) for run in served.runs),
    )


def lines(served: InstanceModel) -> list[LiveLine]:
    """Lines of the roofline between the points that are timed."""
    lengths = [point.new_tokens for point in OWN_POINTS if isinstance(point, PrefillPoint)]
    steps = [point for point in OWN_POINTS if isinstance(point, DecodePoint)]
    tokens = np.unique(np.geomspace(min(lengths), max(lengths), N_LINE).round().astype(int)).tolist()
    batches = range(1, max(point.batch for point in steps) + 1)
    prefill = [point_seconds(served, PrefillPoint(n)) for n in tokens]
    decode = [point_seconds(served, DecodePoint(batch, steps[0].context_tokens)) for batch in batches]
    return [
        LiveLine(kind="prefill", sizes=tuple(tokens), predicted_s=_rounded(prefill)),
        LiveLine(kind="decode", sizes=tuple(batches), predicted_s=_rounded(decode)),
    ]


def metric_check(
    metric: str,
    unit: str,
    values: tuple[float, float | None, float],
    interval: tuple[float, float] | None,
    spread: float | None,
    tolerance: float,
) -> LiveCheck:
    """One metric: predicted, executed, measured."""
    predicted, executed, measured = values
    error = LiveCheck.error_of(predicted, measured)
    low, high = interval or (None, None)
    return LiveCheck(
        metric=metric,
        unit=unit,
        predicted=predicted,
        executed=executed,
        measured=measured,
        ci_low=low,
        ci_high=high,
        spread=spread,
        relative_error=error,
        tolerance=tolerance,
        holds=error is not None and abs(error) <= tolerance,
    )


def _ttft(records: Sequence[LiveRecord]) -> FloatArray:
    return np.array([record.ttft_s for record in records], float)


def _tpot(records: Sequence[LiveRecord]) -> FloatArray:
    return np.array([record.tpot_s for record in records if record.tpot_s is not None], float)


def _span_s(run: LiveRun) -> float:
    """From the start to the last token [s]."""
    return max(record.finished_s or 0.0 for record in run.finished)


def _prefill_wall_s(record: LiveRecord) -> float:
    return (record.prefill_end_s or 0.0) - (record.prefill_start_s or 0.0)


def _interval(values: FloatArray, n: int) -> tuple[float, float]:
    """95 % interval of a mean over n different requests, taken as independent, which those of one busy period are not.

    A request that is served again is no further draw.
    """
    half = 1.96 * float(values.std()) / sqrt(n)
    return float(values.mean()) - half, float(values.mean()) + half


def _spread(values: Sequence[float | None]) -> float | None:
    """Largest less smallest over the mean; None for fewer than two."""
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return (max(known) - min(known)) / mean if len(known) > 1 and mean else None


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{value:.{DIGITS}g}") for value in values)
