"""The best fleet with a colocated pool, over every way, layout and threshold: branch and bound over spans of these."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.together.aims import ROUNDING, Aim, Found
from planner.optimizer.together.least_bill import LeastBill
from planner.optimizer.together.pairing import Pairing, Sizes, Span
from planner.optimizer.together.question import Question
from planner.optimizer.together.within_means import HighestRate, SoonestToken
from planner.work_clock import work_s

WIDE = 0.15
"""Relative distance of a span's bound from that of a threshold in it, beyond which it is cut by capacity alone."""
SOME = (0.25, 0.5, 0.75)
"""Parts of a span's prefill work that stay before thresholds that are tried first,"""
N_TRIED = 12
"""and how many of these."""


@dataclass(frozen=True, eq=False)
class Best:
    """The best fleet that was found."""

    pairing: Pairing
    sizes: Sizes
    threshold_tokens: float
    value: float
    """Of the aim: USD per hour, a rate with its sign turned, or seconds."""
    bound: float
    """What no fleet passes."""
    target: float
    """Gap that counts as none."""

    @property
    def gap(self) -> float:
        """Relative distance of both."""
        return max(self.value - self.bound, 0.0) / max(abs(self.value), 1e-12)

    @property
    def is_optimal(self) -> bool:
        """Whether the gap counts as none."""
        return self.gap <= self.target * (1 + ROUNDING)

    @property
    def leaves(self) -> bool:
        """Whether some prompts are computed elsewhere."""
        return self.pairing.prefill_s(self.threshold_tokens) > 0


@dataclass(frozen=True)
class _Part:
    """A span that is still to be looked at."""

    pairing: Pairing
    span: Span
    is_refined: bool = False
    """Whether its bound counts with the promise."""


@dataclass
class _Search:
    """Spans by their bound, and the best so far."""

    aim: Aim
    heap: list[tuple[float, int, _Part]] = field(default_factory=list)
    best: Best | None = None
    n_pushed: int = 0
    closed: float = inf
    """Least value that a span may have which was passed over because it is hardly better."""

    def push(self, bound: float, part: _Part) -> None:
        """Keep a span for later, if it may hold something better."""
        if bound >= self.below:
            return
        self.n_pushed += 1
        heappush(self.heap, (bound, self.n_pushed, part))

    @property
    def below(self) -> float:
        """Value from which on a fleet is no better than the best."""
        return inf if self.best is None else self.best.value - self.aim.step * abs(self.best.value)

    @property
    def bound(self) -> float:
        """What no fleet passes."""
        value = inf if self.best is None else self.best.value
        return min(value, self.closed, self.heap[0][0] if self.heap else inf)

    @property
    def is_proven(self) -> bool:
        """Whether nothing is left that is better by more than the gap."""
        value = None if self.best is None else self.best.value
        return not self.heap or (value is not None and self.heap[0][0] >= value - self.aim.gap * abs(value))

    def look(self) -> None:
        """Look at the span with the least bound: try a threshold of it, and cut it."""
        bound, _, part = self.heap[0]
        pairing, span = part.pairing, part.span
        is_wide = self.aim.is_timed and not part.is_refined and self._is_wide(bound, part)
        if span.low < span.high and self.aim.is_timed and not part.is_refined and not is_wide:
            might = self.aim.best(pairing, span, self.below)
            heappop(self.heap)
            if might is None:
                self.closed = min(self.closed, self.below)
            else:
                self.push(max(bound, might.value), replace(part, is_refined=True))
            return
        found = None if is_wide else self.aim.best(pairing, Span(span.low, span.low), self.below)
        heappop(self.heap)
        if found is not None:
            self.keep(pairing, span.low, found, bound)
        if not pairing.is_one(span):
            for one in _parts(span, pairing.leaving(span, self.aim.cut(pairing, span))):
                self.push(max(bound, self.aim.bound(pairing, one)), _Part(pairing, one))

    def keep(self, pairing: Pairing, threshold_tokens: float, found: Found, bound: float) -> None:
        """A fleet as the best one."""
        found = self.aim.trimmed(pairing, found, threshold_tokens)
        self.best = Best(pairing, found.sizes, threshold_tokens, found.value, bound, self.aim.gap)

    def try_some(self) -> None:
        """Fleets at a few thresholds, those first of which capacity alone says that they may be best.

        With one of them known, most spans need not be looked at under the promise, which takes longest.
        """
        points: list[tuple[float, int, Pairing, Span]] = []
        for _, number, part in self.heap:
            for t in _some(part):
                at = Span(t, t)
                points.append((self.aim.bound(part.pairing, at), number, part.pairing, at))
        points.sort(key=lambda one: one[:2])
        for n, (value, _, pairing, at) in enumerate(points):
            if value >= self.below or (self.best is not None and n >= N_TRIED):
                return
            found = self.aim.best(pairing, at, self.below)
            if found is not None:
                self.keep(pairing, at.low, found, self.heap[0][0])

    def _is_wide(self, bound: float, part: _Part) -> bool:
        """Whether thresholds of a span differ so much by capacity alone that its bound says little."""
        pairing, span = part.pairing, part.span
        if span.low >= span.high or pairing.is_one(span):
            return False
        middle = pairing.leaving(span, 0.5)
        value = self.aim.bound(pairing, Span(middle, middle))
        return value == inf or value - bound > WIDE * abs(value)


