"""Colocated fleets beside a plan: as many accelerators of the home kind, as much money, or the least for the demand."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Any

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.notes import Note, note
from planner.optimizer.colocated.doubted import by_run_alone
from planner.optimizer.colocated.instances import ColocatedInstance
from planner.optimizer.colocated.open_layouts import open_instances
from planner.optimizer.colocated.rates import (
    BUSIEST,
    Promise,
    alone,
    fewest_instances,
    full_tpot_s,
    keeps,
    most_req_per_s,
    queue_of,
    room_to_wait,
)
from planner.optimizer.evaluation import PER_MILLION, latency_of
from planner.optimizer.home import beyond_stock, decoding_sites
from planner.optimizer.problem import LARGEST_POOL, Problem
from planner.results import AtBest, Baseline, Cost, Fleet, Latency, PoolPlan
from planner.ties import largest_first
from planner.units import SECONDS_PER_HOUR
from planner.work_clock import work_s

COLOCATED = ("cheapest-colocated", "equal-bill-colocated", "colocated")
"""Names of these fleets, the one that says most of a demand first."""
POOL = "colocated"
LAYOUTS_PART = 0.5
"""Of the time, what looking at layouts may take."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class Opponents:
    """Colocated fleets."""

    others: tuple[Baseline, ...] = ()
    notes: tuple[Note, ...] = ()
    impossible: frozenset[str] = field(default_factory=frozenset)
    """Names of those of which it is proven that there is none."""
    unknown: frozenset[str] = field(default_factory=frozenset)
    """Names of those that were not found in the time."""


@dataclass(frozen=True)
class _Sized:
    """A number of instances, and what they serve."""

    one: ColocatedInstance
    n: int
    most_req_per_s: float
    gap: float

    @property
    def req_per_s_per_accelerator(self) -> float:
        """What they serve, of each accelerator."""
        return self.most_req_per_s / (self.n * self.one.n_accelerators)


Maker = Callable[[ColocatedInstance, _Sized | None], _Sized]
"""Sizes a fleet of such instances, if it is better than another."""


def colocated_opponents(
    problem: Problem, plan: Fleet, deadline: float, names: Collection[str] | None = None
) -> Opponents:
    """Fleets of the kind of accelerator that decodes, which prefill and decode in one batch.

    Args:
        problem: the question.
        plan: the planned fleet.
        deadline: `work_s()` time for all of them together.
        names: those that are asked for; None: all.

    Returns:
        What serves most of the layouts of the plan's pools, of those that they might have chosen, and of the sizes of
        passes: with as many accelerators, for the same bill, and where cost is the objective the cheapest for the
        demand; and why one is missing.
    """
    asked = [name for name in COLOCATED if names is None or name in names]
    if not asked:
        return Opponents()
    try:
        _check(problem)
        promise = Promise.of(problem, deadline)
        chosen = open_instances(problem, work_s() + LAYOUTS_PART * (deadline - work_s()))
    except (InputError, InfeasibleError) as error:
        impossible = frozenset(asked) if isinstance(error, InfeasibleError) else frozenset[str]()
        return Opponents(notes=(_missing(POOL, error),), impossible=impossible)
    found = _planned(problem, plan, promise, chosen.instances, asked)
    return replace(found, notes=(*found.notes, *chosen.notes))


def _planned(
    problem: Problem, plan: Fleet, promise: Promise, instances: Sequence[ColocatedInstance], asked: Sequence[str]
) -> Opponents:
    others, notes = list[Baseline](), list[Note]()
    impossible, unknown = set[str](), set[str]()
    for name in reversed(asked):
        made = _maker(problem, plan, promise, name)
        if made is None:
            continue
        try:
            promise.check_time()
            sized = _best(instances, promise, made)
            others.append(_baseline(problem, plan, promise, name, sized, made))
            notes += _by_run_alone(sized, others[-1])
        except (InfeasibleError, UndecidedError) as error:
            is_proven = isinstance(error, InfeasibleError) and not _may_be(instances, made)
            (impossible if is_proven else unknown).add(name)
            notes.append(_missing(name, error))
    if others and others[0].at_best is not None:
        what = "prefill and decode are taken to follow one another; at_best has the fleet if they overlapped perfectly"
        notes.append(
            note("colocated-composed", f"passes of the colocated fleets are composed of measured times: {what}")
        )
    return Opponents(tuple(others), tuple(notes), frozenset(impossible), frozenset(unknown))


def _may_be(instances: Sequence[ColocatedInstance], made: Maker) -> bool:
    """Whether there is such a fleet if prefill and decode overlapped perfectly, or nobody found out in the time."""
    for best in (best for one in instances for best in one.at_best):
        try:
            made(best, None)
        except InfeasibleError:
            continue
        except UndecidedError:
            return True
        return True
    return False


def _missing(name: str, error: Exception) -> Note:
    why = error.problems[0].message if isinstance(error, InputError) else error
    return note("no-baseline", f"no {name} fleet to compare with: {why}")


