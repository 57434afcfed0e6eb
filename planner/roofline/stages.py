"""Pipeline stages: how whole layers fall to them, and what the fullest of them holds and holds up."""

import numpy as np
from numpy.typing import NDArray

from planner.profiles import Architecture


def stage_sizes(n_layers: int, n_stages: int) -> NDArray[np.intp]:
    """Layers of each stage, as even as whole layers allow, the larger stages first.

    >>> stage_sizes(27, 8).tolist()
    [4, 4, 4, 3, 3, 3, 3, 3]
    """
    least, more = divmod(n_layers, n_stages)
    return np.full(n_stages, least) + (np.arange(n_stages) < more)


def slowest_stage_fraction(n_layers: int, n_stages: int) -> float:
    """Share of a pass that its longest stage takes: the rhythm at which a full pipeline moves.

    Equation:
        ceil(n / s) / n

    Args:
        n_layers: layers n.
        n_stages: stages s.

    Returns:
        A fraction [-], 1 / s where the stages divide the layers.

    Valid:
        Layers that take alike.

    Source:
        GPipe (2019): a pipeline moves at the pace of its slowest stage.

    >>> slowest_stage_fraction(32, 4), round(slowest_stage_fraction(27, 16), 3)
    (0.25, 0.074)
    """
    return int(stage_sizes(n_layers, n_stages)[0]) / n_layers


def mixers_by_stage(architecture: Architecture, n_stages: int) -> NDArray[np.float64]:
    """Layers of each attention group on each stage, as the pattern puts them.

    Args:
        architecture: shapes with the number of layers; without a pattern its groups are spread evenly.

    Returns:
        Counts, shape (stages, groups).

    >>> from planner.profiles import model_profile
    >>> mixers_by_stage(model_profile("kimi-linear-48b").architecture, 2).tolist()
    [[11.0, 3.0], [9.0, 4.0]]
    """
    groups, pattern = architecture.attention, architecture.pattern
    if pattern is None:
        return np.stack([stage_sizes(group.n_layers, n_stages) for group in groups], axis=1).astype(float)
    ends = np.cumsum(stage_sizes(len(pattern), n_stages))
    parts = [pattern[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    counts = [[part.count(group.symbol) if group.symbol else 0 for group in groups] for part in parts]
    return np.array(counts, dtype=np.float64)
