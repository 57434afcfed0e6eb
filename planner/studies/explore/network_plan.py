"""A finished plan of several classes, sites or periods as the optimizer has it."""

from typing import NamedTuple

from planner.optimizer import Problem, Solution
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation
from planner.optimizer.problem import Arc, Part
from planner.results import PeriodPlan, Plan, PoolShares
from planner.studies.explore.ports import ports_of_plan

PARTS: tuple[Part, ...] = ("long", "short")


class UnclearError(Exception):
    """A plan that does not say which way its requests go."""


class At(NamedTuple):
    """A stream in a period of a plan."""

    stream: int
    name: str
    site: str


def solution_of_network_plan(problem: Problem, plan: Plan) -> Solution | None:
    """A finished plan; None where its ways or ports cannot be told.

    Args:
        problem: the question.
        plan: its plan, with its periods.
    """
    ports = ports_of_plan(problem, plan)
    periods = {period.name: period for period in plan.periods}
    if ports is None or {name for span in problem.periods for name, _ in span.members} != set(periods):
        return None
    try:
        operations = tuple(_operation(problem, periods[span.name], p) for p, span in enumerate(problem.periods))
    except UnclearError:
        return None
    value = plan.cost.usd_per_hour if problem.is_min_cost else None
    scale = plan.throughput_req_per_s / problem.mean_req_per_s
    return Solution(operations, ports, scale, scale if value is None else value, plan.bound)


def _operation(problem: Problem, period: PeriodPlan, p: int) -> PeriodOperation:
    sizes = {pool.name: pool.n_instances for pool in period.pools}
    flows, decodings = [], []
    for q, stream in enumerate(problem.streams):
        spec = problem.classes[stream.request_class]
        at = At(q, spec.name, stream.site)
        rate = sum(period.decoded_req_per_s.get(m.name, {}).get(at.site, 0.0) for m in spec.members)
        if rate > 0:
            flows += _flows(problem, period, at, rate)
            decodings += _decodings(problem, period, at, rate)
    return PeriodOperation(p, tuple(sizes.get(pool.name, 0) for pool in problem.pools), tuple(flows), tuple(decodings))


def _shares(period: PeriodPlan, at: At) -> PoolShares:
    return period.pool_shares.get(at.name, {}).get(at.site, {})


def _flows(problem: Problem, period: PeriodPlan, at: At, rate: float) -> list[Flow]:
    spec = problem.classes[problem.streams[at.stream].request_class]
    stated = period.thresholds.get(at.name, {}).get(at.site)
    threshold = spec.mix.support[1] if stated is None else stated
    shares = _shares(period, at)
    return [
        Flow(at.stream, part, _arc(problem, at.stream, part, name), threshold, rate * share)
        for part in PARTS
        for name, share in shares.get(part, {}).items()
    ]


def _arc(problem: Problem, stream: int, part: Part, pool: str) -> Arc:
    """The way from a pool. Raises UnclearError where there are two, over two links, or none."""
    found = [arc for arc in problem.arcs[stream][part] if problem.pools[arc.pool].name == pool]
    if len(found) != 1:
        raise UnclearError
    return found[0]


def _decodings(problem: Problem, period: PeriodPlan, at: At, rate: float) -> list[Decoding]:
    names = {pool.name: i for i, pool in enumerate(problem.pools)}
    shares = _shares(period, at).get("decode", {})
    return [Decoding(at.stream, names[name], rate * share) for name, share in shares.items()]
