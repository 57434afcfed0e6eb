"""Programs asked again and again, block by block: held against all blocks at once."""

from itertools import product

import numpy as np
import pytest

from planner.optimizer.network.block_coordinate import BlockCoordinateProgram, Bounds
from planner.optimizer.network.rows import Rows

N_BLOCKS, N_CHOICES = 3, 2
ROOM, PORT_ROOM = 6.0, 4.0
WORK = np.array([[4.0, 7.0], [3.0, 6.0], [2.0, 5.0]])
"""Of a block with each choice: more work needs less of the link."""
SENT = np.array([[5.0, 1.0], [4.0, 1.0], [3.0, 1.0]])


def two_blocks(costs: float = 0.0) -> tuple[BlockCoordinateProgram, Rows]:
    """Blocks with work w_k of their choice within sizes, all of which send over one link of some ports.

    A unit more of a block (`added`) does 2 of its work, at 10; a port is 3.
    """
    rows = Rows()
    port = rows.column("port", 0, 0, 3.0, True)
    choices, added, sent = [], [], []
    for b in range(N_BLOCKS):
        ys = [rows.column(f"y_{b}_{k}", 0, 1, costs * float(WORK[b, k]), True) for k in range(N_CHOICES)]
        more = rows.column(f"added_{b}", 0, 0, 10.0, True)
        rows.row(f"one_{b}", [(y, 1.0) for y in ys], 1, 1)
        rows.row(f"size_{b}", [*zip(ys, WORK[b].tolist(), strict=True), (more, -2.0)], high=ROOM)
        sent += list(zip(ys, SENT[b].tolist(), strict=True))
        choices.append(ys)
        added.append(more)
    link = rows.row("link", [*sent, (port, -PORT_ROOM)], high=0.0)
    program = BlockCoordinateProgram(
        rows,
        shared=[link],
        varied=[*added, port],
        common=[port],
        choices=choices,
        accepts_first=costs == 0.0,
        time_limit_s=10.0,
        gap=0.0,
    )
    return program, rows


def at_ports(ports: int) -> Bounds:
    units = np.array([0.0, 0.0, 0.0, ports])
    return Bounds(units, units)


def fits(sizes: tuple[float, ...], ports: int) -> bool:
    """Whether some choices of all blocks do."""
    every = product(range(N_CHOICES), repeat=N_BLOCKS)
    return any(
        all(WORK[b, k] <= sizes[b] for b, k in enumerate(ks))
        and sum(SENT[b, k] for b, k in enumerate(ks)) <= PORT_ROOM * ports
        for ks in every
    )


def holds(rows: Rows, values: np.ndarray, sizes: tuple[float, ...], ports: int) -> bool:
    chosen = [values[[rows.names.index(f"y_{b}_{k}") for k in range(N_CHOICES)]] for b in range(N_BLOCKS)]
    work = [float(y @ WORK[b]) for b, y in enumerate(chosen)]
    return all(w <= s + 1e-6 for w, s in zip(work, sizes, strict=True)) and (
        sum(float(y @ SENT[b]) for b, y in enumerate(chosen)) <= PORT_ROOM * ports + 1e-6
    )


@pytest.mark.parametrize("costs", [0.0, 1.0], ids=["free", "priced"])
def test_what_is_found_from_another_answer_keeps_every_row_and_little_is_missed(costs: float) -> None:
    program, rows = two_blocks(costs)
    first = program.solved(at_ports(3))
    assert first is not None
    n_found = n_there = 0
    for sizes in product((2.0, 4.0, 7.0), repeat=N_BLOCKS):
        for ports in range(4):
            for b, size in enumerate(sizes):
                program.limit(rows.row_names.index(f"size_{b}"), size)
            found = program.solved(at_ports(ports), first)
            n_found += found is not None
            n_there += fits(sizes, ports)
            if found is not None:
                assert fits(sizes, ports)
                assert holds(rows, found, sizes, ports)
    assert 0.95 * n_there <= n_found <= n_there


def test_where_the_link_gets_smaller_one_block_gives_way_and_the_others_stay() -> None:
    program, rows = two_blocks()
    first = program.solved(at_ports(3))
    assert first is not None
    assert [first[rows.names.index(f"y_{b}_0")] for b in range(N_BLOCKS)] == [1.0, 1.0, 1.0]
    sizes = (7.0, 6.0, 5.0)
    for b, size in enumerate(sizes):
        program.limit(rows.row_names.index(f"size_{b}"), size)
    found = program.solved(at_ports(2), first)
    assert found is not None
    assert holds(rows, found, sizes, 2)
    assert sum(found[rows.names.index(f"y_{b}_0")] for b in range(N_BLOCKS)) == N_BLOCKS - 1


def test_stock_goes_from_one_block_to_another_whichever_comes_first() -> None:
    rows = Rows()
    units = [rows.column(f"units_{b}", 0, 0, 1.0, True) for b in range(2)]
    work = [rows.column(f"work_{b}", 0, 100.0) for b in range(2)]
    for b in range(2):
        rows.row(f"serve_{b}", [(work[b], 1.0)], low=1.0)
        rows.row(f"within_{b}", [(work[b], 1.0), (units[b], -1.0)], high=0.0)
    stock = rows.row("stock", [(u, 1.0) for u in units], high=10.0)
    program = BlockCoordinateProgram(rows, [stock], units, [], [], True, 10.0, 0.0)

    def of(*asked_for: float) -> Bounds:
        return Bounds(np.array(asked_for), np.array(asked_for))

    known = program.solved(of(5.0, 5.0))
    assert known is not None
    for both in ((7.0, 3.0), (3.0, 7.0)):
        found = program.solved(of(*both), known)
        assert found is not None
        assert found[units].tolist() == list(both)
    assert program.solved(of(7.0, 0.0), known) is None
    assert program.solved(Bounds(np.array([10.0, 0.0]), np.array([10.0, 5.0])), known) is None


def test_what_is_added_is_the_least_that_all_blocks_at_once_would_add() -> None:
    program, rows = two_blocks()
    first = program.solved(at_ports(3))
    assert first is not None
    for b in range(N_BLOCKS):
        program.limit(rows.row_names.index(f"size_{b}"), float(WORK[b, 0]) - 1.0)
    lows = np.array([0.0, 0.0, 0.0, 3.0])
    free = Bounds(lows, np.array([5.0, 5.0, 5.0, 5.0]))
    one_by_one, at_once = program.solved(free, first), program.solved(free)
    assert one_by_one is not None
    assert at_once is not None
    costs = np.array(rows.costs)
    assert costs @ one_by_one == pytest.approx(costs @ at_once)
    assert [one_by_one[rows.names.index(f"added_{b}")] for b in range(N_BLOCKS)] == [1.0, 1.0, 1.0]
