"""Instances of the home kind that prefill and decode in one batch: every layout and every size of passes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

from planner.errors import InfeasibleError, InputError
from planner.optimizer.colocated.passes import TOKENS_PER_PASS, Load, Loads, composed_loads, even_loads, roofline_loads
from planner.optimizer.colocated.requests import loads_of
from planner.optimizer.problem import PoolSpec, Problem
from planner.optimizer.served import served_name
from planner.optimizer.service_times import Decoded, check_memory, service_times, times_basis
from planner.queueing import colocated_capacity_req_per_s
from planner.roofline import RatesBasis, Setup, colocated_engine
from planner.scenario import AskedInstance, Pool, asked_instance, at_pool

ORDER: tuple[RatesBasis, ...] = ("measured", "calibrated", "inferred", "datasheet")
"""Of what times rest on, the best known first."""


@dataclass(frozen=True, eq=False)
class ColocatedInstance:
    """An instance in both roles."""

    site: str
    hardware: str
    model: str
    """Name of its profile."""
    n_accelerators: int
    usd_per_hour: float | None
    busy_usd_per_hour: float
    """What a busy instance costs on top [USD/h]."""
    setup: Setup
    basis: RatesBasis
    tokens_per_pass: int
    """Most tokens of a pass on an attention replica."""
    tpot_s: float
    """Longest mean time per token [s]."""
    loads: tuple[Load, ...]
    at_best: tuple["ColocatedInstance", ...] = ()
    """The same where prefill and decode overlap perfectly, with other sizes of passes too; none where passes are not
    composed of measured curves."""

    @cached_property
    def capacity_req_per_s(self) -> float:
        """Mean rate that it serves without waits [req/s]."""
        return min(
            min(colocated_capacity_req_per_s(x.loop, x.prompts, self.tpot_s), x.most_req_per_s) / x.multiple
            for x in self.loads
        )

    @property
    def batch_limit(self) -> int:
        """Most sequences in its batch."""
        return max(load.loop.most_running for load in self.loads)


def colocated_instances(problem: Problem) -> list[ColocatedInstance]:
    """Instances of the kind of accelerator that decodes, which take all requests at its site.

    Args:
        problem: the question, of one model and one site that decodes.

    Returns:
        One for every layout of the pools of that kind there, and for every size of its passes.

    Raises:
        InputError: the kind has no prefill times, or what layouts it has cannot be modelled.
        InfeasibleError: weights or prompts fit none of them, or no batch of any keeps the limit on the time per token.
    """
    loads, home = loads_of(problem), next(pool for pool in problem.pools if not pool.is_prefill)
    check_limits(problem)
    alike = [p for p in problem.pools if (p.site, p.hardware) == (home.site, home.hardware)]
    kinds = {(p.n_accelerators, p.layout): p for p in sorted(alike, key=lambda p: p.is_prefill, reverse=True)}
    found: list[ColocatedInstance] = []
    refused: list[InputError | InfeasibleError] = []
    for spec in kinds.values():
        try:
            made = list(_instances(problem, home, spec, loads))
        except (InputError, InfeasibleError) as error:
            refused.append(error)
            continue
        found += [one for one in made if any(x.capacity_req_per_s > 0 for x in (one, *one.at_best))]
    if not found and refused:
        raise refused[0]
    if not found:
        raise InfeasibleError("not one sequence beside prompts keeps the limit on the time per token")
    return found


def _instances(problem: Problem, home: PoolSpec, spec: PoolSpec, loads: Loads) -> Iterator[ColocatedInstance]:
    scenario = problem.scenario
    size = {"accelerators_per_instance": spec.n_accelerators, "layout": spec.layout, "layouts": (), "classes": ()}
    decode = scenario.pools[home.key].model_copy(update={**size, "n_instances": "free"})
    prefill = decode.model_copy(update={"role": "prefill", "tpot_ms": None, "prompts": "short"})
    asked, asked_prefill = (asked_instance(scenario, pool) for pool in (decode, prefill))
    if asked.measured is None and asked_prefill.measured is None and asked.may_be_timed:
        yield from _timed(problem, home, asked, loads)
    else:
        yield from _composed(problem, home, (decode, prefill), asked, loads)


def _timed(problem: Problem, home: PoolSpec, asked: AskedInstance, loads: Loads) -> Iterator[ColocatedInstance]:
    """Of the roofline."""
    try:
        engine = colocated_engine(asked)
        used, served = engine.stack, engine.served
        check_memory(home.key, served)
        _check_prompts(problem, served.longest_request)
        if served.layout.pp_size > 1:
            what = f"layout {served.layout} has pipeline stages, whose overlapping passes are not modelled in one batch"
            raise InputError(problem.scenario.problem(("pools", home.key), what, "a layout with pp=1"))
        basis = max((times_basis(served, used, role) for role in ("prefill", "decode")), key=ORDER.index)
        known = ColocatedInstance(
            setup=Setup.of(served, used.name), basis=basis, tokens_per_pass=0, loads=(), **_fields(problem, home, asked)
        )
        for tokens in (served.chunk_tokens, *(t for t in TOKENS_PER_PASS if t < served.chunk_tokens)):
            made = roofline_loads(replace(engine, served=replace(served, chunk_tokens=tokens)), loads)
            yield replace(known, tokens_per_pass=tokens, loads=made)
    except InputError as error:
        raise InputError(at_pool(problem.scenario, home.key, error.problems)) from None


def _composed(
    problem: Problem, home: PoolSpec, pools: tuple[Pool, Pool], asked: AskedInstance, loads: Loads
) -> Iterator[ColocatedInstance]:
    """Of measured curves."""
    scenario, decoded = problem.scenario, Decoded.of([(c.share, c.mix) for c in problem.classes])
    hardware = scenario.hardware_of(pools[0])
    decode, prefill = (service_times(scenario, home.key, pool, hardware, decoded) for pool in pools)
    _check_prompts(problem, min(decode.longest_tokens, prefill.longest_tokens))
    fields = _fields(problem, home, asked)
    known = ColocatedInstance(
        setup=decode.setup,
        basis=max(decode.basis, prefill.basis, key=ORDER.index),
        tokens_per_pass=TOKENS_PER_PASS[0],
        loads=(),
        **fields,
    )
    even = replace(known, loads=even_loads(prefill, decode, loads, known.tpot_s))
    for tokens in TOKENS_PER_PASS:
        apart, at_once = (composed_loads(prefill, decode, loads, tokens, overlaps) for overlaps in (False, True))
        best = (even, replace(known, tokens_per_pass=tokens, loads=at_once))
        yield replace(known, tokens_per_pass=tokens, loads=apart, at_best=best)


def _fields(problem: Problem, home: PoolSpec, asked: AskedInstance) -> dict[str, Any]:
    scenario, n = problem.scenario, asked.n_accelerators
    usd = scenario.accelerator_usd_per_hour(home.site, asked.hardware)
    limit = asked.longest_step_s
    return {
        "site": home.site,
        "hardware": home.hardware,
        "model": served_name(scenario, home.key),
        "n_accelerators": n,
        "usd_per_hour": None if usd is None else n * usd,
        "busy_usd_per_hour": n * scenario.busy_usd_per_hour(home.site, asked.hardware),
        "tpot_s": inf if limit is None else limit * asked.time_factor,
    }


def check_limits(problem: Problem) -> None:
    """Raises InputError where pools that decode limit the time per token in different ways."""
    scenario = problem.scenario
    limits = {p.tpot_ms for p in scenario.pools.values() if p.role == "decode"}
    limits_of_classes = {None if c.slo is None else c.slo.tpot_ms for c in problem.classes}
    if len(limits) > 1 or len(limits_of_classes) > 1:
        what = "limits on the time per token differ by class, and a batch has one step for all"
        raise InputError(scenario.problem(("pools",), what, "one limit"))


def _check_prompts(problem: Problem, longest_tokens: float) -> None:
    longest = max(spec.mix.longest_tokens() for spec in problem.classes)
    if longest > longest_tokens:
        raise InfeasibleError(f"its memory holds prompts of {longest_tokens:,.0f} tokens, and some have {longest:,.0f}")
