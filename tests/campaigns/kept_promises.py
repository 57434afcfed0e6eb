"""Whether promises that `planner optimize` calls kept are kept in long runs with other seeds.

    python -m tests.campaigns.kept_promises --seed 1 --count 200
    python -m tests.campaigns.kept_promises --seed 711 --count 200 --served --plans plans

draws scenarios that promise a percentile of TTFT: one to three sites, outputs constant to a squared variation of 20,
gaps between arrivals with a squared variation of 0.25 to 4, percentiles from the median to 99.9. With `--served` they
are of models and accelerators of the profiles: mostly colocated pools, a third of prefill and decode pools, a tenth of
networks, with promises on TTFT, TPOT or both. Each is planned with its runs, and what is called kept is run again with
other seeds. A promise is broken where the whole 95 % interval of that run lies beyond it. Plans that are kept are
validated too, and `--plans` keeps them with their scenarios. `kept_promises.md` holds what it gave.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import log
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from planner.errors import PlannerError
from planner.executor.periods import simulate_periods
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.notes import code_of
from planner.optimizer.colocated_layouts import scenario_as_run
from planner.promises.validation import validate
from planner.promises.verified import verified_plan
from planner.results.plan import Plan
from planner.results.run import RunFigures
from planner.scenario import Scenario
from planner.units import MILLI
from tests.campaigns.random_scenarios import Data, Random, network_data, one_site_data, scenario_of, toml_text

RUNS = RunQuestion(200_000, 0, most_requests=6_400_000)
"""As `planner optimize` runs plans."""
N_REQUESTS = 1_000_000
N_SCREENED = 300_000
"""Of a plan whose promise is told with room by as many."""
ROOM = 0.1
N_REPLICATIONS = 10
OTHER_SEED = 9001
VALIDATED = RunQuestion(200_000, OTHER_SEED, most_requests=1_600_000)
SERVED_MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "gpt-oss-120b", "qwen3-235b", "qwen3-next-80b")
SERVED_HARDWARE = ("h100-sxm", "h200-sxm", "a100-sxm-80gb", "h20-96gb", "mi300x", "b200-sxm", "l40s")
SERVED_LIMIT_S = 60.0
MOST = "max-throughput"
DOUBTS = (
    "colocated-by-run-alone",
    "replicas-step-together",
    "batches-without-bursts",
    "nearly-full",
    "queue-saturated",
)
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
MOST_OUTPUT_SCV = 20.0
TIME_LIMIT_S = 120.0
SEEDS_APART = 10_000


class Result(NamedTuple):
    """What became of one scenario."""

    name: str
    outcome: str
    """kept or broken, of what is called kept; else what the plan says of itself."""
    promised_s: float = 0.0
    used: float = 0.0
    """What the long run took of what is promised [-]."""
    used_low: float = 0.0
    """The lower end of its interval [-]."""
    seconds: float = 0.0
    """CPU time of the plan, runs included."""
    failed: tuple[str, ...] = ()
    """Predictions that a validation of the plan refutes."""
    doubts: tuple[str, ...] = ()
    """Codes of notes by which the plan says itself that its predictions may be off."""


def promise_data(seed: int) -> Data:
    """A question with a promise; all depends on the seed."""
    draw = Random(np.random.default_rng([3, seed]))
    objective = draw.one_of("max-throughput", "min-cost", "min-cost")
    is_network = draw.chance(0.3)
    data = network_data(seed, objective) if is_network else one_site_data(seed, False, objective, promises=False)
    workloads = [data] if "workload" in data else list(data["classes"].values())
    for holder in workloads:
        holder["workload"]["output_lengths"] = _outputs(draw)
        holder["workload"]["arrivals"] = {"kind": "gamma", "squared_cv": draw.spread(0.25, 4.0)}
    data.get("routing", {}).pop("prefill_to_decode", None)  # is planned without a promise, or as the only limit
    slowest = max(float(curve["prefill"]["seconds"][2]) for curve in data["measured"].values())
    data["slo"] = {
        "ttft_s": float(f"{slowest * draw.spread(0.5, 5.0):.4g}"),
        "ttft_percentile": draw.one_of(*PERCENTILES),
    }
    return data


def served_data(seed: int) -> Data:
    """A question about models and accelerators of the profiles, or a network; all depends on the seed."""
    draw = Random(np.random.default_rng([4, seed]))
    roles = draw.one_of(*["c"] * 10, *["pd"] * 6, *["cpd"] * 2, *["network"] * 2)
    if roles == "network":
        data = network_data(seed, "min-cost")
        data.get("routing", {}).pop("prefill_to_decode", None)
        longest_s = max(float(curve["prefill"]["seconds"][2]) for curve in data["measured"].values())
        return {**data, "slo": _promise(draw, longest_s, draw.spread(40, 90))}
    chips = [str(name) for name in draw.rng.permutation(SERVED_HARDWARE)[: draw.one_of(1, 1, 2)]]
    prompt = draw.spread(200, 16_000)
    data = {"schema": "planner.scenario/1", "name": f"served-{seed}", "objective": draw.one_of(*["min-cost"] * 6, MOST)}
    data["demand_req_per_s"] = draw.spread(2, 60)
    data["model"] = {"profile": draw.one_of(*SERVED_MODELS)}
    data["workload"] = {
        "lengths": served_lengths(draw, prompt),
        "output_lengths": served_lengths(draw, draw.spread(50, 800)),
    }
    if draw.chance(0.4):
        data["workload"]["arrivals"] = {"kind": "gamma", "squared_cv": draw.spread(0.3, 5.0)}
    data["slo"] = _promise(draw, 0.1 + prompt / 8000, draw.spread(12, 80))
    data["sites"] = {"home": {}}
    data["prices"] = {chip: draw.price() for chip in chips}
    served = {"site": "home", "service_times": "roofline", "layouts": "auto", "n_instances": "free"}
    names = {"c": "colocated", "p": "prefill", "d": "decode"}
    pools = product(map(names.__getitem__, roles), chips)
    data["pools"] = {f"{role}-{chip}": {**served, "hardware": chip, "role": role} for role, chip in pools}
    if data["objective"] == MOST:
        del data["demand_req_per_s"]
        data["sites"]["home"]["accelerators"] = {chip: draw.one_of(8, 16) for chip in chips}
    return data


def served_lengths(draw: Random, mean: float) -> Data:
    """Lengths of a mean: all alike, log-normal or of two kinds [tokens]."""
    kind, sigma = draw.one_of("constant", "lognormal", "lognormal", "empirical"), draw.between(0.2, 1.2, 2)
    if kind == "constant":
        return {"kind": kind, "tokens": round(mean)}
    if kind == "empirical":
        return {"kind": kind, "tokens": (round(mean / 2), round(2 * mean)), "weights": (0.667, 0.333)}
    mu = float(f"{log(mean) - sigma**2 / 2:.4g}")
    return {"kind": kind, "mu": mu, "sigma": sigma, "low_tokens": 16, "high_tokens": 32_000}


def _promise(draw: Random, ttft_s: float, tpot_ms: float) -> Data:
    """A promise on TTFT of a few times some seconds, on the time per token, or on both."""
    which, times = draw.one_of("ttft", "ttft", "tpot", "both", "both"), draw.spread(1.0, 8.0)
    slo: Data = {"ttft_percentile": draw.one_of(50.0, 90.0, 95.0, 99.0)}
    if which != "tpot":
        slo["ttft_s"] = float(f"{times * ttft_s:.4g}")
    return slo if which == "ttft" else {**slo, "tpot_ms": tpot_ms}


def _outputs(draw: Random) -> Data:
    """Answers of one length, or log-normal ones."""
    mean, scv = draw.spread(100, 1200), draw.one_of(0.0, draw.spread(0.1, MOST_OUTPUT_SCV))
    if scv == 0:
        return {"kind": "constant", "tokens": round(mean)}
    spread = log(1 + scv)
    mu, sigma = float(f"{log(mean) - spread / 2:.4g}"), float(f"{spread**0.5:.4g}")
    return {"kind": "lognormal", "mu": mu, "sigma": sigma, "low_tokens": 1, "high_tokens": 100_000}


def result(seed: int, time_limit_s: float = TIME_LIMIT_S, runs: RunQuestion = RUNS, n: int = N_REQUESTS) -> Result:
    """Plan one scenario with its runs, and run it again with other seeds, n requests in every period."""
    return _result(scenario_of(promise_data(seed)), time_limit_s, runs, n)[0]


def served_result(seed: int, plans: Path | None = None) -> Result:
    """The same of models and accelerators of the profiles, validated too where it is kept.

    Args:
        seed: of the question.
        plans: folder for the scenario and the plan, where it is called kept.
    """
    data = served_data(seed)
    scenario = scenario_of(data)
    found, plan = _result(scenario, SERVED_LIMIT_S, RUNS, N_REQUESTS)
    if plan is None:
        return found
    if plans is not None:
        (plans / f"{scenario.name}.toml").write_text(toml_text(data), encoding="utf-8")
        answer = json.dumps(plan.answer())
        (plans / f"{scenario.name}.json").write_text(answer, encoding="utf-8")
    doubts = tuple(code for code in DOUBTS if code in map(code_of, plan.notes))
    return found._replace(failed=tuple(refuted(scenario, plan)), doubts=doubts)


def _result(scenario: Scenario, time_limit_s: float, runs: RunQuestion, n: int) -> tuple[Result, Plan | None]:
    """What became of a scenario, and its plan where that is called kept."""
    began = process_time()
    try:
        plan = verified_plan(scenario, runs, (), time_limit_s)
    except PlannerError as error:
        why = f"no plan: {type(error).__name__}"
        return Result(scenario.name, why, seconds=process_time() - began), None
    seconds, told = process_time() - began, plan.slo_run
    if told is None:
        return Result(scenario.name, "no promise", seconds=seconds), None
    promised_s = told.promised_s or 0.0
    if told.basis != "executed":
        return Result(scenario.name, f"not run: {told.because}", promised_s, seconds=seconds), None
    if not told.holds:
        why = f"said not to be kept: {told.because}"
        return Result(scenario.name, why, promised_s, seconds=seconds), None
    used = longest(scenario, plan, n)
    return Result(scenario.name, "broken" if min(used) > 1 else "kept", promised_s, *used, seconds), plan


def longest(scenario: Scenario, plan: Plan, n: int) -> tuple[float, float]:
    """What a long run with other seeds takes of the promise nearest to breaking, and the lower end of its interval."""
    found = 0.0, 0.0
    for requests in sorted({min(N_SCREENED, n), n}):
        question = RunQuestion(requests, OTHER_SEED, 1.0, N_REPLICATIONS)
        run = simulate_periods(scenario, plan, question) if plan.periods else simulate(scenario, plan, question)[0]
        ends = [used for one in run.periods or (run,) for used in used_of(scenario, one)]
        found = max(((executed, low) for executed, low, _ in ends), key=lambda one: one[1])
        if max(high for _, _, high in ends) < 1 - ROOM:
            break
    return found


def used_of(scenario: Scenario, run: RunFigures) -> Iterator[tuple[float, float, float]]:
    """What a run takes of each promise, and the ends of its interval [-]."""
    for one in run.classes:
        slo = scenario.slo_of(one.name)
        if slo is None:
            continue
        times = ("ttft_promised_s", slo.ttft_s), ("tpot_promised_s", slo.tpot_ms and slo.tpot_ms * MILLI)
        for name, limit in times:
            seen, sure = getattr(one, name), one.intervals.get(name)
            if limit is not None and seen is not None:
                low, high = (seen, seen) if sure is None else (sure.low, sure.high)
                yield seen / limit, low / limit, high / limit


def refuted(scenario: Scenario, plan: Plan) -> Iterator[str]:
    """Predictions of the same fleet that its validation refutes, with their errors; first why it has none."""
    sizes = {f"pools.{key}.n_instances": n for key, n in plan.n_instances.items()}
    for changed in (sizes, {**sizes, "slo": None}):  # a fleet that a run found may be one that the model excludes
        asked = scenario_as_run(scenario.varied(changed), plan)
        try:
            found = validate(asked, VALIDATED, (), SERVED_LIMIT_S)
        except PlannerError as error:
            yield f"not validated: {type(error).__name__}"
            continue
        yield from (f"{one.metric} {one.relative_error:+.0%}" for one in found.checks if one.decided and not one.holds)
        return


def main() -> None:
    """Print every scenario, and how many there are of each outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--served", action="store_true")
    parser.add_argument("--plans", type=Path)
    asked = parser.parse_args()
    outcomes: Counter[str] = Counter()
    if asked.plans is not None:
        asked.plans.mkdir(parents=True, exist_ok=True)
    for i in range(asked.count):
        seed = asked.seed * SEEDS_APART + i
        found = served_result(seed, asked.plans) if asked.served else result(seed)
        outcomes[found.outcome.partition(":")[0]] += 1
        refuted_of = f"; refuted: {', '.join(found.failed)}" if found.failed else ""
        doubted = f"; doubts: {', '.join(found.doubts)}" if found.doubts else ""
        print(
            f"{found.name:<14}{found.promised_s:>9.3g} s  executed {found.used:>6.3f}  low {found.used_low:>6.3f}  "
            f"{found.seconds:>6.1f} CPU s  {found.outcome}{refuted_of}{doubted}",
            flush=True,
        )
    print(", ".join(f"{outcome} {n}" for outcome, n in outcomes.most_common()))


if __name__ == "__main__":
    main()
