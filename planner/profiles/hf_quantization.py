"""Quantisation that a checkpoint states, by method: the format of its modules, and those that it leaves alone."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.profiles import hf_formats as formats
from planner.profiles.base import Precision
from planner.profiles.hf_formats import StoredFormat
from planner.profiles.hf_listed import ListedModules
from planner.profiles.model import WeightPart
from planner.profiles.modules import Module

Table = Mapping[str, Any]
LINEAR: tuple[WeightPart, ...] = ("attention", "dense_mlp", "experts", "shared_experts", "latent")
"""Parts of matrices that methods quantise unless a list says otherwise."""
LISTS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude", "llm_int8_skip_modules")
CLASSES = ("Linear", "LinearBase", "FusedMoE")
WIDE_BITS = 16
NO_QUANTIZATION = ("", "NONE", "NO_QUANT", "NULL")
CACHES: Mapping[str, Precision] = {"FP8": "fp8", "FP8_E4M3": "fp8", "NVFP4": "fp4", "FP4": "fp4", "INT8": "int8"}


class UnknownQuantizationError(ValueError):
    """A statement of a quantisation config that nobody can count: its key, what is there, what is allowed."""

    def __init__(self, key: str, message: str, allowed: str) -> None:
        super().__init__(message)
        self.key, self.allowed = key, allowed


@dataclass(frozen=True)
class Quantization:
    """Formats of a checkpoint's modules: those left alone, those named with a format of their own, all others."""

    default: StoredFormat | None
    """Of modules of `parts` that no list names; None: bf16."""
    left_alone: ListedModules
    """Modules that stay bf16."""
    named: tuple[tuple[ListedModules, StoredFormat | None], ...] = ()
    """Modules of other formats; the first list that names one decides."""
    parts: tuple[WeightPart, ...] = LINEAR
    """Parts that the default is for."""

    def of(self, module: Module) -> StoredFormat | None:
        """Format of a module; None: bf16."""
        if self.left_alone.has(module.names):
            return None
        for listed, own in self.named:
            if listed.has(module.names):
                return own
        return self.default if module.part in self.parts else None

    @property
    def entries(self) -> list[str]:
        """Everything that its lists name."""
        return [entry for listed in (self.left_alone, *(named for named, _ in self.named)) for entry in listed.entries]


def quantization(table: Table) -> Quantization:
    """Quantisation from a config's quantization_config, or from the table of hf_quant_config.json.

    Raises:
        UnknownQuantizationError: it has a method, an algorithm or a width that is not counted, or a list that is none.
    """
    inner = table.get("quantization")
    stated = {**table, **inner} if isinstance(inner, Mapping) else table
    method = str(stated.get("quant_method") or ("modelopt" if "quant_algo" in stated else "")).casefold()
    read = METHODS.get(method)
    if read is None:
        if not stated.get("config_groups"):
            allowed = f"{', '.join(METHODS)}, or one that states its bits"
            raise UnknownQuantizationError("", f"is of method {stated.get('quant_method')!r}", allowed)
        read = _compressed
    return read(stated)


def cache_format(table: Table) -> Precision | None:
    """Number format of the attention cache that a checkpoint asks for; None where it says nothing.

    Raises:
        UnknownQuantizationError: it asks for one that is not known.
    """
    inner = table.get("quantization")
    stated = {**table, **inner} if isinstance(inner, Mapping) else table
    for key in ("kv_cache_quant_algo", "kv_cache_dtype", "kv_cache_scheme", "kv_cache_quant_config"):
        value = stated.get(key)
        if not value or str(value).upper() in (*NO_QUANTIZATION, "AUTO"):
            continue
        found = _cache(value)
        if found is None:
            raise UnknownQuantizationError(key, f"is {str(value)[:60]}", f"{', '.join(CACHES)}, or 8 or 4 bits")
        return found
    return None


