"""Effect of drafting tokens on the decode steps of an instance."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from planner.notes import Note, note
from planner.results.prediction import DraftedStep, SpeculationPrediction
from planner.roofline import ServedModel, tokens_per_step_variance
from planner.roofline.kv_cache import kv_bytes_per_token
from planner.studies.predict.question import Instance

N_TRIED = 48
"""Batches between which the one is looked for from which on drafting slows down."""


def speculation(asked: Instance, most: int) -> SpeculationPrediction | None:
    """Effect of drafting; None where nothing is drafted.

    Args:
        asked: the question.
        most: sequences that fit together; 0 where steps are not known.
    """
    used = asked.speculation
    if used is None:
        return None
    served, plain = asked.served, replace(asked.served, speculation=None)
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


def _steps(asked: Instance, plain: ServedModel) -> tuple[DraftedStep, ...]:
    served, batches = asked.served, asked.question.batch
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


def _slower_from(served: ServedModel, plain: ServedModel, context_tokens: float, most: int) -> int | None:
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
