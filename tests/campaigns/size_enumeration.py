"""Whether `planner size` finds the cheapest fleet that its own predictions allow: every layout and size is tried.

    python -m tests.campaigns.size_enumeration --seed 1 --count 40

draws questions of `planner size` and asks them without runs. Beside it, every layout of `roofline.layouts` and every
size of passes is timed for itself: a colocated pool of n instances by `colocated_queue`, a prefill pool by `mgc_wait`
and its prefill times, a decode pool by its largest batch. Fleets of one layout in each role that cost less than the
answer, by more than its stated gap, are planned again with layouts and sizes as found: the answer is too dear where
such a plan is predicted to keep the promises as well. An answer is too cheap where its colocated pool breaks them by
this account. `size_enumeration.md` holds what it gave.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil, inf
from time import process_time
from typing import NamedTuple

import numpy as np

from planner.errors import PlannerError
from planner.optimizer.batch_loads import TOKENS_PER_PASS
from planner.optimizer.network.batches import BUSIEST, Batch, MixPart, batch_of
from planner.optimizer.service_times import Decoded, check_memory, service_times
from planner.promises.verified import verified_fleet
from planner.queueing.colocated import colocated_queue
from planner.queueing.service import Service
from planner.queueing.ttft import Path, Ttft
from planner.queueing.waits import mgc_wait
from planner.results.plan import Plan
from planner.roofline import colocated_engine
from planner.roofline.layouts import layouts
from planner.scenario import Price, Scenario, instance_spec, requests_of
from planner.studies.size import KINDS, SizeQuestion, sized
from planner.workload.mix import RequestMix
from planner.workload.spec import Workload
from tests.campaigns.kept_promises import SEEDS_APART, SERVED_HARDWARE, SERVED_MODELS, served_lengths
from tests.campaigns.random_scenarios import Random

TOLERANCE = 1e-3
"""How much dearer an answer may be than the cheapest fleet, beyond its stated gap [-]."""
TIME_LIMIT_S = 60.0
N_KINDS = 1024
MOST_PLANNED = 12
"""Cheaper fleets that are planned again."""
MODELS = (*SERVED_MODELS, "kimi-linear-48b", "deepseek-v3", "glm-4.5")


class Fleet(NamedTuple):
    """Pools of one layout in each role, predicted to keep the promises."""

    usd_per_hour: float
    sizes: Mapping[str, tuple[int, str, int | None]]
    """Instances, layout and tokens per pass, by pool."""


def question_of(seed: int) -> SizeQuestion:
    """A question of `planner size`; all depends on the seed."""
    draw = Random(np.random.default_rng([5, seed]))
    chips = [str(name) for name in draw.rng.permutation(SERVED_HARDWARE)[: draw.one_of(1, 1, 2)]]
    prompt, promises = draw.spread(200, 16_000), draw.one_of("none", "ttft", "tpot", "both", "both")
    lengths = {"lengths": served_lengths(draw, prompt), "output_lengths": served_lengths(draw, draw.spread(50, 800))}
    return SizeQuestion(
        model=draw.one_of(*MODELS),
        hardware=tuple(chips),
        rate_req_per_s=draw.spread(1, 80),
        workload=Workload.model_validate(lengths),
        prices={chip: Price.model_validate(draw.price()) for chip in chips},
        ttft_s=draw.spread(1, 8) * (0.1 + prompt / 8000) if promises in ("ttft", "both") else None,
        tpot_s=draw.spread(0.012, 0.08) if promises in ("tpot", "both") else None,
        percentile=draw.one_of(50.0, 90.0, 95.0, 99.0),
    )


def fleets(question: SizeQuestion, kind: str) -> Iterator[Fleet]:
    """Fleets of one kind of serving, of every choice of layouts the smallest that keeps the promises."""
    scenario = question.scenario(KINDS[kind])
    (mix,) = (requests_of(scenario, name, ()) for name in scenario.workloads)
    if kind == "colocated":
        yield from _together(question, scenario, mix)
        return
    for p, d in product(_prefill(question, scenario, mix), list(_decode(question, scenario, mix))):
        yield Fleet(p.usd_per_hour + d.usd_per_hour, {**p.sizes, **d.sizes})


def _layouts(scenario: Scenario, role: str) -> Iterator[tuple[str, str]]:
    for key, pool in scenario.pools.items():
        if pool.role == role:
            for layout in layouts(scenario.profile_of(pool.model), scenario.hardware_of(pool)):
                yield key, str(layout)


def _usd(scenario: Scenario, key: str, layout: str) -> float:
    """Rent of an instance [USD/h]."""
    pool = scenario.pools[key].on_layout(layout)
    return (scenario.prices[pool.hardware].usd_per_accelerator_hour or 0.0) * pool.accelerators_per_instance


def _together(question: SizeQuestion, scenario: Scenario, mix: RequestMix) -> Iterator[Fleet]:
    for key, layout in _layouts(scenario, "colocated"):
        for tokens, batch in batches(scenario, key, layout, mix):
            each = batch.capacity_req_per_s
            least = max(ceil(question.rate_req_per_s / each - 1e-9), 1) if each > 0 else 1
            for n in range(least, 2 * least + 4) if each > 0 else ():
                if ttft_s(question, batch, n) <= (question.ttft_s or inf):
                    yield Fleet(n * _usd(scenario, key, layout), {key: (n, layout, tokens)})
                    break


def batches(scenario: Scenario, key: str, layout: str, mix: RequestMix) -> Iterator[tuple[int, Batch]]:
    """Batches of a colocated instance of one layout, by tokens per pass; none where it cannot be."""
    try:
        engine = colocated_engine(instance_spec(scenario, scenario.pools[key].on_layout(layout)))
        check_memory(key, engine.served)
    except PlannerError:
        return
    served = engine.served
    if served.layout.pp_size > 1 or mix.longest_tokens() > served.longest_request:
        return
    for tokens in (served.chunk_tokens, *(t for t in TOKENS_PER_PASS if t < served.chunk_tokens)):
        of_pass = replace(engine, served=replace(served, chunk_tokens=tokens))
        yield tokens, batch_of([mix], of_pass, (MixPart(0, None, 0.0, 1.0),), ())


def ttft_s(question: SizeQuestion, batch: Batch, n: int) -> float:
    """Time to first token at the percentile of n colocated instances; infinite without a steady state [s]."""
    if question.ttft_s is None:
        return 0.0
    if question.rate_req_per_s > BUSIEST * n * batch.capacity_req_per_s:
        return inf
    try:
        replicas = n * batch.load.n_replicas  # each with requests of its own
        queue = colocated_queue(batch.load.loop, batch.load.prompts, question.rate_req_per_s, replicas)
    except ValueError:
        return inf
    return queue.ttft.quantile_s(question.percentile / 100) + batch.load.before_s


def _prefill(question: SizeQuestion, scenario: Scenario, mix: RequestMix) -> Iterator[Fleet]:
    """Prefill pools, as if decode had a place for every request at once."""
    total, cached, weights = mix.atoms(N_KINDS)
    for key, layout in _layouts(scenario, "prefill"):
        on = scenario.pools[key].on_layout(layout)
        try:
            rates = service_times(scenario, key, on, scenario.hardware_of(on), Decoded.of([(1.0, mix)]))
        except PlannerError:
            continue
        if rates.prefill is None or mix.longest_tokens() > rates.longest_tokens:
            continue
        seconds, places = np.asarray(rates.prefill.seconds(total, cached)), rates.prefill.places
        busy = question.rate_req_per_s * float(seconds @ weights) / places
        for n in range(max(ceil(busy - 1e-9), 1), 2 * ceil(busy) + 4):
            if _prefilled_s(question, seconds, weights, n * places, busy / n) <= (question.ttft_s or inf):
                yield Fleet(n * _usd(scenario, key, layout), {key: (n, layout, None)})
                break


def _prefilled_s(question: SizeQuestion, seconds: np.ndarray, weights: np.ndarray, places: int, busy: float) -> float:
    if question.ttft_s is None:
        return 0.0
    if busy > BUSIEST:
        return inf
    wait = mgc_wait(places, question.rate_req_per_s, Service.of(seconds, weights))
    return Ttft.of([Path.of(1.0, seconds, weights, wait)]).quantile_s(question.percentile / 100)


def _decode(question: SizeQuestion, scenario: Scenario, mix: RequestMix) -> Iterator[Fleet]:
    """Decode pools with room for the rate, whatever requests wait for a place."""
    for key, layout in _layouts(scenario, "decode"):
        on = scenario.pools[key].on_layout(layout)
        try:
            rates = service_times(scenario, key, on, scenario.hardware_of(on), Decoded.of([(1.0, mix)]))
        except PlannerError:
            continue
        if rates.decode is None or mix.longest_tokens() > rates.longest_tokens:
            continue
        each_s = rates.decode.seconds_per_request(mix.mean_output_tokens)
        n = max(ceil(question.rate_req_per_s * each_s - 1e-9), 1)
        yield Fleet(n * _usd(scenario, key, layout), {key: (n, layout, None)})


def planned(question: SizeQuestion, kind: str, fleet: Fleet) -> Plan | None:
    """The plan of just this fleet; None where it is not predicted to keep the promises."""
    scenario = question.scenario(KINDS[kind])
    changes: dict[str, object] = {f"pools.{key}": None for key in scenario.pools if key not in fleet.sizes}
    for key, (n, layout, tokens) in fleet.sizes.items():
        changes |= {f"pools.{key}.n_instances": n, f"pools.{key}.layouts": [layout]}
        changes |= {} if tokens is None else {f"pools.{key}.tokens_per_pass": tokens}
    try:
        return verified_fleet(scenario.varied(changes), None, (), TIME_LIMIT_S, lambda _: None, has_ways_out=False).plan
    except PlannerError:
        return None


def too_dear(question: SizeQuestion, kind: str, answer: Plan | None) -> tuple[Fleet, float] | None:
    """The cheapest fleet that shows an answer of a kind too dear, and by what part of its cost; None where none does.

    Args:
        question: what was asked.
        kind: of serving.
        answer: the best fleet of that kind; None where none was found.
    """
    usd = inf if answer is None else answer.cost.usd_per_hour or 0.0
    gap = 0.0 if answer is None else answer.gap
    cheaper = (one for one in fleets(question, kind) if one.usd_per_hour < usd * (1 - gap) * (1 - TOLERANCE))
    for one in sorted(cheaper, key=lambda one: one.usd_per_hour)[:MOST_PLANNED]:
        if planned(question, kind, one) is not None:
            return one, 1 - one.usd_per_hour / usd if answer else 1.0
    return None


def too_cheap(question: SizeQuestion, answer: Plan | None) -> str:
    """What a colocated answer of one pool breaks by this account; empty where it keeps its promises."""
    used = [] if answer is None else [pool for pool in answer.pools if pool.n_instances]
    if len(used) != 1 or used[0].layout is None:
        return ""
    (pool,), scenario = used, question.scenario(("colocated",))
    (mix,) = (requests_of(scenario, name, ()) for name in scenario.workloads)
    batch = dict(batches(scenario, pool.key, pool.layout or "", mix))[pool.tokens_per_pass or 0]
    if question.rate_req_per_s > pool.n_instances * batch.capacity_req_per_s * (1 + TOLERANCE):
        return "over its capacity"
    seen_s = ttft_s(question, batch, pool.n_instances)
    return f"TTFT {seen_s:.3g} of {question.ttft_s:.3g} s" if seen_s > (question.ttft_s or inf) * 1.01 else ""


def outcome(seed: int) -> str:
    """What became of one question."""
    question = question_of(seed)
    try:
        found = sized(question, None, TIME_LIMIT_S).size
    except PlannerError as error:
        answers: dict[str, Plan | None] = dict.fromkeys(KINDS)
        told = [f"no answer: {type(error).__name__}"]
    else:
        answers, told = {"colocated": found.colocated, "disaggregated": found.disaggregated}, []
    for kind, answer in answers.items():
        dear = too_dear(question, kind, answer)
        if dear is not None:
            told.append(f"{kind} {dear[1]:.1%} too dear: {dict(dear[0].sizes)} at {dear[0].usd_per_hour:.4g} USD/h")
    cheap = too_cheap(question, answers["colocated"])
    return "; ".join([*told, *([f"too cheap: {cheap}"] if cheap else [])]) or "as enumerated"


def main() -> None:
    """Print every question, and how many there are of each outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    asked = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for i in range(asked.count):
        seed, began = asked.seed * SEEDS_APART + i, process_time()
        found, one = outcome(seed), question_of(seed)
        outcomes[found.partition(":")[0]] += 1
        what = f"{one.model} on {','.join(one.hardware)}, {one.rate_req_per_s:g} req/s"
        print(f"{seed}  {what:<60} {process_time() - began:>6.1f} CPU s  {found}", flush=True)
    print(", ".join(f"{name} {n}" for name, n in outcomes.most_common()))


if __name__ == "__main__":
    main()
