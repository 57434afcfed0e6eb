"""Samples of metrics: of one scrape in Prometheus' text format, or of the answer to a range query."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isfinite
from typing import Any

from planner.errors import InputError, InputProblem, shown
from planner.schema import JsonFile
from planner.workload.spec import TimeUnit
from planner.workload.time_units import MOST_DAYS, OPTION, SECONDS_PER_DAY, UNITS, TimeScale, time_scale

MOST_SAMPLES = 5_000_000
SUFFIXES = ("_bucket", "_sum", "_count")
RESPONSE = "the answer of /api/v1/query_range or /api/v1/query to a query of the metrics themselves"

USUAL = TimeScale("s", "format")
Series = tuple[tuple[str, str], ...]
Points = list[tuple[float | None, float]]


@dataclass
class Samples:
    """Counters of all instances, and how much each grew."""

    name: str
    """How problems call the file."""
    series: dict[str, dict[Series, Points]] = field(default_factory=dict)
    """By metric and labels: times [s], where they are known, and values."""
    times: TimeScale = USUAL
    """Unit of the times as they were written."""
    is_range: bool = False
    """Whether values stand at several times; else they count from the start of the server."""

    def add(self, metric: str, labels: Mapping[str, str], points: Points) -> None:
        """Take in a series."""
        key = tuple(sorted(labels.items()))
        self.series.setdefault(metric, {}).setdefault(key, []).extend(points)

    def grown(self, metric: str) -> float | None:
        """Growth of all counters of a name together; None where there is none."""
        found = self.series.get(metric)
        return None if found is None else sum(self._growth(points) for points in found.values())

    def buckets(self, histogram: str) -> tuple[list[float], list[float]] | None:
        """Ends of a histogram's buckets and how many counts up to each came in; None where there is none."""
        ends: dict[float, float] = {}
        for labels, points in self.series.get(f"{histogram}_bucket", {}).items():
            end = self._end(histogram, dict(labels).get("le"))
            ends[end] = ends.get(end, 0.0) + self._growth(points)
        if not ends or sum(ends.values()) == 0:
            return None
        if inf not in ends:
            raise InputError(
                InputProblem(self.name, f"{histogram}_bucket", 'has no bucket le="+Inf"', "all of its buckets")
            )
        order = sorted(ends)
        counts = [ends[end] for end in order]
        if any(a > b * (1 + 1e-9) for a, b in pairwise(counts)):
            what = "has fewer requests up to a longer length than up to a shorter one"
            raise InputError(InputProblem(self.name, f"{histogram}_bucket", what, "cumulative counts of one histogram"))
        return order, counts

    def hourly(self, metric: str, hour_s: float) -> tuple[float, list[float]]:
        """When the first whole hour begins [s], and how much all counters of a name grew in each."""
        found = self.series[metric].values()
        times = [time for points in found for time, _ in points if time is not None]
        start = min(times)
        n = int((max(times) - start) // hour_s)
        grown = [0.0] * n
        for points in found:
            ordered = [(time, value) for time, value in sorted(points) if time is not None]
            for (_, before), (time, value) in pairwise(ordered):
                hour = min(int((time - start - 1e-6) // hour_s), n)
                if hour < n:
                    grown[hour] += _step(before, value)
        return start, grown

    def span_s(self, metric: str) -> float:
        """Seconds between the first and the last sample of a name."""
        times = [time for points in self.series[metric].values() for time, _ in points if time is not None]
        return max(times) - min(times) if times else 0.0

    def _growth(self, points: Points) -> float:
        if not self.is_range:
            return points[-1][1]
        values = [value for _, value in sorted(points, key=lambda point: point[0] or 0.0)]
        return sum(_step(a, b) for a, b in pairwise(values))

    def _end(self, histogram: str, text: str | None) -> float:
        try:
            return float(text or "")
        except ValueError:
            what = f"has the bucket le={shown(text)}"
            raise InputError(InputProblem(self.name, f"{histogram}_bucket", what, "a number or +Inf")) from None


def _step(before: float, after: float) -> float:
    """Growth of a counter; one that fell has begun anew."""
    return after - before if after >= before else after


def exposition(name: str, text: str) -> Samples:
    """Samples of one scrape.

    Raises:
        InputError: naming the first line that is not of Prometheus' text format.
    """
    from prometheus_client.parser import text_string_to_metric_families

    found = Samples(name)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if isfinite(sample.value):
                    found.add(sample.name, sample.labels, [(None, sample.value)])
    except (ValueError, IndexError) as error:
        number, line = _first_broken(text)
        message = f"is no sample: {shown(line)}" if number else f"is no exposition: {error}"
        raise InputError(InputProblem(name, "", message, 'lines such as NAME{LABEL="TEXT"} NUMBER', number)) from None
    return found


def _first_broken(text: str) -> tuple[int | None, str]:
    """The first line that cannot be read by itself; most are right, so that they are tried together by halves."""
    from prometheus_client.parser import text_string_to_metric_families

    lines = text.splitlines()

    def is_broken(n: int) -> bool:
        try:
            list(text_string_to_metric_families("\n".join(lines[:n])))
        except (ValueError, IndexError):
            return True
        return False

    at = bisect_right(range(1, len(lines) + 1), False, key=is_broken)
    return (at + 1, lines[at].strip()) if at < len(lines) else (None, "")


def query_answer(name: str, text: str, time_unit: TimeUnit | None = None) -> Samples:
    """Samples of the answers to one query, or of several in a list; times are seconds unless something else is certain.

    Raises:
        InputError: it is none, of a query that leaves out the metrics' names, or of times that lie too far apart.
    """
    data = JsonFile(name, text, RESPONSE, is_strict=False).data
    found, n_samples, first = Samples(name), 0, None
    for place, answer in _answers(data):
        result = _result(name, place, answer)
        for i, item in enumerate(result):
            metric, written = _series(name, f"{place}data.result[{i}]", item)
            if first is None and written:
                first = written[0][0]
                found.times = time_scale(name, f"{place}data.result[{i}].values", first, time_unit, found.times)
            points: Points = [(time * found.times.seconds, value) for time, value in written]
            for (time_s, _), (time, _) in zip(points, written, strict=True):
                if abs((time_s or 0.0) - (first or 0.0) * found.times.seconds) > MOST_DAYS * SECONDS_PER_DAY:
                    what = f"has the time {time:.15g}, and the first of all samples is {first:.15g}"
                    allowed = f"times of one unit, {MOST_DAYS:,.0f} days at most; {OPTION}: {UNITS}"
                    raise InputError(InputProblem(name, f"{place}data.result[{i}].values", what, allowed))
            labels = dict(metric)
            n_samples += len(points)
            found.is_range = found.is_range or len(points) > 1
            found.add(labels.pop("__name__"), labels, points)
            if n_samples > MOST_SAMPLES:
                allowed = f"at most {MOST_SAMPLES:,} samples; a longer step"
                raise InputError(InputProblem(name, f"{place}data.result[{i}]", "is too much", allowed))
    if not found.series:
        raise InputError(InputProblem(name, "data.result", "is empty", "metrics that were scraped in that time"))
    return found


def _answers(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, list):
        yield from ((f"[{i}].", answer) for i, answer in enumerate(data))
    else:
        yield "", data


def _result(name: str, place: str, answer: Any) -> list[Any]:
    if not isinstance(answer, dict):
        raise InputError(InputProblem(name, place.rstrip("."), f"is {shown(answer)}", RESPONSE))
    if answer.get("status") == "error":
        raise InputError(InputProblem(name, f"{place}error", f"says: {shown(answer.get('error'))}", RESPONSE))
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(result, list):
        raise InputError(InputProblem(name, f"{place}data.result", "is no list", RESPONSE))
    return result


def _series(name: str, place: str, item: Any) -> tuple[Mapping[str, str], list[tuple[float, float]]]:
    metric = item.get("metric") if isinstance(item, dict) else None
    if not isinstance(metric, dict) or not all(isinstance(text, str) for text in metric.values()):
        raise InputError(InputProblem(name, f"{place}.metric", "is no table of labels", RESPONSE))
    if "__name__" not in metric:
        what = "has no __name__: a function or sum leaves it out"
        allowed = 'the metrics themselves, such as {__name__=~"vllm:.*"}'
        raise InputError(InputProblem(name, f"{place}.metric", what, allowed))
    values = item.get("values", [item["value"]] if "value" in item else None)
    if not isinstance(values, list):
        raise InputError(InputProblem(name, f"{place}.values", "is no list", "pairs of time and value"))
    try:
        points = [(float(time), float(value)) for time, value in values]
    except (TypeError, ValueError):
        raise InputError(
            InputProblem(name, f"{place}.values", "has no such pairs", "pairs of time and value")
        ) from None
    return metric, [(time, value) for time, value in points if isfinite(time) and isfinite(value)]
