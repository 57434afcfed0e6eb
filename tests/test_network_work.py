"""Rows that keep pools within their sizes: lines on the right side of limits, and rows that know no other periods."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.optimizer import network_problem
from planner.optimizer.network.formulation import build
from planner.optimizer.network.loads import GRID, OPTIMISTIC_WAITS, NetworkLoads, point
from planner.optimizer.network.model import Model, Question
from planner.optimizer.network.problem import Loss, Situation
from planner.optimizer.network.rows_of_work import chords
from tests.builders import FAST, GPUS, HOME, small_with

LIMITS = np.array([GRID - np.sqrt(GRID), np.maximum(GRID - 3, 0.0)])
"""Busy instances that pools may have: one curve that bends down, one with a kink."""
NETWORK: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 10.0,
    "slo": {"ttft_s": 6.0},
    "workload.lengths": {"kind": "empirical", "tokens": (1024, 8192, 32768)},
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "links.wan.capacity_gbps": 2000,
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
    "spare": {"survive": ("instance",)},
}

SHARES = ((0, 0.5), (1, 0.25))
"""Allowances by day and by night."""


@given(st.integers(1, 300), st.integers(0, 300), st.integers(0, 1))
def test_lines_lie_on_one_side_of_limits_at_every_size_and_touch_them(low: int, more: int, n_lost: int) -> None:
    sizes = np.arange(low, low + more + 1.0)
    for above, side in ((True, 1), (False, -1)):
        lines = chords(LIMITS, low, low + more, n_lost, above)
        for limit, (slope, constant) in zip(LIMITS, lines, strict=True):
            limits = np.where(sizes > n_lost, np.interp(sizes - n_lost, GRID, limit), 0.0)
            beyond = side * (slope * sizes + constant - limits)
            assert -1e-9 <= beyond.min() <= 1e-9


def test_an_instance_that_is_lost_is_one_less_to_be_busy() -> None:
    for limit, (slope, constant) in zip(LIMITS, chords(LIMITS, 5, 6, 1, True), strict=True):
        assert [slope * n + constant for n in (5, 6)] == pytest.approx(np.interp([4, 5], GRID, limit), abs=1e-5)
    assert chords(LIMITS, 1, 1, 1, True) == [(1.0, -1.0), (1.0, -1.0)]


def work_rows(model: Model, s: int) -> dict[str, tuple[dict[str, float], float]]:
    """Rows of prefill work in a situation, with names of columns, as if it were the only one."""
    rows, found = model.rows, {}
    for (_, at), indices in model.of_pool.items():
        for row in indices if at == s else ():
            terms = range(rows.starts[row], rows.starts[row + 1])
            named = {_alone(rows.names[rows.columns[t]], s): rows.factors[t] for t in terms}
            found[_alone(rows.row_names[row], s, at=4)] = named, rows.row_highs[row]
    return found


def _alone(name: str, s: int, at: int = 2) -> str:
    """A name with its situation as the first one; sizes of pools know none."""
    parts = name.split("_")
    if parts[0] not in ("n", "z"):
        assert parts[at] == str(s)
        parts[at] = "0"
    return "_".join(parts)


@pytest.mark.parametrize("is_safe", [False, True])
@pytest.mark.parametrize("loss", [None, Loss("instance", "near")])
def test_rows_of_work_are_those_of_a_model_of_their_situation_alone(is_safe: bool, loss: Loss | None) -> None:
    problem = network_problem(small_with(NETWORK))
    situations = (Situation(0), Situation(1, loss), Situation(0, Loss("instance", "fast")))
    segments = {i: [(1, 5), (6, 40)] for i in range(len(problem.pools))}
    # As many cells by night as by day, but not the same.
    cells = {(g, p): [point(t, u) for t in (1024.0, 8192.0)] for g in range(len(problem.groups)) for p, u in SHARES}
    factor = 1.0 if is_safe else OPTIMISTIC_WAITS
    together = build(Question(NetworkLoads(problem, factor), situations, cells, segments, is_safe))
    for s, situation in enumerate(situations):
        alone = build(Question(NetworkLoads(problem, factor), (situation,), cells, segments, is_safe))
        assert work_rows(alone, 0)
        assert work_rows(together, s) == work_rows(alone, 0)
