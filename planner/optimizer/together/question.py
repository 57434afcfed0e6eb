"""A scenario with a colocated pool in numbers: ways to run that pool, layouts of the prefill pool, what is promised."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from planner.errors import InfeasibleError, InputError
from planner.optimizer.colocated.instances import ORDER, check_limits
from planner.optimizer.colocated.passes import TOKENS_PER_PASS
from planner.optimizer.colocated.rates import Promise
from planner.optimizer.context import context_problems
from planner.optimizer.layout_candidates import Candidate, candidates, texts
from planner.optimizer.problem import LARGEST_POOL, ClassSpec, LookedAt, PoolSpec, Problem, Span
from planner.optimizer.resolution import (
    class_demands,
    class_specs,
    class_streams,
    link_specs,
    pool_rates,
    pool_spec,
    site_inventories,
    unlimited_size,
)
from planner.optimizer.service_times import check_memory, times_basis
from planner.roofline import ColocatedEngine, InstanceRates, Setup, colocated_engine, kv_bytes_curve
from planner.scenario import Pool, Scenario, asked_instance, at_pool, not_planned

POISSON = 1.0


@dataclass(frozen=True, eq=False)
class Way:
    """A layout and a size of passes of the colocated pool."""

    layout: str | None
    tokens_per_pass: int
    """Of an attention replica."""
    engine: ColocatedEngine
    spec: PoolSpec


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be planned."""

    problem: Problem
    """With the first way, and the first layout of the prefill pool; of it classes, links and demand."""
    ways: tuple[Way, ...]
    prefills: tuple[PoolSpec, ...]
    """Layouts of the pool for long prompts; none where everything stays."""
    link: int | None
    promise: Promise
    looked_at: tuple[LookedAt, ...] = ()

    @property
    def scenario(self) -> Scenario:
        """The scenario."""
        return self.problem.scenario

    @property
    def classes(self) -> tuple[ClassSpec, ...]:
        """Its requests."""
        return self.problem.classes

    @property
    def least_req_per_s(self) -> float | None:
        """Demand that must be served; None where the rate is sought."""
        return self.problem.must_serve_req_per_s


def question_of(
    scenario: Scenario, data_dirs: Sequence[Path], deadline: float, classes: Sequence[ClassSpec] = ()
) -> Question:
    """Resolve a scenario with a colocated pool.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        deadline: `work_s()` time by which a plan must be found.
        classes: those of another question with the same requests, so that a trace is read once.

    Raises:
        InputError: nobody can time a pool, a price is missing where one is needed, nothing limits the fleet of
            max-throughput, or a promise has no model.
        InfeasibleError: weights or prompts do not fit.
    """
    key = scenario.colocated_pool
    if key is None:
        raise ValueError("the scenario has no colocated pool")
    if unplanned := list(not_planned(scenario)):
        raise InputError(unplanned)
    specs = tuple(class_specs(scenario, data_dirs, classes))
    if found := [problem for c in specs for problem in context_problems(scenario, c.name, c.mix)]:
        raise InputError(found)
    looked_at: list[LookedAt] = []
    ways = tuple(_ways(scenario, key, specs, looked_at))
    prefills = tuple(_prefills(scenario, specs, looked_at))
    pools = (ways[0].spec, *prefills[:1])
    streams = tuple(class_streams(specs, pools))
    demands = tuple(class_demands(scenario, specs, streams))
    stock = tuple(site_inventories(scenario, pools))
    periods = (Span((("always", 1.0),)),)
    problem = Problem(scenario, pools, link_specs(scenario), specs, streams, demands, periods, stock, tuple(looked_at))
    _check(problem)
    link = next(
        (
            i
            for i, one in enumerate(problem.links)
            if prefills and (one.from_site, one.to_site) == (prefills[0].site, ways[0].spec.site)
        ),
        None,
    )
    limited = [_limited(problem, spec) for spec in (*(way.spec for way in ways), *prefills)]
    ways = tuple(replace(way, spec=spec) for way, spec in zip(ways, limited[: len(ways)], strict=True))
    promise = Promise.of(problem, deadline)
    return Question(problem, ways, tuple(limited[len(ways) :]), link, promise, tuple(looked_at))


