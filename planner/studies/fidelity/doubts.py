"""Measured points that contradict physics or their own load: scored with the others and without."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import NAME_CHARACTERS, printable
from planner.roofline import Chip, InstanceModel
from planner.roofline.factors import DATASHEET
from planner.studies.fidelity.cases import PointCase

PEAK_FRACTION = 0.8
"""Of a peak that the products of whole passes reach at most: large single ones reach 0.75 to 0.85."""
UNEXPLAINED = 4.0
"""Times a TTFT is that of the same loop run where it holds a wait that no point states: for slots, or for a server
that still compiles."""


def point_doubts(cases: Sequence[PointCase], predicted_ttft_s: ArrayLike) -> list[str | None]:
    """Doubt about each point, in words; None: nothing that shows.

    Args:
        cases: the points.
        predicted_ttft_s: TTFT of each by a run of its loop [s].

    Valid:
        Of points that state all they depend on. A framework that is slow by itself is no doubt: the last test is four
        times the prediction, and of loops that are run: where prefill has workers of its own, formulas are further off.
    """
    known: dict[tuple[object, ...], tuple[float, float]] = {}
    found = []
    for case, predicted_s in zip(cases, np.asarray(predicted_ttft_s, float).tolist(), strict=True):
        key = (case.model.name, case.hardware.name, case.precision, case.prefill_layout, case.point.input_tokens)
        if key not in known:
            known[key] = _products_s(case)
        found.append(_doubt(case, *known[key], predicted_s))
    return found


def _products_s(case: PointCase) -> tuple[float, float]:
    """Time of a prompt's products at the peak of its instance: alone, and of one on each replica a part [s]."""
    bare = InstanceModel(case.model, Chip(case.hardware, False), case.prefill_layout, DATASHEET, case.precision)
    tokens, n = [case.point.input_tokens], bare.n_places
    alone, together = (float(bare.prefill_time(tokens, n_prompts=k).compute_s[0]) for k in (1, n))
    return alone, together / n


def _doubt(case: PointCase, alone_s: float, share_s: float, predicted_s: float) -> str | None:
    ttft, tpot = case.point.ttft_s, case.point.tpot_s
    if case.point.doubt:
        return f"its row says: {printable(case.point.doubt, NAME_CHARACTERS)}"
    if ttft is not None and ttft < alone_s / PEAK_FRACTION:
        return f"TTFT is below its prompt's products at {PEAK_FRACTION:.0%} of the peak"
    if ttft and tpot and case.point.is_closed_loop and case.point.concurrency and not case.is_disaggregated:
        rate = case.point.concurrency / (ttft + tpot * (case.point.output_tokens - 1)) / case.n_prefill_workers
        if rate * share_s > PEAK_FRACTION:
            return f"prompts alone ask for more than {PEAK_FRACTION:.0%} of the peak"
    if ttft is not None and ttft > UNEXPLAINED * predicted_s and not case.is_disaggregated:
        return f"TTFT is over {UNEXPLAINED:g} times that of its loop: it waits for what the row does not state"
    return None
