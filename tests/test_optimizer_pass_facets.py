"""Facets of passes: below the seconds of every pass that an instance can make, so that no run of any mix is faster."""

from math import inf
from typing import Any, NamedTuple

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.colocated_pools import Colocated
from planner.executor.engine import EngineLoad, engine_run
from planner.executor.systems import system
from planner.optimizer.pass_facets import PassFacet, PassRegion, RequestWork, pass_facet
from planner.roofline import RequestKinds
from tests.colocated_cases import chat, fleet
from tests.engine_cases import linear_times
from tests.engine_reference import interpolated

SETUPS = [
    ("llama-3.1-8b", "h100-sxm", "tp=1,ep=1,dp=1,pp=1"),
    ("llama-3.1-8b", "h20-96gb", "tp=1,ep=1,dp=1,pp=1"),
    ("qwen3-32b", "h200-sxm", "tp=2,ep=1,dp=1,pp=1"),
    ("kimi-linear-48b", "h100-sxm", "tp=2,ep=1,dp=1,pp=1"),
    ("kimi-linear-48b", "h20-96gb", "tp=4,ep=1,dp=1,pp=1"),
    ("gpt-oss-120b", "h100-sxm", "tp=2,ep=1,dp=1,pp=1"),
    ("deepseek-v3", "h200-sxm", "tp=1,ep=8,dp=8,pp=1"),
]
PAIRS = [((2000, 10), (2000, 600)), ((30_000, 200), (100, 300)), ((1000, 200), (1000, 200)), ((500, 20), (8000, 900))]
N = 4000


class Case(NamedTuple):
    """A mix on an instance."""

    one: Colocated
    region: PassRegion
    work: RequestWork
    load: EngineLoad


def region_of(one: Colocated, prompts: Any, outputs: Any) -> PassRegion:
    rules = one.rules(prompts, outputs)
    limit = inf if one.engine.tpot_s is None else one.engine.tpot_s
    longest = 0 if rules.splits_prompts else int((prompts + outputs).max())
    budget = rules.tokens_per_pass if rules.splits_prompts else max(rules.tokens_per_pass, longest + rules.most_running)
    sizes = float(budget * rules.n_replicas), rules.room_tokens * rules.n_replicas
    return PassRegion(one.times(prompts, outputs, rules), *sizes, rules.is_prefill_first, limit)


def work_of(prompt: int, output: int) -> RequestWork:
    return RequestWork.of(RequestKinds(np.array([float(prompt)]), np.ones(1), float(output), float(output**2)))


def drawn(seed: int) -> Case | None:
    """An instance, perhaps with a limit on the time per token, and two kinds of requests; None where it holds none."""
    draw = np.random.default_rng(seed)
    model, chip, layout = SETUPS[draw.integers(len(SETUPS))]
    n = int(np.prod([int(part.split("=")[1]) for part in layout.split(",") if part[:2] != "ep"]))
    changes: dict[str, Any] = {
        "model.profile": model,
        "pools.both.hardware": chip,
        "pools.both.layout": layout,
        "pools.both.accelerators_per_instance": n,
        "sites.home.accelerators": {chip: 64},
    }
    if draw.random() < 0.4:
        changes["pools.both.tpot_ms"] = float(draw.choice([15.0, 25.0, 40.0]))
    kinds = PAIRS[draw.integers(len(PAIRS))]
    share = float(draw.choice([0.5, 0.1, 0.9]))
    which = (draw.random(N) < share).astype(int)
    try:
        plan = fleet()
        both = plan.pools[0].model_copy(update={"layout": layout, "n_accelerators": n})
        one = system(chat(changes), plan.model_copy(update={"pools": (both,)})).colocated[0]
        prompts, outputs = (np.array([kind[i] for kind in kinds])[which] for i in (0, 1))
        region = region_of(one, prompts, outputs)
    except InputError:
        return None
    shares = np.bincount(which, minlength=2) / N
    works = [work_of(*kind) for kind in kinds]
    work = RequestWork(*(float(sum(s * w[i] for s, w in zip(shares, works, strict=True))) for i in range(4)))
    return Case(one, region, work, EngineLoad(prompts, outputs))