def _cache(value: Any) -> Precision | None:
    if isinstance(value, str):
        return "fp8" if value == "static" else CACHES.get(value.upper())
    if not isinstance(value, Mapping):
        return None
    if "num_bits" in value:
        own = formats.of_bits(value, None)
        return own.name if own else None
    outputs = [one.get("output_tensors") for one in value.values() if isinstance(one, Mapping)]
    kinds = [formats.of_type(str(one.get("dtype")), None, weight_only=False) for one in outputs if one]
    return kinds[0].name if kinds and kinds[0] else None


def _listed(entries: Iterable[Any], key: str) -> ListedModules:
    try:
        return ListedModules(str(entry) for entry in entries)
    except re.error as error:
        raise UnknownQuantizationError(
            key, f"is no regular expression: {error}", "names, globs, or re: with one"
        ) from None


def _left_alone(table: Table) -> ListedModules:
    found: list[str] = []
    for key in LISTS:
        value = table.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise UnknownQuantizationError(key, f"is {str(value)[:60]}", "a list of strings")
        found += value
    return _listed(found, next((key for key in LISTS if table.get(key)), LISTS[0]))


def _tables(value: Any, key: str) -> Iterator[tuple[str, Table]]:
    """Names and tables of a table of tables; those of null are left out."""
    if value is not None and not isinstance(value, Mapping):
        raise UnknownQuantizationError(key, f"is {str(value)[:60]}", "a table of tables")
    for name, item in (value or {}).items():
        if not isinstance(item, Mapping):
            raise UnknownQuantizationError(f"{key}.{name}", f"is {str(item)[:60]}", "a table")
        yield str(name), item


def _whole(table: Table, key: str, default: int | None = None) -> int | None:
    value = table.get(key, default)
    if value is not None and type(value) is not int:
        raise UnknownQuantizationError(key, f"is {str(value)[:60]}", "a whole number")
    return value if value is None or value > 0 else None


def _counted(found: StoredFormat | None, key: str, value: Any) -> StoredFormat:
    if found is None:
        raise UnknownQuantizationError(key, f"is {str(value)[:60]}", "formats of 4 or 8 bits")
    return found


def _fp8(table: Table) -> Quantization:
    return Quantization(formats.FP8_BLOCKS if table.get("weight_block_size") else formats.FP8, _left_alone(table))


def _mxfp4(table: Table) -> Quantization:
    return Quantization(formats.fp4(32, weight_only=True), _left_alone(table), parts=("experts",))


def _mxfp8(table: Table) -> Quantization:
    return Quantization(formats.MXFP8, _left_alone(table))


def _awq(table: Table) -> Quantization:
    return Quantization(_integers(table, table), _left_alone(table))


def _integers(table: Table, whole: Table) -> StoredFormat:
    """Integers of AWQ, GPTQ or AutoRound, which keep zero points in any case."""
    key = "bits" if "bits" in table or "w_bit" not in table else "w_bit"
    bits = _whole(table, key, _whole(whole, key))
    if bits not in (4, 8):
        raise UnknownQuantizationError(key, f"is {bits}", "4 or 8")
    group = _whole(table, "group_size", _whole(whole, "group_size", _whole(whole, "q_group_size")))
    return formats.integers(bits, group, has_zeros=True)


def _gptq(table: Table) -> Quantization:
    """GPTQ, whose `dynamic` leaves out what `-:` names, and gives all others bits of their own."""
    named: list[tuple[ListedModules, StoredFormat | None]] = []
    for entry, own in _tables(table.get("dynamic"), "dynamic"):
        pattern = _listed([f"re:{entry.removeprefix('-:').removeprefix('+:')}"], "dynamic")
        named.append((pattern, None if entry.startswith("-:") else _integers(own, table)))
    default = _integers(table, table)
    parts = (*LINEAR, "lm_head") if table.get("lm_head") is True else LINEAR
    blocks = table.get("modules_in_block_to_quantize")
    if isinstance(blocks, list) and blocks:
        inside = [str(name) for block in blocks for name in (block if isinstance(block, list) else [block])]
        return Quantization(None, _left_alone(table), (*named, (_listed(inside, "dynamic"), default)))
    return Quantization(default, _left_alone(table), tuple(named), parts)


