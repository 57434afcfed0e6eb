"""Where thresholds and sizes are looked for: first cells, finer ones, points inside them, and segments of sizes."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf

import numpy as np

from planner.optimizer.capacity import split_interval
from planner.optimizer.network.cells import Cell, Cells, mix_of, point_cell
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.problem import Problem
from planner.optimizer.settings import SETTINGS
from planner.workload.mix import ALL_LONG, RequestMix


def points_in_cell(
    loads: NetworkLoads, members: Sequence[int], cell: Cell, inner_tokens: Sequence[float] = ()
) -> list[Cell]:
    """Points of a cell: its ends and its middle, each with some allowances that leave both parts time to wait.

    Args:
        loads: coefficients, with the late requests that are allowed.
        inner_tokens: further thresholds of the cell [tokens].

    Returns:
        Cells of one threshold and one allowance, in order; none where no allowance leaves both parts time to wait.
    """
    mix = mix_of(loads.problem, members)
    inner = mix.split_points(cell.low_tokens, cell.high_tokens, 1) if cell.low_tokens < cell.high_tokens else ()
    points = []
    for t in dict.fromkeys([cell.low_tokens, *map(float, inner), *inner_tokens, cell.high_tokens]):
        ranges = [loads.shares(q, point_cell(t)) for q in members if has_ttft_slo(loads.problem, q)]
        least = max([cell.low_share, *(low for low, _ in ranges)])
        most = min([cell.high_share, *(high for _, high in ranges)])
        if least <= most:
            shares = least + (most - least) * np.array(SETTINGS.offered_shares)
            points += [point_cell(t, float(share)) for share in np.unique(shares)]
    return points


def points_at(loads: NetworkLoads, members: Sequence[int], thresholds_tokens: Sequence[float]) -> list[Cell]:
    """Points at some thresholds, with an allowance in the middle of those that leave both parts time to wait.

    Args:
        loads: coefficients, with the late requests that are allowed.
        thresholds_tokens: the thresholds [tokens].

    Returns:
        Cells of one threshold and one allowance; none for thresholds where no allowance leaves both parts time.
    """
    points = []
    for t in dict.fromkeys(thresholds_tokens):
        ranges = [loads.shares(q, point_cell(t)) for q in members]
        least, most = max([0.0, *(low for low, _ in ranges)]), min([1.0, *(high for _, high in ranges)])
        if least <= most:
            points.append(point_cell(t, (least + most) / 2))
    return points


def first_segments(problem: Problem) -> dict[int, list[tuple[int, int]]]:
    """One segment for every pool, from 1 to the most instances that it may have [count]."""
    return {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}


def segments_around(segments: Sequence[tuple[int, int]], n_instances: int) -> list[tuple[int, int]]:
    """Segments of a pool's sizes, cut so that a narrow one holds a size: a quarter of it to either side.

    >>> segments_around([(1, 100)], 20)
    [(1, 15), (16, 25), (26, 100)]

    Args:
        segments: least and greatest size of every segment [count].
        n_instances: the size; 0 cuts nothing [count].

    Returns:
        Least and greatest size of every segment, in order [count].
    """
    if n_instances == 0:
        return list(segments)
    width = max(n_instances // 4, 0)
    near_low, near_high = max(n_instances - width + (width > 0), 1), n_instances + width
    result = []
    for low, high in segments:
        cuts = [low, *(c for c in (near_low, near_high + 1) if low < c <= high), high + 1]
        result += [(a, b - 1) for a, b in pairwise(cuts)]
    return result


def split_cell(mix: RequestMix, cell: Cell, gap: float) -> list[Cell]:
    """A cell cut into narrower ones.

    Args:
        gap: relative distance of plan and bound that is sought: so few requests make no difference [fraction].

    Returns:
        Cells that together hold the same thresholds; the cell itself where few requests lie between its ends.
    """
    low, high, *shares = cell
    if low == high or float(mix.long_fraction(low) - mix.long_fraction(high)) <= min(SETTINGS.wide_fraction, gap):
        return [cell]
    lows, highs = split_interval(mix, low, high, SETTINGS.split_parts - 1)
    return [Cell(float(a), float(b), *shares) for a, b in zip(lows, highs, strict=True)]


def first_cells(problem: Problem) -> Cells:
    """Wide cells for every group and period, which together hold every threshold; a point where nothing is open."""
    cells: Cells = {}
    for g, members in enumerate(problem.groups):
        offers = first_cells_of(problem, members)
        cells.update({(g, p): list(offers) for p in range(len(problem.periods))})
    return cells


def first_cells_of(problem: Problem, members: Sequence[int]) -> list[Cell]:
    """Wide cells of a group, which together hold every threshold.

    Returns:
        Cells in the order of their thresholds; the last two leave no prompt long, and all of them. One point where the
        threshold is stated, or prompts of one part have no pool.
    """
    mix, fixed = mix_of(problem, members), problem.scenario.routing.threshold_tokens
    ends = [problem.classes[problem.streams[q].request_class].mix.support for q in members]
    shares = (0.0, 1.0) if any(has_ttft_slo(problem, q) for q in members) else (0.5, 0.5)
    reached = {arc.pool for q in members for arcs in problem.arcs[q].values() for arc in arcs}
    if all(problem.pools[i].batching is not None for i in reached):  # nothing leaves the batches that decode it
        highest = max(high for _, high in ends)
        return [Cell(highest, highest, 0.0, 0.0)]
    is_split = any(all(problem.arcs[q].values()) for q in members)
    if fixed != "free" and is_split:
        return [Cell(float(fixed), float(fixed), *shares)]
    if not any(problem.arcs[q]["short"] for q in members):
        return [Cell(ALL_LONG, ALL_LONG, 1.0, 1.0)]
    highest = max(high for _, high in ends)
    if not any(problem.arcs[q]["long"] for q in members):
        return [Cell(highest, highest, 0.0, 0.0)]
    is_stated = problem.scenario.value_at("routing.n_candidates") is not None
    n_cells = problem.scenario.routing.n_candidates if is_stated else SETTINGS.first_cells
    lowest, inner_grid = min(low for low, _ in ends) - 1.0, mix.threshold_grid(n_cells + 1)[1:-1]
    rooms = [t for t in memory_thresholds(problem, members) if lowest < t < highest]
    grid = np.unique([lowest, *inner_grid, *rooms, highest])
    inner = [Cell(float(a), float(np.nextafter(b, -np.inf)), *shares) for a, b in pairwise(grid)]
    return [*inner, Cell(highest, highest, 0.0, 0.0), Cell(ALL_LONG, ALL_LONG, 1.0, 1.0)]


def memory_thresholds(problem: Problem, members: Sequence[int]) -> list[float]:
    """Thresholds beyond which some pool has no memory for a prompt that a group would send it [tokens]."""
    found = set()
    for q in members:
        mix = problem.classes[problem.streams[q].request_class].mix
        for part, arcs in problem.arcs[q].items():
            for room in {problem.pools[arc.pool].rates.longest_tokens for arc in arcs} - {inf}:
                least, most = mix.held_thresholds(*((room, inf) if part == "long" else (inf, room)))
                found.add(least if part == "long" else most)
    return sorted(t for t in found if ALL_LONG < t < inf)


def finest_cells(problem: Problem, members: Sequence[int]) -> list[Cell]:
    """Every threshold of a group that makes a difference: points, or narrow intervals where lengths are continuous.

    Returns:
        Cells in the order of their thresholds, which together hold every threshold.
    """
    offers = first_cells_of(problem, members)
    if len(offers) == 1:
        return offers
    mixes = [problem.classes[problem.streams[q].request_class].mix for q in members]
    *_, (highest, *_), _ = offers
    shares = offers[0][2:]
    lengths = np.unique(np.concatenate([total - cached for total, cached, _ in (mix.atoms(1) for mix in mixes)]))
    if all(mix.is_discrete for mix in mixes) and lengths.size <= SETTINGS.most_points:
        inner = [Cell(float(t), float(t), *shares) for t in lengths[:-1]]
    else:
        edges = mix_of(problem, members).threshold_grid(SETTINGS.most_points // 2)
        rooms = [t for t in memory_thresholds(problem, members) if offers[0].low_tokens < t < highest]
        edges = np.unique([offers[0].low_tokens, *edges[1:-1], *rooms, highest])
        inner = [Cell(float(a), float(np.nextafter(b, -np.inf)), *shares) for a, b in pairwise(edges)]
    return [Cell(ALL_LONG, ALL_LONG, 1.0, 1.0), *inner, Cell(highest, highest, 0.0, 0.0)]


def has_ttft_slo(problem: Problem, stream: int) -> bool:
    """True if the class of a stream has an SLO on TTFT."""
    return problem.classes[problem.streams[stream].request_class].ttft_s is not None
