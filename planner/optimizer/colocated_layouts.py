"""Layout options of a colocated pool: layouts that hold model and requests, with sizes of passes, undominated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.batch_loads import TOKENS_PER_PASS, Engine, MeasuredEngine
from planner.optimizer.batching import Batching, batching, measured_batching, pass_region, request_work
from planner.optimizer.layout_candidates import texts, undominated_marks
from planner.optimizer.network.batches import Batch, MixPart, batch_of
from planner.optimizer.pass_facets import RequestWork
from planner.optimizer.problem import LookedAt
from planner.optimizer.problem_parts import ClassSpec
from planner.optimizer.service_times import (
    Decoded,
    calibrated_tokens,
    check_memory,
    least_known,
    service_times,
    times_basis,
)
from planner.results.plan import Fleet
from planner.roofline import (
    ColocatedEngine,
    InstanceRates,
    PassTimes,
    Setup,
    colocated_engine,
    kv_bytes_curve,
    roofline_prefill,
)
from planner.scenario import Pool, Scenario, at_pool, instance_spec
from planner.ties import largest

ROUNDING = 1e-9
MOST_KEPT = 10
"""Options of a pool of which plans are compared."""


@dataclass(frozen=True, eq=False)
class LayoutOption:
    """A layout and a size of passes."""

    layout: str | None
    rates: InstanceRates
    """Prefill alone, on an idle instance."""
    batching: Batching
    serves: bool = True
    """Whether it serves any request in time per token, with its prompt or, where others prefill, without."""


@dataclass(frozen=True, eq=False)
class _Engine:
    """An option before its facets are found."""

    layout: str | None
    n_accelerators: int
    engine: Engine
    rates: InstanceRates
    """Prefill alone, on an idle instance."""
    whole: Batch
    """All requests, all of their prompts computed here."""
    joined: Batch
    """All requests, none of their prompts computed here."""

    def serves(self, is_joined: bool) -> bool:
        """True if it serves any request, with its prompt or, where some join, without."""
        return self.whole.capacity_req_per_s > 0 or (is_joined and self.joined.capacity_req_per_s > 0)


def layout_options(
    scenario: Scenario, key: str, classes: Sequence[ClassSpec]
) -> tuple[tuple[LayoutOption, ...], LookedAt]:
    """Layout options of a pool, and what was looked at.

    Raises:
        InputError: nobody can time a layout, or any of "auto".
        InfeasibleError: weights or prompts do not fit.
    """
    pool = scenario.pools[key]
    tried = tuple(dict.fromkeys(texts(scenario, key, pool))) if pool.layouts else (None,)
    found: list[_Engine] = []
    refused: InputError | InfeasibleError | None = None
    for layout in tried:
        on = pool.on_layout(layout)
        try:
            made = _composed if pool.service_times == "measured" else _of_layout
            found += made(scenario, key, on, classes)
        except (InputError, InfeasibleError) as error:
            if pool.layouts != "auto":
                raise
            refused = error
    if refused is not None and not found:
        raise refused
    is_timed = scenario.objective == "min-ttft" or any(c.ttft_s is not None for c in classes)
    is_joined = any(other.role == "prefill" and other.model == pool.model for other in scenario.pools.values())
    some = [one for one in found if one.serves(is_joined)] or found[:1]
    marks = np.array([list(_marks(one, is_timed, is_joined)) for one in some])
    kept = [some[i] for i in undominated_marks(marks, MOST_KEPT, ROUNDING)]
    options = tuple(
        replace(option, serves=one.serves(is_joined))
        for one, option in zip(kept, _with_facets(kept, classes), strict=True)
    )
    fit, chosen = (tuple(dict.fromkeys(one.layout for one in some if one.layout)) for some in (found, kept))
    return options, LookedAt(key, len(tried), len(fit), chosen)


def scenario_as_run(scenario: Scenario, fleet: Fleet) -> Scenario:
    """The scenario with the layouts and the passes that a fleet's pools run with.

    Args:
        scenario: the question.
        fleet: a fleet of it.
    """
    used = [pool for pool in fleet.pools if pool.n_instances and pool.key in scenario.pools]
    asked = {pool.key: pool.layout for pool in used if pool.layout and scenario.pools[pool.key].layouts}
    found = scenario.on_layouts(asked)
    passes = {
        pool.key: found.pools[pool.key].on_passes(pool.tokens_per_pass) for pool in used if pool.role == "colocated"
    }
    return found.model_copy(update={"pools": {**found.pools, **passes}}) if passes else found


def _of_layout(scenario: Scenario, key: str, on: Pool, classes: Sequence[ClassSpec]) -> Iterator[_Engine]:
    """Sizes of passes on one layout, as the roofline times them."""
    try:
        engine = colocated_engine(instance_spec(scenario, on.on_passes(None)))
        served = engine.served
        check_memory(key, served)
        _check_room(key, engine.served.layout.n_accelerators, served.longest_request, classes)
        if served.layout.pp_size > 1:
            what = f"layout {served.layout} has pipeline stages, whose overlapping passes are not modelled in one batch"
            raise InputError(scenario.problem(("pools", key), what, "a layout with pp=1"))
        if served.speculation is not None:
            what = "drafts tokens, which is not modelled in passes with prompts"
            raise InputError(scenario.problem(("pools", key), what, "no draft_tokens of its model"))
    except InputError as error:
        raise InputError(at_pool(scenario, key, error.problems)) from None
    own, rates = served.chunk_tokens, _rates(engine)
    for tokens in on.pass_sizes or (own, *(t for t in TOKENS_PER_PASS if t < own)):
        sized = replace(engine, served=replace(served, chunk_tokens=tokens))
        yield _Engine(str(served.layout), served.layout.n_accelerators, sized, rates, *_of_all(sized, classes))


def _composed(scenario: Scenario, key: str, on: Pool, classes: Sequence[ClassSpec]) -> Iterator[_Engine]:
    """Sizes of passes on one layout of which prefill and decode were measured apart."""
    update = {"role": "decode", "tokens_per_pass": None, "layouts": ()}
    decode = on.model_copy(update=update)
    prefill = decode.model_copy(update={"role": "prefill", "tpot_ms": None, "prompts": "short"})
    hardware, decoded = scenario.hardware_of(on), Decoded.of([(c.share, c.mix) for c in classes])
    decoding, prefilling = (service_times(scenario, key, pool, hardware, decoded) for pool in (decode, prefill))
    if prefilling.prefill is None or decoding.decode is None:
        raise InputError(scenario.problem(("pools", key), "has no prefill or decode times", "both, measured"))
    longest = min(decoding.longest_tokens, prefilling.longest_tokens)
    _check_room(key, on.accelerators_per_instance, longest, classes)
    rates = replace(
        prefilling,
        basis=least_known((decoding.basis, prefilling.basis)),
        setup=decoding.setup,
        longest_tokens=longest,
    )
    limit = instance_spec(scenario, decode).longest_step_s
    limit_s = None if limit is None else limit * decode.time_factor
    engines = [
        MeasuredEngine(prefilling.prefill, decoding.decode, on.accelerators_per_instance, tokens, limit_s)
        for tokens in TOKENS_PER_PASS
    ]
    found = [_Engine(on.layout, one.n_accelerators, one, rates, *_of_all(one, classes)) for one in engines]
    if not any(one.whole.capacity_req_per_s for one in found):
        what = "not one sequence beside prompts keeps the limit on the time per token"
        if measured_batching(engines[0], [(c.share, c.mix) for c in classes]).overlapped_req_per_s:
            raise UndecidedError(f"{what}, unless prefill and decode overlap")
        raise InfeasibleError(what)
    yield from (one for one in found if one.whole.capacity_req_per_s)


def _check_room(key: str, n_accelerators: int, room: float, classes: Sequence[ClassSpec]) -> None:
    longest = max(c.mix.longest_tokens() for c in classes)
    if longest > room:
        raise InfeasibleError(
            f"pools.{key}: {n_accelerators} accelerators hold prompts of up to {room:,.0f} tokens beside the weights, "
            f"and some have {longest:,.0f}; what would do: more accelerators per instance, or "
            'kv_precision = "fp8" of the model'
        )


def _of_all(engine: Engine, classes: Sequence[ClassSpec]) -> tuple[Batch, Batch]:
    """All requests: with all of their prompts computed, and with none."""
    total = sum(c.share for c in classes)
    parts = tuple(MixPart(c, None, 0.0, spec.share / total) for c, spec in enumerate(classes))
    mixes = [spec.mix for spec in classes]
    return batch_of(mixes, engine, parts, ()), batch_of(mixes, engine, (), parts)


def _marks(one: _Engine, is_timed: bool, is_joined: bool) -> Iterator[float]:
    """Figures of which less is better: work, accelerators, and where times are promised seconds."""
    a = float(one.n_accelerators)
    yield a / max(one.whole.capacity_req_per_s, 1e-12)
    yield a
    if is_joined:
        yield a / max(one.joined.capacity_req_per_s, 1e-12)
    if is_timed:
        prompts, loop = one.whole.load.prompts, one.whole.load.loop
        yield float(prompts.alone_s @ prompts.weights) + one.whole.load.before_s
        if one.engine.tpot_s is not None:  # of which long passes break the promise now and then
            yield float(loop.pass_s(np.array([loop.tokens_per_pass]), np.array([1.0]))[0])


def _with_facets(kept: Sequence[_Engine], classes: Sequence[ClassSpec]) -> Iterator[LayoutOption]:
    """Options with their facets; the passes of a layout are timed once, up to the longest."""
    mixes, longest, times = [c.mix for c in classes], dict[str | None, ColocatedEngine](), dict[str | None, PassTimes]()
    for one in kept:
        if isinstance(one.engine, ColocatedEngine):
            most = longest.setdefault(one.layout, one.engine)
            longest[one.layout] = largest((most, one.engine), lambda engine: float(engine.served.chunk_tokens))
    for layout, engine in longest.items():
        times[layout] = pass_region(engine, mixes).times
    shares = [(c.share, c.mix) for c in classes]
    work = RequestWork.mix_of([(share, request_work(mix)) for share, mix in shares])
    for one in kept:
        if isinstance(one.engine, ColocatedEngine):
            made = batching(one.engine, shares, times[one.layout])
        else:
            made = measured_batching(one.engine, shares)
        most_req_per_s = one.whole.capacity_req_per_s
        factor = 1 / most_req_per_s / made.facets[0].seconds(work) if most_req_per_s else 1.0
        yield LayoutOption(one.layout, one.rates, replace(made, factor=max(factor, 1.0)))


def _rates(engine: ColocatedEngine) -> InstanceRates:
    """Rates of an instance that are known apart from its batches."""
    served, used = engine.served, engine.stack
    found = InstanceRates(
        prefill=roofline_prefill(served, calibrated_tokens(used), n_prompts=1),
        kv_bytes=kv_bytes_curve(served.cached_model, served.kv_precision),
        decode=None,
        n_layers=served.model.architecture.n_layers,
        basis=least_known(times_basis(served, used, role) for role in ("prefill", "decode")),
        stack=used.name,
        setup=Setup.of(served, used.name),
        longest_tokens=served.longest_request,
    )
    return found.scaled(engine.time_factor)
