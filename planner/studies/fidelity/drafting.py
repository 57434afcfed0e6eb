"""Drafted tokens of a series of measured points that does not state them: one unknown of the whole series."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from planner.errors import shown
from planner.notes import Note, note
from planner.profiles import Speculation
from planner.studies.fidelity.cases import PointCase

FASTER = 1.35
"""Median speed over that of steps without drafts from which a series drafts: twice the 18 % that the TPOT of models
held out is off."""
FEWEST_ROWS = 3
DRAFT_TOKENS = 3
"""Tokens that public launch scripts draft with a model's MTP layers."""
MOST_ACCEPTED = 0.9
"""Acceptance of MTP's first token at best, by the report on DeepSeek-V3 (arXiv 2412.19437, section 5.4.3)."""


def with_drafts(
    cases: Sequence[PointCase],
    tpot_s: Sequence[float],
    predicted_s: Callable[[Sequence[PointCase]], NDArray[np.float64]],
) -> tuple[list[PointCase], list[Note]]:
    """Cases, those of series that draft with the drafts that explain their median time per token, and which these are.

    Args:
        tpot_s: predicted time per output token of each without drafts [s].
        predicted_s: that time of cases with drafts, all of one stack [s].
    """
    found, notes = list(cases), []
    for members in drafting_series(cases, tpot_s):
        own = [cases[k] for k in members]
        measured_s = np.array([case.point.tpot_s for case in own], float)

        def excess(
            acceptance: float, own: Sequence[PointCase] = own, measured_s: NDArray[np.float64] = measured_s
        ) -> float:
            return float(np.nanmedian(predicted_s([_drafts(case, acceptance) for case in own]) / measured_s)) - 1.0

        if excess(0.0) > 0 >= excess(MOST_ACCEPTED):  # faster yet: not drafts, but a layout that the rows misstate
            acceptance = float(brentq(excess, 0.0, MOST_ACCEPTED, xtol=1e-3))
            for k in members:
                found[k] = _drafts(cases[k], acceptance)
            text = (
                f"series {shown(own[0].point.series)} of {own[0].model.name} states no drafts and is faster than steps "
                f"without: taken to draft {DRAFT_TOKENS} tokens, each accepted at {acceptance:.2f} ({len(own)} points)"
            )
            notes.append(note("drafts-inferred", text))
    return found, notes


def drafting_series(cases: Sequence[PointCase], tpot_s: Sequence[float]) -> Iterator[list[int]]:
    """Indices of each series that says nothing of drafts and is faster than its model's steps without them.

    Valid:
        Of models with MTP layers on one worker without stages: a series of others is off for another reason.
    """
    members: dict[tuple[object, ...], list[int]] = {}
    for k, case in enumerate(cases):
        if case.point.tpot_s and _may_draft(case) and (series := case.point.series):
            key = (series, case.model.name, case.hardware.name, case.point.framework, case.precision)
            members.setdefault(key, []).append(k)
    for own in members.values():
        ratios = [tpot_s[k] / (cases[k].point.tpot_s or np.nan) for k in own]
        if len(own) >= FEWEST_ROWS and float(np.median(ratios)) > FASTER:
            yield own


def _may_draft(case: PointCase) -> bool:
    is_silent = case.point.draft_tokens is None and case.point.output_tokens > 1
    has_mtp = bool(case.model.architecture.n_mtp_layers)
    return is_silent and has_mtp and not case.is_disaggregated and case.decode_layout.pp_size == 1


def _drafts(case: PointCase, acceptance: float) -> PointCase:
    return replace(case, speculation=Speculation.of(DRAFT_TOKENS, acceptance))
