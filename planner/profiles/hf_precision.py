"""Precision of a checkpoint and the parts it leaves in bf16, from a config's quantization_config and dtype."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from planner.profiles.hf_config import HfConfig

METHODS: Mapping[str, str] = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "fp4"}
WEIGHT_ONLY = ("mxfp4", "gptq", "awq")
"""Methods that quantise weights alone."""
ALGORITHMS: Mapping[str, str] = {"FP8": "fp8", "NVFP4": "fp4"}
BITS: Mapping[tuple[str, int], str] = {
    ("int", 4): "int4",
    ("int", 8): "int8",
    ("float", 4): "fp4",
    ("float", 8): "fp8",
}
PARTS: Mapping[str, str] = {
    "attention": r"attn[.*]*$",
    "shared_experts": r"shared_experts?[.*]*$",
    "dense_mlp": r"^(?!.*expert).*mlp.*down",
}
"""Parts whose modules are listed whole, as paths or patterns; a convolution or gate listed by itself is too small."""
ALWAYS = ("router", "embedding", "lm_head", "norms")


def precision(config: HfConfig) -> str | None:
    """Precision of the quantised weights; a problem, and None, where the config does not say."""
    quantization = config.get("quantization_config")
    if not isinstance(quantization, dict) or not quantization:
        return _dtype(config)
    method = str(quantization.get("quant_method"))
    found = METHODS.get(method) or ALGORITHMS.get(str(quantization.get("quant_algo"))) or _by_bits(quantization)
    if found is None:
        config.refuse("quantization_config", f"is of method {method!r}", "fp8, mxfp4, or one that states its bits")
    return found


def unquantized(config: HfConfig) -> list[str]:
    """Parts that stay bf16: embeddings, router and norms always, others as the config lists them."""
    quantization = config.get("quantization_config") or {}
    names = [*_strings(quantization.get("modules_to_not_convert")), *_strings(quantization.get("ignore"))]
    listed = [part for part, pattern in PARTS.items() if any(re.search(pattern, name) for name in names)]
    return [*listed, *ALWAYS]


def weight_only(config: HfConfig) -> bool:
    """Whether products take wider inputs than their weights: MXFP4, GPTQ and AWQ, or groups without activations."""
    quantization = config.get("quantization_config") or {}
    groups = quantization.get("config_groups")
    if isinstance(groups, dict) and groups:
        return not any(isinstance(group, dict) and group.get("input_activations") for group in groups.values())
    return str(quantization.get("quant_method")) in WEIGHT_ONLY


def _dtype(config: HfConfig) -> str | None:
    dtype = config.get("torch_dtype") or config.get("dtype")
    if dtype != "bfloat16":
        message = "is required" if dtype is None else f"is {dtype!r}"
        config.refuse("torch_dtype", message, "bfloat16, or a quantization_config; or give --precision")
        return None
    return "bf16"


def _by_bits(quantization: Mapping[str, Any]) -> str | None:
    """Precision of compressed-tensors groups, or of GPTQ and AWQ."""
    groups = quantization.get("config_groups")
    weights = [group.get("weights") or {} for group in groups.values()] if isinstance(groups, dict) else []
    found = {BITS.get((str(item.get("type")), item.get("num_bits", 0))) for item in weights}
    if quantization.get("quant_method") in ("gptq", "awq"):
        found = {BITS.get(("int", quantization.get("bits", 0)))}
    return found.pop() if len(found) == 1 else None


def _strings(value: Any) -> Iterable[str]:
    return (str(item) for item in value) if isinstance(value, list) else ()