def excess(region: PassRegion, facet: PassFacet, draw: np.random.Generator, n: int) -> float:
    """The most that a facet is above the seconds of passes drawn at random, over them."""
    times, worst = region.times, -inf
    for _ in range(n):
        spread = float(draw.choice(times.spread))
        most_tokens = min(region.budget_tokens / times.spread[-1], times.tokens[-1])
        tokens = float(np.floor(np.exp(draw.uniform(0, np.log(most_tokens)))))
        keys = float(np.exp(draw.uniform(0, np.log(times.keys[-1]))))
        context = float(np.exp(draw.uniform(np.log(times.contexts[0]), np.log(times.contexts[-1]))))
        most = min(len(times.decode_s) - 1, region.room_tokens / context)
        sequences = int(np.exp(draw.uniform(0, np.log(max(most, 1)))))
        if draw.random() < 0.3:
            tokens = 0.0
        elif region.is_prefill_first:
            sequences = 0
        else:
            sequences = int(min(sequences, max(region.budget_tokens - spread * tokens, 0.0)))
        seconds = interpolated(times, tokens, spread, keys, sequences, context)
        work = RequestWork(spread * tokens, spread * tokens * keys, float(sequences), float(sequences) * context)
        if tokens + sequences > 0:
            worst = max(worst, facet.seconds(work) / seconds - 1)
    return worst


def test_seconds_that_are_a_sum_are_their_own_facet() -> None:
    """But for the part of every pass: what is left of it is spread over the fullest one."""
    region = PassRegion(linear_times(), 8192.0, 1e9)
    work = work_of(1000, 100)
    facet = pass_facet(region, work)
    assert excess(region, facet, np.random.default_rng(0), 500) <= 1e-9
    assert 1e-5 * work.new_tokens + 1e-4 * work.steps < facet.seconds(work)
    assert facet.seconds(work) < 0.01 * 100 + 1e-5 * 1000 + 1e-9 * work.keys + 1e-4 * 99 + 1e-8 * work.context_tokens


def test_a_facet_is_the_best_for_its_own_mix() -> None:
    case = drawn(1)
    assert case is not None
    mixes = [work_of(2000, 10), work_of(2000, 600), work_of(100, 300)]
    facets = [pass_facet(case.region, mix) for mix in mixes]
    for i, mix in enumerate(mixes):
        seconds = [facet.seconds(mix) for facet in facets]
        assert seconds[i] >= max(seconds) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_facets_lie_below_every_pass(seed: int) -> None:
    case = drawn(40_000 + seed)
    if case is None:
        return
    free = PassRegion(**{**vars(case.region), "tpot_s": inf})
    assert excess(free, pass_facet(free, case.work), np.random.default_rng(seed), 300) <= 1e-9


def check_no_run_is_faster(seed: int) -> float | None:
    """Seconds that instances were busy over what the facet has for the same requests, at the least of some runs.

    However many requests are inside: passes of any run within the limit on the time per token take no less.
    """
    case = drawn(seed)
    if case is None:
        return None
    one, load = case.one, case.load
    rules = one.rules(load.prompt_tokens, load.output_tokens)
    least_s, limit_s = N * pass_facet(case.region, case.work).seconds(case.work), case.region.tpot_s
    ratios = []
    for in_flight in sorted({max(one.most_inside // k, 1) for k in (1, 2, 4, 8, 32)} | {2 * one.most_inside}):
        asked = EngineLoad(load.prompt_tokens, load.output_tokens, concurrency=in_flight)
        found = engine_run(rules, case.region.times, asked)
        steps = found.output_tokens - 1
        if np.nansum(found.tpot_s * steps) <= limit_s * steps.sum():
            ratios.append(found.busy_s / least_s)
    assert all(ratio >= 1 - 1e-6 for ratio in ratios), (seed, ratios)
    return min(ratios, default=None)


def test_no_run_of_a_mix_is_faster_than_its_facet_allows() -> None:
    """And a run that is kept full comes near: so does the bound of what a fleet serves."""
    found = [ratio for seed in range(40_100, 40_110) if (ratio := check_no_run_is_faster(seed)) is not None]
    assert len(found) >= 5
    assert np.median(found) < 1.2


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(300))
def test_no_run_of_300_drawn_mixes_is_faster(seed: int) -> None:
    check_no_run_is_faster(41_000 + seed)


def test_a_limit_on_the_time_per_token_never_lets_more_be_served() -> None:
    case = drawn(1)
    assert case is not None
    seconds = []
    for limit_s in (inf, 0.1, 0.03, 0.02, 0.015):
        region = PassRegion(**{**vars(case.region), "tpot_s": limit_s})
        seconds.append(pass_facet(region, case.work).seconds(case.work))
    assert seconds == sorted(seconds)
    assert seconds[-1] > seconds[0]
