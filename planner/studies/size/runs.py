"""Runs of a colocated pool pass by pass, and the fewest instances that they show to be needed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from planner.executor.arrivals import poisson_s, recorded_s
from planner.executor.confidence import Batches, Floats, Stratum, quantile_interval, quantiles
from planner.executor.draws import Draws, contents, trace_start
from planner.executor.engine import EngineLoad, engine_run
from planner.executor.full_instance import N_TO_FILL, TURNS, closed_loop
from planner.executor.passes import EngineRules
from planner.results import Promise
from planner.roofline import PassTimes, Reach, linear_memory, pass_times
from planner.roofline.engine_memory import MOST_RUNNING
from planner.studies.promises import are_undecided, promise
from planner.studies.size.colocated import MOST_INSTANCES, TPOT, TTFT, Chosen, Executed, Say, predicted
from planner.studies.size.question import SizeQuestion
from planner.studies.size.ways import ColocatedWay
from planner.ties import ROUNDING

WARM_UP, COOL_DOWN = 0.1, 0.05
"""Parts of the arrivals that do not count."""
STAYS = 12.0
"""Mean stays of a request that arrivals last at least."""
MOST_REQUESTS = 400_000
"""Of a replication."""
MOST_STEPS = 8
"""Sizes that are run to find the least."""
N_REPLICATIONS, MOST_REPLICATIONS = 4, 128
"""Of the pool that is answered, at first and at most: only an undecided promise takes more than at first."""
FIRST_LOOK = 2
"""Replications of a size at first, which have an interval and tell what is far off."""
REFUSED = 10.0
"""Times the latest answer: when requests count as answered that the memory of no instance holds."""


class Times(NamedTuple):
    """Of the requests of a replication."""

    ttft_s: Floats
    tpot_s: Floats


class Runs:
    """Runs of one way, whose passes are timed once."""

    def __init__(self, question: SizeQuestion, way: ColocatedWay, n_requests: int, seed: int) -> None:
        """n_requests: of a replication, where arrivals then last long enough."""
        self.question, self.way, self.seed = question, way, seed
        stay_s = question.requests.output_tokens * (predicted_tpot_s(question, way))
        enough = ceil(STAYS * stay_s * question.rate_req_per_s)
        self.n = min(max(n_requests, enough), MOST_REQUESTS)
        self.is_long_enough = self.n >= enough
        self.times: PassTimes | None = None

    def run(self, n_instances: int, replications: range) -> Executed:
        """Replications, each with a seed of its own, and whether promises are kept by what all of them came to."""
        return self._judged([self._times(n_instances, k) for k in replications])

    def watched(self, n_instances: int, first: int, n_at_first: int = N_REPLICATIONS) -> Executed:
        """Replications from one on, as many again while the promises are undecided, up to `MOST_REPLICATIONS`."""
        times: list[Times] = []
        for k in range(first, first + MOST_REPLICATIONS):
            times.append(self._times(n_instances, k))
            n = len(times)
            if n >= n_at_first and n & (n - 1) == 0:
                found = self._judged(times)
                if not are_undecided(found.promises) or not self.is_long_enough:
                    break
        return found

    @cached_property
    def least_instances(self) -> int:
        """Instances that together do the rate when they are full: fewer that ever fall behind never make up for it.

        A run that begins empty does not tell: where memory is full, requests that give way are computed again, and an
        instance does less than before.
        """
        in_flight = 2 * self.way.loop.most_running
        load = self._load(Draws(self.seed, 0), max(N_TO_FILL, TURNS * in_flight))
        full = replace(load, arrivals_s=0.0, concurrency=in_flight)
        req_per_s, _ = closed_loop(engine_run(self._rules(load), self._pass_times(load), full))
        return ceil(self.question.rate_req_per_s / req_per_s)

    def _pass_times(self, load: EngineLoad) -> PassTimes:
        """Seconds of passes; those of the first load serve all."""
        if self.times is None:
            self.times = pass_times(self.way.served, self._reach(load, self._rules(load)))
        return self.times

    def _times(self, n_instances: int, replication: int) -> Times:
        """Seconds to the first token, and per token after it, of the requests of a replication that count."""
        load = self._load(Draws(self.seed, replication), self.n)
        run = engine_run(self._rules(load), self._pass_times(load), load, n_instances)
        counts = slice(int(self.n * WARM_UP), max(int(self.n * (1 - COOL_DOWN)), 1))
        tpot_s = run.tpot_s[counts]
        return Times(_answered(run.ttft_s[counts]), tpot_s[~np.isnan(tpot_s)])

    def _judged(self, times: list[Times]) -> Executed:
        """Promises beside what replications came to; not yet kept where arrivals were too few to fill the pool."""
        q = self.question
        limits = ((TTFT, q.ttft_s, [t.ttft_s for t in times]), (TPOT, q.tpot_s, [t.tpot_s for t in times]))
        found = [
            _promise(metric, limit_s, values, q.percentile / 100)
            for metric, limit_s, values in limits
            if limit_s is not None and any(map(len, values))
        ]
        if not self.is_long_enough:
            found = [p.model_copy(update={"holds": False, "decided": p.decided and not p.holds}) for p in found]
        return Executed(tuple(found), sum(len(t.ttft_s) for t in times))

    def _load(self, draws: Draws, n: int) -> EngineLoad:
        q, factors = self.question, self.way.served.factors
        asked = contents(q.workload, n, "size", draws, q.directory, q.data_dirs)
        if (trace := q.recorded) is None:
            arrivals_s = poisson_s(n, q.rate_req_per_s, draws.generator)
        else:
            start = trace_start(trace.n_requests, "size", draws)
            arrivals_s = recorded_s(n, q.rate_req_per_s, trace.arrival_s, start)
        return EngineLoad(
            asked.total_tokens,
            asked.output_tokens,
            factors.request_overhead_s,
            factors.prompt_token_s * asked.total_tokens.astype(float),
            arrivals_s=arrivals_s,
        )

    def _rules(self, load: EngineLoad) -> EngineRules:
        settings, served = self.way.kind.software.settings, self.way.served
        longest = float((load.prompt_tokens + load.output_tokens).max())
        room, fixed = linear_memory(served, float(max(load.prompt_tokens.min() // 2, 1)), longest)
        return EngineRules(
            tokens_per_pass=served.chunk_tokens,
            room_tokens=room,
            sequence_tokens=fixed,
            n_replicas=served.n_places,
            most_running=settings.most_running or MOST_RUNNING,
            is_prefill_first=settings.prefill_first is True,
            splits_prompts=settings.splits_prompts is not False,
            reserves_output=settings.reserves_output,
        )

    def _reach(self, load: EngineLoad, rules: EngineRules) -> Reach:
        longest = int(load.prompt_tokens.max())
        return Reach(
            tokens_per_pass=max(rules.tokens_per_pass, 0 if rules.splits_prompts else longest),
            longest_prompt=longest,
            longest_context=int((load.prompt_tokens + load.output_tokens).max()),
            shortest_prompt=int(load.prompt_tokens.min()),
            most_running=min(len(load.prompt_tokens), rules.most_running * rules.n_replicas),
        )


def predicted_tpot_s(question: SizeQuestion, way: ColocatedWay) -> float:
    """Seconds per token that a stay is reckoned with: the promise, else a full batch's."""
    full_s = float(way.loop.pass_s(np.array([way.loop.tokens_per_pass]), np.array([float(way.loop.most_running)]))[0])
    return min(question.tpot_s or inf, full_s)


