"""The passes of instances that prefill and decode in one batch: the roofline's, or composed of measured times."""

from dataclasses import dataclass, replace

import numpy as np

from planner.curves import PrefillService
from planner.queueing.erlang import Floats
from planner.queueing.pass_loop import PassLoop, PassSeconds, Prompts
from planner.queueing.preemption import Held, Preemption, preemption_when_full
from planner.roofline import (
    ColocatedEngine,
    DecodeLimit,
    InstanceModel,
    MeanRequest,
    RequestKinds,
    held_dispersion,
    linear_memory,
    mixed_passes,
    most_held,
)

TOKENS_PER_PASS = (8192, 2048, 512)
"""Tried: of a stack those below its own; of measured curves, which say nothing of it, all."""


@dataclass(frozen=True, eq=False)
class Load:
    """Requests at an instance."""

    loop: PassLoop
    prompts: Prompts
    before_s: float
    """Mean seconds that the host needs before a prompt."""
    n_replicas: int = 1
    """Attention replicas of the instance; the loop is that of one, with requests of its own."""


@dataclass(frozen=True, eq=False)
class MeasuredEngine:
    """An instance of which prefill and decode were measured apart: its passes do one after the other."""

    prefill: PrefillService
    decode: DecodeLimit
    n_accelerators: int
    tokens_per_pass: int
    """Most tokens of a pass."""
    tpot_s: float | None
    """Longest mean time per token after the first; None where nobody limits it [s]."""


Engine = ColocatedEngine | MeasuredEngine


def load_of(
    engine: Engine, prompts: RequestKinds | None, everyone: RequestKinds, computed_fraction: float = 1.0
) -> Load:
    """The load of an instance.

    Args:
        prompts: requests whose prompts it computes; None: it computes none.
        everyone: these and the requests that join with their caches.
        computed_fraction: share of the former in all [fraction].

    Raises:
        InputError: a shape or a figure is unknown.
    """
    if isinstance(engine, MeasuredEngine):
        return composed_load(engine, prompts, everyone)
    return roofline_load(engine, prompts, everyone, computed_fraction)


def roofline_load(
    engine: ColocatedEngine, prompts: RequestKinds | None, everyone: RequestKinds, computed_fraction: float
) -> Load:
    """The load of an instance whose passes the roofline times.

    Args:
        prompts: requests whose prompts it computes; None: it computes none.
        everyone: these and the requests that join with their caches, all of which take memory and decode.
        computed_fraction: share of the former in all [fraction].

    Raises:
        InputError: a shape or a figure is unknown.
    """
    served, factor, nothing, n = engine.served, engine.time_factor, np.zeros(1), engine.served.n_places
    held = most_held(served, everyone, engine.reserves_output) // n
    most = min(engine.most_running, held)
    per_token = 0.0 if prompts is None else computed_fraction / max(everyone.output_tokens - 1.0, 1.0)
    passes = mixed_passes(served, replace(_in_passes(prompts, everyone), prompts_per_token=per_token), most)
    budget = float(served.chunk_tokens)
    dispersion = held_dispersion(everyone, engine.reserves_output) if most == held else 1.0
    # A cache that came from elsewhere is not sent for once more: its whole prompt is computed where it gave way.
    again = replace(everyone, cached_tokens=None) if prompts is None else everyone
    gives_way = preemption_of(served, again, engine.reserves_output) if most == held else None
    limits = (budget, len(passes.decode_s) - 1, engine.is_prefill_first, dispersion, gives_way)
    loop = PassLoop(_scaled(passes, factor), *limits)
    if prompts is None:
        none = Prompts(nothing, np.ones(1), nothing, everyone.output_tokens, everyone.output_scv)
        return Load(loop, none, 0.0, n)
    before_s = np.zeros(len(prompts.tokens)) + served.factors.before_prefill_s(prompts.tokens)
    new = np.maximum(prompts.new_tokens, 1.0)
    alone_s = served.prefill_time(new, prompts.tokens - prompts.new_tokens).total_s - before_s
    weights, answers = prompts.weights, (everyone.output_tokens, everyone.output_scv)
    asked = Prompts(prompts.new_tokens, weights, factor * alone_s, *answers)
    return Load(loop, asked, factor * float(before_s @ weights), n)


