"""Latency through the exact nodes, as the page of `planner explore` computes it in `figures.js`, in Python."""

from planner.results.explorer import Tables
from planner.studies.explore.combination import Knobs, combined, log_place, place


def fleet_latency(tables: Tables, knobs: Knobs) -> dict[str, float | None] | None:
    """Latency, through the exact nodes where the sizes are the plan's; None: a queue has no steady state."""
    exact = tables.exact
    found = combined(tables, knobs)
    if exact is None or found is None or knobs.n_instances != tuple(p.n_planned for p in tables.pools):
        return found
    around = _corners(tables, knobs)
    return {
        name: value and value * _correction(tables, knobs.n_instances, name, around) for name, value in found.items()
    }


def is_node(tables: Tables, knobs: Knobs) -> bool:
    """True if latency is that of `planner optimize`, and not interpolated."""
    exact = tables.exact
    return (
        exact is not None
        and knobs.n_instances == tuple(p.n_planned for p in tables.pools)
        and knobs.threshold_tokens in tables.node_tokens
        and knobs.req_per_s in exact.req_per_s
    )


def _corners(tables: Tables, knobs: Knobs) -> list[tuple[int, int, float]]:
    """Nodes around a point, by threshold and rate, and their weights."""
    exact = tables.exact
    if exact is None:
        return []
    t, r = log_place(tables.node_tokens, knobs.threshold_tokens), place(exact.req_per_s, knobs.req_per_s)
    return [
        (t.left + i, r.left + j, a * b)
        for i, a in ((0, 1 - t.part), (1, t.part))
        for j, b in ((0, 1 - r.part), (1, r.part))
        if a * b > 0
    ]


def _correction(tables: Tables, sizes: tuple[int, ...], name: str, around: list[tuple[int, int, float]]) -> float:
    """Exact over combined at the nodes around, of those that have a steady state."""
    exact, total, weight = tables.exact, 0.0, 0.0
    for i, j, part in around:
        value = None if exact is None else exact.figures[name][i][j]
        if exact is None or value is None:
            continue
        here = combined(tables, Knobs(sizes, tables.node_tokens[i], exact.req_per_s[j]))
        base = here and here[name]
        if base:
            total, weight = total + part * value / base, weight + part
    return total / weight if weight else 1.0
