"""Runs of a colocated pool pass by pass, and the fewest instances that they show to be needed."""

from collections.abc import Sequence
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from planner.executor.arrivals import poisson_s, recorded_s
from planner.executor.confidence import Batches, Floats, Stratum, quantile_interval, quantiles
from planner.executor.draws import Draws, contents, trace_start
from planner.executor.engine.run import EngineLoad, EngineRules, PassTimes, engine_run
from planner.executor.pass_times import Reach, pass_times
from planner.results import Promise
from planner.roofline import linear_memory
from planner.roofline.engine_memory import MOST_RUNNING
from planner.studies.promises import are_undecided, promise
from planner.studies.size.colocated import TPOT, TTFT, Chosen, Executed, Say, predicted
from planner.studies.size.question import SizeQuestion
from planner.studies.size.ways import ColocatedWay

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

    def _times(self, n_instances: int, replication: int) -> Times:
        """Seconds to the first token, and per token after it, of the requests of a replication that count."""
        load = self._load(Draws(self.seed, replication))
        rules = self._rules(load)
        if self.times is None:
            self.times = pass_times(self.way.served, self._reach(load, rules))
        run = engine_run(rules, self.times, load, n_instances)
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

    def _load(self, draws: Draws) -> EngineLoad:
        q, factors = self.question, self.way.served.factors
        asked = contents(q.workload, self.n, "size", draws, q.directory, q.data_dirs)
        if (trace := q.recorded) is None:
            arrivals_s = poisson_s(self.n, q.rate_req_per_s, draws.generator)
        else:
            start = trace_start(trace.n_requests, "size", draws)
            arrivals_s = recorded_s(self.n, q.rate_req_per_s, trace.arrival_s, start)
        return EngineLoad(
            asked.total_tokens,
            asked.output_tokens,
            factors.request_overhead_s,
            factors.prompt_token_s * asked.total_tokens.astype(float),
            arrivals_s=arrivals_s,
        )

    def _rules(self, load: EngineLoad) -> EngineRules:
        settings, served = self.question.software.settings, self.way.served
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


def executed(question: SizeQuestion, chosen: Chosen, runs: Runs, say: Say = lambda _: None) -> Chosen:
    """The pool run, with as many instances as the runs show to be needed.

    Each size is run until the whole 95 % intervals are on one side of the promises, or `MOST_REPLICATIONS` are made:
    first sizes from the prediction down, while each keeps the promises, then up from where none does. The least that
    does is run again with other seeds, as are larger ones where those do not bear it out.

    Args:
        question: what is asked.
        chosen: a pool as predicted.
        runs: of its way.
        say: is told what is run.

    Returns:
        The fewest instances around the prediction whose runs keep the promises; where none does the fewest that is
        undecided, else the last that was tried.
    """
    n, seen, undecided = chosen.predicted.n_instances, dict[int, Executed](), dict[int, Executed]()
    for step in range(MOST_STEPS):
        say(f"running {n} colocated instances")
        seen[n] = runs.watched(n, 0, FIRST_LOOK)
        undecided.update({n: seen[n]} if are_undecided(seen[n].promises) else {})
        if not seen[n].holds:
            n += 1
            break
        if n == 1 or step == MOST_STEPS - 1:
            break
        n -= 1
    for step in range(MOST_STEPS):
        say(f"running {n} colocated instances with other seeds")
        found = runs.watched(n, (1 + step) * MOST_REPLICATIONS)
        undecided.update({n: found} if are_undecided(found.promises) else {})
        if found.holds or step == MOST_STEPS - 1 or not runs.is_long_enough:
            break
        n += max(1, n // 50, n // 8 if question.recorded is not None and _misses_by_far(found) else 0)
    if not found.holds and undecided:
        n, found = min(undecided.items())
    cheaper = tuple(size for size in sorted(undecided) if size < n)
    return Chosen(chosen.way, predicted(question, chosen.way, n), found, runs.seed, cheaper)
