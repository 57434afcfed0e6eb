"""A large network: every threshold in one relaxed program, and what its blocks say of the bound and of thresholds."""

from collections.abc import Sequence

from planner.optimizer.network.blocks import Blocks
from planner.optimizer.network.cells import Cells, around, chosen_cells, finest_cells, largest_sizes, used_arcs
from planner.optimizer.network.formulation import Model, Question, Segments, build
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.problem import Situation
from planner.optimizer.network.rows import Found

STEP = 4
"""Of all thresholds, those of the grid that sizes are first looked for with: every so many-th."""
BLOCK_GAP = 0.002
"""What a block may leave open."""
FEW_COLUMNS_S = 10.0
"""Longest time of a block of decode."""


def close_look(
    loads: NetworkLoads, situations: Sequence[Situation], segments: Segments, time_limit_s: float
) -> tuple[Model, Found] | None:
    """The relaxed program with every threshold for itself, sizes in pieces around those of its answer; None: no plan.

    Raises:
        UndecidedError: time is up.
    """
    finest = {g: finest_cells(loads.problem, members) for g, members in enumerate(loads.problem.groups)}
    grid = {(g, s.period): cells[STEP // 2 :: STEP] or cells for g, cells in finest.items() for s in situations}
    rough = build(Question(loads, tuple(situations), grid, segments))
    found = rough.rows.solved(time_limit_s, 0.0, whole=())
    if found is not None:
        segments = {i: around(segments[i], n) for i, n in enumerate(largest_sizes(rough, found))}
    everything = {at: finest[at[0]] for at in grid}
    model = build(Question(loads, tuple(situations), everything, segments))
    found = model.rows.solved(time_limit_s, 0.0, whole=())
    return None if found is None else (model, found)


def whole_bound(model: Model, found: Found) -> float:
    """A bound above that of the relaxed program: decode of every stream is planned in whole instances."""
    return _blocks(model, found).bound(FEW_COLUMNS_S, BLOCK_GAP)


def thresholds(model: Model, found: Found, time_limit_s: float) -> Cells:
    """Thresholds of every group and period with whole instances of every model, at the prices of what models share.

    Args:
        model: the program with every threshold.
        found: its relaxed answer; pools that it does not use stay out.
        time_limit_s: seconds a model may take; one without a plan by then keeps its most used thresholds.
    """
    used = {arc.pool for _, _, arc in used_arcs(model, found)}
    closed = {column for key, column in (*model.x.items(), *model.between.items()) if key[-1].pool not in used}
    return chosen_cells(model, _blocks(model, found).chosen(closed, time_limit_s, BLOCK_GAP))


def _blocks(model: Model, found: Found) -> Blocks:
    if found.duals is None:
        raise ValueError("prices are those of a relaxed program")
    return Blocks(model.rows, model.shared, found.duals, found.values)
