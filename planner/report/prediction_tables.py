"""A prediction as tables for a terminal of a hundred columns."""

from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import frame, printed, remarks
from planner.results.prediction import DecodePrediction, Prediction, PrefillPrediction, SpeculationPrediction
from planner.units import DASH, GB, number

if TYPE_CHECKING:
    from rich.console import RenderableType

BEYOND = "~"
OUTSIDE = f"{BEYOND} outside what was measured or calibrated"
"""Put before a time that lies outside what was measured or calibrated."""
KB, MB = 1e3, 1e6


def prediction_tables(prediction: Prediction) -> list["RenderableType"]:
    """A prediction for people: the instance and its memory, prefill by length, decode by batch, what to know.

    Args:
        prediction: the answer of `planner predict`.

    Returns:
        What to print, in order.
    """
    parts = (
        frame(prediction.model, _headline(prediction)),
        _memory(prediction),
        _prefill(prediction),
        _full_prefill(prediction),
        _decode(prediction),
        _drafts(prediction.speculation),
        remarks("notes", map(formats.sentence, prediction.notes)),
    )
    return [part for part in parts if part is not None]


def shortfall(prediction: Prediction) -> str:
    """Why a model, or every prompt asked for, does not fit: the bytes that are lacking, and the smallest changes."""
    lacking, memory = _lacking_bytes(prediction), prediction.memory
    what = f"{prediction.model} in {prediction.precision}"
    if prediction.fits:
        what = f"a prompt of {max(row.tokens for row in prediction.prefill):,} tokens beside {what}"
    lines = [
        f"{what} does not fit {prediction.instance} ({prediction.layout}): "
        f"each accelerator lacks {size(lacking)}, {size(prediction.n_accelerators * lacking)} in total",
        f"  weights {size(memory.weights_bytes)} and workspace {size(memory.workspace_bytes)} per accelerator, "
        f"of whose {size(memory.total_bytes)} serving uses {size(memory.usable_bytes)} ({prediction.stack})",
        *(f"  would fit: {change}" for change in prediction.relaxations),
    ]
    return "\n".join(lines)


def _lacking_bytes(prediction: Prediction) -> float:
    """Memory that an accelerator lacks for the weights, else for the longest prompt asked for [B]."""
    if not prediction.fits:
        return prediction.lacking_bytes_per_accelerator
    return max((row.lacking_bytes_per_accelerator for row in prediction.prefill), default=0.0)


def size(n_bytes: float | None) -> str:
    """Bytes in the unit that suits them.

    >>> size(17280.0), size(575668224.0), size(84311210240.0), size(None)
    ('17.3 KB', '576 MB', '84.3 GB', '–')
    """
    if not n_bytes:
        return DASH if n_bytes is None else "0 B"
    unit, name = next(((unit, name) for unit, name in ((GB, "GB"), (MB, "MB")) if n_bytes >= unit), (KB, "KB"))
    return f"{formats.figure(n_bytes / unit)} {name}"


def _headline(prediction: Prediction) -> list[tuple[str, str]]:
    products = prediction.product_format
    run = f", products in {products}" if products not in (None, prediction.precision) else ""
    chosen = "chosen for this model and accelerator; " if prediction.stack_is_default else ""
    return [
        ("instance", f"{prediction.instance}, {prediction.layout}"),
        ("weights", f"{prediction.precision}{run}; cache in {prediction.kv_precision}"),
        ("stack", f"{prediction.stack}: {chosen}{prediction.stack_basis}"),
        ("cache", _cache(prediction)),
        ("largest batch", _largest_batch(prediction)),
        *([] if prediction.speculation is None else [("drafts", _drafted(prediction.speculation))]),
    ]


def _cache(prediction: Prediction) -> str:
    state = f" and {size(prediction.state_bytes)} per request" if prediction.state_bytes else ""
    own, held = prediction.kv_bytes_per_token, prediction.kv_bytes_per_token_physical
    copies = f"; with copies on ranks {size(held)} per token" if held > own else ""
    return f"{size(own)} per token{state}{copies}"


def _largest_batch(prediction: Prediction) -> str:
    found = prediction.largest_batch
    text = f"{number(found.within_memory)} by memory, of {number(found.context_tokens)} tokens each"
    if found.tpot_limit_s is None:
        return text
    per = "step" if prediction.speculation is None else "token"
    return f"{text}; {number(found.within_tpot)} within {formats.seconds(found.tpot_limit_s)} per {per}"


def _drafted(found: SpeculationPrediction) -> str:
    """Words on what drafts, how many tokens a step yields, and what the memory of it is."""
    by = "its MTP layers" if found.draft_model is None else found.draft_model
    accepted = ", ".join(f"{value:g}" for value in dict.fromkeys(found.acceptance))
    yields = f"{found.draft_tokens} tokens by {by}, accepted at {accepted}: {found.tokens_per_step:.3g} tokens per step"
    return f"{yields}; {size(found.weights_bytes_per_accelerator)} of the weights"


