"""Bytes of the weights by part of the model and precision."""

from planner.profiles import ModelProfile, WeightPart, parameters_by_part
from planner.profiles.model import UNQUANTIZED
from planner.roofline.kv_cache import BYTES_PER_VALUE


def weight_formats(model: ModelProfile, part: WeightPart, precision: str | None = None) -> dict[str, float]:
    """Number formats of a part's weights, each with its share of the part's parameters.

    Equation:
        as stored; at another precision than the checkpoint's, what is not bf16 is at that one

    Args:
        model: any profile.
        part: a part of the model.
        precision: number format of the weights; None: the checkpoint's own.

    Returns:
        Shares by format, which sum to 1 [-].

    Source:
        The checkpoint's quantization_config or hf_quant_config.json, as the profile says.

    >>> from planner.profiles import model_profile
    >>> [weight_formats(model_profile("gpt-oss-120b"), part) for part in ("experts", "attention")]
    [{'fp4': 1.0}, {'bf16': 1.0}]
    """
    own = model.precision if precision is None else precision
    default = {"bf16": 1.0} if model.checkpoint is None and part in UNQUANTIZED else {own: 1.0}
    shares = {} if model.checkpoint is None else model.checkpoint.formats.get(part, {})
    stored = {str(name): share for name, share in shares.items()}
    if not stored or own == model.precision:
        return stored or default
    wide = stored.get("bf16", 0.0)
    if own == "bf16" or wide == 1.0:
        return {"bf16": 1.0}
    return {own: 1.0 - wide, **({"bf16": wide} if wide else {})}


def format_bytes(model: ModelProfile, name: str, precision: str | None = None) -> float:
    """Bytes of one weight in a format, its share of the scales included where the checkpoint states it [B].

    Args:
        precision: number format of the weights; None: the checkpoint's own.
    """
    stated = model.checkpoint.bytes_per_weight if model.checkpoint and precision in (None, model.precision) else {}
    return next((width for own, width in stated.items() if own == name), BYTES_PER_VALUE[name])


def bytes_per_weight(model: ModelProfile, part: WeightPart, precision: str | None = None) -> float:
    """Bytes that one weight of a part takes on average, its share of the scales included where they are stated.

    Equation:
        sum over formats of share x bytes of a weight in it

    Args:
        model: any profile.
        part: a part of the model.
        precision: number format of the weights; None: the checkpoint's own.

    Returns:
        Bytes per weight [B].

    Raises:
        KeyError: for an unknown precision.

    Source:
        The checkpoint's quantization_config, as the profile says.

    >>> from planner.profiles import model_profile
    >>> [bytes_per_weight(model_profile("gpt-oss-120b"), part) for part in ("experts", "attention")]
    [0.53125, 2.0]
    """
    shares = weight_formats(model, part, precision)
    return sum(share * format_bytes(model, name, precision) for name, share in shares.items())


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
