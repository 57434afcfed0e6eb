"""Routes of requests through prefill pools, links and a decode pool, where few of them say all of a problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.room import Limits, is_held
from planner.workload.mix import ALL_LONG

if TYPE_CHECKING:
    from planner.optimizer.problem import Problem


@dataclass(frozen=True)
class Route:
    """A prefill choice of a class: long prompts here, short ones there, decode at the end; pools and links by index."""

    request_class: int
    long: int | None
    short: int | None
    decode: int
    long_link: int | None
    short_link: int | None
    limits_tokens: Limits = (ALL_LONG, inf)
    """Least and greatest threshold under which its pools hold all prompts that they are sent [tokens]."""

    def thresholds_that_fit(self, thresholds_tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        """Thresholds moved to the nearest under which its pools hold what they are sent, each once [tokens]."""
        return np.unique(np.clip(thresholds_tokens, *self.limits_tokens))

    @property
    def is_split(self) -> bool:
        """True if a threshold decides anything."""
        return self.long is not None and self.short is not None


def is_plain(problem: Problem, routes: Sequence[Route]) -> bool:
    """True if all requests are of one model, at one rate, from anywhere, and what is promised is of one route.

    Every class then has the same pools at all times, so that a threshold for each route says where its requests go.
    """
    scenario = problem.scenario
    has_fixed_roles = not (scenario.spare.survive or scenario.routing.role_conversion or problem.families)
    has_own_thresholds = scenario.routing.thresholds == "per-class" or len(problem.classes) == 1
    has_kinds = all(len(pool.parts) < 2 for pool in problem.pools)
    if not (has_fixed_roles and is_uniform(problem) and has_own_thresholds and has_kinds):
        return False
    is_about_time = problem.is_min_ttft or any(c.ttft_s is not None for c in problem.classes)
    served = {route.request_class for route in routes}
    reached = {
        stream.request_class
        for stream, arcs, decoders in zip(problem.streams, problem.arcs, problem.decoders, strict=True)
        if decoders and any(arcs.values())
    }
    return reached <= served and (len(routes) <= 1 or not is_about_time)


def is_uniform(problem: Problem) -> bool:
    """True if all requests are of one model, at one rate, from anywhere: a rate over all of them then says everything.

    Args:
        problem: the question.
    """
    is_steady = all(len(set(demand.req_per_s)) == 1 for demand in problem.demands)
    is_anywhere = len(problem.demands) == len(problem.classes) and not any(d.refuges for d in problem.demands)
    everyone = tuple(range(len(problem.classes)))
    is_alike = len({c.model for c in problem.classes}) == 1
    return is_steady and is_anywhere and is_alike and all(p.classes == everyone or p.is_empty for p in problem.pools)


def routes_of(problem: Problem) -> Iterator[Route]:
    """Every combination of a pool for long prompts, one for short ones and a decode pool, that links join and that hold
    the prompts of a class under some threshold."""
    pools = problem.pools
    for decode in (i for i, p in enumerate(pools) if not (p.is_prefill or p.is_empty)):
        reach = [i for i, p in enumerate(pools) if p.is_prefill and not p.is_empty and _joined(problem, i, decode)]
        longs: list[int | None] = [i for i in reach if pools[i].prompts == "long"]
        shorts: list[int | None] = [i for i in reach if pools[i].prompts == "short"]
        for long, short in product(longs or [None], shorts or [None]):
            if long is None and short is None:
                continue
            ends = _link_index(problem, long, decode), _link_index(problem, short, decode)
            rooms = [0.0 if i is None else pools[i].rates.longest_tokens for i in (long, short)]
            for c, spec in enumerate(problem.classes):
                route = Route(c, long, short, decode, *ends, spec.mix.held_thresholds(*rooms))
                if _is_held(problem, route):
                    yield route


def _is_held(problem: Problem, route: Route) -> bool:
    """True if the pools of a route hold all prompts of its class under some threshold, or the stated one."""
    limits, fixed = route.limits_tokens, problem.scenario.routing.threshold_tokens
    tried = limits[0] if fixed == "free" or not route.is_split else float(fixed)
    return is_held(problem.classes[route.request_class].mix, tried, limits)


def holds_prompts(problem: Problem, threshold_tokens: float) -> bool:
    """True if the pools of a route hold all prompts that a threshold sends there."""
    route = problem.route
    return not route.is_split or is_held(problem.classes[0].mix, threshold_tokens, route.limits_tokens)


def _joined(problem: Problem, prefill: int, decode: int) -> bool:
    is_near = problem.pools[prefill].site == problem.pools[decode].site
    return is_near or _link_index(problem, prefill, decode) is not None


def _link_index(problem: Problem, prefill: int | None, decode: int) -> int | None:
    ends = None if prefill is None else (problem.pools[prefill].site, problem.pools[decode].site)
    return next((i for i, link in enumerate(problem.links) if (link.from_site, link.to_site) == ends), None)
