"""Bytes of the weights by part of the model and precision."""

from planner.profiles import ModelProfile, WeightPart, parameters_by_part
from planner.profiles.model import UNQUANTIZED
from planner.roofline.kv_cache import BYTES_PER_VALUE

UNQUANTIZED_BYTES = 2.0
"""Parts that a checkpoint does not quantise are bf16."""


def bytes_per_weight(model: ModelProfile, part: WeightPart, precision: str | None = None) -> float:
    """Bytes that one weight of a part takes, its share of the scales included where the checkpoint states it.

    Args:
        model: any profile.
        part: a part of the model.
        precision: number format of the weights; None: the checkpoint's own.

    Returns:
        Bytes per weight [B]; 2 for parts that stay bf16.

    Raises:
        KeyError: for an unknown precision.

    Source:
        The checkpoint's quantization_config, as the profile says.

    >>> from planner.profiles import model_profile
    >>> [bytes_per_weight(model_profile("gpt-oss-120b"), part) for part in ("experts", "attention")]
    [0.53125, 2.0]
    """
    checkpoint = model.checkpoint
    if part in (checkpoint.unquantized if checkpoint else UNQUANTIZED):
        return UNQUANTIZED_BYTES
    if checkpoint and checkpoint.bytes_per_weight and precision in (None, model.precision):
        return checkpoint.bytes_per_weight
    return BYTES_PER_VALUE[precision or model.precision]


def weights_bytes(model: ModelProfile, precision: str | None = None) -> dict[WeightPart, float]:
    """Bytes of one copy of the weights by part, MTP layers excluded.

    Equation:
        parameters of the part x bytes per weight

    Args:
        model: a model whose shapes are known.
        precision: number format of the weights; None: the checkpoint's own.

    Returns:
        Bytes by part [B].

    Raises:
        InputError: a shape is unknown.

    Source:
        Safetensors sizes agree: Kimi Linear's total_size is 98,245,528,576 B, 2 B per parameter and 0.2 MB more.

    >>> from planner.profiles import model_profile
    >>> sum(weights_bytes(model_profile("kimi-linear-48b")).values())
    98245363456.0
    """
    parts = parameters_by_part(model.architecture)
    return {part: n * bytes_per_weight(model, part, precision) for part, n in parts.items()}
