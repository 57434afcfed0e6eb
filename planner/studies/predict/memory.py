"""Fit of a model and its prompts on an instance: what they lack, and the smallest changes that would do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from planner.profiles import ModelProfile
from planner.results.prediction import AcceleratorMemory, LargestBatch
from planner.roofline.chip import FORMATS
from planner.roofline.engine_memory import MOST_RUNNING, Rank, memory_settings, rank_memory
from planner.roofline.kv_cache import BYTES_PER_VALUE
from planner.roofline.kv_memory import kv_bytes_per_rank
from planner.roofline.layout import Layout
from planner.roofline.memory_fit import MemoryFit, largest_batch, longest_request
from planner.roofline.weights import bytes_per_weight
from planner.studies.predict.question import Instance

MOST_TIMES = 64
"""An instance this many times as large is not looked for."""
WORTH_HAVING = 8
"""Sequences of the question's context that an instance should hold together."""
FRACTIONS = tuple(percent / 100 for percent in range(80, 96))
"""Parts of the memory that an engine may be told to use: beyond, kernels and graphs run out of it."""
FEWEST_RUNNING = 32
"""Fewest requests at once that are proposed to save memory."""
NARROW_CACHE = "fp8"
"""Narrowest format of the attention cache that every engine has."""


@dataclass(frozen=True)
class Memory:
    """Memory of one accelerator by a model's shapes, or else by its published number of parameters."""

    likely: MemoryFit
    """With the weights as published or counted."""
    least: MemoryFit
    """With the fewest weights that the published number may stand for: what this cannot hold, nothing can."""
    is_counted: bool
    """Whether weights were counted from shapes, so that both are the same."""
    is_known: bool = True
    """Whether anything is known of the weights."""

    @property
    def fits(self) -> bool:
        """True unless it is proven that weights and workspace leave no room."""
        return self.least.fits


def instance_memory(asked: Instance) -> Memory:
    """Memory of one accelerator of an instance."""
    found = fit_of(asked, asked.layout)
    is_known = asked.has_shapes or asked.model.published.total_parameters is not None
    if asked.has_shapes:
        return Memory(found, found, True)
    least = fit_of(asked, asked.layout, least=True)
    if asked.measured:  # somebody ran it there
        least = replace(least, weights_bytes=min(least.weights_bytes, least.memory_bytes - least.workspace_bytes - 1))
    return Memory(found, least, False, is_known)


def fit_of(asked: Instance, layout: Layout, precision: str | None = None, *, least: bool = False) -> MemoryFit:
    """Memory of one accelerator under a layout and a precision.

    Without shapes the weights are the published parameters, or the fewest that their digits allow, in equal shares.
    """
    if asked.has_shapes:
        return asked.laid_out(layout, precision).memory
    published, width = asked.model.published.total_parameters, precision or asked.question.precision
    n = 0.0 if published is None else published.value - (published.tolerance if least else 0.0)
    weights = n * bytes_per_weight(asked.model, "experts", width) / layout.n_accelerators
    settings = asked.stack.on_layout(layout, asked.hardware)
    memory, chunk_tokens = asked.chip.memory_bytes, settings.chunk_tokens
    found = rank_memory(Rank(asked.model, memory, layout, weights, chunk_tokens, memory_settings(settings)))
    return MemoryFit(found.usable_bytes, weights, found.workspace_bytes)


def cached_model(asked: Instance) -> ModelProfile:
    """The model as caches see it, with the layers of what drafts."""
    return asked.instance_model.cached_model if asked.has_shapes else asked.model


def accelerator_memory(asked: Instance, memory: Memory) -> AcceleratorMemory:
    """Memory as the answer states it."""
    found = memory.likely
    cache = max(found.cache_bytes, 0.0)
    return AcceleratorMemory(
        total_bytes=asked.chip.memory_bytes,
        usable_bytes=found.memory_bytes,
        weights_bytes=found.weights_bytes if memory.is_known else None,
        workspace_bytes=found.workspace_bytes,
        cache_bytes=cache if memory.is_counted or not memory.fits else None,
    )


def most_sequences(asked: Instance, memory: Memory) -> int:
    """Sequences of the question's context whose caches fit; where weights are not counted, at best."""
    question = asked.question
    if asked.has_shapes:
        return int(asked.instance_model.largest_batch(question.context_tokens))
    found = largest_batch(asked.model, memory.least, asked.layout, question.context_tokens, question.kv_precision)
    return int(found)


def batch_limits(asked: Instance, memory: Memory, *, is_timed: bool) -> LargestBatch:
    """The largest batch by memory and, where asked and known, by a limit of the step."""
    question, limit_s = asked.question, asked.question.tpot_limit_s
    within_tpot = None
    if limit_s is not None and is_timed and asked.has_shapes:
        within_tpot = asked.instance_model.largest_batch_within(question.context_tokens, limit_s)
    return LargestBatch(
        context_tokens=question.context_tokens,
        within_memory=most_sequences(asked, memory) if memory.is_counted or not memory.fits else None,
        tpot_limit_s=limit_s,
        within_tpot=within_tpot,
    )