def _auto_round(table: Table) -> Quantization:
    """AutoRound, whose `extra_config` gives modules bits of their own, 16 where they are left alone."""
    named: list[tuple[ListedModules, StoredFormat | None]] = []
    for name, own in _tables(table.get("extra_config"), "extra_config"):
        is_wide = (_whole(own, "bits", _whole(table, "bits")) or 0) >= WIDE_BITS
        named.append((_listed([name], "extra_config"), None if is_wide else _integers(own, table)))
    return Quantization(_integers(table, table), _left_alone(table), tuple(named))


def _bitsandbytes(table: Table) -> Quantization:
    if table.get("load_in_4bit") or table.get("_load_in_4bit"):
        return Quantization(formats.NF4, _left_alone(table))
    if table.get("load_in_8bit") or table.get("_load_in_8bit"):
        return Quantization(formats.integers(8, None, weight_only=False), _left_alone(table))
    raise UnknownQuantizationError("load_in_4bit", "is not true, nor is load_in_8bit", "one of them")


def _modelopt(table: Table) -> Quantization:
    """ModelOpt: one algorithm, or one per layer in quantized_layers; what no list names is bf16 then."""
    layers: dict[tuple[str, int | None], list[str]] = {}
    for name, own in _tables(table.get("quantized_layers"), "quantized_layers"):
        layers.setdefault((str(own.get("quant_algo")), _whole(own, "group_size")), []).append(name)
    named = [
        (_listed(names, "quantized_layers"), _algorithm(*key, "quantized_layers")) for key, names in layers.items()
    ]
    algorithm = str(table.get("quant_algo") or "")
    if "MIXED" in algorithm.upper() or (named and algorithm.upper() in NO_QUANTIZATION):
        if not named:
            raise UnknownQuantizationError(
                "quantized_layers", "is missing", "a table of layers where quant_algo is mixed"
            )
        return Quantization(None, _left_alone(table), tuple(named))
    if algorithm.upper() in NO_QUANTIZATION and table.get("config_groups"):
        return _compressed(table)
    return Quantization(_algorithm(algorithm, _group_size(table), "quant_algo"), _left_alone(table), tuple(named))


def _group_size(table: Table) -> int | None:
    if "group_size" in table:
        return _whole(table, "group_size")
    groups = [group.get("weights") for _, group in _tables(table.get("config_groups"), "config_groups")]
    return next((_whole(one, "group_size") for one in groups if isinstance(one, Mapping)), None)


def _algorithm(name: str, group: int | None, key: str) -> StoredFormat | None:
    if name.upper() in NO_QUANTIZATION:
        return None
    found = formats.of_algorithm(name, group)
    if found is None:
        allowed = "FP8, MXFP8, NVFP4, W4A16_AWQ, W4A8_AWQ, W8A16, W8A8_SQ_PER_CHANNEL and their kinds, MIXED_PRECISION"
        raise UnknownQuantizationError(key, f"is {name!r}", allowed)
    return found


def _compressed(table: Table) -> Quantization:
    """Groups of compressed-tensors: their targets are classes, names, or `re:` with a regular expression."""
    default, parts = None, LINEAR
    named: list[tuple[ListedModules, StoredFormat | None]] = []
    for name, group in _tables(table.get("config_groups"), "config_groups"):
        weights, key = group.get("weights"), f"config_groups.{name}"
        if weights is None:  # of inputs or caches alone
            continue
        own = formats.of_bits(weights, group.get("input_activations")) if isinstance(weights, Mapping) else None
        own = _counted(own, f"{key}.weights", weights)
        targets = group.get("targets") or ["Linear"]
        if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
            raise UnknownQuantizationError(f"{key}.targets", f"is {str(targets)[:60]}", "a list of strings")
        if any(target in CLASSES for target in targets):
            default, parts = own, (*LINEAR, "lm_head")
        if names := [target for target in targets if target not in CLASSES]:
            if odd := [one for one in names if one[:1].isupper()]:
                raise UnknownQuantizationError(
                    f"{key}.targets", f"has {odd[0]!r}", "Linear, names, or re: with a pattern"
                )
            named.append((_listed(names, f"{key}.targets"), own))
    if default is None and not named:
        raise UnknownQuantizationError("config_groups", "has no group with weights", "weights with num_bits and type")
    return Quantization(default, _left_alone(table), tuple(named), parts)


