"""Precision of a checkpoint, counted module by module: from its quantization_config, hf_quant_config.json or dtype."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from planner.errors import InputError, InputProblem
from planner.profiles.base import Precision
from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_listed import unknown_entries
from planner.profiles.hf_quantization import Quantization, UnknownQuantizationError, cache_format, quantization
from planner.profiles.model import UNQUANTIZED, Architecture, WeightPart
from planner.profiles.modules import experts_named, modules
from planner.schema import JsonFile

BESIDE = "hf_quant_config.json"
"""What ModelOpt writes beside config.json."""
KEY = "quantization_config"
WIDTHS: Mapping[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5}
SAME_BYTES = 0.02
"""Part by which the weights of two statements of one checkpoint may differ."""
DIGITS = 6


@dataclass(frozen=True)
class StoredWeights:
    """Formats of a checkpoint's weights and of the cache that it asks for."""

    precision: Precision
    """Format of most quantised weights, else bf16."""
    formats: Mapping[WeightPart, Mapping[Precision, float]]
    """Parts that are not all at that precision: shares of their parameters by format."""
    bytes_per_weight: Mapping[Precision, float]
    """Bytes of a weight with its scales, where that is not the format's width [B]."""
    weight_only: tuple[Precision, ...] = ()
    """Formats whose inputs are wider."""
    kv_precision: Precision | None = None
    """Format of the attention cache; None: none is asked for."""
    unread: tuple[str, ...] = ()
    """Entries of its lists that name no module of the model."""
    total_bytes: float = 0.0
    """Bytes of all modules [B]."""

    @property
    def names(self) -> set[str]:
        """Formats that some weights have."""
        return {self.precision, *(name for shares in self.formats.values() for name in shares)}

    def checkpoint(self) -> dict[str, Any]:
        """The profile's table of them."""
        if self.precision == "bf16":
            return {"kv_precision": self.kv_precision} if self.kv_precision else {}
        found: dict[str, Any] = {"bytes_per_weight": {**self.bytes_per_weight}, "weight_only": [*self.weight_only]}
        found |= {"kv_precision": self.kv_precision}
        return {key: value for key, value in found.items() if value} | {"formats": {**self.formats}}


@dataclass(frozen=True)
class Statement:
    """Statement of one file about a checkpoint's weights."""

    file: str
    key: str
    quantization: Quantization | None
    """None: all weights are bf16."""
    kv_precision: Precision | None = None


def statements(config: HfConfig, beside: JsonFile | None = None) -> list[Statement]:
    """Statements of a config, and of a hf_quant_config.json beside it; problems go to the config's.

    Args:
        beside: ModelOpt's file; None: there is none.
    """
    own = config.get(KEY) or config.get("compression_config")  # as compressed-tensors called it at first
    tables = [(config.name, KEY, own)] if isinstance(own, dict) and own else []
    if beside is not None:
        tables.append((beside.name, "", beside.data))
    found = []
    for file, key, table in tables:
        try:
            if not isinstance(table, Mapping):
                raise UnknownQuantizationError("", "is no table", "what ModelOpt writes")
            found.append(Statement(file, key, quantization(table), cache_format(table)))
        except UnknownQuantizationError as error:
            at = ".".join(part for part in (key, error.key) if part)
            config.problems.append(InputProblem(file, at, str(error), f"{error.allowed}; or give --precision"))
    return found if tables else [*_unquantized(config)]


def _unquantized(config: HfConfig) -> Iterator[Statement]:
    dtype = config.get("torch_dtype") or config.get("dtype")
    if dtype == "bfloat16":
        yield Statement(config.name, "torch_dtype", None)
    else:
        message = "is required" if dtype is None else f"is {dtype!r}"
        config.refuse("torch_dtype", message, "bfloat16, or a quantization_config; or give --precision")


