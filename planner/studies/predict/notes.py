"""Notes that a reader needs to use a prediction."""

from collections.abc import Iterator, Sequence

import numpy as np

from planner.errors import InputError
from planner.notes import Note, note
from planner.profiles import Kind, namesake_note
from planner.profiles.efficiency import all_reduce_keys
from planner.profiles.stack import Calibration
from planner.results.prediction import PrefillPrediction
from planner.roofline import emulation
from planner.roofline.formats import checkpoint_cache_notes
from planner.scenario.usual import TOKEN_STEP, unusual
from planner.studies.predict.memory import WORTH_HAVING, fewest_accelerators
from planner.studies.predict.question import Instance
from planner.studies.predict.seconds import Phase, beyond_calibration, calibration_of
from planner.units import GB, number

PHASES: tuple[Phase, ...] = ("prefill", "decode")
FAR = 0.25
"""Part by which a prediction may be off what was measured of the very instance without being said so."""

SCALES = {
    "fp4": "scales add 12.5 % to them in NVFP4, 6.25 % in MXFP4",
    "int4": "scales and zero points of groups of 128 add 3 to 4 %",
}
"""What scales take beside weights, where the checkpoint does not state it."""


def product_format(asked: Instance) -> str | None:
    """Format that products of quantised weights run at; None where no peak is known."""
    try:
        return (
            asked.instance_model.product_precision if asked.has_shapes else asked.chip.product_format(asked.precision)
        )
    except InputError:
        return None


def stack_basis(asked: Instance) -> str:
    """Basis of the stack's factors, in words, for this model and accelerator."""
    model, hardware, found = asked.model.name, asked.hardware.name, asked.stack.calibration
    if not asked.has_shapes:
        return "what was measured of the model; nothing else is known of it"
    if not asked.stack.derated:
        return "the bare roofline, nothing fitted"
    if found is None:
        return "not calibrated: its factors are assumptions"
    if any((group.model, group.hardware) == (model, hardware) for group in found.groups):
        return f"calibrated on {model} on {hardware}, among others"
    on = [name for name, names in ((model, found.models), (hardware, found.hardware)) if name in names]
    return (
        f"calibrated on {on[-1]}, but not on {model} there" if on else f"calibrated, but not on {model} or {hardware}"
    )


def prompt_notes(
    asked: Instance, rows: Sequence[PrefillPrediction], longest_tokens: int | None, changes: Sequence[str]
) -> Iterator[Note]:
    """Note on what a prompt that does not fit beside the weights lacks, the longest that does, and what would do."""
    row = max((row for row in rows if not row.fits), key=lambda row: row.tokens, default=None)
    if row is None:
        return
    lacking = f"each accelerator lacks {number(row.lacking_bytes_per_accelerator / GB)} GB"
    fits = "" if longest_tokens is None else f"; the longest prompt that fits has {number(longest_tokens)} tokens"
    do = f"; would do: {' or '.join(changes)}" if changes else ""
    name = f"{asked.n_accelerators} x {asked.hardware.name}"
    yield note(
        "prompt-does-not-fit",
        f"the cache of {row.tokens:,} tokens does not fit beside the weights on {name}: {lacking}{fits}{do}",
    )


def notes(asked: Instance) -> Iterator[Note]:
    """Notes on the question itself; those on where seconds come from are made with them."""
    limit_s = asked.question.tpot_limit_s
    if limit_s is not None:
        yield from unusual("--tpot-ms", 1000 * limit_s, TOKEN_STEP)
    yield from _size_notes(asked)
    yield from _profile_notes(asked)
    yield from _format_notes(asked)
    yield from _context_notes(asked)
    yield from _stack_notes(asked)
    if asked.stack.derated and not asked.chip.is_measured:
        yield note(
            "kernels-not-measured",
            f"no kernel was measured on {asked.hardware.name}: fractions of its peaks are typical ones",
        )
    yield from _collective_notes(asked)
    if asked.hardware.status == "announced":
        yield note(
            "hardware-announced", f"figures of {asked.hardware.name}, which is announced, are the vendor's claims"
        )
    if asked.has_shapes and asked.model.architecture.basis == "inferred":
        yield note("shapes-inferred", f"shapes of {asked.model.name} are inferred, not published")
    if not asked.has_shapes:
        yield note(
            "weights-at-least",
            "whether a batch's caches fit supposes the fewest weights that the published number may stand for",
        )
    usual = asked.stack.kv_precision(asked.model, asked.question.precision)
    if asked.has_shapes and (usual, asked.question.kv_precision) == ("fp8", "bf16"):
        yield note(
            "cache-format-of-stack",
            f"the cache is in bf16; {asked.stack.name} keeps it in fp8 unless told otherwise (--kv-precision fp8)",
        )
    yield from checkpoint_cache_notes(asked.model, asked.question.kv_precision, "--kv-precision")


