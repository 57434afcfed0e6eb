"""Speculative decoding: tokens that a step yields, the model that drafts them, and what caches then hold."""

from collections.abc import Sequence

import numpy as np

from planner.errors import InputError, InputProblem
from planner.profiles import ModelProfile, missing_shapes

VOCABULARY_PADDING = 0.002
"""Part by which vocabularies that are one differ: rows that pad a table."""


def tokens_per_step(acceptance: Sequence[float]) -> float:
    """Expected tokens that a step yields: the drafted ones that are accepted, and one of the model itself.

    Equation:
        sum over i = 0..N of a_1 a_2 .. a_i; with one acceptance a, (1 - a^(N + 1)) / (1 - a)

    Args:
        acceptance: probability that each drafted token is accepted, given that those before it were [-], length N.

    Returns:
        Tokens per sequence and step, from 1 to N + 1.

    Valid:
        Acceptances that do not depend on one another; those of different steps are alike.

    Source:
        Leviathan et al. 2023 (arXiv 2211.17192), equation 1.

    >>> tokens_per_step([]), tokens_per_step([0.5, 0.5]), tokens_per_step([1.0, 1.0, 1.0])
    (1.0, 1.75, 4.0)
    """
    return float(_beyond(acceptance).sum())


def tokens_per_step_variance(acceptance: Sequence[float]) -> float:
    """Variance of the tokens X that a step yields.

    Equation:
        E[X^2] - E[X]^2, E[X^2] = sum over i = 0..N of (2 i + 1) P(X > i), P(X > i) = a_1 .. a_i

    Args:
        acceptance: as at `tokens_per_step`.

    Returns:
        Variance [tokens^2]; 0 where all or none are accepted.

    Source:
        Moments by tail sums.

    >>> tokens_per_step_variance([0.5]), tokens_per_step_variance([1.0, 1.0])
    (0.25, 0.0)
    """
    beyond = _beyond(acceptance)
    square = float((2 * np.arange(len(beyond)) + 1) @ beyond)
    return max(square - float(beyond.sum()) ** 2, 0.0)


def _beyond(acceptance: Sequence[float]) -> np.ndarray:
    """P(X > i) for i = 0..N."""
    return np.cumprod([1.0, *acceptance])


def mtp_model(model: ModelProfile) -> ModelProfile:
    """One of a model's MTP layers as a model of its own, which shares the vocabulary's matrices.

    Args:
        model: a model whose shapes are known.

    Returns:
        One layer like the model's last, behind a projection of the last hidden state joined with an embedding.

    Raises:
        InputError: its profile has no such layers.

    Source:
        DeepSeek-V3 (arXiv 2412.19437), section 2.2.

    >>> from planner.profiles import model_profile
    >>> mtp_model(model_profile("deepseek-v3")).architecture.n_sparse_layers
    1
    """
    whole = model.architecture
    if not whole.n_mtp_layers:
        allowed = "a model whose profile has n_mtp_layers, or another model that drafts"
        raise InputError(InputProblem("speculation", "draft", f"{model.name} has no MTP layers", allowed))
    everywhere = {"n_dense_first_layers": 0, "layer_period": 1, "layer_offset": 0}
    sparse = None if whole.moe is None else whole.moe.model_copy(update=everywhere)
    changes = {
        "n_layers": 1,
        "attention": (whole.attention[-1].model_copy(update={"n_layers": 1}),),
        "moe": sparse,
        "mlp_only": None,
        "pattern": None,
        "n_mtp_layers": 0,
        "joins_hidden_state": True,
    }
    layer = whole.model_copy(update=changes)
    return model.model_copy(update={"name": f"{model.name} MTP", "architecture": layer, "measured": {}})


def check_draft(model: ModelProfile, draft: ModelProfile) -> None:
    """Raises InputError for a model that cannot draft for another: unknown shapes, or another vocabulary."""
    if missing := missing_shapes(draft.architecture):
        what = f"{draft.name} lacks {', '.join(missing)}"
        raise InputError(InputProblem("speculation", "draft", what, "a model whose shapes are known"))
    own, other = model.architecture.vocab_size or 0, draft.architecture.vocab_size or 0
    if abs(own - other) > VOCABULARY_PADDING * own:
        what = f"{draft.name} has a vocabulary of {other:,}, and {model.name} one of {own:,}"
        raise InputError(InputProblem("speculation", "draft", what, "a draft model of the same vocabulary"))


def with_caches_of(model: ModelProfile, draft: ModelProfile) -> ModelProfile:
    """A model with the attention layers of what drafts for it, as caches see it; of use for bytes of caches alone.

    >>> from planner.profiles import model_profile
    >>> model = model_profile("deepseek-v3")
    >>> sum(group.n_layers for group in with_caches_of(model, mtp_model(model)).architecture.attention)
    62
    """
    groups = (*model.architecture.attention, *draft.architecture.attention)
    # Layers of both in any order: a pattern only tells pipeline stages apart, which speculation does without.
    layers = model.architecture.model_copy(update={"attention": groups, "pattern": None})
    return model.model_copy(update={"architecture": layers})
