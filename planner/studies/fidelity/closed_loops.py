"""Closed loops as benchmarks run them, pass by pass through the executor's engine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.executor.engine import EngineLoad, EngineRun, engine_run
from planner.executor.passes import EngineRules
from planner.profiles.stack import HarnessSettings
from planner.roofline import InstanceModel, Reach, Stack, linear_memory, pass_times, settings_on
from planner.roofline.engine_memory import MOST_RUNNING
from planner.roofline.stack import shared_tokens
from planner.studies.fidelity.cases import PointCase
from planner.studies.fidelity.loads import case_model, pass_key

PROMPTS_PER_SLOT = 10
"""Requests of a run over those in flight, as InferenceX and AIConfigurator's runs have: the first arrive together."""
SHORTEST_FRACTION = 0.8
SEED = 0


@dataclass(frozen=True, eq=False)
class Loop:
    """One case as an engine meets it."""

    case: PointCase
    served: InstanceModel
    rules: EngineRules
    load: EngineLoad

    @property
    def reach(self) -> Reach:
        """Its largest passes: whole prompts may exceed what a pass takes of several."""
        longest = int(self.load.prompt_tokens.max())
        return Reach(
            tokens_per_pass=max(self.rules.tokens_per_pass, 0 if self.rules.splits_prompts else longest),
            longest_prompt=longest,
            longest_context=int((self.load.prompt_tokens + self.load.output_tokens).max()),
            shortest_prompt=int(self.load.prompt_tokens.min()),
            most_running=min(self.load.concurrency or 1, self.rules.most_running * self.rules.n_replicas),
        )


def is_run(case: PointCase) -> bool:
    """True if a case is a closed loop of prompts and answers on one kind of instance, which is run; else it has means
    in closed form, as has one with drafted tokens: the engine's passes make one token of each sequence."""
    point = case.point
    return point.is_closed_loop and not case.is_disaggregated and point.output_tokens > 1 and case.speculation is None


def run_times(cases: Sequence[PointCase], stack: Stack) -> tuple[NDArray[np.float64], ...]:
    """TTFT, TPOT and throughput of closed loops under one stack.

    Args:
        cases: closed loops, see `is_run`.

    Returns:
        Means over a run's requests [s], and tokens generated per second and accelerator; copies of a point are one run.
    """
    found: dict[tuple[object, ...], tuple[float, ...]] = {}
    groups: dict[tuple[object, ...], dict[tuple[object, ...], Loop]] = {}
    for case in cases:
        key = (case.model.name, case.hardware.name, case.precision, case.point.kv_precision, case.decode_layout)
        groups.setdefault(key, {}).setdefault(pass_key(case), loop_of(case, stack))
    for loops in groups.values():
        times = pass_times(next(iter(loops.values())).served, _joint([loop.reach for loop in loops.values()]))
        found |= {key: _reported(loop, engine_run(loop.rules, times, loop.load)) for key, loop in loops.items()}
    return tuple(map(np.array, zip(*(found[pass_key(case)] for case in cases), strict=True)))


def _reported(loop: Loop, run: EngineRun) -> tuple[float, float, float]:
    rate = float(run.output_tokens.sum() / np.nanmax(run.done_s))
    per_accelerator = rate / loop.case.decode_layout.n_accelerators
    return float(np.mean(run.ttft_s)), float(np.nanmean(run.tpot_s)), per_accelerator


def _joint(reaches: Sequence[Reach]) -> Reach:
    """The least reach that holds the passes of all."""
    return Reach(
        tokens_per_pass=max(r.tokens_per_pass for r in reaches),
        longest_prompt=max(r.longest_prompt for r in reaches),
        longest_context=max(r.longest_context for r in reaches),
        shortest_prompt=min(r.shortest_prompt for r in reaches),
        most_running=max(r.most_running for r in reaches),
    )


def loop_of(case: PointCase, stack: Stack) -> Loop:
    """A closed loop on one of the instances that share it."""
    harness = stack.run_as.harness(case.point.source)
    served = replace(case_model(case, stack.run_as, "decode", stack.derated), factors=stack.factors)
    concurrency = max(round((case.point.concurrency or 1.0) / case.n_prefill_workers), 1)
    prompts, outputs = _lengths(case, harness, concurrency)
    factors = stack.factors
    harness_s = stack.run_as.request_s(case.point.source)
    delays_s = factors.request_overhead_s * _scattered(len(prompts)) + harness_s
    load = EngineLoad(prompts, outputs, delays_s, factors.prompt_token_s * prompts.astype(float), concurrency)
    return Loop(case, served, engine_rules(case, stack, served, load, harness), load)