def _quark(table: Table) -> Quantization:
    """Quark: one table for all, and others for the layers that globs name."""
    named = [
        (_listed([name], "layer_quant_config"), _quark_format(own, f"layer_quant_config.{name}"))
        for name, own in _tables(table.get("layer_quant_config"), "layer_quant_config")
    ]
    if table.get("layer_type_quant_config"):
        raise UnknownQuantizationError("layer_type_quant_config", "has classes", "nothing, or layer_quant_config")
    whole = dict(_tables({"global_quant_config": table.get("global_quant_config") or {}}, ""))["global_quant_config"]
    return Quantization(_quark_format(whole, "global_quant_config"), _left_alone(table), tuple(named))


def _quark_format(table: Table, key: str) -> StoredFormat | None:
    weight = table.get("weight")
    first = weight[0] if isinstance(weight, list) and weight else weight
    if first is None:
        return None
    if not isinstance(first, Mapping):
        raise UnknownQuantizationError(f"{key}.weight", f"is {str(first)[:60]}", "a table with a dtype")
    found = formats.of_type(
        str(first.get("dtype")), first.get("group_size"), weight_only=not table.get("input_tensors")
    )
    return _counted(found, f"{key}.weight.dtype", first.get("dtype"))


def _torchao(table: Table) -> Quantization:
    """Torchao: one configuration for all, or one per module by its name."""
    kind = table.get("quant_type")
    own = kind.get("default", kind) if isinstance(kind, Mapping) else kind
    by_name = own.get("_data", {}).get("module_fqn_to_config") if isinstance(own, Mapping) else None
    if not isinstance(by_name, Mapping):
        return Quantization(_torchao_format(own), _left_alone(table))
    named = [(_listed([name], "quant_type"), item and _torchao_format(item)) for name, item in by_name.items()]
    default = by_name.get("_default")
    return Quantization(default and _torchao_format(default), _left_alone(table), tuple(named))


def _torchao_format(stated: Any) -> StoredFormat:
    is_table = isinstance(stated, Mapping)
    name = str(stated.get("_type") if is_table else stated)
    kind, data = name.casefold().replace("_", ""), (stated.get("_data") or {}) if is_table else {}
    group = data.get("group_size") if isinstance(data, Mapping) else None
    size = group if type(group) is int else INT4_DEFAULT
    if "float8" in kind or "fp8" in kind:
        return StoredFormat("fp8", formats.FP8.n_bytes, "weightonly" in kind)
    if "nvfp4" in kind or "mxfp4" in kind:
        return formats.fp4(16 if "nvfp4" in kind else 32, weight_only="weightonly" in kind)
    if "int4" in kind:
        return formats.integers(4, size)
    return _counted(
        formats.integers(8, None, weight_only="weightonly" in kind) if "int8" in kind else None, "quant_type", name
    )


def _experts_int8(table: Table) -> Quantization:
    return Quantization(formats.integers(8, None), _left_alone(table), parts=("experts",))


INT4_DEFAULT = 128
METHODS: Mapping[str, Callable[[Table], Quantization]] = {
    **dict.fromkeys(("fp8", "fbgemm_fp8", "finegrained_fp8"), _fp8),
    "mxfp4": _mxfp4,
    "mxfp8": _mxfp8,
    "awq": _awq,
    "gptq": _gptq,
    "auto-round": _auto_round,
    "bitsandbytes": _bitsandbytes,
    **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mixed", "nvfp4"), _modelopt),
    "compressed-tensors": _compressed,
    "quark": _quark,
    "torchao": _torchao,
    "experts_int8": _experts_int8,
}