def _ways(scenario: Scenario, key: str, classes: Sequence[ClassSpec], looked_at: list[LookedAt]) -> Iterator[Way]:
    """Every layout that holds model and requests, with every size of passes. Raises InputError, InfeasibleError."""
    pool = scenario.pools[key]
    tried = tuple(dict.fromkeys(texts(scenario, key, pool))) if pool.layouts else (None,)
    kept: list[str] = []
    refused: InputError | InfeasibleError | None = None
    for layout in tried:
        try:
            found = list(_of_layout(scenario, key, pool, layout, classes))
        except (InputError, InfeasibleError) as error:
            if pool.layouts != "auto":
                raise
            refused = error
            continue
        kept += [layout] if layout is not None else []
        yield from found
    if pool.layouts:
        looked_at.append(LookedAt(key, len(tried), len(kept), tuple(kept)))
    if refused is not None and not kept:
        raise refused


def _of_layout(
    scenario: Scenario, key: str, pool: Pool, layout: str | None, classes: Sequence[ClassSpec]
) -> Iterator[Way]:
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
        spec = pool_spec(scenario, (key, key), on, _rates(sized), classes)
        yield Way(str(served.layout), tokens, sized, spec)


def _check_room(key: str, engine: ColocatedEngine, classes: Sequence[ClassSpec]) -> None:
    room, longest = engine.served.longest_request, max(c.mix.longest_tokens() for c in classes)
    if longest > room:
        raise InfeasibleError(
            f"pools.{key}: {engine.served.layout.n_accelerators} accelerators hold prompts of up to {room:,.0f} tokens "
            f"beside the weights, and some have {longest:,.0f}; what would do: more accelerators per instance, or "
            'kv_precision = "fp8" of the model'
        )


def _rates(engine: ColocatedEngine) -> InstanceRates:
    """What is known of an instance apart from its passes."""
    served, used = engine.served, engine.stack
    basis = max((times_basis(served, used, role) for role in ("prefill", "decode")), key=ORDER.index)
    return InstanceRates(
        prefill=None,
        kv_bytes=kv_bytes_curve(served.cached_model, served.kv_precision),
        decode=None,
        n_layers=served.model.architecture.n_layers,
        basis=basis,
        stack=used.name,
        setup=Setup.of(served, used.name),
        longest_tokens=served.longest_request,
    )


def _prefills(scenario: Scenario, classes: Sequence[ClassSpec], looked_at: list[LookedAt]) -> Iterator[PoolSpec]:
    """The pool for long prompts on every layout that is worth a plan."""
    for key, pool in scenario.pools.items():
        if pool.role != "prefill":
            continue
        rates = partial(pool_rates, scenario, key, classes=classes, known={})
        kept: Sequence[Candidate] = (Candidate("", pool.accelerators_per_instance, rates(pool)),)
        if pool.layouts:
            kept, found = candidates(scenario, key, classes, rates)
            looked_at.append(found)
        for one in kept:
            yield pool_spec(scenario, (key, key), pool.on_layout(one.layout or None), one.rates, classes)


def _check(problem: Problem) -> None:
    """Raises InputError where a price is missing, or a promise has no model."""
    scenario = problem.scenario
    if problem.is_min_cost or scenario.budget_usd_per_hour is not None:
        what = f"{'objective min-cost' if problem.is_min_cost else 'a budget'} needs this price"
        if found := [scenario.problem(tuple(key.split(".", 1)), what) for key in problem.missing_prices()]:
            raise InputError(found)
    check_limits(problem)
    if len(problem.classes) > 1 and any(c.ttft_s is not None for c in problem.classes):
        what = "promises a TTFT to several classes, and a colocated pool is planned for all requests together"
        raise InputError(scenario.problem(("slo",), what, "one class, or no ttft_s"))
    is_timed = problem.is_min_ttft or any(c.ttft_s is not None for c in problem.classes)
    for spec in problem.classes if is_timed else ():
        if spec.arrival_scv != POISSON:
            key = ("classes", spec.name, "workload", "arrivals") if scenario.classes else ("workload", "arrivals")
            what = "are no Poisson arrivals, which the waits of a colocated pool are modelled with alone"
            raise InputError(scenario.problem(key, what, "Poisson arrivals, or no ttft_s"))


def _limited(problem: Problem, spec: PoolSpec) -> PoolSpec:
    """A pool with the most instances that its inventory and the budget leave. Raises InputError without a limit."""
    scenario = problem.scenario
    limits = [spec.max_instances]
    limits += [
        v.n_accelerators // spec.n_accelerators
        for v in problem.inventories
        if (v.site, v.hardware) == (spec.site, spec.hardware)
    ]
    if scenario.budget_usd_per_hour is not None and spec.usd_per_hour:
        limits.append(int(scenario.budget_usd_per_hour / spec.usd_per_hour + 1e-9))
    if min(limits) >= LARGEST_POOL and not problem.is_min_cost:
        raise InputError(unlimited_size(scenario, spec.key))
    return replace(spec, max_instances=min(limits))
