"""Runs of HiGHS that a number of its steps ends, not the time that they take; each is counted on the clock of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.work_clock import is_past_wall, spend

if TYPE_CHECKING:
    import highspy
    from highspy.highs import HighsCallbackEvent

LINEAR_S, INTEGER_S = 4e-5, 1.3e-3
"""A run without and with integers, whatever its size [s],"""
TERM_S = 1e-7
"""a term of a linear program, to take it over and to scale it [s],"""
PIVOT_S, PIVOT_TERM_S = 2e-6, 2e-9
"""an iteration of the simplex method, and the same for every term [s],"""
INTERIOR_TERM_S = 3e-7
"""an iteration of interior points for every term [s],"""
INTEGER_PIVOT_S, INTEGER_PIVOT_TERM_S = 3e-5, 1.4e-9
"""an iteration inside branch and bound, and the same for every term [s],"""
STEP_S, STEP_TERM_S = 5e-4, 1.3e-7
"""and a step of branch and bound, and the same for every term [s]. Fitted to 14,000 runs of networks of 5 to 36 pools:
their sum within a tenth, most runs within a third."""
USUAL_STEP_S, USUAL_STEP_TERM_S = 1e-3, 5.5e-7
"""What a step takes with the iterations that it usually has [s]."""
FEW_COLUMNS, FEW_FACTOR = 600, 0.33
"""In programs of fewer columns, which run without heuristics, all of that takes so much of it."""
LEAST_STEPS = 1


def one_thread_solver() -> highspy.Highs:
    """A silent solver that answers the same on any machine.

    All of a process have as many threads: where one has another number than the first that ran, HiGHS refuses to run.
    """
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    return solver


def run_within(solver: highspy.Highs, limit_s: float, is_integer: bool) -> None:
    """Run a solver until it is done or has taken the steps of a limit.

    A run with integers asks whether to go on at steps of its own: it may overrun its limit by the work of one, or of
    the first relaxation.

    Args:
        limit_s: longest run, in work [s].
        is_integer: whether some of its columns are.
    """
    n_terms = max(solver.getNumNz(), 1)
    if is_integer:
        factor = FEW_FACTOR if solver.getNumCol() < FEW_COLUMNS else 1.0
        usual_s = factor * (USUAL_STEP_S + USUAL_STEP_TERM_S * n_terms)
        most, taken = max(int(limit_s / usual_s), LEAST_STEPS), 0

        def count(event: HighsCallbackEvent) -> None:
            nonlocal taken
            taken += 1
            if taken > most or is_past_wall():
                event.interrupt()

        solver.cbMipInterrupt.subscribe(count)
        solver.run()
        solver.cbMipInterrupt.unsubscribe(count)
        pivots = max(solver.getInfo().simplex_iteration_count, 0)
        pivot_s, step_s = INTEGER_PIVOT_S + INTEGER_PIVOT_TERM_S * n_terms, STEP_S + STEP_TERM_S * n_terms
        spend(factor * (INTEGER_S + pivot_s * pivots + step_s * taken))
        return
    pivot_s = PIVOT_S + PIVOT_TERM_S * n_terms
    solver.setOptionValue("simplex_iteration_limit", _steps(limit_s / pivot_s))
    solver.setOptionValue("ipm_iteration_limit", _steps(limit_s / (INTERIOR_TERM_S * n_terms)))
    solver.run()
    info = solver.getInfo()
    pivots, interior = max(info.simplex_iteration_count, 0), max(info.ipm_iteration_count, 0)
    spend(LINEAR_S + TERM_S * n_terms + pivot_s * pivots + INTERIOR_TERM_S * n_terms * interior)


def is_out_of_steps(solver: highspy.Highs) -> bool:
    """True if the limit of its steps, or of the wall clock, ended the last run.

    Args:
        solver: HiGHS after `run_within`.
    """
    import highspy

    return solver.getModelStatus() in (
        highspy.HighsModelStatus.kInterrupt,
        highspy.HighsModelStatus.kIterationLimit,
    )


def _steps(number: float) -> int:
    return max(min(int(number), 2**31 - 1), LEAST_STEPS)
