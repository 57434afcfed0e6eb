"""Shares of a period's requests: where every class is decoded, and which pool takes how much of its work."""

from collections.abc import Callable

from planner.optimizer.network.period_operation import PeriodOperation
from planner.optimizer.problem import Problem
from planner.results.plan import PoolShares, Work


def decoded_rates(problem: Problem, one: PeriodOperation) -> dict[str, dict[str, float]]:
    """Rate of every stream, by class and site."""
    found: dict[str, dict[str, float]] = {}
    for decoding in one.decodings:
        stream = problem.streams[decoding.stream]
        spec = problem.classes[stream.request_class]
        for member in spec.members:
            at = found.setdefault(member.name, {})
            at[stream.site] = at.get(stream.site, 0.0) + decoding.req_per_s * member.share / spec.share
    return found


def pool_shares(
    problem: Problem, one: PeriodOperation, name_of: Callable[[int], str]
) -> dict[str, dict[str, PoolShares]]:
    """Shares of every pool in each stream's long prompts, short ones and decoding; nothing of one without any."""
    taken: dict[tuple[int, Work], dict[str, float]] = {}
    for flow in one.flows:
        mine = taken.setdefault((flow.stream, flow.part), {})
        name = name_of(flow.arc.pool)
        mine[name] = mine.get(name, 0.0) + flow.req_per_s
    for decoding in one.decodings:
        mine = taken.setdefault((decoding.stream, "decode"), {})
        mine[name_of(decoding.pool)] = decoding.req_per_s
    found: dict[str, dict[str, PoolShares]] = {}
    for (q, work), rates in taken.items():
        stream, total = problem.streams[q], sum(rates.values())
        if total <= 0:  # none of the class arrive at the site in the period
            continue
        for member in problem.classes[stream.request_class].members:
            at = found.setdefault(member.name, {}).setdefault(stream.site, {})
            at[work] = {name: rate / total for name, rate in rates.items()}
    return found
