"""The passes of instances that prefill and decode in one batch: the roofline's, or composed of measured curves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from planner.queueing import Held, PassLoop, Preemption, Prompts, preemption_when_full
from planner.queueing.colocated import PassSeconds
from planner.queueing.erlang import Floats
from planner.roofline import (
    ColocatedEngine,
    DecodePoint,
    InstanceRates,
    MeanRequest,
    RequestKinds,
    ServedModel,
    held_dispersion,
    linear_memory,
    mixed_passes,
    most_held,
)
from planner.ties import first_largest

TOKENS_PER_PASS = (8192, 2048, 512)
"""Tried: of a stack those below its own; of measured curves, which say nothing of it, all."""


@dataclass(frozen=True, eq=False)
class Load:
    """Requests at an instance."""

    multiple: float
    """Their rate over the mean rate of the whole time [fraction]."""
    loop: PassLoop
    prompts: Prompts
    before_s: float
    """Mean seconds that the host needs before a prompt."""
    most_req_per_s: float = inf
    """What prefill alone allows, where that is known apart [req/s]."""


Loads = Sequence[tuple[float, RequestKinds]]


def roofline_loads(engine: ColocatedEngine, loads: Loads) -> tuple[Load, ...]:
    """Loads of an instance whose passes the roofline times.

    Args:
        engine: the instance; a pass takes the `chunk_tokens` of its served model on each replica.
        loads: rates over the mean, and requests.

    Raises:
        InputError: a shape or a figure is unknown.
    """
    return tuple(roofline_load(engine, kinds, kinds, multiple) for multiple, kinds in loads)


def roofline_load(
    engine: ColocatedEngine, prompts: RequestKinds | None, everyone: RequestKinds, multiple: float = 1.0
) -> Load:
    """The load of an instance whose passes the roofline times.

    Args:
        engine: the instance.
        prompts: requests whose prompts it computes; None: it computes none.
        everyone: these and the requests that join with their caches, all of which take memory and decode.
        multiple: their rate over the mean rate [fraction].

    Raises:
        InputError: a shape or a figure is unknown.
    """
    served, factor, nothing = engine.served, engine.time_factor, np.zeros(1)
    held = most_held(served, everyone, engine.reserves_output)
    most = min(engine.most_running * served.n_places, held)
    passes = mixed_passes(served, _in_passes(prompts, everyone), most)
    budget = float(served.chunk_tokens * served.n_places)
    dispersion = held_dispersion(everyone, engine.reserves_output) if most == held else 1.0
    # A cache that came from elsewhere is not sent for once more: its whole prompt is computed where it gave way.
    again = replace(everyone, cached_tokens=None) if prompts is None else everyone
    gives_way = preemption_of(served, again, engine.reserves_output) if most == held else None
    limits = (budget, len(passes.decode_s) - 1, engine.is_prefill_first, dispersion, gives_way)
    loop = PassLoop(_scaled(passes, factor), *limits)
    if prompts is None:
        none = Prompts(nothing, np.ones(1), nothing, everyone.output_tokens, everyone.output_scv)
        return Load(multiple, loop, none, 0.0)
    before_s = np.zeros(len(prompts.tokens)) + served.factors.before_prefill_s(prompts.tokens)
    new = np.maximum(prompts.new_tokens, 1.0)
    alone_s = served.prefill_time(new, prompts.tokens - prompts.new_tokens).total_s - before_s
    weights, answers = prompts.weights, (everyone.output_tokens, everyone.output_scv)
    asked = Prompts(prompts.new_tokens, weights, factor * alone_s, *answers)
    return Load(multiple, loop, asked, factor * float(before_s @ weights))


def preemption_of(served: ServedModel, requests: RequestKinds, reserves_output: bool) -> Preemption | None:
    """What gives way on an instance whose memory is kept full; None where nothing does.

    Args:
        served: the model on an instance.
        requests: what is held.
        reserves_output: whether memory is taken for the whole answer at once: then nothing gives way.
    """
    if reserves_output or requests.output_tokens <= 1:
        return None
    lengths = max(requests.tokens.min() / 2, 1.0), requests.tokens.max() + requests.output_tokens
    room, fixed = linear_memory(served, *lengths)
    answers = requests.output_tokens, requests.output_scv
    held = Held(fixed + requests.tokens, requests.new_tokens, requests.weights, *answers)
    return preemption_when_full(held, room).over(served.n_places)


def _in_passes(prompts: RequestKinds | None, everyone: RequestKinds) -> MeanRequest:
    """What passes know of prompts, and of the contexts of all who decode."""
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
    point: DecodePoint
    overlaps: bool
    """Whether prompt tokens and decode step overlap perfectly; else they follow one another."""

    def __call__(self, tokens: Floats, batch: Floats) -> Floats:
        """Seconds of passes [s].

        Equation:
            c p + s(B), or with perfect overlap max(c p, s(B)); s(0) = 0, and c p without sequences

        Args:
            tokens: prompt tokens p, any shape [tokens].
            batch: decoding sequences B, broadcast [sequences].
        """
        p, b = np.broadcast_arrays(np.asarray(tokens, float), np.asarray(batch, float))
        prompt_s, step_s = self.token_s * p, np.where((b > 0) | (p <= 0), self.step_s(b), 0.0)
        return np.maximum(prompt_s, step_s) if self.overlaps else prompt_s + step_s

    def step_s(self, batch: Floats) -> Floats:
        """Decode steps [s]."""
        steps = self.point.steps_s or (self.point.step_s,)
        return np.asarray(np.interp(batch, np.arange(1, len(steps) + 1), steps))


def composed_loads(
    prefill: InstanceRates, decode: InstanceRates, loads: Loads, tokens_per_pass: int, overlaps: bool
) -> tuple[Load, ...]:
    """Loads of an instance whose passes are composed of a prefill curve and a decode point.

    Equation:
        see `ComposedPasses`; c is what a mean prompt takes by the curve, over its tokens

    Args:
        prefill: times of prefill.
        decode: times of decode; its batch is the most that run.
        loads: rates over the mean, and requests.
        tokens_per_pass: most tokens of a pass.
        overlaps: whether prompt tokens and decode step overlap perfectly.

    Raises:
        ValueError: a role has no times.

    Valid:
        Prompts of other lengths than those of the curve's points as the curve has them; one prompt token costs as much
        as any other beside other prompts.
    """
    if prefill.prefill is None or decode.decode is None:
        raise ValueError("an instance is composed of prefill and decode, and one of them has no times")
    service, point, found = prefill.prefill, decode.decode, []
    for multiple, kinds in loads:
        new, cached = kinds.new_tokens, kinds.tokens - kinds.new_tokens
        mean_s = float(service.occupancy.seconds(kinds.tokens, cached) @ kinds.weights)
        passes = ComposedPasses(mean_s / max(float(new @ kinds.weights), 1e-9), point, overlaps)
        alone_s = service.seconds(kinds.tokens, cached)
        prompts = Prompts(new, kinds.weights, alone_s, kinds.output_tokens, kinds.output_scv)
        loop = PassLoop(passes, float(tokens_per_pass), point.batch)
        found.append(Load(multiple, loop, prompts, 0.0, 1 / mean_s if mean_s > 0 else inf))
    return tuple(found)


def even_loads(prefill: InstanceRates, decode: InstanceRates, loads: Loads, tpot_s: float) -> tuple[Load, ...]:
    """The same with perfect overlap and passes that all carry equal parts of prompts: no passes serve more.

    Args:
        prefill: times of prefill.
        decode: times of decode.
        loads: rates over the mean, and requests.
        tpot_s: longest mean time per token [s].
    """
    found = composed_loads(prefill, decode, loads, TOKENS_PER_PASS[0], overlaps=True)
    evenly = (_even_tokens(one.loop.pass_s, one.prompts, one.loop.most_running, tpot_s) for one in found)
    return tuple(
        replace(one, loop=replace(one.loop, tokens_per_pass=tokens)) for one, tokens in zip(found, evenly, strict=True)
    )


def _even_tokens(passes: PassSeconds, prompts: Prompts, most: int, tpot_s: float) -> float:
    """Tokens of passes that all carry equal parts of prompts, at the smallest batch that serves most.

    Equation:
        B (1 + n / (L - 1)) at the B that maximises B / ((L - 1) max(s(B), c n B / (L - 1)))
    """
    if prompts.decoded_tokens <= 0:
        return float(TOKENS_PER_PASS[0])
    batch, per_step = np.arange(1.0, most + 1), prompts.mean_tokens / prompts.decoded_tokens
    seconds = passes(per_step * batch, batch)
    rate = np.where(seconds <= tpot_s, batch / seconds, 0.0)
    return float(batch[first_largest(rate)]) * (1.0 + per_step)