def _size_notes(asked: Instance) -> Iterator[Note]:
    """That nobody stated the size of the instance, where a smaller one would do."""
    if asked.question.n_accelerators is None and asked.question.layout is None and (n := fewest_accelerators(asked)):
        yield note(
            "instance-size-chosen",
            f"an instance of {asked.n_accelerators}, since no other size is stated; {n} would hold the model with the "
            f"longest prompt asked for and a batch of {WORTH_HAVING} (--accelerators {n})",
        )


def _profile_notes(asked: Instance) -> Iterator[Note]:
    """Profiles given by path that have names of the catalogue."""
    stated = asked.question
    names: list[tuple[str | None, Kind]] = [(stated.model, "model"), (stated.hardware, "hardware")]
    for name, kind in (*names, (stated.stack, "stack"), (stated.drafts.draft_model, "model")):
        if name is not None:
            yield from namesake_note(name, kind)


def _context_notes(asked: Instance) -> Iterator[Note]:
    limit, question = asked.model.architecture.context_limit_tokens, asked.question
    if limit is not None and max(*question.tokens, question.context_tokens) > limit:
        yield note(
            "context-exceeded",
            f"{asked.model.name} is made for contexts of up to {limit:,} tokens: engines refuse longer ones unless "
            "RoPE scaling extends that",
        )


def _format_notes(asked: Instance) -> Iterator[Note]:
    own, products = asked.precision, product_format(asked)
    if products is not None and products != own and asked.has_shapes:
        yield note("format-emulated", emulation(asked.hardware, own, products))
    stated = asked.model.checkpoint.bytes_per_weight if asked.model.checkpoint else {}
    if own in SCALES and own not in stated:
        yield note("scales-not-counted", f"{own} weights are counted with 4 bits each: {SCALES[own]}")


def _collective_notes(asked: Instance) -> Iterator[Note]:
    """All-reduces over groups that nobody measured, where another bandwidth stands for theirs."""
    chip, layout = asked.chip, asked.layout
    if not (asked.has_shapes and chip.derated):
        return
    groups = {layout.tp_size, layout.dense_ranks(asked.model.architecture.moe is not None)} - {1}
    for n_ranks in sorted(groups):
        key = chip.all_reduce_key(n_ranks)
        if key != all_reduce_keys(n_ranks)[0]:
            other = "the bandwidth over more of them" if key else "a typical part of the link's bandwidth"
            yield note(
                "all-reduce-not-measured",
                f"no all-reduce over {n_ranks} of {asked.hardware.name} was measured: {other} stands for it; where no "
                "switch joins them, groups of other sizes may differ several times",
            )


def _stack_notes(asked: Instance) -> Iterator[Note]:
    found = asked.stack
    if found.version:
        yield note(
            "version-of-framework",
            f"{found.name} has the factors of its framework: versions are not told apart",
        )
    if found.calibration and asked.has_shapes:
        yield from _coverage_notes(asked, found.calibration)
        yield from _measured_notes(asked)


def _measured_notes(asked: Instance) -> Iterator[Note]:
    """Published prefills of the model on such an instance from which the prediction is far: the furthest of each."""
    for instance in asked.model.measured.values():
        sizes = instance.hardware, instance.n_accelerators, instance.basis
        if instance.prefill is None or sizes != (asked.hardware.name, asked.layout.n_accelerators, "measured"):
            continue
        tokens, measured_s = (np.array(column, float) for column in (instance.prefill.tokens, instance.prefill.seconds))
        predicted_s = asked.instance_model.prefill_time(tokens).total_s
        k = int(np.argmax(np.abs(np.log(predicted_s / measured_s))))
        off = float(predicted_s[k] / measured_s[k] - 1)
        if abs(off) > FAR:
            yield note(
                "measured-otherwise",
                f"{instance.stack or 'a server'} was measured with {measured_s[k]:.3g} s for a prompt of "
                f"{tokens[k]:,.0f} tokens on such an instance, and {predicted_s[k]:.3g} s are predicted ({off:+.0%}): "
                "what its benchmark adds to every request is not in it",
            )


def _coverage_notes(asked: Instance, found: Calibration) -> Iterator[Note]:
    silent = [phase for phase in PHASES if calibration_of(asked, phase) is None]
    if silent:
        yield note(
            "phase-not-calibrated",
            f"no point of {asked.stack.name} tells of {' or '.join(silent)}: its factors stand for it all the same",
        )
    if any(any(beyond_calibration(asked, phase)) for phase in PHASES if phase not in silent):
        yield note("beyond-calibration", f"what is marked ~ lies outside the calibration, which covers {found.covered}")
