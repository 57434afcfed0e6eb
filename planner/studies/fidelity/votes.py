"""What points weigh in a fit: copies count once, doubtful ones less, and those that err together as few."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.profiles.points import weights
from planner.studies.fidelity.cases import Case
from planner.studies.fidelity.copies import format_in

FloatArray = NDArray[np.float64]
UNSTATED_PRECISION = 0.5
"""Vote of a point that says nothing of the weights' format: a quantised copy may be what was measured."""
MOST_VOTES = 12.0
"""Of one model on one accelerator in one source: such points share kernels, machines and a way of measuring, and err
together. Models that are left out are predicted better with 12 or 25 than with a vote for every point, and 12 lets a
table of some prefills be heard beside a hundred points of a harness."""


def votes(cases: Sequence[Case], sources: Sequence[str | None]) -> FloatArray:
    """Votes of points in a fit.

    Args:
        cases: points.
        sources: harness or table of each.

    Returns:
        A vote per point, shape (n,) [points]; those of a model on an accelerator in a source add up to MOST_VOTES at
        most.

    Source:
        Kish 1965, Survey Sampling: n observations whose errors correlate by r are worth n / (1 + (n - 1) r), which
        stays below 1 / r.
    """
    single = np.array(weights([case.point for case in cases])) * [_certainty(case) for case in cases]
    together = [(case.model.name, case.hardware.name, source) for case, source in zip(cases, sources, strict=True)]
    return capped(single, together, MOST_VOTES)


def capped(single: FloatArray, groups: Sequence[Hashable], most: float) -> FloatArray:
    """Votes of which those of one group add up to a number at most.

    >>> capped(np.ones(4), ["a", "a", "a", "b"], 1.5).tolist()
    [0.5, 0.5, 0.5, 1.0]
    """
    totals: dict[Hashable, float] = {}
    for vote, group in zip(single.tolist(), groups, strict=True):
        totals[group] = totals.get(group, 0.0) + vote
    return single * [min(1.0, most / totals[group]) if totals[group] else 1.0 for group in groups]


def _certainty(case: Case) -> float:
    """What a point's vote is worth by how well it is known what was measured."""
    is_known = case.point.precision is not None or format_in(case.point.model) is not None
    return 1.0 if is_known else UNSTATED_PRECISION