def _scattered(n: int) -> NDArray[np.float64]:
    """Exponential quantiles of mean 1 in random order.

    Equal delays would keep requests in step for ever. A host's latencies scatter, and let them fall out of it.
    """
    quantiles = -np.log1p(-(np.arange(n) + 0.5) / n)
    return np.random.default_rng(SEED).permutation(quantiles / quantiles.mean())


def _lengths(case: PointCase, harness: HarnessSettings | None, concurrency: int) -> tuple[NDArray[np.int_], ...]:
    """Prompts and answers of a run: uniform from a fraction of the nominal length up to it."""
    stated = (case.point.length_ratio, harness.shortest_fraction if harness else None, SHORTEST_FRACTION)
    shortest = next(value for value in stated if value is not None)
    draw = np.random.default_rng(SEED)
    n = concurrency if case.point.is_batch else PROMPTS_PER_SLOT * concurrency
    nominal = np.array([case.point.input_tokens, case.point.output_tokens])
    longest = nominal * 2 / (1 + shortest) if case.point.lengths_are_means else nominal
    drawn = draw.uniform(shortest, 1.0, (2, n)) * longest[:, None]
    prompts, outputs = np.maximum(np.rint(drawn), [[1], [2]]).astype(int)  # of one token there is no TPOT
    return prompts, outputs


def engine_rules(
    case: PointCase, stack: Stack, served: InstanceModel, load: EngineLoad, harness: HarnessSettings | None
) -> EngineRules:
    """Rules by which an engine of the stack runs a case."""
    settings, layout = stack.settings, case.decode_layout
    usual = settings_on(settings, layout, case.hardware).chunk_tokens
    told = _tokens_per_pass(case, harness)
    room, fixed = memory(served, load)
    return EngineRules(
        tokens_per_pass=usual if told is None else shared_tokens(told, settings, layout),
        room_tokens=room,
        sequence_tokens=fixed,
        n_replicas=served.n_places,
        most_running=case.point.max_num_seqs
        or (harness and harness.most_running)
        or settings.most_running
        or MOST_RUNNING,
        is_prefill_first=settings.prefill_first is True,
        splits_prompts=settings.splits_prompts is not False,
        reserves_output=settings.reserves_output,
        polling_passes=_polling_passes(harness, load, served.n_places),
    )


def _tokens_per_pass(case: PointCase, harness: HarnessSettings | None) -> int | None:
    """Tokens of a pass, as a benchmark tells the engine; None: it tells nothing."""
    if harness is None:
        return None
    if harness.tokens_beyond_prompt is not None:
        return int(case.point.input_tokens + (case.point.concurrency or 1.0) + harness.tokens_beyond_prompt)
    return harness.tokens_per_pass


def _polling_passes(harness: HarnessSettings | None, load: EngineLoad, n_replicas: int) -> int:
    if harness is None:
        return 1
    concurrency = load.concurrency or 1
    if n_replicas > 1:
        each = passes_until_each(n_replicas, concurrency, float(load.output_tokens.mean()))
        return max(1, min(harness.replica_wait_passes or 1, round(each)))
    return next((rule.passes for rule in reversed(harness.polling) if concurrency >= rule.from_concurrency), 1)


def passes_until_each(n_replicas: int, concurrency: int, output_tokens: float) -> float:
    """Decode steps until each attention replica has had a request end, and so a successor to prefill.

    Equation:
        R (1 + 1/2 + ... + 1/R) L / C: C of L steps each end C / L requests a step, on any replica alike

    Source:
        Feller 1968, An Introduction to Probability Theory, section IX.3 (coupon collector).

    >>> passes_until_each(1, 4, 100.0), passes_until_each(2, 4, 100.0)
    (25.0, 75.0)
    """
    visits = n_replicas * sum(1 / k for k in range(1, n_replicas + 1))
    return visits * output_tokens / concurrency


def memory(served: InstanceModel, load: EngineLoad) -> tuple[float, float]:
    """Room of a replica, and what a sequence takes of it whatever its length.

    One request at least fits, as it was measured; see `linear_memory`.

    Returns:
        Both [tokens].
    """
    longest = float((load.prompt_tokens + load.output_tokens).max())
    room, fixed = linear_memory(served, float(max(load.prompt_tokens.min() // 2, 1)), longest)
    return max(room, fixed + longest), fixed
