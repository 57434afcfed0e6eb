"""Solve a model with HiGHS and read the answer back as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.errors import UndecidedError
from planner.optimizer.capacity import Loads
from planner.optimizer.formulation import ProgramGoal, RoutedProgram, Sizing, build
from planner.optimizer.highs import is_out_of_steps, run_within
from planner.optimizer.problem import Problem
from planner.optimizer.time_limit import nothing_found
from planner.work_clock import spend

if TYPE_CHECKING:
    import pulp

INTEGRALITY_TOLERANCE = 1e-6
NO_RATE = 1e-9
NO_HEURISTICS = {
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_allow_restart": False,
}
"""These programs are small: their first points are found sooner without, and a search takes half the time."""
TERM_S = 2e-5
"""What a term of a program takes to be handed over [s]."""


@dataclass(frozen=True)
class RoutedOptimum:
    """Values of a solved model."""

    objective: float
    bound: float
    """Proven bound of the objective."""
    rate: float
    sizing: Sizing
    chosen: tuple[int | None, ...]
    """Candidate of each route; None where the route carries nothing."""
    shares: tuple[float, ...]
    """Rate of each route [req/s]."""


def solve(problem: Problem, loads: Sequence[Loads], goal: ProgramGoal, time_limit_s: float) -> RoutedOptimum | None:
    """The optimum of the model, or None when it is proven infeasible.

    Raises:
        UndecidedError: at the time limit without a feasible point or a proof.
    """
    program = build(problem, loads, goal)
    return answer(program, run_highs(program, time_limit_s))


def run_highs(program: RoutedProgram, time_limit_s: float) -> int:
    """PuLP's `sol_status`; `status` would call a time-limited incumbent optimal."""
    import pulp

    solver = pulp.HiGHS(
        msg=False,
        gapRel=0.0,
        threads=1,
        mip_feasibility_tolerance=INTEGRALITY_TOLERANCE,
        random_seed=0,
        **NO_HEURISTICS,
    )
    lp = program.lp
    solver.createAndConfigureSolver(lp)
    solver.buildSolverModel(lp)
    spend(TERM_S * lp.solverModel.getNumNz())
    run_within(lp.solverModel, time_limit_s, is_integer=True)
    try:
        status, sol_status = solver.findSolutionValues(lp)
    except IndexError:
        # PuLP reads a value per variable even where HiGHS refused the model and holds none.
        raise UndecidedError(
            "the solver cannot take these numbers: some are too large or small beside others"
        ) from None
    lp.assignStatus(status, sol_status)
    return int(lp.sol_status)


def answer(program: RoutedProgram, sol_status: int) -> RoutedOptimum | None:
    """Values of a solved model; None when proven infeasible."""
    import pulp

    if sol_status == pulp.LpSolutionInfeasible:
        return None
    if not _has_point(program):
        raise nothing_found(is_time_up=is_out_of_steps(program.lp.solverModel), looked_at="the solver's steps")
    return RoutedOptimum(
        objective=float(pulp.value(program.lp.objective)),
        bound=_proven_bound(program),
        rate=_value(program.rate),
        sizing=Sizing(
            tuple(round(_value(n)) for n in program.instances),
            tuple(tuple(round(_value(m)) for m in row) for row in program.ports),
        ),
        chosen=tuple(_chosen([_value(w) for w in row]) for row in program.rates),
        shares=tuple(sum(map(_value, row)) for row in program.rates),
    )


def _value(variable: pulp.LpVariable) -> float:
    return float(variable.value() or 0.0)


def _has_point(program: RoutedProgram) -> bool:
    """Whether HiGHS holds a feasible point; PuLP reports a time limit without one as feasible all the same."""
    import highspy

    feasible = highspy.SolutionStatus.kSolutionStatusFeasible
    return bool(program.lp.solverModel.getInfo().primal_solution_status == feasible)


def _chosen(rates: list[float]) -> int | None:
    best = max(range(len(rates)), key=rates.__getitem__)
    return best if rates[best] > NO_RATE else None


def _proven_bound(program: RoutedProgram) -> float:
    """HiGHS's dual bound in the sense of the objective; PuLP negates what is to be maximised."""
    import pulp

    sign = -1.0 if program.lp.sense == pulp.LpMaximize else 1.0
    return sign * float(program.lp.solverModel.getInfo().mip_dual_bound) + float(program.lp.objective.constant)
