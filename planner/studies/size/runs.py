"""Runs of a colocated pool pass by pass, and the fewest instances that they show to be needed."""

from math import ceil, inf, nan

import numpy as np

from planner.executor.arrivals import poisson_s
from planner.executor.draws import Draws, contents
from planner.executor.engine.run import EngineLoad, EngineRules, PassTimes, engine_run
from planner.roofline import linear_memory
from planner.studies.fidelity.pass_times import Reach, pass_times
from planner.studies.size.colocated import Chosen, Executed, Figure, Say, predicted
from planner.studies.size.question import SizeQuestion
from planner.studies.size.ways import MOST_RUNNING, ColocatedWay

WARM_UP, COOL_DOWN = 0.1, 0.05
"""Parts of the arrivals that do not count."""
STAYS = 12.0
"""Mean stays of a request that arrivals last at least."""
MOST_REQUESTS = 400_000
"""Of a replication."""
MOST_STEPS = 8
"""Sizes that are run to find the least."""


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

    def run(self, n_instances: int, replications: int, first: int = 0) -> Executed:
        """Replications with other seeds each."""
        ttft, tpot, counted = [], [], 0
        for k in range(first, first + replications):
            load = self._load(Draws(self.seed, k))
            rules = self._rules(load)
            if self.times is None:
                self.times = pass_times(self.way.served, self._reach(load, rules))
            run = engine_run(rules, self.times, load, n_instances)
            counts = slice(int(self.n * WARM_UP), max(int(self.n * (1 - COOL_DOWN)), 1))
            ttft.append(_quantile(run.ttft_s[counts], self.question.percentile, refused=True))
            tpot.append(_quantile(run.tpot_s[counts], self.question.percentile, refused=False))
            counted += counts.stop - counts.start
        return Executed(Figure.of(ttft), Figure.of(tpot), counted)

    def _load(self, draws: Draws) -> EngineLoad:
        q, factors = self.question, self.way.served.factors
        asked = contents(q.workload, self.n, "size", draws, q.directory, q.data_dirs)
        arrivals = poisson_s(self.n, q.rate_req_per_s, draws.generator)
        return EngineLoad(
            asked.total_tokens,
            asked.output_tokens,
            factors.request_overhead_s,
            factors.prompt_token_s * asked.total_tokens.astype(float),
            arrivals_s=arrivals,
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


def _quantile(times_s: np.ndarray, percentile: float, refused: bool) -> float:
    """A percentile of times; refused requests count as never answered, those of one token not at all."""
    found = np.where(np.isnan(times_s), inf, times_s) if refused else times_s[~np.isnan(times_s)]
    if not len(found):
        return nan
    return float(np.quantile(found, percentile / 100, method="higher"))


def executed(
    question: SizeQuestion, chosen: Chosen, runs: Runs, replications: int, say: Say = lambda _: None
) -> Chosen:
    """The pool run, with as many instances as the runs show to be needed.

    Args:
        question: what is promised.
        chosen: a pool as predicted.
        runs: of its way.
        replications: of the pool that is answered; others are tried in one run each.
        say: is told what is run.

    Returns:
        The fewest instances around the prediction whose runs keep the promises; the last tried where none does.
    """
    n, floor = chosen.predicted.n_instances, 1
    for _ in range(MOST_STEPS):
        say(f"running {n} colocated instances")
        tried = runs.run(n, 1)
        if tried.keeps(question, surely=False):
            if n - 1 < floor:
                break
            n -= 1
        else:
            floor = n + 1
            n = floor
            break
    for step in range(MOST_STEPS):
        found = runs.run(n, replications, 1)
        if found.keeps(question) or step == MOST_STEPS - 1:
            break
        n += max(1, n // 50)
    return Chosen(chosen.way, predicted(question, chosen.way, n), found, runs.seed)
