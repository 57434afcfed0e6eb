"""Doubts about the figures of a plan: prompts beyond the measured lengths, and prefill without room."""

from collections.abc import Iterator
from math import isfinite

from planner.notes import Note, note
from planner.optimizer.network.period_operation import Flow, PeriodOperation, transfers_s
from planner.optimizer.problem import Problem
from planner.optimizer.room import oversized_notes
from planner.optimizer.service_times import pool_stack
from planner.optimizer.solution import Solution
from planner.units import number, percent
from planner.workload.mix import RequestAtoms

N_KINDS = 4096
"""Requests that stand for the lengths of a flow."""
CROWDED = 0.01
"""Share of a prefill instance's room, for caches that still leave, that goes without saying."""
UNMEASURED = 0.01
"""Share of prompts beyond the measured lengths that goes without saying."""


def room_notes(problem: Problem, solution: Solution) -> Iterator[Note]:
    """Pools without room: of prefill beside the caches that still leave on average, of decode for the longest."""
    for i, pool in enumerate(problem.pools):
        if not any(one.n_instances[i] for one in solution.operations):
            continue
        yield from oversized_notes(pool.shown_name, pool.rates, (problem.classes[c].mix for c in pool.classes))
        room = pool.rates.longest_tokens
        if not pool.is_prefill or not isfinite(room):
            continue
        leaving = max(leaving_tokens(problem, solution, one, i) for one in solution.operations)
        longest = longest_sent(problem, solution, i)
        if leaving > CROWDED * room and longest + leaving > room:
            yield note(
                "prompt-waits-for-memory",
                f"an instance of {pool.shown_name} has room for {room:,.0f} tokens, for its longest prompt of "
                f"{longest:,.0f} not beside the {number(leaving)} whose caches are still leaving on average: prompts "
                "wait for room, which the plan's latency does not count and the executor does",
            )


def length_notes(problem: Problem, solution: Solution) -> Iterator[Note]:
    """Prefill pools whose prompts are longer or shorter than those that their times are known for."""
    for i, pool in enumerate(problem.pools):
        beyond = extrapolated_fraction(problem, solution, i)
        if pool.rates.prefill and beyond > UNMEASURED:
            low, high = pool.rates.prefill.curve.measured_tokens
            yield note(
                "lengths-extrapolated",
                f"{percent(beyond)} of the prompts of {pool.shown_name} are outside the {low:,.0f} to {high:,.0f} "
                "tokens its prefill times are known for, and extrapolated",
            )


def calibration_notes(problem: Problem, solution: Solution) -> Iterator[Note]:
    """Pools with accelerators, instances or batches outside the points that their stack was calibrated on."""
    outside: dict[tuple[str, str], list[str]] = {}
    for i, pool in enumerate(problem.pools):
        if pool.rates.stack is None or not any(one.n_instances[i] for one in solution.operations):
            continue
        used = pool_stack(problem.scenario, problem.scenario.pools[pool.key].on_layout(pool.layout))
        batch = pool.rates.decode.batch if pool.rates.decode else None
        if used.calibration and (beyond := used.calibration.beyond(pool.hardware, pool.n_accelerators, batch=batch)):
            outside.setdefault((used.name, "; ".join(beyond)), []).append(pool.shown_name)
    for (stack, figures), names in outside.items():
        yield note("beyond-calibration", f"outside what {stack} was calibrated on, {', '.join(names)}: {figures}")


def extrapolated_fraction(problem: Problem, solution: Solution, pool: int) -> float:
    """Share of the prompts of a prefill pool whose length is outside what its curve was measured for."""
    service = problem.pools[pool].rates.prefill
    sent = beyond = 0.0
    for weight, one in zip(problem.weights, solution.operations, strict=True):
        for flow in one.flows if service else ():
            if flow.arc.pool == pool:
                total, _, weights = _prompts(problem, flow)
                sent += weight * flow.req_per_s * float(weights.sum())
                outside = weights[service.curve.is_extrapolated(total)] if service else weights
                beyond += weight * flow.req_per_s * float(outside.sum())
    return beyond / sent if sent > 0 else 0.0


def leaving_tokens(problem: Problem, solution: Solution, operation: PeriodOperation, pool: int) -> float:
    """Mean tokens per instance of a prefill pool whose caches are prefilled and have not left yet, in a period.

    Equation:
        lambda / n E[L X], X the part of the transfer that is left when prefill ends, on an idle link

    Args:
        problem: the question.
        solution: sizes, ports and thresholds.
        operation: what the period does.
        pool: index of the pool.

    Returns:
        Tokens [tokens]; 0 for a pool without instances.

    Source:
        Little (1961), Operations Research 9, 383, of tokens instead of customers.
    """
    n, tokens_s = operation.n_instances[pool], 0.0
    for flow in operation.flows:
        if flow.arc.pool == pool:
            total, cached, weights = _prompts(problem, flow)
            left_s, _ = transfers_s(problem, flow.arc, solution.ports, (total, cached))
            tokens_s += flow.req_per_s * float(weights @ (total * left_s))
    return tokens_s / n if n else 0.0


def longest_sent(problem: Problem, solution: Solution, pool: int) -> float:
    """Longest prompt that a solution sends to a prefill pool [tokens]; 0 where it sends none."""
    found = [0.0]
    for flow in (flow for one in solution.operations for flow in one.flows if flow.arc.pool == pool):
        mix, t = problem.classes[problem.streams[flow.stream].request_class].mix, flow.threshold_tokens
        found.append(mix.longest_tokens(t) if flow.part == "long" else mix.longest_tokens(high_tokens=t))
    return max(found)


def _prompts(problem: Problem, flow: Flow) -> RequestAtoms:
    """Lengths of the prompts of a flow, and their weights among all of the stream."""
    mix = problem.classes[problem.streams[flow.stream].request_class].mix
    return (mix.long_atoms if flow.part == "long" else mix.short_atoms)(flow.threshold_tokens, N_KINDS)
