"""Users in place of a rate: the rate at which a closed population sends requests, found with the plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from pathlib import Path

from planner.comparison.evaluation import evaluation
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec, requests_by_name
from planner.optimizer.solution import GAP_TARGET, Solution
from planner.optimizer.strategies import best_solution
from planner.scenario import Scenario
from planner.units import rounded

CLOSE = 1.005
"""Two rates this close to one another are one."""
MOST_PLANS = 10
"""That are made to find a rate."""
FAR = 4.0
"""Over the next rate that is tried below one that no plan serves, squared."""
USUAL_ANSWER_S = 10.0
"""Time of an answer that the first plan is made for [s]."""
LEAST_CYCLE_S = 1e-3
"""Of thinking and an answer together [s]."""
DIGITS = 6
"""Of a rate that is found."""


def posed_problem(
    scenario: Scenario, data_dirs: Sequence[Path] = (), classes: Sequence[ClassSpec] = (), time_limit_s: float = 60.0
) -> Problem:
    """The problem of a scenario as the optimizer poses it; where users are stated, at the rate of their requests.

    Equation:
        lambda = N / (Z + R(lambda)), N users who think for Z seconds, R the time of an answer by the plan for lambda

    Source:
        The response time law of closed systems: Harchol-Balter, Performance Modeling and Design of Computer Systems
        (2013), ch. 6. A plan for a rate answers in a time at which users send no more than that rate: the lowest such
        rate is the one, as plans for higher rates cost no less.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        classes: those of another problem with the same requests, so that a trace is read once.
        time_limit_s: seconds that choosing layouts may take, and each of the plans for a rate.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does.
    """
    if scenario.users is None or scenario.demand_req_per_s is not None:
        return planning_problem(scenario, data_dirs, classes, time_limit_s)
    return _Population(scenario, data_dirs, classes, time_limit_s).problem()


def at_population_rate(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0) -> Scenario:
    """The scenario with the rate of its users beside them; the same where it states none. Raises as above."""
    if scenario.users is None or scenario.demand_req_per_s is not None:
        return scenario
    rate = posed_problem(scenario, data_dirs, time_limit_s=time_limit_s).scenario.demand_req_per_s
    return scenario.varied({"demand_req_per_s": rate})


@dataclass(frozen=True)
class _Population:
    """Users of a scenario without a rate."""

    scenario: Scenario
    data_dirs: Sequence[Path]
    classes: Sequence[ClassSpec]
    time_limit_s: float

    def problem(self) -> Problem:
        """The question at the lowest rate whose plan answers so soon that users send no more."""
        low, high, kept = 0.0, inf, None
        rate = self._sent_req_per_s(self._first_answer_s())
        for _ in range(MOST_PLANS):
            problem = self._at(rate)
            solution = best_solution(problem, self.time_limit_s, GAP_TARGET)
            sent = 0.0 if solution is None else self._sent_req_per_s(self._answer_s(problem, solution))
            if sent > CLOSE * rate:
                low = rate
            else:
                high, kept = rate, problem if solution is not None else kept
                if rate <= CLOSE * sent:
                    break
            if high <= CLOSE * low:
                break
            rate = sent if low < sent < high else sqrt(max(low, high / FAR) * high)
        # Where no plan keeps up, the question is posed all the same: whoever solves it says what would do.
        return kept or self._at(high if isfinite(high) else rate)

    def _at(self, req_per_s: float) -> Problem:
        asked = self.scenario.varied({"demand_req_per_s": rounded(req_per_s, DIGITS)})
        return planning_problem(asked, self.data_dirs, self.classes, self.time_limit_s)

    def _sent_req_per_s(self, answer_s: float) -> float:
        """Rate of the requests of all users, where an answer takes so long."""
        return (self.scenario.users or 0) / max((self.scenario.think_s or 0.0) + answer_s, LEAST_CYCLE_S)

    def _first_answer_s(self) -> float:
        """Time of an answer that the first rate is tried for: a usual one, or as long as a first token may take [s]."""
        slo = next((slo for slo in map(self.scenario.slo_of, self.scenario.workloads) if slo is not None), None)
        return USUAL_ANSWER_S if slo is None or slo.ttft_s is None else max(slo.ttft_s, USUAL_ANSWER_S)

    def _answer_s(self, problem: Problem, solution: Solution) -> float:
        """Mean time of a whole answer by a plan: waits count where they are known [s]."""
        known, total_s = requests_by_name(problem.classes), 0.0
        for one in evaluation(problem, solution, is_brief=True).classes():
            share, mix = known[one.name]
            ttft_s = one.latency.ttft_mean_s or one.latency.ttft_unloaded_mean_s or 0.0
            total_s += share * (ttft_s + (mix.mean_output_tokens - 1) * (one.latency.tpot_mean_s or 0.0))
        return total_s