def stored_weights(
    stated: Iterable[Statement], architecture: Architecture, names: Iterable[str | None], asked: str | None = None
) -> StoredWeights:
    """Formats of a checkpoint as its files state them, held against each other, its names and what is asked for.

    Args:
        architecture: shapes, by whose parameters formats are counted.
        names: names of the model and its folder; they count where no precision is asked for.
        asked: a precision that somebody gives; it decides where no file states a quantisation.

    Raises:
        InputError: two of them contradict each other.
    """
    found = [(one, quantized(one, architecture)) for one in stated]
    if asked is not None and not any(one.quantization for one, _ in found):
        return silent(asked)
    problems = [*_apart(found), *_not_as_asked(found, asked)]
    if asked is None:
        problems += _misnamed(found[-1], [*filter(None, names)])
    if problems:
        raise InputError(problems)
    caches = [one.kv_precision for one, _ in found if one.kv_precision]
    return replace(found[-1][1], kv_precision=caches[-1] if caches else None)


def silent(precision: str) -> StoredWeights:
    """Weights at one precision, but for what stays bf16 in any case."""
    return StoredWeights(precision, {part: {"bf16": 1.0} for part in UNQUANTIZED}, {})  # type: ignore[arg-type]


def quantized(statement: Statement, architecture: Architecture) -> StoredWeights:
    """Formats of a checkpoint by its parameters, module by module."""
    stated = statement.quantization
    parameters: dict[WeightPart, Counter[Precision]] = {}
    sizes: dict[Precision, float] = dict.fromkeys(WIDTHS, 0.0)
    alone = set[Precision]()
    for module in modules(architecture, experts_named(stated.entries if stated else ())):
        own = stated.of(module) if stated else None
        name: Precision = own.name if own else "bf16"
        parameters.setdefault(module.part, Counter())[name] += module.n_parameters
        sizes[name] += (own.n_bytes if own else WIDTHS["bf16"]) * module.n_parameters
        alone |= {own.name} if own and own.weight_only else set()
    names = [name for module in modules(architecture) for name in module.names] if stated else []
    unread = unknown_entries(stated.entries if stated else (), names, architecture.n_layers)
    return replace(_weights(parameters, sizes, alone), unread=tuple(unread))


def _weights(
    parameters: Mapping[WeightPart, Counter[Precision]],
    sizes: Mapping[Precision, float],
    alone: set[Precision],
) -> StoredWeights:
    totals = sum(parameters.values(), Counter[Precision]())
    narrow: dict[Precision, int] = {name: n for name, n in totals.items() if name != "bf16"}
    precision: Precision = max(narrow, key=lambda name: narrow[name]) if narrow else "bf16"
    shares: dict[WeightPart, dict[Precision, float]] = {
        part: {name: round(n / found.total(), DIGITS) for name, n in found.most_common()}
        for part, found in parameters.items()
    }
    shares |= {part: {"bf16": 1.0} for part in UNQUANTIZED if part not in shares}
    return StoredWeights(
        precision,
        {part: {k: v for k, v in own.items() if v} for part, own in shares.items() if own != {precision: 1.0}},
        {name: round(sizes[name] / n, DIGITS) for name, n in narrow.items() if sizes[name] != WIDTHS[name] * n},
        tuple(sorted(alone)),
        total_bytes=sum(sizes.values()),
    )


Read = tuple[Statement, StoredWeights]


def _apart(found: list[Read]) -> Iterator[InputProblem]:
    """Two statements of one checkpoint that differ in its formats or its cache."""
    allowed = "files of one checkpoint; leave out the one that is not its own"
    for (one, own), (other, its) in pairwise(found):
        differs = abs(own.total_bytes - its.total_bytes) > SAME_BYTES * its.total_bytes
        if own.precision != its.precision or differs:
            message = f"says {described(own)}, and {other.file} {described(its)}"
            yield InputProblem(one.file, one.key, message, allowed)
        elif one.kv_precision and other.kv_precision and one.kv_precision != other.kv_precision:
            message = f"says a cache in {one.kv_precision}, and {other.file} one in {other.kv_precision}"
            yield InputProblem(one.file, one.key, message, allowed)


