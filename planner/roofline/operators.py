"""Every operator of a forward pass in closed form: FLOPs and bytes by group of layers, vectorised over the pass."""

from collections.abc import Iterator, Sequence

import numpy as np

from planner.errors import InputError, InputProblem
from planner.profiles import AttentionLayers, GqaLayers, MlaLayers, ModelProfile, SwaLayers, missing_shapes
from planner.profiles.projections import required
from planner.roofline.attention import head_attention, head_projections, mla_attention, mla_projections
from planner.roofline.mlp import mlp_operators
from planner.roofline.operator import ACTIVATION_BYTES, FloatArray, Operator, elementwise_operator, gemm_operator
from planner.roofline.recurrence import recurrent_mixing, recurrent_projections
from planner.roofline.sequences import Sequences
from planner.roofline.weights import bytes_per_weight

NORM_VALUES = 4
"""Values moved per value normed: stream read and written with what is added to it, and the normed one."""


def pass_operators(
    model: ModelProfile,
    parts: Sequence[Sequences],
    *,
    precision: str | None = None,
    kv_precision: str = "bf16",
) -> tuple[Operator, ...]:
    """Operators of one forward pass over sequences of any phases, such as a prefill chunk among decoding ones.

    Equation:
        matrix products have the tokens of all parts for rows; attention and recurrences are counted part by part

    Args:
        model: a model whose shapes are known.
        parts: sequences of the pass; shapes that broadcast together.
        precision: number format of the weights; None: the checkpoint's own.
        kv_precision: number format of the attention cache.

    Returns:
        Operators, weights read once for all parts.

    Raises:
        InputError: a shape is unknown.

    Valid:
        One copy of the model before any parallelism; MTP layers not included, see `mtp_model`.

    Source:
        The equations of `head_attention`, `mla_attention`, `recurrence` and `mlp_operators`; chunked prefill:
        Sarathi-Serve (2024).

    >>> from planner.profiles import model_profile
    >>> parts = [Sequences.prefill(512), Sequences.decode(8, 4096)]
    >>> float(pass_operators(model_profile("llama-3.1-8b"), parts)[1].gemm.m)
    520.0
    >>> step = pass_operators(model_profile("deepseek-v3"), [Sequences.decode([1, 64], 4096)])
    >>> [float(operator.gemm.n_products[1].round(1)) for operator in step if operator.name == "experts_down"]
    [222.4]
    """
    _refuse_unknown(model)
    architecture = model.architecture
    hidden, vocabulary = (
        required(architecture.hidden_size, "hidden_size"),
        required(architecture.vocab_size, "vocab_size"),
    )
    rows = np.asarray(sum(part.rows for part in parts), float)
    width = bytes_per_weight(model, "attention", precision)
    operators = [_embedding(hidden, rows, bytes_per_weight(model, "embedding", precision))]
    if architecture.joins_hidden_state:
        latent = bytes_per_weight(model, "latent", precision)
        operators.append(gemm_operator("joining_proj", 1, rows, hidden, 2 * hidden, latent, "latent", "none"))
    for group in architecture.attention:
        operators += _mixer(group, hidden, parts, rows, width, kv_precision)
    operators += mlp_operators(model, rows, precision)
    operators.append(elementwise_operator("norms", architecture.n_norms, rows, NORM_VALUES * hidden))
    last_rows = np.asarray(sum(part.head_rows for part in parts), float)
    head = bytes_per_weight(model, "embedding" if architecture.tie_word_embeddings else "lm_head", precision)
    operators.append(gemm_operator("lm_head", 1, last_rows, vocabulary, hidden, head, "lm_head", "vocabulary"))
    return tuple(operators)


def _mixer(
    group: AttentionLayers,
    hidden: int,
    parts: Sequence[Sequences],
    rows: FloatArray,
    width: float,
    kv_precision: str,
) -> Iterator[Operator]:
    """Operators of one group's layers but for their MLPs."""
    match group:
        case GqaLayers() | SwaLayers():
            yield from head_projections(group, hidden, rows, width)
            yield from (head_attention(group, part, kv_precision) for part in parts)
        case MlaLayers():
            yield from mla_projections(group, hidden, rows, width)
            yield from mla_attention(group, parts, width, kv_precision)
        case _:
            yield from recurrent_projections(group, hidden, rows, width)
            for part in parts:
                yield from recurrent_mixing(group, part)


def _embedding(hidden: int, rows: FloatArray, width: float) -> Operator:
    """One row of the table per token, read and written."""
    zero = np.zeros_like(rows)
    written = ACTIVATION_BYTES * hidden * rows
    return Operator(
        "embedding", "embedding", 1, zero, width * hidden * rows, written, zero, "vocabulary", part="embedding"
    )


def _refuse_unknown(model: ModelProfile) -> None:
    if missing := missing_shapes(model.architecture):
        problem = InputProblem(
            model.name, "architecture", "lacks " + ", ".join(missing), "shapes that FLOPs follow from"
        )
        raise InputError(problem)
