"""The answer to a question about one instance, with what drafted tokens are worth."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np

from planner.notes import Note, note
from planner.results.prediction import (
    DecodePrediction,
    DraftedStep,
    Prediction,
    PrefillPrediction,
    SpeculationPrediction,
)
from planner.roofline import InstanceModel, tokens_per_step_variance
from planner.roofline.kv_cache import kv_bytes, kv_bytes_per_token, recurrent_state_bytes
from planner.roofline.kv_memory import physical_kv_bytes_per_token
from planner.studies.predict.memory import (
    Memory,
    accelerator_memory,
    batch_limits,
    changes_that_fit,
    instance_memory,
    lacking_bytes,
    longest_prompt_tokens,
    most_sequences,
)
from planner.studies.predict.notes import notes, product_format, prompt_notes, stack_basis
from planner.studies.predict.question import Instance, PredictQuestion, instance
from planner.studies.predict.seconds import (
    InstanceSeconds,
    Seconds,
    instance_seconds,
    measured_prefill_s,
    profile_entry,
    untimed,
)
from planner.units import gbps


def predict(question: PredictQuestion) -> Prediction:
    """Seconds, bytes and memory of one model on one instance.

    Args:
        question: the model, the instance, and the lengths and batches to time.

    Returns:
        The prediction; where the weights do not fit, `fits` is false, bytes are stated and seconds are None.

    Raises:
        InputError: something in the question cannot be, or is not known.
    """
    asked = instance(question)
    memory = instance_memory(asked)
    seconds = instance_seconds(asked, memory.fits)
    lacking = 0.0 if memory.fits else memory.likely.lacking_bytes
    prefill = _prefill_rows(asked, seconds, memory)
    too_long = max((row.tokens for row in prefill if not row.fits), default=0)
    longest = longest_prompt_tokens(asked, memory)
    changes = () if memory.fits and not too_long else changes_that_fit(asked, too_long if memory.fits else 0)
    shown = accelerator_memory(asked, memory)
    is_timed = any(row.value_s is not None for row in seconds.decode)
    decode = _decode_rows(asked, seconds, memory)
    drafts = speculation(asked, most_sequences(asked, memory) if memory.fits and is_timed else 0)
    return Prediction(
        model=asked.model.name,
        hardware=asked.hardware.name,
        n_accelerators=asked.n_accelerators,
        precision=asked.precision,
        stack=seconds.stack or asked.stack.name,
        fits=memory.fits,
        weights_bytes_per_accelerator=shown.weights_bytes,
        kv_bytes_per_token=kv_bytes_per_token(asked.model, question.kv_precision),
        kv_bytes_per_token_physical=physical_kv_bytes_per_token(
            asked.model, question.kv_precision, tp_size=asked.layout.tp_size
        ),
        state_bytes=recurrent_state_bytes(asked.model),
        prefill=prefill,
        decode=decode,
        speculation=drafts,
        layout=str(asked.layout),
        kv_precision=question.kv_precision,
        product_format=product_format(asked),
        stack_basis=stack_basis(asked),
        stack_is_default=question.stack is None,
        memory=shown,
        lacking_bytes_per_accelerator=lacking,
        largest_batch=batch_limits(asked, memory, is_timed=is_timed),
        longest_prompt_tokens=longest,
        context_limit_tokens=asked.model.architecture.context_limit_tokens,
        relaxations=changes,
        notes=(
            *(prompt_notes(asked, prefill, longest, changes) if memory.fits else ()),
            *notes(asked),
            *draft_notes(drafts),
            *seconds.notes,
        ),
    )


def _prefill_rows(asked: Instance, seconds: InstanceSeconds, memory: Memory) -> tuple[PrefillPrediction, ...]:
    question = asked.question
    sizes = kv_bytes(asked.model, np.asarray(question.tokens, float), question.kv_precision).tolist()
    columns = (question.tokens, sizes, seconds.prefill, _measured_s(asked), lacking_bytes(asked, memory))
    rows = tuple(_prefill_row(asked, *row) for row in zip(*columns, strict=True))
    found = zip(rows, seconds.pass_prompts, seconds.full_s, seconds.busy_s, strict=True)
    return tuple(_with_rate(asked, *row) for row in found) if seconds.full_s else rows


def _with_rate(
    asked: Instance, row: PrefillPrediction, n_prompts: int, full_s: float | None, busy_s: float | None
) -> PrefillPrediction:
    """A length with what the instance does when its passes are full of prompts of it."""
    if row.prefill_s is None or full_s is None or not busy_s:
        return row
    served, new_tokens = asked.instance_model, row.tokens - row.cached_tokens
    rate = n_prompts * new_tokens / busy_s
    changes = {
        "pass_prompts": n_prompts,
        "pass_tokens": n_prompts * min(new_tokens, served.chunk_tokens),
        "full_s": full_s,
        "tokens_per_s": rate,
        "tokens_per_s_per_accelerator": rate / asked.n_accelerators,
    }
    return row.model_copy(update=changes)


def _prefill_row(
    asked: Instance, tokens: int, size: float, found: Seconds, measured_s: float | None, short_bytes: float
) -> PrefillPrediction:
    """One length; what somebody measured on the instance fits it, whatever was counted."""
    lacking = 0.0 if measured_s is not None else short_bytes
    time = found if lacking == 0 else untimed(found)
    return PrefillPrediction(
        tokens=tokens,
        cached_tokens=asked.question.cached_tokens,
        prefill_s=time.value_s,
        low_s=time.low_s,
        high_s=time.high_s,
        kv_bytes=size,
        kv_gbps=gbps(size / time.value_s) if time.value_s else None,
        fits=lacking == 0,
        lacking_bytes_per_accelerator=lacking,
        beyond_context_limit=tokens > (asked.model.architecture.context_limit_tokens or inf),
        bound=time.bound,
        basis=time.basis,
        extrapolated=time.extrapolated,
        measured_s=measured_s,
    )


def _measured_s(asked: Instance) -> list[float | None]:
    """Measured time of each length, where it lies within the lengths measured [s]; else None."""
    found = profile_entry(asked, "prefill")
    if found is None or found[1].basis != "measured":
        return [None] * len(asked.question.tokens)
    return [None if beyond else value for value, beyond in measured_prefill_s(asked, found[1])]


def _decode_rows(asked: Instance, seconds: InstanceSeconds, memory: Memory) -> tuple[DecodePrediction, ...]:
    most = most_sequences(asked, memory) if memory.fits else 0
    rows = zip(asked.question.batch, seconds.decode, strict=True)
    return tuple(_decode_row(asked, batch, time, batch <= most) for batch, time in rows)


def _decode_row(asked: Instance, batch: int, time: Seconds, fits: bool) -> DecodePrediction:
    return DecodePrediction(
        batch=batch,
        context_tokens=asked.question.context_tokens,
        step_s=time.value_s,
        low_s=time.low_s,
        high_s=time.high_s,
        tokens_per_s=asked.tokens_per_step * batch / time.value_s if time.value_s else None,
        bound=time.bound,
        basis=time.basis,
        extrapolated=time.extrapolated,
        fits=fits,
    )


N_TRIED = 48
"""Batches between which the one is looked for from which on drafting slows down."""


def speculation(asked: Instance, most: int) -> SpeculationPrediction | None:
    """Effect of drafting; None where nothing is drafted.

    Args:
        most: sequences that fit together; 0 where steps are not known.
    """
    used = asked.speculation
    if used is None:
        return None
    served, plain = asked.instance_model, replace(asked.instance_model, speculation=None)
    with_drafts, without = (
        kv_bytes_per_token(model, asked.question.kv_precision) for model in (served.cached_model, asked.model)
    )
    return SpeculationPrediction(
        draft_tokens=used.n_draft_tokens,
        acceptance=used.acceptance,
        draft_model=None if used.draft is None else used.draft.name,
        tokens_per_step=served.tokens_per_step,
        tokens_per_step_variance=tokens_per_step_variance(used.acceptance),
        weights_bytes_per_accelerator=served.memory.weights_bytes - plain.memory.weights_bytes,
        kv_bytes_per_token=with_drafts - without,
        steps=_steps(asked, plain) if most else (),
        slower_from_batch=_slower_from(served, plain, asked.question.context_tokens, most),
    )


def _steps(asked: Instance, plain: InstanceModel) -> tuple[DraftedStep, ...]:
    served, batches = asked.instance_model, asked.question.batch
    sizes, context = np.asarray(batches, float), float(asked.question.context_tokens)
    found = (served.verification_time, served.decode_time, plain.decode_time)
    rows = zip(batches, *(time(sizes, context).total_s.tolist() for time in found), strict=True)
    return tuple(
        DraftedStep(
            batch=batch,
            plain_step_s=plain_s,
            verify_s=verify_s,
            draft_s=step_s - verify_s,
            tpot_s=step_s / served.tokens_per_step,
            speedup=plain_s * served.tokens_per_step / step_s,
        )
        for batch, verify_s, step_s, plain_s in rows
    )


def _slower_from(served: InstanceModel, plain: InstanceModel, context_tokens: float, most: int) -> int | None:
    """Least batch from which on a token takes longer than without drafts, up to the most that fit; None: none does."""
    low, high = 0, most + 1  # drafting pays at `low`, if that is a batch, and not from `high` on
    while low < high - 1:
        tried = np.unique(np.linspace(low + 1, high - 1, N_TRIED).astype(int))
        context = np.full(tried.shape, context_tokens)
        pays = served.token_time(tried, context).total_s < plain.decode_time(tried, context).total_s
        last = int(np.max(np.flatnonzero(pays), initial=-1))
        above = int(tried[last + 1]) if last + 1 < len(tried) else high
        low, high = (int(tried[last]) if last >= 0 else low), above
    return high if high <= most else None


def draft_notes(found: SpeculationPrediction | None) -> Iterator[Note]:
    """Where drafting slows down what was asked about."""
    slower = [] if found is None else [f"{row.batch:,}" for row in found.steps if row.speedup < 1]
    if slower:
        batches = f"{'a batch' if len(slower) == 1 else 'batches'} of {', '.join(slower)}"
        yield note("drafting-slows-down", f"drafting makes tokens slower than plain steps do at {batches}")
