"""The question of `planner live`: the model it serves, with which workers, and the requests it draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from planner.hybrid import shrunk
from planner.hybrid.arrays import NUMPY, Backend
from planner.hybrid.live import LiveRequest, ModelSetup, WorkerSpec
from planner.hybrid.timing import DecodePoint, Point, PrefillPoint
from planner.profiles import ModelProfile, model_profile

CHUNK_TOKENS = 512
BATCH_LIMIT = 8
MOST_CORES = 8
"""Cores that are used where there are more: every worker holds a model of its own."""
LINK_BYTES_PER_S = 3e6
"""Of the rate limiter: narrow enough that what crosses matters."""
TOKENS = (32, 1024)
MEAN_LOG_TOKENS, SIGMA_LOG_TOKENS = 5.3, 0.8
"""Prompt lengths: log-normal with median 200, within TOKENS."""
OUTPUT_TOKENS = (8, 24)
"""Output lengths: every one between them as likely."""
OWN_POINTS: tuple[Point, ...] = (
    *(PrefillPoint(n) for n in (32, 128, 256, 512, 1024)),
    *(DecodePoint(batch, 512) for batch in (1, 2, 4, BATCH_LIMIT)),
)
"""Where the served model is predicted first and timed afterwards."""


@dataclass(frozen=True)
class LiveQuestion:
    """Settings of a live run: time, seed, load, model and backend."""

    minutes: float = 3.0
    """Time for everything, models built and machine measured included; serving gets what is left [min]."""
    seed: int = 0
    load_fraction: float = 0.4
    """Rate of arrivals over the predicted capacity."""
    model: ModelProfile | None = None
    """Model to serve; None: `live_model`."""
    most_requests: int = 2000
    """Requests are no more, however long the run."""
    backend: Backend = NUMPY
    """What the model computes with."""


def live_model() -> ModelProfile:
    """The model that is served unless another is asked for: kimi-linear-48b shrunk to 54 million parameters.

    >>> live_model().architecture.pattern
    'KKKAKKKA'
    """
    return shrunk(
        model_profile("kimi-linear-48b"),
        "hybrid-live",
        n_layers=8,
        hidden_size=512,
        n_heads=4,
        head_dim=64,
        n_experts=16,
        vocab_size=4096,
    )


def model_setup(model: ModelProfile, seed: int, backend: Backend = NUMPY) -> ModelSetup:
    """Setup by which workers build and run a model. Prompts share nothing, so that nothing is kept of them."""
    return ModelSetup(model, seed, CHUNK_TOKENS, n_blocks=0, batch_limit=BATCH_LIMIT, backend=backend)


def worker_specs(cores: Sequence[int]) -> tuple[WorkerSpec, ...]:
    """Workers for some cores: a third of them decode, the others prefill, half of these behind the link.

    With two cores both prefill pools share one, which serves one request at a time; with one, decode is there too.

    >>> [(spec.name, spec.core) for spec in worker_specs([0, 1])]
    [('prfaas-0', 0), ('pd-p-0', 0), ('pd-d-0', 1)]
    >>> [(spec.name, spec.core) for spec in worker_specs([4, 5, 6, 7])]
    [('prfaas-0', 4), ('prfaas-1', 5), ('pd-p-0', 6), ('pd-d-0', 7)]
    """
    n_decode = max(len(cores) // 3, 1)
    prefill = list(cores[:-n_decode]) or list(cores)
    n_far = max((len(prefill) + 1) // 2, 1)
    far, near = prefill[:n_far], prefill[n_far:] or prefill[:1]
    pools = (("prfaas", "prefill", far), ("pd-p", "prefill", near), ("pd-d", "decode", cores[-n_decode:]))
    return tuple(
        WorkerSpec(f"{pool}-{index}", pool, "decode" if role == "decode" else "prefill", core)
        for pool, role, pool_cores in pools
        for index, core in enumerate(pool_cores)
    )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Requests without their times."""

    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    gaps: NDArray[np.float64]
    """Times between arrivals in units of their mean: exponential, so that arrivals are Poisson."""

    def first(self, n: int) -> "Drawn":
        """The first requests only."""
        return Drawn(self.input_tokens[:n], self.output_tokens[:n], self.gaps[:n])

    def requests(self, offered_req_per_s: float, vocabulary: int, seed: int) -> list[LiveRequest]:
        """Requests at their times; prompts that share nothing."""
        rng = np.random.default_rng([seed, 2])
        times = np.cumsum(self.gaps) / offered_req_per_s
        each = zip(times.tolist(), self.input_tokens.tolist(), self.output_tokens.tolist(), strict=True)
        return [LiveRequest(at, rng.integers(0, vocabulary, n), output) for at, n, output in each]


def stratified_requests(n: int, seed: int) -> Drawn:
    """Lengths and gaps of n requests, stratified: of each quantity one in every n-th part of its distribution.

    Few requests then show the distribution that was planned for, in any order; sampling alone would move the mean TTFT
    of a hundred requests by a tenth to a fifth.
    """
    rng = np.random.default_rng([seed, 1])
    low, high = (float(ndtr((log(tokens) - MEAN_LOG_TOKENS) / SIGMA_LOG_TOKENS)) for tokens in TOKENS)
    lengths = np.exp(MEAN_LOG_TOKENS + SIGMA_LOG_TOKENS * ndtri(low + (high - low) * _stratified(n, rng)))
    first, last = OUTPUT_TOKENS
    outputs = first + np.floor((last + 1 - first) * _stratified(n, rng))
    gaps = -np.log1p(-_stratified(n, rng))
    return Drawn(lengths.round().astype(np.int64), outputs.astype(np.int64), gaps)


def _stratified(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Uniform draws, one in each n-th part of 0 to 1, in random order: Latin hypercube sampling.

    Source:
        McKay, Beckman and Conover, Technometrics 21 (1979).
    """
    return np.asarray(rng.permutation((np.arange(n) + rng.random(n)) / n))