def _answered(ttft_s: Floats) -> Floats:
    """Times to first token; refused requests are later than all others."""
    late_s = REFUSED * float(np.nanmax(ttft_s, initial=1.0))
    return np.where(np.isnan(ttft_s), late_s, ttft_s)


def _promise(metric: str, limit_s: float, times_s: Sequence[Floats], fraction: float) -> Promise:
    """A promise to a part of the requests, beside what replications came to."""
    strata = [Stratum(1.0, times_s)]
    batches, (executed_s,) = Batches.of(strata), quantiles(strata, [fraction])
    sure = None if batches is None else quantile_interval(batches, fraction)
    return promise(metric, limit_s, executed_s, sure, -1, 0.0)


def _misses_by_far(found: Executed) -> bool:
    """Whether a time is more than twice what is promised: bursts are beyond what sizes are predicted for."""
    return any(one.executed > 2 * one.limit for one in found.promises)


def _most_instances(usd_per_hour: float, below_usd_per_hour: float) -> int:
    """The most instances of a rent that cost less than a bill."""
    times = below_usd_per_hour / usd_per_hour * (1 - ROUNDING)
    return MOST_INSTANCES if times > MOST_INSTANCES else ceil(times) - 1


def executed(
    question: SizeQuestion, chosen: Chosen, runs: Runs, say: Say = lambda _: None, below_usd_per_hour: float = inf
) -> Chosen:
    """The pool run, with as many instances as the runs show to be needed.

    Each size is run until the whole 95 % intervals are on one side of the promises, or `MOST_REPLICATIONS` are made:
    first sizes from the prediction down to the least that does the rate when full, while each keeps the promises, then
    up from where none does. The least that does is run again with other seeds, as are larger ones where those do not
    bear it out.

    Args:
        question: what is asked.
        chosen: a pool as predicted.
        runs: of its way.
        say: is told what is run.
        below_usd_per_hour: rent that one instance and no fleet of interest reaches.

    Returns:
        The fewest instances around the prediction whose runs keep the promises; where none does the fewest that is
        undecided, else the last that was tried.
    """
    least = runs.least_instances
    most = max(_most_instances(chosen.way.usd_per_hour, below_usd_per_hour), least)
    seen = dict(_fewer(runs, min(max(chosen.predicted.n_instances, least), most), least, say))
    n = min(seen)
    tried = [*seen.items(), *_more(runs, n if seen[n].holds else n + 1, most, say)]
    n, found = tried[-1]
    undecided = {size: one for size, one in tried if are_undecided(one.promises)}
    if not found.holds and undecided:
        n, found = min(undecided.items())
    cheaper = tuple(size for size in sorted(undecided) if size < n)
    return Chosen(chosen.way, predicted(question, chosen.way, n), found, runs.seed, cheaper)


def _fewer(runs: Runs, n: int, least: int, say: Say) -> Iterator[tuple[int, Executed]]:
    """Sizes from one down, while each keeps the promises."""
    for size in range(n, max(n - MOST_STEPS, least - 1), -1):
        say(f"running {size} colocated instances")
        yield size, (found := runs.watched(size, 0, FIRST_LOOK))
        if not found.holds:
            return


def _more(runs: Runs, n: int, most: int, say: Say) -> Iterator[tuple[int, Executed]]:
    """Sizes from one up, each with other seeds, until one keeps the promises."""
    for step in range(MOST_STEPS):
        if n > most:
            return
        say(f"running {n} colocated instances with other seeds")
        yield n, (found := runs.watched(n, (1 + step) * MOST_REPLICATIONS))
        if found.holds or not runs.is_long_enough:
            return
        n += max(1, n // 50, n // 8 if runs.question.recorded is not None and _misses_by_far(found) else 0)
