"""Layout options of a colocated pool: layouts that hold model and requests, with sizes of passes, undominated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.errors import InfeasibleError, InputError
from planner.optimizer.batching import Batching, batching, pass_region, request_work
from planner.optimizer.colocated.instances import ORDER
from planner.optimizer.colocated.passes import TOKENS_PER_PASS
from planner.optimizer.layout_candidates import texts, undominated_marks
from planner.optimizer.network.batches import Batch, MixPart, batch_of
from planner.optimizer.pass_facets import RequestWork
from planner.optimizer.problem import ClassSpec, LookedAt
from planner.optimizer.service_times import check_memory, known_tokens, times_basis
from planner.results import Fleet
from planner.roofline import (
    ColocatedEngine,
    InstanceRates,
    PassTimes,
    Setup,
    colocated_engine,
    kv_bytes_curve,
    roofline_prefill,
)
from planner.scenario import Pool, Scenario, asked_instance, at_pool
from planner.ties import largest, largest_first

ROUNDING = 1e-9
MOST_KEPT = 10
"""Options of a pool of which plans are compared."""


@dataclass(frozen=True, eq=False)
class LayoutOption:
    """A layout and a size of passes."""

    layout: str
    rates: InstanceRates
    """Prefill alone, on an idle instance."""
    batching: Batching


@dataclass(frozen=True, eq=False)
class _Engine:
    """An option before its facets are found."""

    layout: str
    engine: ColocatedEngine
    whole: Batch
    """All requests, all of their prompts computed here."""
    joined: Batch
    """All requests, none of their prompts computed here."""


def layout_options(
    scenario: Scenario, key: str, classes: Sequence[ClassSpec]
) -> tuple[tuple[LayoutOption, ...], LookedAt]:
    """Layout options of a pool, and what was looked at.

    Args:
        scenario: the question.
        key: the colocated pool.
        classes: requests that it may serve.

    Raises:
        InputError: nobody can time a layout, or any of "auto".
        InfeasibleError: weights or prompts do not fit.
    """
    pool = scenario.pools[key]
    tried = tuple(dict.fromkeys(texts(scenario, key, pool))) if pool.layouts else (None,)
    found: list[_Engine] = []
    refused: InputError | InfeasibleError | None = None
    for layout in tried:
        try:
            found += _of_layout(scenario, key, pool, layout, classes)
        except (InputError, InfeasibleError) as error:
            if pool.layouts != "auto":
                raise
            refused = error
    if refused is not None and not found:
        raise refused
    is_timed = scenario.objective == "min-ttft" or any(c.ttft_s is not None for c in classes)
    is_joined = any(other.role == "prefill" and other.model == pool.model for other in scenario.pools.values())
    marks = np.array([list(_marks(one, is_timed, is_joined)) for one in found])
    kept = tuple(_timed_options([found[i] for i in undominated_marks(marks, MOST_KEPT, ROUNDING)], classes))
    fit = tuple(dict.fromkeys(one.layout for one in found))
    return kept, LookedAt(key, len(tried), len(fit), tuple(dict.fromkeys(option.layout for option in kept)))


def as_run(scenario: Scenario, fleet: Fleet) -> Scenario:
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


def _of_layout(
    scenario: Scenario, key: str, pool: Pool, layout: str | None, classes: Sequence[ClassSpec]
) -> Iterator[_Engine]:
    on = pool.on_layout(layout)
    try:
        engine = colocated_engine(asked_instance(scenario, on.on_passes(None)))
        served = engine.served
        check_memory(key, served)
        _check_room(key, engine, classes)
        if served.layout.pp_size > 1:
            what = f"layout {served.layout} has pipeline stages, whose overlapping passes are not modelled in one batch"
            raise InputError(scenario.problem(("pools", key), what, "a layout with pp=1"))
        if served.speculation is not None:
            what = "drafts tokens, which is not modelled in passes with prompts"
            raise InputError(scenario.problem(("pools", key), what, "no draft_tokens of its model"))
    except InputError as error:
        raise InputError(at_pool(scenario, key, error.problems)) from None
    own = served.chunk_tokens
    for tokens in pool.pass_sizes or (own, *(t for t in TOKENS_PER_PASS if t < own)):
        sized = replace(engine, served=replace(served, chunk_tokens=tokens))
        whole, joined = (_of_all(sized, classes, is_joined) for is_joined in (False, True))
        yield _Engine(str(served.layout), sized, whole, joined)


def _check_room(key: str, engine: ColocatedEngine, classes: Sequence[ClassSpec]) -> None:
    room, longest = engine.served.longest_request, max(c.mix.longest_tokens() for c in classes)
    if longest > room:
        raise InfeasibleError(
            f"pools.{key}: {engine.served.layout.n_accelerators} accelerators hold prompts of up to {room:,.0f} tokens "
            f"beside the weights, and some have {longest:,.0f}; what would do: more accelerators per instance, or "
            'kv_precision = "fp8" of the model'
        )


def _of_all(engine: ColocatedEngine, classes: Sequence[ClassSpec], is_joined: bool) -> Batch:
    total = sum(c.share for c in classes)
    parts = tuple(MixPart(c, None, 0.0, spec.share / total) for c, spec in enumerate(classes))
    mixes = [spec.mix for spec in classes]
    return batch_of(mixes, engine, () if is_joined else parts, parts if is_joined else ())


def _marks(one: _Engine, is_timed: bool, is_joined: bool) -> Iterator[float]:
    """What is the better the less of it there is: work, accelerators, and where times are promised seconds."""
    a = float(one.engine.served.layout.n_accelerators)
    yield a / max(one.whole.capacity_req_per_s, 1e-12)
    yield a
    if is_joined:
        yield a / max(one.joined.capacity_req_per_s, 1e-12)
    if is_timed:
        prompts, loop = one.whole.load.prompts, one.whole.load.loop
        yield float(prompts.alone_s @ prompts.weights) + one.whole.load.before_s
        if one.engine.tpot_s is not None:  # of which long passes break the promise now and then
            yield float(loop.pass_s(np.array([loop.tokens_per_pass]), np.array([1.0]))[0])


def _timed_options(kept: Sequence[_Engine], classes: Sequence[ClassSpec]) -> Iterator[LayoutOption]:
    """Options with their facets; the passes of a layout are timed once, up to the longest."""
    mixes, times = [c.mix for c in classes], dict[str, PassTimes]()
    for layout in dict.fromkeys(one.layout for one in kept):
        alike = [one for one in kept if one.layout == layout]
        longest = largest(alike, lambda one: float(one.engine.served.chunk_tokens))
        times[layout] = pass_region(longest.engine, mixes).times
    yield from (_timed_option(one, classes, times[one.layout]) for one in kept)


def _timed_option(one: _Engine, classes: Sequence[ClassSpec], times: PassTimes) -> LayoutOption:
    made = batching(one.engine, [(c.share, c.mix) for c in classes], times)
    work = RequestWork.mix_of([(c.share, request_work(c.mix)) for c in classes])
    factor = 1 / one.whole.capacity_req_per_s / made.facets[0].seconds(work) if one.whole.capacity_req_per_s else 1.0
    return LayoutOption(one.layout, _rates(one.engine), replace(made, factor=max(factor, 1.0)))


def _rates(engine: ColocatedEngine) -> InstanceRates:
    """What is known of an instance apart from its batches."""
    served, used = engine.served, engine.stack
    found = InstanceRates(
        prefill=roofline_prefill(served, known_tokens(used), n_prompts=1),
        kv_bytes=kv_bytes_curve(served.cached_model, served.kv_precision),
        decode=None,
        n_layers=served.model.architecture.n_layers,
        basis=largest_first((times_basis(served, used, role) for role in ("prefill", "decode")), ORDER.index)[0],
        stack=used.name,
        setup=Setup.of(served, used.name),
        longest_tokens=served.longest_request,
    )
    return found.scaled(engine.time_factor)
