"""Instances of a colocated pool: the passes that they can make of the requests of some classes, and facets of these."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf

import numpy as np

from planner.curves import Curve, PrefillService
from planner.optimizer.batch_loads import ComposedPasses, Engine, MeasuredEngine
from planner.optimizer.pass_facets import PassFacet, PassRegion, RequestWork, pass_facet
from planner.roofline import ColocatedEngine, PassTimes, Reach, linear_memory, pass_times
from planner.workload.mix import RequestMix

N_ATOMS = 256
"""Requests that stand for a class where the reach of passes is found."""
JOINED = (0.5, 0.1, 0.0)
"""Parts of the prompts that an instance computes itself, in mixes whose facets are found."""


@dataclass(frozen=True, eq=False)
class Batching:
    """Prefill and decode of instances in one batch, with the requests of some classes."""

    engine: Engine
    facets: tuple[PassFacet, ...]
    """Below the seconds of every pass; the first is that of all classes together."""
    prompts: PrefillService | None = None
    """Measured seconds of an instance that prompts take; None: those of each facet."""
    overlapped_req_per_s: float | None = None
    """What an instance serves of all classes if prefill and decode, which were measured apart, overlap perfectly; None:
    passes were timed as they are."""
    factor: float = 1.0
    """What the model of batches finds for all classes together, over the first facet."""
    known: dict[object, object] = field(default_factory=dict)
    """What was found of batches before, by what is in them."""

    @property
    def tokens_per_pass(self) -> int:
        """Most tokens of a pass on an attention replica."""
        return tokens_per_pass(self.engine)

    def work(self, facet: PassFacet, more_token_s: float = 0.0) -> PrefillService:
        """Seconds of an instance that a prompt takes by a facet, remembered.

        Args:
            more_token_s: what each of its tokens takes beyond that [s].
        """
        if self.prompts is not None:
            return self.prompts
        key = facet, more_token_s
        if key not in self._works:
            self._works[key] = prompt_service(replace(facet, token_s=facet.token_s + more_token_s))
        return self._works[key]

    @cached_property
    def _works(self) -> dict[tuple[PassFacet, float], PrefillService]:
        return {}


def tokens_per_pass(engine: Engine) -> int:
    """Most tokens of a pass on an attention replica."""
    return engine.tokens_per_pass if isinstance(engine, MeasuredEngine) else engine.served.chunk_tokens


def measured_batching(engine: MeasuredEngine, classes: Sequence[tuple[float, RequestMix]]) -> Batching:
    """The batching of an instance whose prefill and decode were measured apart.

    Equation:
        seconds of a request a + b: a of its prompt by the curve, b = steps min s(B) / B over batches within the limit
        on the time per token. If both overlapped perfectly 1 / max(a, b) requests per second were served; none where
        the prompts that come while one sequence makes a token take longer than the limit

    Args:
        engine: the instance; its tokens per pass are chosen.
        classes: shares and requests of the classes that it may serve.
    """
    service, passes = engine.prefill.occupancy, ComposedPasses(0.0, engine.decode)
    batch = np.arange(1.0, engine.decode.batch + 1)
    seconds = passes.step_s(batch)
    limit_s = inf if engine.tpot_s is None else engine.tpot_s
    kept = seconds <= limit_s
    step_s = float((seconds[kept] / batch[kept]).min()) if kept.any() else inf
    work = RequestWork.mix_of([(share, request_work(mix)) for share, mix in classes])
    total = sum(share for share, _ in classes)
    prompt_s = sum(share * float(mix.short_work(service, mix.support[1])) for share, mix in classes) / total
    decode_s = work.steps * step_s
    facet = PassFacet(prompt_s / max(work.new_tokens, 1e-9), 0.0, step_s, 0.0)
    is_possible = kept.any() and prompt_s <= limit_s * work.steps
    most = 1 / max(prompt_s, decode_s, 1e-12) if is_possible else 0.0
    return Batching(engine, (facet,), prompts=service, overlapped_req_per_s=most)


def batching(
    engine: ColocatedEngine, classes: Sequence[tuple[float, RequestMix]], times: PassTimes | None = None
) -> Batching:
    """The batching of an instance.

    Args:
        engine: the instance; its tokens per pass are chosen.
        classes: shares and requests of the classes that it may serve.
        times: seconds of its passes, or of more; None: they are found.

    Returns:
        With facets of all classes together, of each, and of all where few prompts or none are computed here.

    Raises:
        InputError: a shape or a figure is unknown.
    """
    region, works = pass_region(engine, [mix for _, mix in classes], times), [request_work(mix) for _, mix in classes]
    mean = RequestWork.mix_of([(share, work) for (share, _), work in zip(classes, works, strict=True)])
    joined = (mean._replace(new_tokens=part * mean.new_tokens, keys=part * mean.keys) for part in JOINED)
    mixes = dict.fromkeys((mean, *works, *joined))
    return Batching(engine, tuple(dict.fromkeys(pass_facet(region, work) for work in mixes)))


def pass_region(engine: ColocatedEngine, mixes: Sequence[RequestMix], times: PassTimes | None = None) -> PassRegion:
    """The passes that an instance can make of the requests of some classes.

    Args:
        times: seconds of these passes, or of more; None: they are found.

    Raises:
        InputError: a shape or a figure is unknown.
    """
    served = engine.served
    longest = ceil(max(mix.longest_tokens() + _longest_output(mix) for mix in mixes))
    shortest = max(int(min(mix.atoms(N_ATOMS).total_tokens.min() for mix in mixes) / 2), 1)
    room, _ = linear_memory(served, float(shortest), float(longest))
    most_running = min(engine.most_running, ceil(room / shortest)) * served.n_places
    budget = served.chunk_tokens if engine.splits_prompts else max(served.chunk_tokens, longest + most_running)
    reach = Reach(
        tokens_per_pass=served.chunk_tokens if engine.splits_prompts else max(served.chunk_tokens, longest),
        longest_prompt=longest,
        longest_context=longest,
        shortest_prompt=shortest,
        most_running=most_running,
    )
    if times is None:
        times, factor = pass_times(served, reach), engine.time_factor
        times = replace(times, prompt_s=factor * times.prompt_s, decode_s=factor * times.decode_s)
    limit_s = inf if engine.tpot_s is None else engine.tpot_s
    sizes = float(budget * served.n_places), room * served.n_places
    return PassRegion(times, *sizes, engine.is_prefill_first, limit_s)


def _longest_output(mix: RequestMix) -> float:
    return mix.mean_output_tokens if mix.outputs is None else float(mix.outputs.tokens.max())


def request_work(mix: RequestMix) -> RequestWork:
    """The work of a mean request of a class."""
    keys = float(mix.short_work(KEYS, mix.support[1]))
    return RequestWork(mix.mean_uncached_tokens, keys, *decoding_work(mix, mix.mean_total_tokens))


def decoding_work(mix: RequestMix, prompt_tokens: float) -> tuple[float, float]:
    """Steps in which a request of a class decodes, and the tokens of its cache in them, added up.

    Equation:
        E[L] - 1, (E[L] - 1) n + (E[L^2] - E[L]) / 2

    Args:
        mix: requests of the class.
        prompt_tokens: prompt n of those that are meant, on average [tokens].
    """
    mean = max(mix.mean_output_tokens, 1.0)
    square = max(output_square(mix), mean**2)
    return mean - 1, (mean - 1) * prompt_tokens + (square - mean) / 2


def output_square(mix: RequestMix) -> float:
    """Mean square of the answers; of equal ones where no more than their mean is known."""
    outputs = mix.outputs
    return mix.mean_output_tokens**2 if outputs is None else float(outputs.tokens**2 @ outputs.weights)


def prompt_service(facet: PassFacet) -> PrefillService:
    """Seconds of an instance that a prompt takes at the least by a facet.

    Equation:
        a n + e n (c + (n + 1) / 2) of n tokens behind c cached ones: T(c + n) - T(c), T(x) = (a + e / 2) x + e x^2 / 2

    Args:
        facet: the facet.

    >>> service = prompt_service(PassFacet(1e-3, 1e-6, 0.0, 0.0))
    >>> float(service.seconds(100, 0)), round(float(service.seconds(100, 60)), 9)  # 5,050 keys, and 3,220
    (0.10505, 0.04322)
    """
    row = [0.0, facet.token_s + facet.key_s / 2, facet.key_s / 2, 0.0]
    return PrefillService(Curve(np.zeros(1), np.array([row, row]), (0.0, inf)))


KEYS = prompt_service(PassFacet(0.0, 1.0, 0.0, 0.0))
"""Keys that the tokens of a prompt attend to, added up [tokens]."""
