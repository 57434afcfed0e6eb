"""Service times of one instance: how long a prefill takes, what it hands over, how fast decode goes."""

from dataclasses import dataclass, replace
from math import inf, isfinite, isinf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.curves import Curve, PrefillService
from planner.profiles import HardwareProfile, KvCurve, MeasuredInstance, ModelProfile, PrefillCurve
from planner.results.plan_parts import EngineSettings
from planner.roofline.chip import Chip
from planner.roofline.kv_cache import BYTES_PER_VALUE, kv_bytes_curve
from planner.roofline.served_model import InstanceModel

RatesBasis = Literal["measured", "calibrated", "inferred", "datasheet"]
CURVE_TOKENS = (64, 1 << 20)
"""Prompt lengths between which the roofline's prefill seconds are sampled,"""
N_CURVE = 57
"""four times per doubling,"""
SHORT_TOKENS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""and shorter ones."""


@dataclass(frozen=True)
class DecodeLimit:
    """Continuous batching at its limit: `batch` sequences, one token each per `step_s` seconds.

    Where tokens are drafted, that and all steps here are the seconds of a step over the tokens that it yields.
    """

    batch: int
    step_s: float
    steps_s: tuple[float, ...] = ()
    """Steps with 1 to `batch` sequences of mean context [s]; empty: as long as at the limit."""
    slot_s: float | None = None
    """Instance-seconds per token where the next request always waits: E[step(N) / N] over the number N that memory
    then holds [s]; None: memory always holds the batch."""
    full_step_s: float | None = None
    """E[step(N)], the time per output token then [s]; None: `step_s`."""
    token_variance: float = 0.0
    """Variance, per token of an answer, of the tokens that its steps would have made at their mean: above 0 where
    drafted tokens are accepted by chance [tokens]."""

    def scaled(self, factor: float) -> "DecodeLimit":
        """The same batch with steps that take `factor` times as long."""
        slot_s, full_s = (None if s is None else s * factor for s in (self.slot_s, self.full_step_s))
        steps_s = tuple(s * factor for s in self.steps_s)
        return replace(self, step_s=self.step_s * factor, steps_s=steps_s, slot_s=slot_s, full_step_s=full_s)

    @property
    def seconds_per_token(self) -> float:
        """Instance-seconds that a token takes in an instance as full as its memory allows [s]."""
        return self.step_s / self.batch if self.slot_s is None else self.slot_s

    def seconds_per_request(self, output_tokens: float) -> float:
        """Instance-seconds that one request takes in a full batch.

        Equation:
            T_decode L_out / BS_max; where memory holds a number N of requests that varies, L_out E[T_decode(N) / N]

        Args:
            output_tokens: mean tokens generated per request.

        Returns:
            Seconds of a whole instance [s].

        Source:
            Prefill-as-a-Service (arXiv 2604.15039v2): Theta_pd_d = N_d BS_max / (T_decode L_out).

        >>> 1 / DecodeLimit(batch=20, step_s=0.025).seconds_per_request(1024)
        0.78125
        """
        if self.slot_s is None:
            return self.step_s * output_tokens / self.batch
        return self.slot_s * output_tokens


@dataclass(frozen=True)
class Setup:
    """The way an instance is run, as far as anybody said; None where it is unknown."""

    stack: str | None = None
    """Serving software with its version."""
    layout: str | None = None
    """Parallel layout, as `Layout.parse` reads it."""
    precision: str | None = None
    """Weights and matrix products."""
    kv_precision: str | None = None
    """Attention KV cache."""
    product_precision: str | None = None
    """What products run at where the accelerator has no unit for the weights' format; None: at that format."""
    engine: EngineSettings | None = None
    """What its engine is told for the memory counted."""

    @classmethod
    def of(cls, served: InstanceModel, stack: str) -> "Setup":
        """Setup of a served model under a stack."""
        own, products = served.weights_precision, served.product_precision
        emulated = None if products == own else products
        longest = served.longest_request
        counted = served.memory_settings
        engine = EngineSettings(
            accounting=None if counted.runtime_bytes is not None else counted.accounting,
            memory_fraction=served.memory.fraction,
            tokens_per_pass=int(served.chunk_tokens),
            most_running=None if isinf(served.most_running) else int(served.most_running) // served.n_places,
            longest_tokens=int(longest) if isfinite(longest) else None,
        )
        return cls(stack, str(served.layout), own, served.kv_precision, emulated, engine)


def emulation(hardware: HardwareProfile, weights: str, products: str) -> str:
    """Words for products that do not run at the format of the weights: what streams, what runs, and why.

    >>> from planner.profiles import hardware_profile
    >>> emulation(hardware_profile("a100-sxm-80gb"), "fp8", "bf16")
    'weights in fp8 stream at 8 bits, products run in bf16: a100-sxm-80gb has no fp8 unit'
    >>> emulation(hardware_profile("b200-sxm"), "fp4", "bf16")
    'weights in fp4 stream at 4 bits, products run in bf16: weights alone are quantised'
    """
    bits = 8 * BYTES_PER_VALUE[weights]
    is_native = Chip(hardware).product_format(weights) == weights
    why = "weights alone are quantised" if is_native else f"{hardware.name} has no {weights} unit"
    return f"weights in {weights} stream at {bits:.0f} bits, products run in {products}: {why}"