def _check(problem: Problem) -> None:
    """Raises InputError where one colocated pool cannot stand for the fleet."""
    scenario = problem.scenario
    if len(decoding_sites(scenario)) > 1:
        what = f"requests are decoded at several sites: {', '.join(decoding_sites(scenario))}"
        raise InputError(scenario.problem(("pools",), what, "one site that decodes"))
    if len({pool.model for pool in scenario.pools.values()}) > 1:
        raise InputError(scenario.problem(("models",), "several models are served", "one model"))
    if any(pool.by_period is not None for pool in problem.pools):
        what = "some pools are rented by period, which a colocated pool is not planned with"
        raise InputError(scenario.problem(("pools",), what, 'rent = "always"'))


def _maker(problem: Problem, plan: Fleet, promise: Promise, name: str) -> Maker | None:
    """What sizes a fleet of that name of some instances; None where the question has no such fleet."""
    bill = plan.cost.usd_per_hour

    def given(one: ColocatedInstance, best: _Sized | None) -> _Sized:
        return _serving(problem, promise, one, plan.n_accelerators // one.n_accelerators, best)

    def for_the_bill(one: ColocatedInstance, best: _Sized | None) -> _Sized:
        usd = (one.usd_per_hour or 0.0) + one.busy_usd_per_hour
        n = floor((bill or 0.0) / usd + ROUNDING)
        if n >= LARGEST_POOL:
            raise UndecidedError(f"the bill pays for {n:,} instances, and fleets of {LARGEST_POOL:,} are not planned")
        return _serving(problem, promise, one, n, best)

    def cheapest(one: ColocatedInstance, best: _Sized | None) -> _Sized:
        fewer = ceil(best.n * best.one.n_accelerators / one.n_accelerators) - 1 if best else LARGEST_POOL
        if best and not keeps(one, fewer, problem.mean_req_per_s, promise):
            raise InfeasibleError("no fewer accelerators serve the demand")
        n = fewest_instances(one, problem.mean_req_per_s, promise)
        return _Sized(one, n, most_req_per_s(one, n, promise)[0], 0.0)

    home = next(pool for pool in problem.pools if not pool.is_prefill)
    if name == "cheapest-colocated":
        return cheapest if problem.is_min_cost else None
    if name == "equal-bill-colocated":
        return for_the_bill if bill is not None and home.usd_per_hour else None
    return given


def _serving(problem: Problem, promise: Promise, one: ColocatedInstance, n: int, best: _Sized | None) -> _Sized:
    """So many instances at their highest rate. Raises InfeasibleError where they serve nothing, less per accelerator
    than the best, or not the demand."""
    least = best.req_per_s_per_accelerator if best else 0.0
    most, gap = promise.known.get((one, n), (0.0, 0.0))
    if most <= 0:
        most, gap = promise.known[one, n] = most_req_per_s(one, n, promise, least * n * one.n_accelerators)
    if most <= 0:
        raise InfeasibleError("such a fleet keeps the promise at no rate" if n > 0 else "that is less than an instance")
    if best and most <= least * n * one.n_accelerators * (1 + ROUNDING):
        raise InfeasibleError("such a fleet serves no more of its accelerators than another")
    demand = problem.must_serve_req_per_s
    if problem.is_min_ttft and demand is not None and BUSIEST * most < demand:
        raise InfeasibleError(f"such a fleet does not serve {demand:.4g} req/s")
    return _Sized(one, n, most, gap)


def _best(instances: Sequence[ColocatedInstance], promise: Promise, made: Maker) -> _Sized:
    """The fleet that serves most for its accelerators, of all ways to run instances; raises as makers do.

    Equation:
        ways by falling C / a (1 - T / t): C the capacity of an instance, a its accelerators, and of a promise t the
        time T that a first token takes without waiting
    """
    ranked = largest_first(
        instances, lambda one: one.capacity_req_per_s / one.n_accelerators * room_to_wait(one, promise)
    )
    found: list[_Sized] = []
    errors: list[InfeasibleError] = []
    for one in ranked:
        try:
            found.append(made(one, found[-1] if found else None))
        except InfeasibleError as error:
            errors.append(error)
        except UndecidedError:
            if not found:
                raise
            break
    if not found:
        raise errors[0]
    return found[-1]


def _by_run_alone(sized: _Sized, fleet: Baseline) -> Iterator[Note]:
    """Where the model of queues is known to be off for a fleet whose times are stated."""
    if fleet.latency.ttft_mean_s is None:
        return
    found = queue_of(sized.one.loads[0], sized.n, fleet.throughput_req_per_s)
    yield from by_run_alone(None if found is None else found[0], sized.one.setup.layout, fleet.name)


def _baseline(problem: Problem, plan: Fleet, promise: Promise, name: str, sized: _Sized, made: Maker) -> Baseline:
    """A fleet as answers state it; raises as makers do."""
    one, n = sized.one, sized.n
    fleet = Fleet(**_fleet(problem, sized, promise))
    best = None
    if one.at_best:
        best = _at_best(problem, promise, _best(one.at_best, promise, made))
    return Baseline(
        **dict(fleet),
        name=name,
        title=f"prefill and decode in one batch on {n * one.n_accelerators} {one.hardware}{TITLES[name]}",
        ratio=plan.most_req_per_s / fleet.most_req_per_s,
        beyond_stock=tuple(beyond_stock(problem.scenario, fleet)),
        gap=sized.gap,
        at_best=best,
    )


TITLES = {
    "colocated": ", one site",
    "equal-bill-colocated": " for the whole bill of the plan",
    "cheapest-colocated": ", the cheapest that serve the demand",
}


def _at_best(problem: Problem, promise: Promise, sized: _Sized) -> AtBest:
    fields = _fleet(problem, sized, promise)
    return AtBest(
        n_instances=sized.n,
        most_req_per_s=sized.most_req_per_s,
        usd_per_hour=fields["cost"].usd_per_hour,
        latency=fields["latency"],
    )


def _fleet(problem: Problem, sized: _Sized, promise: Promise) -> dict[str, Any]:
    """The fields of a fleet at the rate that it is stated at."""
    one, n = sized.one, sized.n
    demand = problem.demand_req_per_s
    is_stated = problem.is_plain or problem.must_serve_req_per_s is not None
    rate = min(demand, sized.most_req_per_s) if is_stated and demand is not None else sized.most_req_per_s
    return {
        "threshold_tokens": None,
        "offload_fraction": 0.0,
        "throughput_req_per_s": rate,
        "max_throughput_req_per_s": (n - promise.n_lost) * one.capacity_req_per_s,
        "goodput_req_per_s": None if promise.ttft_s is None else sized.most_req_per_s,
        "pools": (_pool(one, n, rate),),
        "links": (),
        "latency": _latency(one, n, rate),
        "cost": _cost(problem, one, n, rate),
    }


def _pool(one: ColocatedInstance, n: int, rate: float) -> PoolPlan:
    busy, usd = rate / (n * one.capacity_req_per_s), one.usd_per_hour
    return PoolPlan(
        name=POOL,
        site=one.site,
        hardware=one.hardware,
        role="colocated",
        prompts=None,
        n_instances=n,
        n_accelerators=n * one.n_accelerators,
        capacity_req_per_s=n * one.capacity_req_per_s,
        offered_req_per_s=rate,
        utilization=min(busy, 1.0),
        usd_per_hour=None if usd is None else n * (usd + busy * one.busy_usd_per_hour),
        basis=one.basis,
        accelerators_per_instance=one.n_accelerators,
        layout=one.setup.layout,
        stack=one.setup.stack,
        precision=one.setup.precision,
        kv_precision=one.setup.kv_precision,
        engine=one.setup.engine,
        batch_limit=one.batch_limit,
        tokens_per_pass=one.tokens_per_pass,
        model=one.model,
    )


def _latency(one: ColocatedInstance, n: int, rate: float) -> Latency:
    """Of requests that are alike at all times; else no more than what is known without waits."""
    load = max(one.loads, key=lambda load: load.multiple)
    unloaded, is_even = alone(load), len(one.loads) == 1 and load.multiple == 1.0
    busy = rate / (n * one.capacity_req_per_s)
    found = queue_of(load, n, rate) if is_even and busy <= BUSIEST + ROUNDING else None
    if found is None:
        return latency_of(None, unloaded, full_tpot_s(load, one.tpot_s) if busy > BUSIEST else None)
    queue, ttft = found
    return latency_of(ttft, unloaded, queue.tpot_mean_s)


def _cost(problem: Problem, one: ColocatedInstance, n: int, rate: float) -> Cost:
    if one.usd_per_hour is None:
        missing = tuple(key for key in problem.missing_prices() if key == f"prices.{one.hardware}")
        return Cost(
            usd_per_hour=None,
            usd_per_million_input_tokens=None,
            usd_per_million_output_tokens=None,
            accelerators_usd_per_hour=None,
            missing_prices=missing,
        )
    busy = rate / (n * one.capacity_req_per_s)
    usd = n * (one.usd_per_hour + busy * one.busy_usd_per_hour)
    each = PER_MILLION * usd / SECONDS_PER_HOUR
    total, output = (rate * _mean(problem, kind) for kind in ("mean_total_tokens", "mean_output_tokens"))
    return Cost(
        usd_per_hour=usd,
        usd_per_million_input_tokens=each / total if total > 0 else None,
        usd_per_million_output_tokens=each / output if output > 0 else None,
        accelerators_usd_per_hour=usd,
    )


def _mean(problem: Problem, kind: str) -> float:
    """Mean tokens of a request over all classes and the whole time."""
    tokens = 0.0
    for demand in problem.demands:
        rate = sum(w * r for w, r in zip(problem.weights, demand.req_per_s, strict=True))
        tokens += rate * float(getattr(problem.classes[demand.request_class].mix, kind))
    return tokens / problem.mean_req_per_s