def preemption_of(served: InstanceModel, requests: RequestKinds, reserves_output: bool) -> Preemption | None:
    """Preemption on an instance whose memory is kept full; None where nothing gives way.

    Args:
        reserves_output: whether memory is taken for the whole answer at once: then nothing gives way.
    """
    if reserves_output or requests.output_tokens <= 1:
        return None
    lengths = max(requests.tokens.min() / 2, 1.0), requests.tokens.max() + requests.output_tokens
    room, fixed = linear_memory(served, *lengths)
    answers = requests.output_tokens, requests.output_scv
    held = Held(fixed + requests.tokens, requests.new_tokens, requests.weights, *answers)
    return preemption_when_full(held, room)


def _in_passes(prompts: RequestKinds | None, everyone: RequestKinds) -> MeanRequest:
    """The mean request in passes: of prompts, with the contexts of all who decode."""
    decoding = everyone.mean
    if prompts is everyone:
        return decoding
    if prompts is None:
        return MeanRequest(1.0, 1.0, decoding.context_tokens, decoding.context_scv)
    return replace(prompts.mean, context_tokens=decoding.context_tokens, context_scv=decoding.context_scv)


def _scaled(passes: PassSeconds, factor: float) -> PassSeconds:
    return passes if factor == 1.0 else lambda tokens, batch: factor * passes(tokens, batch)


@dataclass(frozen=True, eq=False)
class ComposedPasses:
    """Seconds of mixed passes of an instance of which prefill and decode alone were measured."""

    token_s: float
    """Instance-seconds of a prompt token [s]."""
    point: DecodeLimit

    def __call__(self, tokens: Floats, batch: Floats) -> Floats:
        """Seconds of passes [s].

        Equation:
            c p + s(B); s(0) = 0, and c p without sequences

        Args:
            tokens: prompt tokens p, any shape [tokens].
            batch: decoding sequences B, broadcast [sequences].
        """
        p, b = np.broadcast_arrays(np.asarray(tokens, float), np.asarray(batch, float))
        return self.token_s * p + np.where((b > 0) | (p <= 0), self.step_s(b), 0.0)

    def step_s(self, batch: Floats) -> Floats:
        """Decode steps [s]."""
        steps = self.point.steps_s or (self.point.step_s,)
        return np.asarray(np.interp(batch, np.arange(1, len(steps) + 1), steps))


def composed_load(engine: MeasuredEngine, prompts: RequestKinds | None, everyone: RequestKinds) -> Load:
    """The load of an instance whose passes are composed of a prefill curve and a decode point.

    Equation:
        see `ComposedPasses`; c is what a mean prompt takes by the curve, over its tokens

    Args:
        engine: the instance; its batch is the most that run.
        prompts: requests whose prompts it computes; None: it computes none.
        everyone: these and the requests that join with their caches.

    Valid:
        Prompts of other lengths than those of the curve's points as the curve has them; one prompt token costs as much
        as any other beside other prompts.
    """
    answers = everyone.output_tokens, everyone.output_scv
    if prompts is None:
        token_s, asked = 0.0, Prompts(np.zeros(1), np.ones(1), np.zeros(1), *answers)
    else:
        new, cached = prompts.new_tokens, prompts.tokens - prompts.new_tokens
        mean_s = float(engine.prefill.occupancy.seconds(prompts.tokens, cached) @ prompts.weights)
        token_s = mean_s / max(float(new @ prompts.weights), 1e-9)
        asked = Prompts(new, prompts.weights, engine.prefill.seconds(prompts.tokens, cached), *answers)
    passes = ComposedPasses(token_s, engine.decode)
    return Load(PassLoop(passes, float(engine.tokens_per_pass), engine.decode.batch), asked, 0.0)