def _not_as_asked(found: list[Read], asked: str | None) -> Iterator[InputProblem]:
    """A precision that somebody gives beside files that state another."""
    for one, own in found:
        if asked is not None and one.quantization and asked != own.precision:
            message = f"is {asked}, and {one.file} says {described(own)}"
            yield InputProblem("--precision", "", message, "nothing, where the files state a quantisation")
            return


def _misnamed(read: Read, names: Iterable[str]) -> Iterator[InputProblem]:
    """A name that states a format which the files do not."""
    statement, found = read
    for name in names:
        if word := contradiction(name, found.names):
            allowed = f"its quantization_config or {BESIDE}; or --precision, which decides"
            message = f"says {described(found)}, and the name {name} says {word}"
            yield InputProblem(statement.file, statement.key, message, allowed)
            return


def described(found: StoredWeights) -> str:
    """Formats in words."""
    return formats_text(found.precision, found.formats)


def formats_text(precision: str, formats: Mapping[WeightPart, Mapping[Precision, float]]) -> str:
    """Formats of weights in words; parts that stay bf16 in any case left out.

    >>> formats_text("fp8", {"attention": {"bf16": 1.0}, "dense_mlp": {"fp8": 0.9, "bf16": 0.1}})
    'fp8, but attention bf16, dense mlp 90.00 % fp8 and 10.00 % bf16'
    """
    parts = []
    for part, shares in formats.items():
        if part not in UNQUANTIZED or shares != {"bf16": 1.0}:
            each = [name if share == 1 else f"{100 * share:.2f} % {name}" for name, share in shares.items()]
            parts.append(f"{part.replace('_', ' ')} {' and '.join(each)}")
    return f"{precision}{', but ' if parts else ''}{', '.join(parts)}"


ALLOWED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("fp8", "mxfp8", "float8"), ("fp8",)),
    **dict.fromkeys(("nvfp4", "mxfp4", "fp4"), ("fp4",)),
    **dict.fromkeys(("int4", "bnb4bit"), ("int4",)),
    **dict.fromkeys(("w4a16", "w4a8", "4bit"), ("int4", "fp4")),
    **dict.fromkeys(("int8", "8bit"), ("int8",)),
    "w8a16": ("int8", "fp8"),
    "w8a8": ("int8", "fp8"),
    **dict.fromkeys(("awq", "gptq"), ("int4", "int8")),
    "bf16": ("bf16",),
}
"""Formats that agree with a word of a name."""
_WORD = re.compile(r"[-_ ./\\]+")


def stated_formats(name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Words of a name that state a format of weights, and the formats that agree with each; those of caches left out.

    >>> [*stated_formats("nvidia/Llama-3.1-8B-Instruct-FP8")]
    [('FP8', ('fp8',))]
    >>> [*stated_formats("DeepSeek-R1-NVFP4-KV-FP8")], [*stated_formats("Llama-3.1-8B")]
    ([('NVFP4', ('fp4',))], [])
    """
    words = _WORD.split(name)
    for before, word in zip(["", *words], words, strict=False):
        if before.casefold() not in ("kv", "cache") and (found := ALLOWED.get(word.casefold())):
            yield word, found


def contradiction(name: str, found: Collection[str]) -> str | None:
    """The word of a name that states a format which a checkpoint does not have; None where they agree.

    >>> contradiction("Llama-3.1-8B-FP8", {"bf16"}), contradiction("Llama-3.1-8B-FP8", {"fp8", "bf16"})
    ('FP8', None)
    """
    for word, allowed in stated_formats(name):
        own = found if allowed != ("bf16",) or len(found) == 1 else set(found) - {"bf16"}
        if not set(allowed) & set(own):
            return word
    return None
