"""Points that stand in a file more than once, and how much each then counts."""

from collections.abc import Sequence
from dataclasses import astuple, replace
from math import isclose

from planner.profiles.points.point import ServingPoint

SAME_FRACTION = 1e-9
"""Measured values this close are one value: writing a figure out and reading it again moves its last digits [1]."""


def weights(points: Sequence[ServingPoint]) -> list[float]:
    """Weights that let copies of one measurement count as one.

    Equation:
        w_i = 1 / n_i, with n_i the points of the same day and configuration whose values are those of point i

    Args:
        points: measured points.

    Returns:
        A weight per point, in their order, shape (n,) [1]; those of copies add up to 1.

    Valid:
        Copies agree in every field but file, line and weight, and in TTFT and TPOT to a part in 1e9. Repeated
        measurements differ by far more and count in full.

    >>> from planner.profiles.points.csv_points import csv_points
    >>> head = "model,hardware,framework,gpus,input_tokens,output_tokens,concurrency,tpot_ms"
    >>> rows = ["m,h,vllm,8,1024,1024,8,12.5", "m,h,vllm,8,1024,1024,8,12.500000000000002", "m,h,vllm,8,1024,1024,8,13"]
    >>> weights(csv_points("x.csv", "\\n".join([head, *rows])))
    [0.5, 0.5, 1.0]
    """
    groups: dict[tuple[object, ...], list[list[int]]] = {}
    for index, point in enumerate(points):
        clusters = groups.setdefault(_configuration(point), [])
        same = next((c for c in clusters if _same_values(points[c[0]], point)), None)
        if same is None:
            clusters.append([index])
        else:
            same.append(index)
    n_copies = {index: len(c) for clusters in groups.values() for c in clusters for index in c}
    return [1 / n_copies[index] for index in range(len(points))]


def _configuration(point: ServingPoint) -> tuple[object, ...]:
    return astuple(replace(point, file="", line=0, weight=1.0, ttft_s=None, tpot_s=None))


def _same_values(one: ServingPoint, other: ServingPoint) -> bool:
    return _same(one.ttft_s, other.ttft_s) and _same(one.tpot_s, other.tpot_s)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=SAME_FRACTION)