def _memory(prediction: Prediction) -> "RenderableType | None":
    headings = (">has", ">used", ">weights", ">workspace", ">caches", ">lacks")
    memory, lacking = prediction.memory, _lacking_bytes(prediction)
    parts = (memory.total_bytes, memory.usable_bytes, memory.weights_bytes, memory.workspace_bytes, memory.cache_bytes)
    row = [*map(size, parts), size(lacking) if lacking else "nothing"]
    return printed(Table.of("memory of one accelerator", headings, [row]))


def _prefill(prediction: Prediction) -> "RenderableType | None":
    rows = prediction.prefill
    cached = any(row.cached_tokens for row in rows)
    measured = any(row.measured_s is not None and row.basis != "measured" for row in rows)
    extra = [">cached"] * cached
    headings = [">prompt tokens", *extra, ">seconds", "90 % band", ">KV", ">Gbps", "bound by", "basis"]
    headings += [">measured"] * measured
    text = OUTSIDE if any(row.extrapolated and row.prefill_s is not None for row in rows) else ""
    cells = (_prefill_cells(row, cached, measured) for row in rows)
    return printed(Table.of("prefill of one prompt", headings, cells, text))


def _prefill_cells(row: PrefillPrediction, cached: bool, measured: bool) -> list[str]:
    return [
        f"{row.tokens:,}",
        *[f"{row.cached_tokens:,}"] * cached,
        _time(row.prefill_s, row.extrapolated),
        _band(row.low_s, row.high_s),
        size(row.kv_bytes),
        formats.figure(row.kv_gbps),
        row.bound or DASH,
        row.basis if row.prefill_s is not None else DASH if row.fits else "does not fit",
        *[formats.seconds(row.measured_s)] * measured,
    ]


def _full_prefill(prediction: Prediction) -> "RenderableType | None":
    """Throughput of the instance that is never without prompts of a length, one on each attention replica."""
    rows = [row for row in prediction.prefill if row.tokens_per_s is not None]
    if not rows:
        return None
    headings = (
        ">prompt tokens",
        ">prompts in a pass",
        ">tokens in a pass",
        ">seconds",
        ">tokens/s",
        ">per accelerator",
    )
    cells = (
        (
            f"{row.tokens:,}",
            number(row.pass_prompts),
            number(row.pass_tokens),
            formats.seconds(row.full_s),
            formats.figure(row.tokens_per_s),
            formats.figure(row.tokens_per_s_per_accelerator),
        )
        for row in rows
    )
    return printed(Table.of("prefill of an instance that is never without prompts", headings, cells))


def _decode(prediction: Prediction) -> "RenderableType | None":
    rows, drafts = prediction.decode, prediction.speculation
    yielded = 1.0 if drafts is None else drafts.tokens_per_step
    headings = (">batch", ">step", "90 % band", ">tokens/s", ">each", "caches fit", "bound by", "basis")
    context = prediction.largest_batch.context_tokens
    text = OUTSIDE if any(row.extrapolated and row.step_s is not None for row in rows) else ""
    fit = "perhaps" if prediction.fits and prediction.largest_batch.within_memory is None else "yes"
    cells = (_decode_cells(row, fit, yielded) for row in rows)
    return printed(Table.of(f"decode step at {number(context)} tokens of context", headings, cells, text))


def _decode_cells(row: DecodePrediction, fit: str, yielded: float) -> list[str]:
    return [
        f"{row.batch:,}",
        _time(row.step_s, row.extrapolated),
        _band(row.low_s, row.high_s),
        formats.figure(row.tokens_per_s),
        formats.figure(yielded / row.step_s if row.step_s else None),
        fit if row.fits else "no",
        row.bound or DASH,
        DASH if row.step_s is None else row.basis,
    ]


def _drafts(found: SpeculationPrediction | None) -> "RenderableType | None":
    """Steps with drafted tokens beside plain ones, and from which batch on they no longer pay."""
    if found is None or not found.steps:
        return None
    headings = (">batch", ">plain step", ">verifying", ">drafting", ">per token", ">speed-up")
    cells = (
        (
            f"{row.batch:,}",
            *map(formats.seconds, (row.plain_step_s, row.verify_s, row.draft_s, row.tpot_s)),
            f"{row.speedup:.3g}",
        )
        for row in found.steps
    )
    until = "drafting pays at every batch that fits"
    if found.slower_from_batch is not None:
        until = f"drafting no longer pays from a batch of {number(found.slower_from_batch)} on"
    return printed(Table.of("decode steps with drafted tokens", headings, cells, until))


def _time(value_s: float | None, beyond: bool) -> str:
    return f"{BEYOND} {formats.seconds(value_s)}" if beyond and value_s is not None else formats.seconds(value_s)


def _band(low_s: float | None, high_s: float | None) -> str:
    return DASH if low_s is None or high_s is None else f"{formats.seconds(low_s)} to {formats.seconds(high_s)}"