@dataclass(frozen=True)
class InstanceRates:
    """Everything the planner knows about one instance; a role it was not measured in is None."""

    prefill: PrefillService | None
    kv_bytes: Curve
    decode: DecodeLimit | None
    n_layers: int | None
    basis: RatesBasis
    stack: str | None = None
    """Software stack of the roofline that they come from; None: somebody's figures."""
    longest_tokens: float = inf
    """Longest prompt whose cache fits beside the weights; infinite where nothing is known to limit it [tokens]."""
    setup: Setup = Setup()
    """How the instance is run."""

    @property
    def places(self) -> int:
        """Prompts that an instance prefills at once: one per attention replica."""
        return 1 if self.prefill is None else self.prefill.places

    def scaled(self, factor: float) -> "InstanceRates":
        """The same instance with prefills and decode steps that take `factor` times as long; bytes stay [-]."""
        if factor == 1.0:
            return self
        prefill = None if self.prefill is None else self.prefill.scaled(factor)
        decode = None if self.decode is None else self.decode.scaled(factor)
        return replace(self, prefill=prefill, decode=decode)


def instance_rates(model: ModelProfile, measured: MeasuredInstance, kv_precision: str = "bf16") -> InstanceRates:
    """Service times of a measured instance; bytes from its own KV curve or else from the model's shapes."""
    prefill, decode = measured.prefill, measured.decode
    return InstanceRates(
        prefill=PrefillService(_curve(prefill, prefill.seconds), prefill.overhead_s) if prefill else None,
        kv_bytes=_kv_bytes(model, measured, kv_precision),
        decode=DecodeLimit(decode.batch, decode.step_s) if decode else None,
        n_layers=model.architecture.n_layers,
        basis=measured.basis,
        setup=Setup(
            stack=measured.stack,
            precision=measured.precision,
            kv_precision=None if kv_precision == "bf16" else kv_precision,
        ),
    )


def roofline_prefill(
    served: InstanceModel, known_tokens: tuple[float, float], n_prompts: int | None = None
) -> PrefillService:
    """Prefill seconds by length from the roofline.

    Args:
        served: the model on the instance.
        known_tokens: lengths that the stack was calibrated on; beyond, the curve counts as extrapolated [tokens].
        n_prompts: that are prefilled at once; None: one on each attention replica.

    Returns:
        A monotone cubic through samples; a request's own overhead is what no cached prefix saves. An instance with
        attention replicas has a place on each, and its prompts take as long as when every place is taken.

    Raises:
        InputError: a shape or a figure is unknown.

    Valid:
        A pass more for one token beyond a chunk is smoothed over; the curve never falls.
    """
    places = served.n_places if n_prompts is None else n_prompts
    # From a single token on: where no overhead hides it, a line through longer prompts may begin below zero.
    tokens = np.unique([*SHORT_TOKENS, *np.geomspace(*CURVE_TOKENS, N_CURVE).round()])
    seconds = np.maximum.accumulate(served.prefill_time(tokens, n_prompts=places).total_s)
    curve = Curve.monotone_cubic(tokens.tolist(), seconds.tolist())
    overhead = float(np.asarray(served.factors.request_overhead_s))
    return PrefillService(replace(curve, measured_tokens=known_tokens), overhead or None, places)


def _kv_bytes(model: ModelProfile, measured: MeasuredInstance, kv_precision: str) -> Curve:
    """The measured sizes, which are those of a bf16 cache; any other format follows from the shapes."""
    if measured.kv is not None and kv_precision == "bf16":
        return _curve(measured.kv, measured.kv.bytes)
    return kv_bytes_curve(model, kv_precision)


def _curve(points: PrefillCurve | KvCurve, values: tuple[float, ...]) -> Curve:
    make = Curve.linear if points.interpolation == "linear" else Curve.monotone_cubic
    return make(points.tokens, values)


def exposed_transfer_s(
    prefill_s: ArrayLike, kv_bytes: ArrayLike, bytes_per_s: float, round_trip_s: float, n_layers: int | None
) -> NDArray[np.float64]:
    """Time between the end of prefill and the arrival of the last KV byte, on an idle link.

    Equation:
        max(S / B - T (n - 1) / n, S / (n B)) + RTT / 2: layer i is sent while layer i + 1 computes, so only the
        last of n layers, or what the link could not keep up with, is left when prefill ends

    Args:
        prefill_s: prefill time T [s], any shape.
        kv_bytes: bytes to send S [B], the same shape.
        bytes_per_s: link bandwidth B [B/s].
        round_trip_s: round-trip time RTT [s]; the last byte needs half of it.
        n_layers: layers n of the model; None where unknown sends everything after prefill.

    Returns:
        Exposed seconds [s], the shape of the inputs.

    Valid:
        Layers of equal size and time; hybrid models alternate kinds, which averages out over their pattern.

    Source:
        Layer-wise prefill pipelining: Prefill-as-a-Service (arXiv 2604.15039v2), section 3; Mooncake (2024).

    >>> exposed_transfer_s(1.0, 1e9, 12.5e9, 0.004, 50).round(4).item()
    0.0036
    """
    send_s = np.asarray(kv_bytes, float) / bytes_per_s
    n = n_layers or 1
    left_s = np.maximum(send_s - np.asarray(prefill_s, float) * (n - 1) / n, send_s / n)
    return left_s + round_trip_s / 2
