"""One scenario planned: what baselines and ways out of infeasibility ask again and again."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.comparison.evaluation import Evaluation, evaluation, evaluation_at
from planner.optimizer.layout_choice import LAYOUTS_PART, planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec
from planner.optimizer.resolution import resolved_problem
from planner.optimizer.solution import ANY_PLAN, GAP_TARGET, Solution, objective_unit
from planner.optimizer.strategies import best_solution, too_slow_alone
from planner.queueing.ttft import Ttft
from planner.results.plan import Fleet
from planner.scenario import Scenario
from planner.units import number, percent
from planner.work_clock import work_s

Classes = Sequence[ClassSpec]
"""Requests that were read before, so that no trace is read twice."""
LEAST_TIME_S = 0.1
FEW_SIZINGS = 20
"""Sizes that are looked at for any plan under a promise: most of those that there are plans of are found by then."""
ANY_RATE = 1e-3
"""A fleet that serves anything at all serves this [req/s]."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A problem with a solution of it, and the fleet that this is."""

    problem: Problem
    solution: Solution

    @cached_property
    def fleet(self) -> Fleet:
        """The fleet at the rate the plan is for."""
        return Fleet(**evaluation(self.problem, self.solution).fleet())

    def at(self, req_per_s: float) -> Fleet:
        """The same sizes and thresholds at another rate, at most the highest they serve [req/s]."""
        return Fleet(**evaluation_at(self.problem, self.solution, req_per_s).fleet())

    @property
    def objective(self) -> float:
        """Highest rate or goodput [req/s], bill [USD/h], or TTFT at the percentile asked for [s]."""
        return self.solution.objective * objective_unit(self.problem)

    @property
    def bound(self) -> float:
        """Bound that no fleet passes, in the unit of the objective."""
        return self.solution.bound * objective_unit(self.problem)

    @property
    def gap(self) -> float:
        """Relative distance of the objective to its bound."""
        return self.solution.gap

    def ttft(self, req_per_s: float) -> Ttft | None:
        """Distribution of TTFT over all requests at a rate [req/s]; None where the queueing room has no answer."""
        periods = range(len(self.problem.periods))
        return evaluation_at(self.problem, self.solution, req_per_s).ttft(range(len(self.problem.streams)), periods)

    def class_ttft(
        self, name: str, period: str | None = None, req_per_s: float | None = None, *, is_loaded: bool = True
    ) -> Ttft | None:
        """Distribution of the TTFT of a class, of one period or of the whole time.

        Args:
            period: of several; None: all of them.
            req_per_s: rate over all classes and the whole time; None: the one that the plan is for [req/s].
            is_loaded: whether waits count.

        Returns:
            The distribution; None where the queueing room has no answer, or the period has none of its requests.
        """
        answer, streams, periods = self._of_class(name, period, req_per_s)
        return answer.ttft(streams, periods, is_loaded)

    def class_tpot_s(
        self, name: str, q: float, period: str | None = None, req_per_s: float | None = None
    ) -> float | None:
        """Time per output token of a class that a fraction of its requests does not exceed, where it is longest.

        Args:
            period: of several; None: all of them.
            req_per_s: rate over all classes and the whole time; None: the one that the plan is for [req/s].

        Returns:
            Seconds; None where it decodes nothing.
        """
        answer, streams, periods = self._of_class(name, period, req_per_s)
        return answer.tpot_quantile_s(streams, periods, q)

    def _of_class(
        self, name: str, period: str | None, req_per_s: float | None
    ) -> tuple[Evaluation, list[int], list[int]]:
        """The plan at a rate, with the streams of a class and the periods that are asked for."""
        asked = (self.problem, self.solution)
        answer = (
            evaluation(*asked, is_brief=True) if req_per_s is None else evaluation_at(*asked, req_per_s, is_brief=True)
        )
        classes, spans = self.problem.classes, self.problem.periods
        own = next(c for c, spec in enumerate(classes) if name in (member.name for member in spec.members))
        streams = [q for q, stream in enumerate(self.problem.streams) if stream.request_class == own]
        periods = [p for p, span in enumerate(spans) if period is None or period in dict(span.members)]
        return answer, streams, periods


def planned_fleet(scenario: Scenario, classes: Classes, deadline: float, is_any: bool = False) -> Planned | None:
    """The best fleet of a scenario that is found until a deadline; None where it is proven that there is none.

    Args:
        deadline: `work_s()` time to stop at.
        is_any: whether the first fleet that does will do.

    Raises:
        InputError: the scenario cannot be resolved.
        InfeasibleError: weights or prompts fit nowhere.
        UndecidedError: time is up without a fleet or a proof.
    """
    left = max(deadline - work_s(), LEAST_TIME_S)
    problem = planning_problem(scenario, classes=classes, time_limit_s=LAYOUTS_PART * left)
    left = max(deadline - work_s(), LEAST_TIME_S)
    found = _any(problem, left) if is_any else best_solution(problem, left, GAP_TARGET)
    return None if found is None else Planned(problem, found)


def _any(problem: Problem, time_limit_s: float) -> Solution | None:
    """Any plan: the cheapest one of the demand, or of hardly any, is found soonest."""
    return best_solution(_easy(problem), time_limit_s, ANY_PLAN, most_sizings=FEW_SIZINGS)


def _easy(problem: Problem) -> Problem:
    """The problem of the least cost; where the least TTFT is asked for, with a promise that hardly matters."""
    if not problem.is_priced:
        return problem
    easy = problem.demanding(problem.must_serve_req_per_s or ANY_RATE, "min-cost")
    if not problem.is_min_ttft:
        return easy
    from planner.optimizer.network.ttft_bisection import LONGEST_TTFT_S, with_ttft_slo  # loads what searches networks

    return with_ttft_slo(easy, LONGEST_TTFT_S)


def too_slow(scenario: Scenario, classes: Classes) -> str:
    """Which prompts take longer to prefill than they may, to be said behind a semicolon; nothing where none do."""
    slow = max(too_slow_alone(resolved_problem(scenario, (), classes)), default=None)  # on any of its layouts
    if slow is None:
        return ""
    return f"; {percent(slow[0])} of the prompts take over {number(slow[1])} s to prefill, without any wait"
