"""The closed loop's means against an event-by-event run of it, which shares nothing with the formula.

C requests are always in flight, 10 C prompts in all, answers of 0.8 to 1 of the nominal length. The engine works in
passes: one waiting prompt joins the decoding batch at a time, first come first served, and its pass takes X longer than
a decode step D.
"""

import random
from itertools import product
from statistics import fmean

import numpy as np
import pytest

from planner.roofline import SERVING_BENCHMARK, LoopTimes, closed_loop_latency

STEP_S = 0.01
OUTPUT_TOKENS = 1024
SEEDS = (1, 2)
GRID = [*product((4, 16, 64), (1, 4, 16, 64))]
TPOT_TOLERANCE = 0.05
"""A run ends: the last C requests are replaced by none, and meet half the prefills that the others do. One in ten of
the requests then has up to half of (C - 1) X / L less, 5 % of TPOT where prefills are all of it."""
TTFT_TOLERANCE = 0.16
BUSY_TTFT_TOLERANCE = 0.32
"""Where prompts of later rounds meet often, C X / (L D) above CALM: M/D/1 knows no finite number of slots, of which a
burst takes some away, and so it is too slow; most with few slots."""
CALM = 0.3


MEMORY_TOLERANCE = 0.1
"""Where memory holds fewer: the last requests of a run wait less, as nobody comes after them; a tenth of ten rounds."""


def load(concurrency: int, prefill_s: float) -> float:
    return concurrency * prefill_s / (OUTPUT_TOKENS * STEP_S)


class Engine:
    """One run."""

    def __init__(self, concurrency: int, prefill_s: float, seed: int, slots: int | None = None) -> None:
        draw = random.Random(seed)
        n = int(SERVING_BENCHMARK.prompts_per_slot) * concurrency
        shortest = SERVING_BENCHMARK.shortest_fraction
        self.lengths = [round(OUTPUT_TOKENS * draw.uniform(shortest, 1.0)) for _ in range(n)]
        self.prefill_s, self.slots = prefill_s, slots or concurrency
        self.now_s, self.arrived, self.first, self.done = 0.0, [0.0] * concurrency, [0.0] * n, [0.0] * n
        self.waiting, self.left = list(range(concurrency)), dict[int, int]()

    def run(self) -> "Engine":
        while self.waiting or self.left:
            admits = bool(self.waiting) and len(self.left) < self.slots
            self._decode(1 if admits else min(self.left.values()), self.waiting.pop(0) if admits else None)
        return self

    def _decode(self, n_steps: int, admitted: int | None) -> None:
        """Some steps of the batch, of which one carries the prompt that is admitted."""
        self.now_s += n_steps * STEP_S * bool(self.left) + (0.0 if admitted is None else self.prefill_s)
        for request in [*self.left]:
            self.left[request] -= n_steps
            if self.left[request] <= 0:
                self._end(request)
        if admitted is not None:
            self.first[admitted] = self.now_s
            self.left[admitted] = self.lengths[admitted] - 1

    def _end(self, request: int) -> None:
        """A request is done, and the next takes its place at once."""
        self.done[request] = self.now_s
        del self.left[request]
        if len(self.arrived) < len(self.lengths):
            self.waiting.append(len(self.arrived))
            self.arrived.append(self.now_s)

    @property
    def ttft_s(self) -> float:
        return fmean(first - arrived for first, arrived in zip(self.first, self.arrived, strict=True))

    @property
    def tpot_s(self) -> float:
        times = zip(self.first, self.done, self.lengths, strict=True)
        return fmean((done - first) / (n - 1) for first, done, n in times)


def simulated(concurrency: int, prefill_s: float, slots: int | None = None) -> tuple[float, float]:
    """Mean TTFT and TPOT over seeds."""
    runs = [Engine(concurrency, prefill_s, seed, slots).run() for seed in SEEDS]
    return fmean(run.ttft_s for run in runs), fmean(run.tpot_s for run in runs)


def predicted(concurrency: int, prefill_s: float, slots: int | None = None) -> tuple[float, float]:
    """The same from the formula."""
    one = np.ones(1)
    mean = SERVING_BENCHMARK.mean_fraction * OUTPUT_TOKENS
    times = LoopTimes(prefill_s * one, prefill_s * one, STEP_S * one)
    found = closed_loop_latency(times, concurrency * one, (slots or concurrency) * one, mean * one)
    return float(found.ttft_s[0]), float(found.tpot_s[0])


@pytest.mark.parametrize(("concurrency", "ratio"), GRID)
def test_mean_tpot_is_that_of_a_run(concurrency: int, ratio: int) -> None:
    _, measured = simulated(concurrency, ratio * STEP_S)
    _, tpot = predicted(concurrency, ratio * STEP_S)
    assert tpot == pytest.approx(measured, rel=TPOT_TOLERANCE)


@pytest.mark.parametrize(("concurrency", "ratio"), GRID)
def test_mean_ttft_is_that_of_a_run(concurrency: int, ratio: int) -> None:
    measured, _ = simulated(concurrency, ratio * STEP_S)
    ttft, _ = predicted(concurrency, ratio * STEP_S)
    calm = load(concurrency, ratio * STEP_S) <= CALM
    assert ttft == pytest.approx(measured, rel=TTFT_TOLERANCE if calm else BUSY_TTFT_TOLERANCE)


@pytest.mark.parametrize(("concurrency", "slots"), [(16, 4), (64, 16), (64, 48)])
@pytest.mark.parametrize("ratio", [1, 4, 16])
def test_requests_that_memory_does_not_hold_wait_for_those_it_does(concurrency: int, slots: int, ratio: int) -> None:
    ttft, tpot = simulated(concurrency, ratio * STEP_S, slots)
    expected = predicted(concurrency, ratio * STEP_S, slots)
    assert expected == (pytest.approx(ttft, rel=MEMORY_TOLERANCE), pytest.approx(tpot, rel=TPOT_TOLERANCE))


@pytest.mark.parametrize("ratio", [1, 4, 16, 64])
def test_a_request_alone_has_its_prefill_then_undisturbed_steps(ratio: int) -> None:
    ttft, tpot = simulated(1, ratio * STEP_S)
    assert predicted(1, ratio * STEP_S) == pytest.approx((ttft + STEP_S, tpot), rel=1e-9)


def test_even_prompts_without_work_take_a_pass_each() -> None:
    assert predicted(64, 0.0) == pytest.approx(simulated(64, 0.0), rel=0.01)


@pytest.mark.parametrize("key", [0, 1], ids=["ttft", "tpot"])
def test_latencies_rise_with_load_and_with_prefill_work(key: int) -> None:
    by_concurrency = [predicted(c, 0.1)[key] for c in (1, 2, 8, 32, 128)]
    by_work = [predicted(16, x)[key] for x in (0.0, 0.01, 0.1, 1.0)]
    assert by_concurrency == sorted(by_concurrency)
    assert by_work == sorted(by_work)
