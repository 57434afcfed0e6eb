"""A mixed-integer program as columns and rows of numbers, and its solution by HiGHS.

The program of a network has tens of thousands of terms and is solved many times: expression objects would take longer
to build than the solver takes. So rows go to HiGHS as arrays. Names are kept for the files that tests compare.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.highs import FEW_COLUMNS, is_out_of_steps, one_thread_solver, run_within
from planner.optimizer.time_limit import nothing_found

if TYPE_CHECKING:
    import highspy

Terms = Iterable[tuple[int, float]]
INTEGRALITY_TOLERANCE = 1e-6
HEURISTICS = (
    "mip_heuristic_run_feasibility_jump",
    "mip_heuristic_run_rins",
    "mip_heuristic_run_rens",
    "mip_allow_restart",
)
"""What takes longer than it saves in programs of few columns: their first points are found sooner without."""
MANY_COLUMNS = 5_000
"""From here on interior points, with crossover, are faster than the simplex method on programs without integers."""


@dataclass(frozen=True)
class ProgramSolution:
    """A solution of a program."""

    objective: float
    bound: float
    """Proven bound: no solution has a lower objective."""
    values: NDArray[np.float64]
    """Value of every column, shape (columns,)."""
    duals: NDArray[np.float64] | None = None
    """Dual value of every row, shape (rows,): change of the objective per unit of its limit. None with integers."""


@dataclass
class Rows:
    """Columns and rows of a program under construction; the objective is minimised."""

    costs: list[float] = field(default_factory=list)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    integers: list[bool] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    row_names: list[str] = field(default_factory=list)
    row_lows: list[float] = field(default_factory=list)
    row_highs: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    weight: float = 1.0
    """Factor on the objective as the solver sees it: its tolerances are absolute, and a scale may be far below 1."""

    def column(
        self, name: str, low: float = 0.0, high: float = inf, cost: float = 0.0, is_integer: bool = False
    ) -> int:
        """Add a column.

        Args:
            is_integer: whether it is integer.
        """
        self.costs.append(cost)
        self.lows.append(low)
        self.highs.append(high)
        self.integers.append(is_integer)
        self.names.append(name)
        return len(self.costs) - 1

    def row(self, name: str, terms: Terms, low: float = -inf, high: float = inf) -> int:
        """Add a row.

        Equation:
            low <= sum of factor times column <= high

        Args:
            name: its name.
            terms: columns and factors; those of one column are added up.
            low: its lower limit.
            high: its upper limit.

        Returns:
            Its index.
        """
        merged: dict[int, float] = {}
        for column, factor in terms:
            merged[column] = merged.get(column, 0.0) + factor
        self.columns += merged.keys()
        self.factors += merged.values()
        self.starts.append(len(self.columns))
        self.row_lows.append(low)
        self.row_highs.append(high)
        self.row_names.append(name)
        return len(self.row_names) - 1

    def solved(
        self,
        time_limit_s: float,
        gap: float,
        start: Mapping[int, float] | None = None,
        integers: Collection[int] | None = None,
    ) -> ProgramSolution | None:
        """The best solution found and the bound proven.

        Args:
            time_limit_s: work that HiGHS may take [s].
            gap: relative distance of solution and bound at which it may stop [fraction].
            start: values of integer columns to begin from; they need not be feasible.
            integers: the only columns that must be integer, if not all that are declared so.

        Returns:
            The solution; None where the program is proven infeasible.

        Raises:
            UndecidedError: time is up without a solution or a proof.
        """
        import highspy

        is_integer = self.integers if integers is None else [column in integers for column in range(len(self.integers))]
        solver = self._highs(gap, is_integer)
        if start:
            indices, values = np.array(list(start), np.int32), np.array(list(start.values()))
            solver.setSolution(len(start), indices, values)
        run_within(solver, time_limit_s, any(is_integer))
        status, info = solver.getModelStatus(), solver.getInfo()
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return None
        is_found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        if not is_found or (not any(is_integer) and status != highspy.HighsModelStatus.kOptimal):
            raise nothing_found(is_time_up=is_out_of_steps(solver), looked_at="the solver's steps")
        value, solution = float(info.objective_function_value) / self.weight, solver.getSolution()
        if not any(is_integer):
            duals = np.array(solution.row_dual) / self.weight
            return ProgramSolution(value, value, np.array(solution.col_value), duals)
        bound = min(float(info.mip_dual_bound) / self.weight, value)
        return ProgramSolution(value, bound, np.array(solution.col_value))

    def bounded(self, time_limit_s: float, gap: float) -> float:
        """A bound, however short the time; inf where the program is infeasible.

        Args:
            time_limit_s: work that HiGHS may take [s].
            gap: relative distance of solution and bound at which it may stop [fraction].
        """
        import highspy

        solver = self._highs(gap, self.integers)
        run_within(solver, time_limit_s, any(self.integers))
        info = solver.getInfo()
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return inf
        if any(self.integers):
            return float(info.mip_dual_bound) / self.weight
        # A linear program has no bound but its optimum.
        is_solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return float(info.objective_function_value) / self.weight if is_solved else -inf

    def written(self) -> str:
        """The program in the LP format, for people and for tests."""
        import tempfile
        from pathlib import Path

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.lp"
            self._highs(0.0, self.integers).writeModel(str(path))
            return path.read_text()

    def _highs(self, gap: float, integers: Sequence[bool]) -> highspy.Highs:
        solver = one_thread_solver()
        solver.setOptionValue("mip_rel_gap", gap)
        solver.setOptionValue("mip_feasibility_tolerance", INTEGRALITY_TOLERANCE)
        for option in HEURISTICS if len(self.costs) < FEW_COLUMNS else ():
            solver.setOptionValue(option, False)
        if not any(integers) and len(self.costs) > MANY_COLUMNS:
            solver.setOptionValue("solver", "ipm")
        solver.passModel(self._program(integers))
        return solver

    def _program(self, integers: Sequence[bool]) -> highspy.HighsLp:
        import highspy

        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self.costs), len(self.row_lows)
        program.col_cost_ = np.array(self.costs) * self.weight
        program.col_lower_, program.col_upper_ = np.array(self.lows), np.array(self.highs)
        program.row_lower_, program.row_upper_ = np.array(self.row_lows), np.array(self.row_highs)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.array(self.starts)
        program.a_matrix_.index_ = np.array(self.columns)
        program.a_matrix_.value_ = np.array(self.factors)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        if any(integers):
            program.integrality_ = [kinds[is_integer] for is_integer in integers]
        program.col_names_, program.row_names_ = self.names, self.row_names
        return program
