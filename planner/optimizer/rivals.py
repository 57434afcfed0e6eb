"""What a plan is compared with, and the verdict."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.errors import UndecidedError
from planner.optimizer.at_hand import has_one_site
from planner.optimizer.baselines import baselines
from planner.optimizer.network.compared import baselines_of, sites_alone, spare_notes, verdict_by_ttft, verdict_of
from planner.optimizer.network.quickest import promising
from planner.optimizer.one_site import adoption
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.optimizer.verdict import decisive, verdict
from planner.results import Baseline, Fleet, Verdict


@dataclass(frozen=True)
class Rivals:
    """Other fleets for the same requests, the verdict, and what to know of both."""

    baselines: tuple[Baseline, ...]
    verdict: Verdict
    notes: tuple[str, ...] = ()


def rivals_of(problem: Problem, solution: Solution, plan: Fleet, time_limit_s: float, is_brief: bool = False) -> Rivals:
    """Other fleets for the requests of a plan.

    Args:
        problem: the question.
        solution: the plan.
        plan: its fleet.
        time_limit_s: seconds that each may take.
        is_brief: whether only those are planned that the verdict rests on.
    """
    if problem.is_routed:
        others, missing = baselines(problem, plan, time_limit_s, decisive(problem) if is_brief else None)
        told = tuple(adoption(problem.scenario, plan, others)) if has_one_site(problem.scenario) else ()
        return Rivals(others, verdict(problem, plan, others), (*missing, *told))
    if problem.is_min_ttft:
        promised = promising(problem, solution.objective)
        alone, why = sites_alone(promised, time_limit_s)
        if is_brief and alone is None:
            raise _undecided(problem)
        return Rivals((), verdict_by_ttft(problem, solution, plan, alone), tuple(why))
    others, unplanned, is_known = baselines_of(problem, plan, time_limit_s)
    if is_brief and not is_known:
        raise _undecided(problem)
    spare: Iterator[str] = iter(()) if is_brief else spare_notes(problem, solution, time_limit_s)
    return Rivals(others, verdict_of(problem, plan, others, is_known), (*spare, *unplanned))


def _undecided(problem: Problem) -> UndecidedError:
    return UndecidedError(f"{problem.scenario.name}: what sites on their own serve was not found out in the time")
