"""A scenario with a colocated pool planned: the fleet that was found, at the rate it is for, and how good it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from planner.errors import UndecidedError
from planner.optimizer.problem import ClassSpec
from planner.optimizer.together.answer import Stated
from planner.optimizer.together.pairing import Pairing, Sizes
from planner.optimizer.together.question import Question, question_of
from planner.optimizer.together.search import Best, best_fleet, searched
from planner.optimizer.together.within_means import HighestRateOf
from planner.queueing import JoinedQueue, Ttft
from planner.results import Bottleneck, Fleet
from planner.scenario import Scenario
from planner.ties import SOLVED, largest_first
from planner.work_clock import work_s

NO_GAIN = 1e-5
TIMED_GAIN = 8e-3
"""Relative gain of a goodput that is more than it is found to."""


@dataclass(frozen=True, eq=False)
class Together:
    """A planned fleet."""

    question: Question
    best: Best

    @property
    def objective(self) -> float:
        """Bill [USD/h], TTFT at the percentile asked for [s], or highest rate or goodput [req/s]."""
        return abs(self.best.value)

    @property
    def bound(self) -> float:
        """What no fleet passes, in the same unit."""
        return abs(self.best.bound)

    @property
    def req_per_s(self) -> float:
        """Rate that the plan is for [req/s]."""
        demand, least = self.question.problem.demand_req_per_s, self.question.least_req_per_s
        if least is not None:
            return least
        return self.objective if demand is None else min(demand, self.objective)

    def at(self, req_per_s: float) -> Stated:
        """The same sizes and threshold at another rate [req/s]."""
        best = self.best
        return Stated(best.pairing, best.sizes, best.threshold_tokens, req_per_s, self.goodput_req_per_s)

    @cached_property
    def stated(self) -> Stated:
        """The fleet at its rate."""
        return self.at(self.req_per_s)

    @cached_property
    def fleet(self) -> Fleet:
        """The fleet at its rate, as answers state it."""
        return self.stated.fleet()

    @cached_property
    def goodput_req_per_s(self) -> float | None:
        """Highest rate at which the promise on TTFT holds with this threshold; None without one [req/s]."""
        question, best = self.question, self.best
        if question.promise.ttft_s is None or question.problem.is_min_ttft:
            return None
        if question.least_req_per_s is None:
            return self.objective
        aim = HighestRateOf(question, best.sizes)
        try:
            found = aim.at_threshold(best.pairing, best.threshold_tokens, question.least_req_per_s)
        except UndecidedError:
            found = None
        return question.least_req_per_s if found is None else found

    def ttft(self, req_per_s: float | None = None) -> Ttft | None:
        """Distribution of TTFT over all requests at a rate [req/s], by default its own; None without steady state."""
        best = self.best
        rate = self.req_per_s if req_per_s is None else req_per_s
        return best.pairing.ttft(best.sizes, best.threshold_tokens, rate)

    def tpot_quantile_s(self, q: float) -> float | None:
        """Time per token that a fraction of the requests does not exceed at its rate [s]; None: unknown."""
        queue = self.queue
        return None if queue is None else queue.tpot_quantile_s(q)

    @property
    def queue(self) -> JoinedQueue | None:
        """The batch's steady state at its rate; None without one."""
        best = self.best
        return best.pairing.queue(best.threshold_tokens, best.sizes.n_colocated, self.req_per_s)

    def until(self, deadline: float) -> "Together":
        """The same with another time by which all else is to be found out."""
        promise = replace(self.question.promise, deadline=deadline)
        pairing = replace(self.best.pairing, promise=promise)
        return Together(replace(self.question, promise=promise), replace(self.best, pairing=pairing))


def together(
    scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0, classes: Sequence[ClassSpec] = ()
) -> Together | None:
    """The best fleet of a scenario with a colocated pool; None where it is proven that there is none.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds the search may take.
        classes: those of another question with the same requests, so that a trace is read once.

    Raises:
        InputError: the scenario cannot be resolved, or a promise has no model.
        InfeasibleError: weights or prompts fit nowhere.
        UndecidedError: time is up without a fleet or a proof.
    """
    question = question_of(scenario, data_dirs, work_s() + time_limit_s, classes)
    best = best_fleet(question)
    return None if best is None else Together(question, best)


def bottlenecks(found: Together) -> tuple[Bottleneck, ...]:
    """Pools and the link of which one more unit would raise the highest rate, or goodput, most valuable first.

    Equation:
        shadow price = R(n_i + 1) - R(n_i), R over every threshold; of the link per Gbps, without a promise on TTFT

    Args:
        found: the plan; what is not found out by the deadline of its question is left out.
    """
    pairing, sizes, is_timed = found.best.pairing, found.best.sizes, found.question.promise.ttft_s is not None
    base = _most(found.question, pairing, sizes)
    if base is None or found.question.problem.is_min_ttft:
        return ()
    more: list[tuple[str, str, Pairing, Sizes]] = [
        (
            f"pools.{pairing.colocated.key}.n_instances",
            "req/s per instance",
            pairing,
            sizes._replace(n_colocated=sizes.n_colocated + 1),
        )
    ]
    if pairing.prefill is not None and sizes.n_prefill > 0:
        one_more = sizes._replace(n_prefill=sizes.n_prefill + 1)
        more.append((f"pools.{pairing.prefill.key}.n_instances", "req/s per instance", pairing, one_more))
        if pairing.link is not None and not is_timed:
            name = pairing.problem.links[pairing.link].name
            wider = replace(pairing, more_gbps=1.0)
            more.append((f"links.{name}.capacity_gbps", "req/s per Gbps", wider, sizes))
    worth = []
    for key, unit, other, larger in more:
        most = _most(found.question, other, larger)
        if most is not None and most > base * (1 + (TIMED_GAIN if is_timed else NO_GAIN)):
            worth.append(Bottleneck(constraint=key, shadow_price=most - base, unit=unit))
    return tuple(largest_first(worth, lambda one: one.shadow_price, SOLVED))


def _most(question: Question, pairing: Pairing, sizes: Sizes) -> float | None:
    """The highest rate of a fleet, over every threshold; None where that was not found out in the time."""
    try:
        best = searched(question, HighestRateOf(question, sizes), [pairing])
    except UndecidedError:
        return None
    return None if best is None or not best.is_optimal else -best.value
