"""One run of a serving benchmark, whichever tool wrote it, and the checked reading of its figures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from planner.errors import InputProblem, shown

MOST = 1e12
"""Largest number of a figure: beyond any measurement."""
SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units of times as tools write them, in seconds."""


@dataclass(frozen=True)
class Statistics:
    """A quantity over the requests of a run, as far as the file tells it."""

    mean: float | None
    """None: not in the file."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """Fractions of the requests, ascending, and the values that these do not exceed; 0 and 1 are least and greatest."""
    each: tuple[int, ...] = ()
    """Every value, where the file has them."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Where the file has the mean and the median."""

    @property
    def median(self) -> float | None:
        """The value at a half."""
        return next((value for fraction, value in self.quantiles if fraction == 0.5), None)


@dataclass(frozen=True)
class BenchmarkRun:
    """Measurements of a benchmark under one load."""

    tool: str
    """Name of the tool that wrote it."""
    line: int
    """Line of the file where it begins, from 1."""
    n_completed: float | None
    """Requests that were answered; None: not in the file."""
    prompts: Statistics
    """Tokens of prompts [tokens]."""
    outputs: Statistics
    """Tokens of answers [tokens]."""
    ttft_s: Statistics | None
    """Time to first token [s]; None: not measured."""
    tpot_s: Statistics | None
    """Time per output token after the first [s]; None: not measured."""
    served_req_per_s: float | None
    """Requests completed per second."""
    request_rate_req_per_s: float | None
    """Rate that the benchmark was asked for; None: as fast as its concurrency lets it."""
    concurrency: float | None
    """Most requests in flight that it was asked for; None: any number."""
    n_failed: float = 0.0
    """Requests that failed, of which no figure is."""
    n_prompts: float | None = None
    """Requests that it was asked for; None: not in the file."""
    ramp: str | None = None
    """How the rate rises in the run; None: it does not."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """What else the file states of the deployment, by columns of a table of points."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The file's own names of columns, where it has others."""
    top: Mapping[str, Any] = field(default_factory=dict)
    """The object at the top of the file, in which users may state more, as `vllm bench serve --metadata` does."""


@dataclass
class ResultTable:
    """A table of a file, and everything found wrong in it so far."""

    file: str
    line: int
    table: Mapping[str, Any]
    key: str = ""
    """Where the table stands; empty: the top."""
    problems: list[InputProblem] = field(default_factory=list)
    """Shared with the places inside."""

    def named(self, key: str) -> str:
        """The full name of a key of the table."""
        return f"{self.key}.{key}" if self.key else key

    def problem(self, key: str, message: str, allowed: str) -> None:
        """Report something wrong with a key."""
        self.problems.append(InputProblem(self.file, self.named(key), message, allowed, self.line))

    def within(self, *keys: str) -> "ResultTable | None":
        """The table inside, by its path; None where there is none."""
        place = self
        for key in keys:
            inner = place.table.get(key)
            if not isinstance(inner, Mapping):
                return None
            place = ResultTable(self.file, self.line, inner, place.named(key), self.problems)
        return place

    def number(self, key: str, least: float = 0.0, scale: float = 1.0) -> float | None:
        """A number times a scale; None where there is none, or after a problem."""
        value = self.table.get(key)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= MOST:
            return float(value) * scale
        self.problem(key, f"is {shown(value)}", f"a number of {least:g} or more")
        return None

    def needed(self, key: str, least: float = 0.0) -> float | None:
        """A number that has to be there; None after a problem."""
        if self.table.get(key) is None:
            self.problem(key, "is missing", f"a number of {least:g} or more")
            return None
        return self.number(key, least)

    def text(self, key: str) -> str:
        """A name of the table; empty where there is none."""
        value = self.table.get(key)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        return value.strip() if isinstance(value, str) else ""

    def statistics(
        self, mean: str, quantiles: Mapping[str, float], scale: float = 1.0, least: float = 0.0
    ) -> Statistics | None:
        """A quantity of the table; None where it has neither mean nor median."""
        found = self.number(mean, least, scale)
        pairs = [(fraction, self.number(key, 0.0, scale)) for key, fraction in quantiles.items()]
        ordered = tuple((fraction, value) for fraction, value in pairs if value is not None)
        if any(before[1] > after[1] for before, after in pairwise(ordered)):
            self.problem(mean, "has percentiles that fall", "percentiles that rise from the least to the greatest")
        median = next((self.named(key) for key, fraction in quantiles.items() if fraction == 0.5), self.named(mean))
        result = Statistics(found, ordered, keys={"mean": self.named(mean), "median": median})
        return None if found is None and result.median is None else result


def positive(value: float | None) -> float | None:
    """A number that is not 0, which tools write for what they could not measure."""
    return value or None


def first_of(places: Sequence[ResultTable | None], *keys: str) -> tuple[ResultTable, str] | None:
    """The first of several places that states one of several keys."""
    for place in places:
        for key in keys:
            if place is not None and place.table.get(key) is not None:
                return place, key
    return None


@dataclass(frozen=True)
class BenchmarkFormat:
    """A format of benchmark results: how it is told from others, and how its runs are read."""

    name: str
    """The tool and its form, for messages."""
    is_of: Callable[[Mapping[str, Any]], bool]
    """True if a JSON object is such a result."""
    runs: Callable[[ResultTable], Iterator[BenchmarkRun]]
    """Runs of a result."""
    is_table: Callable[[Sequence[Sequence[str]]], bool] = lambda _: False
    """True if rows of a CSV are such a result, where it has a CSV."""
    from_table: Callable[[Sequence[Sequence[str]]], Mapping[str, Any]] = lambda _: {}
    """The object that the JSON of the same result has, of rows of the CSV."""
