"""A plan for runs: what is not run of it is left out, and the same fleet is told at other loads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.comparison import posed_problem, sketched, solved
from planner.optimizer.layout_choice import LAYOUTS_PART
from planner.optimizer.problem_parts import ClassSpec, requests_by_name
from planner.optimizer.time_limit import TimeLimit
from planner.results.plan import Fleet, Plan
from planner.scenario import Scenario


@dataclass(frozen=True)
class PlanToRun:
    """A plan and its predictions."""

    plan: Fleet
    """At the rate that it is for; with its periods, where it has any."""
    at: Callable[[float], Fleet]
    """The same at a fraction of that rate, or at the most that it serves where that is less."""
    output_tokens: Mapping[str, float]
    """Mean output of every class [tokens]."""
    shares: Mapping[str, float]
    """Of every class, where all periods have the same."""

    def class_rates(self, fleet: Fleet) -> dict[str, float]:
        """Rate of every class in a plan of one demand [1/s]."""
        periods = fleet.periods if isinstance(fleet, Plan) else ()
        if len(periods) == 1 and periods[0].decoded_req_per_s:
            return {name: sum(at.values()) for name, at in periods[0].decoded_req_per_s.items()}
        return {name: share * fleet.throughput_req_per_s for name, share in self.shares.items()}


def plan_at_loads(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0) -> PlanToRun:
    """The plan of a scenario, not compared with other fleets; raises as `optimize` does."""
    limit = TimeLimit.of(time_limit_s)
    problem = posed_problem(scenario, data_dirs, time_limit_s=limit.part_s(LAYOUTS_PART))
    solution = solved(problem, limit.left_s)
    plan = sketched(problem, solution)
    outputs, shares = _by_class(problem.classes)
    return PlanToRun(plan, lambda load: sketched(problem, solution, load * plan.throughput_req_per_s), outputs, shares)


def _by_class(classes: Sequence[ClassSpec]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean output [tokens] and share of every class."""
    found = requests_by_name(classes)
    outputs = {name: mix.mean_output_tokens for name, (_, mix) in found.items()}
    return outputs, {name: share for name, (share, _) in found.items()}


def plan_to_run(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0) -> Plan:
    """The plan that `optimize` gives, without what a run asks nothing of: opponents, shadow prices and verdict.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search may take.

    Raises:
        PlannerError: as `optimize` does.
    """
    problem = posed_problem(scenario, data_dirs)
    plan = sketched(problem, solved(problem, time_limit_s))
    return plan if problem.is_plain else plan.model_copy(update={"periods": ()})