def lacking_bytes(asked: Instance, memory: Memory) -> tuple[float, ...]:
    """Memory that an accelerator lacks for the weights and every prompt of the question; 0 where they fit [B].

    Nothing is known to lack where somebody ran a model whose weights are not counted.
    """
    if not memory.is_counted and asked.measured:
        return (0.0,) * len(asked.question.tokens)
    sizes = {"tp_size": asked.layout.tp_size, "pp_size": asked.layout.pp_size}
    held = kv_bytes_per_rank(cached_model(asked), asked.question.tokens, asked.question.kv_precision, **sizes)
    return tuple(np.maximum(held - memory.least.cache_bytes, 0.0).tolist())


def longest_prompt_tokens(asked: Instance, memory: Memory) -> int | None:
    """Longest prompt that fits beside the weights [tokens]; None where weights are not counted, or any fits."""
    if not memory.is_counted:
        return None
    found = longest_request(cached_model(asked), memory.likely, asked.layout, asked.question.kv_precision)
    return int(found) if isfinite(found) else None


def fewest_accelerators(asked: Instance) -> int | None:
    """The fewest, in powers of two, that hold the weights with every prompt asked for, and with a batch worth having.

    None where the instance that is asked about is no larger, or weights are not counted.
    """
    if not asked.has_shapes:
        return None
    question, sizes = asked.question, (1 << power for power in range((asked.n_accelerators - 1).bit_length()))
    for n in sizes:
        layout = Layout(tp_size=n)
        fit = fit_of(asked, layout)
        tokens = np.array([max(question.tokens), question.context_tokens])
        if not fit.fits:
            continue
        longest, together = largest_batch(cached_model(asked), fit, layout, tokens, question.kv_precision)
        if longest >= 1 and together >= WORTH_HAVING:
            return n
    return None


def changes_that_fit(asked: Instance, tokens: int = 0) -> tuple[str, ...]:
    """The smallest changes, each by itself, that would let the weights fit, and a prompt of a length beside them.

    More accelerators, narrower weights, for a prompt a narrower cache, and other settings of the engine.
    """
    return (
        *_more_accelerators(asked, tokens),
        *_narrower(asked, tokens),
        *_narrower_cache(asked, tokens),
        *_other_settings(asked, tokens),
    )


def _holds(asked: Instance, layout: Layout, tokens: int, precision: str | None = None, kv: str | None = None) -> bool:
    """True if weights and a prompt fit under a layout and number formats."""
    fit = fit_of(asked, layout, precision, least=True)
    if tokens == 0 or not fit.fits:
        return fit.fits
    return bool(largest_batch(cached_model(asked), fit, layout, tokens, kv or asked.question.kv_precision) >= 1)


def _more_accelerators(asked: Instance, tokens: int) -> Iterator[str]:
    layouts = sorted(_larger(asked), key=lambda layout: layout.n_accelerators)
    for layout in layouts:
        if _holds(asked, layout, tokens):
            yield f"{layout.n_accelerators} x {asked.hardware.name} (--layout {layout})"
            return


def _larger(asked: Instance) -> Iterator[Layout]:
    """More pipeline stages, or twice the tensor parallelism again and again; stages first where NVLink would end."""
    layout, domain = asked.layout, asked.hardware.n_scaleup_domain_accelerators
    sizes = [2**power for power in range(1, int(np.log2(MOST_TIMES)) + 1)]
    inside = [n for n in sizes if domain is None or n * layout.stage_size <= domain]
    yield from (replace(layout, tp_size=n * layout.tp_size) for n in inside)
    stages = min(MOST_TIMES, asked.model.architecture.n_layers // layout.pp_size) if asked.speculation is None else 1
    yield from (replace(layout, pp_size=n * layout.pp_size) for n in range(2, stages + 1))
    yield from (replace(layout, tp_size=n * layout.tp_size) for n in sizes if n not in inside)


def _narrower(asked: Instance, tokens: int) -> Iterator[str]:
    """The widest of the narrower formats that fits, and not integers for a model of floating-point weights."""
    now = BYTES_PER_VALUE[asked.precision]
    narrower = [name for name in reversed(FORMATS) if BYTES_PER_VALUE[name] < now]
    floats = [name for name in narrower if name.startswith("fp")]
    for name in floats:
        if _holds(asked, asked.layout, tokens, name):
            yield f"{name} weights (--precision {name})"
            return


def _narrower_cache(asked: Instance, tokens: int) -> Iterator[str]:
    is_narrower = BYTES_PER_VALUE[NARROW_CACHE] < BYTES_PER_VALUE[asked.question.kv_precision]
    if tokens and is_narrower and _holds(asked, asked.layout, tokens, kv=NARROW_CACHE):
        yield f"a cache in {NARROW_CACHE} (--kv-precision {NARROW_CACHE})"


def _other_settings(asked: Instance, tokens: int) -> Iterator[str]:
    """The least of a larger part of the memory that fits, and the most of fewer requests at once."""
    for fraction in FRACTIONS:
        told = replace(asked, stack=asked.stack.with_settings({"memory_fraction": fraction}))
        if asked.has_shapes and fraction > asked.instance_model.memory.fraction and _holds(told, asked.layout, tokens):
            yield f"{fraction:g} of the memory (--memory-fraction {fraction:g})"
            break
    now = asked.stack.settings.most_running or MOST_RUNNING
    for fewer in (now >> halvings for halvings in range(1, now.bit_length())):
        told = replace(asked, stack=asked.stack.with_settings({"most_running": fewer}))
        if fewer >= FEWEST_RUNNING and _holds(told, asked.layout, tokens):
            yield f"{fewer} requests at once (--most-running {fewer})"
            break