def pairings(question: Question) -> Iterator[Pairing]:
    """Every way of the colocated pool with every layout of the prefill pool."""
    for way in question.ways:
        shared: dict[object, object] = {}  # what the colocated pool does is the same beside any prefill pool
        for prefill in question.prefills or (None,):
            pools = (way.spec,) if prefill is None else (way.spec, prefill)
            problem = replace(question.problem, pools=pools)
            yield Pairing(problem, way, question.link, question.promise, _of_way=shared)


def aim_of(question: Question) -> Aim:
    """What a question seeks."""
    if question.problem.is_min_cost:
        return LeastBill(question)
    return SoonestToken(question) if question.problem.is_min_ttft else HighestRate(question)


def best_fleet(question: Question) -> Best | None:
    """The best fleet of a question, until its deadline; None where it is proven that there is none.

    Raises:
        UndecidedError: time is up without a fleet or a proof.
    """
    return searched(question, aim_of(question), pairings(question))


def searched(question: Question, aim: Aim, among: Iterable[Pairing]) -> Best | None:
    """The best fleet by an aim among some pairings; None where it is proven that there is none.

    Equation:
        spans of thresholds wait by their bound; the least is tried at its lower end and cut, until no bound is below
        the best fleet by more than the gap

    Raises:
        UndecidedError: time is up without a fleet or a proof.

    Valid:
        The colocated pool serves no more where it computes more prompts.

    Source:
        Branch and bound: Land and Doig (1960).
    """
    search = _Search(aim)
    for pairing in among:
        for span in _first_spans(question, pairing):
            search.push(aim.bound(pairing, span), _Part(pairing, span))
    try:
        if aim.is_timed:
            search.try_some()
        while not search.is_proven and work_s() < question.promise.deadline:
            search.look()
    except UndecidedError:
        pass  # in the middle of a span, which then stays open
    if search.best is None and not search.is_proven:
        raise UndecidedError(f"{question.scenario.name}: undecided: no plan was found in the time")
    return None if search.best is None else replace(search.best, bound=search.bound)


def _first_spans(question: Question, pairing: Pairing) -> Iterator[Span]:
    """All thresholds of a pairing: that under which nothing leaves, and those under which something does."""
    fixed, most = question.scenario.routing.threshold_tokens, pairing.longest_tokens
    if pairing.prefill is None:
        yield Span(most, most)
    elif fixed != "free":
        at = min(max(float(fixed), pairing.least_tokens), most)
        if pairing.long_fraction(at) == pairing.long_fraction(float(fixed)):
            yield Span(at, at)
    else:
        yield Span(most, most)
        if pairing.least_tokens < most:
            yield Span(pairing.least_tokens, float(np.nextafter(most, -inf)))


def _some(part: _Part) -> Iterator[float]:
    """Thresholds of a span: its ends, and between them a few by prefill work."""
    yield part.span.low
    if part.span.low < part.span.high:
        yield from (part.pairing.leaving(part.span, x) for x in SOME)


def _parts(span: Span, at: float) -> Iterator[Span]:
    """A span cut at a threshold; the first part ends one float before the second, as lengths may be shared."""
    cut = at if span.low < at < span.high else span.low + (span.high - span.low) / 2
    yield Span(span.low, float(np.nextafter(cut, -inf)))
    yield Span(cut, span.high)
