"""Number formats of quantised weights: by the algorithms of ModelOpt, and by bits, type and size of a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.profiles.base import Precision

FP32, BF16, ONE, HALF = 4.0, 2.0, 1.0, 0.5
"""Bytes of a scale or a zero point."""
BLOCK = 128 * 128
"""Weights that one fp32 scale is for in blocks of fp8."""


@dataclass(frozen=True)
class StoredFormat:
    """Storage format of the weights of a module."""

    name: Precision
    """Number format."""
    n_bytes: float
    """Bytes of a weight with its share of the scales [B]."""
    weight_only: bool = False
    """Whether inputs of products are wider than the weights."""


def fp4(group: int, *, weight_only: bool = False) -> StoredFormat:
    """FP4 in groups that share a scale of one byte: 16 weights as NVFP4, 32 as MXFP4."""
    return StoredFormat("fp4", 0.5 + ONE / group, weight_only)


def integers(bits: int, group: int | None, *, has_zeros: bool = False, weight_only: bool = True) -> StoredFormat:
    """Integers in groups with a scale of 16 bits, perhaps with a zero point as wide as a weight."""
    width = bits / 8
    each = (BF16 + (width if has_zeros else 0.0)) / group if group else 0.0
    return StoredFormat("int4" if bits == 4 else "int8", width + each, weight_only)


FP8 = StoredFormat("fp8", 1.0)
FP8_BLOCKS = StoredFormat("fp8", 1.0 + FP32 / BLOCK)
MXFP8 = StoredFormat("fp8", 1.0 + ONE / 32)
NF4 = StoredFormat("int4", 0.5 + FP32 / 64, weight_only=True)
INT4_GROUP = 128


def of_algorithm(name: str, group: int | None = None) -> StoredFormat | None:
    """Format of ModelOpt's quant_algo; None where it is unknown.

    Source:
        QUANT_ALGO_LIST and W8A8_SQ_PLUGIN_LIST of TensorRT-LLM 1.0, quantization/mode.py; ModelOpt 0.37, export.

    >>> [of_algorithm(name) for name in ("NVFP4", "W4A16_AWQ")]  # doctest: +NORMALIZE_WHITESPACE
    [StoredFormat(name='fp4', n_bytes=0.5625, weight_only=False),
     StoredFormat(name='int4', n_bytes=0.515625, weight_only=True)]
    """
    kind = name.upper()
    if "NVFP4" in kind:
        return fp4(group or 16, weight_only="A16" in kind or "A8" in kind)
    if "MXFP4" in kind or kind == "FP4":
        return fp4(group or 32, weight_only="A16" in kind or "A8" in kind)
    if kind.startswith("MXFP8"):
        return MXFP8
    if kind.startswith(("FP8_BLOCK", "FP8_PB")):
        return FP8_BLOCKS
    if kind in ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PER_TENSOR", "FP8_STATIC", "FP8_DYNAMIC"):
        return FP8
    if kind.startswith(("W4A16", "W4A8", "INT4")):
        return integers(4, group or INT4_GROUP)
    if kind.startswith("W8A16"):
        return integers(8, group)
    if kind.startswith(("W8A8", "INT8")):
        return integers(8, group, weight_only=False)
    return None


def of_bits(weights: Mapping[str, Any], inputs: Any) -> StoredFormat | None:
    """Format of a group of compressed-tensors, from its weights' and its inputs' tables; None where it is unknown.

    >>> of_bits({"num_bits": 4, "type": "float", "group_size": 16}, {"num_bits": 4}).n_bytes
    0.5625
    >>> of_bits({"num_bits": 6, "type": "int"}, None)
    """
    bits, kind, group = weights.get("num_bits"), str(weights.get("type", "int")), _group(weights.get("group_size"))
    narrow = inputs.get("num_bits") if isinstance(inputs, Mapping) else None
    alone = not isinstance(narrow, int) or (isinstance(bits, int) and narrow > bits)
    if (bits, kind) == (4, "float"):
        return fp4(group or 16, weight_only=alone)
    if (bits, kind) == (8, "float"):
        scales = MXFP8 if group == 32 else FP8_BLOCKS if weights.get("block_structure") else FP8
        return StoredFormat("fp8", scales.n_bytes, alone)
    if bits in (4, 8) and kind == "int":
        return integers(bits, group, has_zeros=weights.get("symmetric") is False, weight_only=alone)
    return None


def of_type(name: str, group: Any, *, weight_only: bool) -> StoredFormat | None:
    """Format of a data type as quark writes it, such as fp8_e4m3; None where it is unknown."""
    kind, size = name.casefold(), _group(group)
    if kind.startswith(("fp8", "float8")):
        return StoredFormat("fp8", 1.0 + (ONE / size if size == 32 else 0.0), weight_only)
    if kind.startswith(("fp4", "float4", "mx_fp4", "mxfp4")):
        return fp4(size or 32, weight_only=weight_only)
    if kind in ("int4", "uint4"):
        return integers(4, size, has_zeros=kind == "uint4", weight_only=weight_only)
    return integers(8, size, weight_only=weight_only) if kind in ("int8", "uint8") else None


def _group(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
