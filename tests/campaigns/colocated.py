"""Colocated pools: the model of their queues against runs pass by pass.

Random pools: instances, tokens per pass, memory, prompts first or shared passes, lengths, seconds of passes whose
weights and products overlap, and a load. What is looked for: errors of mean and P90 TTFT and of mean TPOT, apart for
pools of which the model itself says that they are outside its bands. From the root of a checkout:

    python -m tests.campaigns.colocated --seed 1 --count 100
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from planner.executor.engine import EngineLoad, engine_run
from planner.executor.passes import EngineRules
from planner.queueing.colocated import ColocatedQueue, colocated_capacity_req_per_s, colocated_queue
from planner.queueing.erlang import Floats
from planner.queueing.pass_loop import PassLoop, Prompts
from planner.roofline import PassTimes
from planner.roofline.request_kinds import strata

TOLERANCES = {"ttft_mean": 0.08, "ttft_p90": 0.12, "tpot_mean": 0.06}
MOST_LOAD = 0.85
N_REQUESTS = 30_000
N_RUNS = 4
"""Of a pool, with other arrivals each: what one run of a busy pool shows is off by more than the goals."""
N_KINDS = 128
TOKEN_KNOTS = np.unique(np.concatenate([[1.0], np.geomspace(16, 16384, 41)]))
KEYS = np.concatenate([[1.0], np.geomspace(100, 40_000, 18)])
CONTEXTS = np.concatenate([[1.0], np.geomspace(100, 80_000, 20)])


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool as both meet it."""

    rules: EngineRules
    times: PassTimes
    load: EngineLoad
    n_instances: int
    seconds: Callable[[Floats, Floats, Floats | float, float], Floats]
    """Of passes: prompt tokens, sequences, keys per token, context."""
    utilization: float

    @property
    def req_per_s(self) -> float:
        """Its rate."""
        return self.utilization * self.n_instances * colocated_capacity_req_per_s(self.loop, self.prompts)

    @property
    def prompts(self) -> Prompts:
        """Its requests as the model sees them."""
        tokens, outputs = self.load.prompt_tokens.astype(float), self.load.output_tokens.astype(float)
        kinds, weights = strata(tokens, np.ones(len(tokens)), N_KINDS)
        budget = float(self.rules.tokens_per_pass)
        n_full = np.maximum(np.ceil(kinds / budget) - 1, 0)
        last, zero = kinds - n_full * budget, np.zeros(len(kinds))
        alone = self.seconds(last, zero, n_full * budget + (last + 1) / 2, 1.0)
        alone = alone + n_full * self.seconds(zero + budget, zero, n_full * budget / 2, 1.0)
        scv = float(outputs.var() / outputs.mean() ** 2)
        return Prompts(kinds, weights, alone, float(outputs.mean()), scv)

    @property
    def loop(self) -> PassLoop:
        """Its passes as the model sees them."""
        tokens, outputs = self.load.prompt_tokens.astype(float), self.load.output_tokens.astype(float)
        keys = float((tokens**2).mean() / tokens.mean() / 2 + 0.5)
        context = float(tokens.mean() + (outputs**2).mean() / outputs.mean() / 2)
        by_memory = int(self.rules.room_tokens / context)
        grown, scv = context - tokens.mean(), float(outputs.var() / outputs.mean() ** 2)
        dispersion = 1 + (float(tokens.var()) + grown**2 * (1 + 4 * scv / (1 + scv)) / 3) / context**2
        return PassLoop(
            lambda p, b: self.seconds(p, b, keys, context),
            float(self.rules.tokens_per_pass),
            min(self.rules.most_running, by_memory),
            self.rules.is_prefill_first,
            dispersion if by_memory < self.rules.most_running else 1.0,
        )


def random_pool(seed: int, utilization: float | None = None) -> Pool:
    """A pool drawn by a seed, at a load drawn too or stated."""
    draw = np.random.default_rng(seed)
    mean, spread, answer = np.exp(draw.uniform(np.log(200), np.log(8000))), draw.choice([0.0, 0.6, 1.1]), 0.0
    answer, n = np.exp(draw.uniform(np.log(60), np.log(600))), int(draw.choice([1, 1, 2, 4, 8]))
    prompts = np.exp(np.log(mean) - spread**2 / 2 + spread * draw.standard_normal(N_REQUESTS))
    outputs = np.full(N_REQUESTS, answer) if draw.random() < 0.5 else draw.exponential(answer, N_REQUESTS)
    lengths = np.clip(np.rint(prompts), 8, 32_000).astype(int), np.clip(np.rint(outputs), 2, 3000).astype(int)
    seconds = _seconds(draw)
    budget, most = int(draw.choice([512, 2048, 8192])), int(draw.choice([48, 256]))
    room = float(draw.choice([most * 4, 40]) * (mean + answer) + 40_000)
    rules = EngineRules(max(budget, 2 * most), room, most_running=most, is_prefill_first=bool(draw.random() < 0.25))
    pool = Pool(rules, _table(seconds, most), EngineLoad(*lengths), n, seconds, 0.0)
    busy = float(draw.uniform(0.15, MOST_LOAD)) if utilization is None else utilization
    rate = busy * n * colocated_capacity_req_per_s(pool.loop, pool.prompts)
    load = EngineLoad(*lengths, arrivals_s=np.cumsum(draw.exponential(1 / rate, N_REQUESTS)))
    return Pool(rules, pool.times, load, n, seconds, busy)


def _seconds(draw: np.random.Generator) -> Callable[[Floats, Floats, Floats | float, float], Floats]:
    """Weights are read while products run: whichever takes longer, and what neither hides."""
    weights_s, host_s = draw.uniform(0.004, 0.03), draw.uniform(0.0005, 0.004)
    token_s, key_s = np.exp(draw.uniform(np.log(1e-5), np.log(8e-5))), draw.uniform(0, 2e-9)
    cache_s = draw.uniform(0.5e-8, 6e-8)

    def seconds(p: Floats, b: Floats, keys: Floats | float, context: float) -> Floats:
        products, bytes_ = token_s * (p + b) + key_s * p * keys, weights_s + cache_s * b * context
        return np.asarray(host_s + (products**4 + bytes_**4) ** 0.25)

    return seconds


def _table(seconds: Callable[[Floats, Floats, Floats | float, float], Floats], most: int) -> PassTimes:
    sequences = np.unique(np.round(np.concatenate([[0.0], np.geomspace(1, most, 12)])))
    grid = np.meshgrid(np.ones(1), TOKEN_KNOTS, KEYS, sequences, CONTEXTS, indexing="ij")
    prompt_s = seconds(grid[1], grid[3], grid[2], grid[4])  # type: ignore[arg-type]
    each = np.arange(most + 1.0)[:, None]
    decode_s = seconds(np.zeros_like(each), each, 0.0, CONTEXTS)  # type: ignore[arg-type]
    return PassTimes(np.ones(1), TOKEN_KNOTS, KEYS, sequences, CONTEXTS, prompt_s, decode_s)


def errors(pool: Pool, n_runs: int = 1) -> dict[str, float]:
    """Relative errors of the model, by figure, against runs without their first and last part."""
    runs = [executed(pool, seed) for seed in range(n_runs)]
    found = predicted(pool)
    ours = {
        "ttft_mean": found.ttft.mean_s,
        "ttft_p90": found.ttft.quantile_s(0.9),
        "tpot_mean": found.tpot_mean_s or 0.0,
        "tpot_p90": found.tpot_quantile_s(0.9) or 0.0,
    }
    return {name: float(value / np.mean([run[name] for run in runs]) - 1) for name, value in ours.items()}


def executed(pool: Pool, seed: int) -> dict[str, float]:
    """What a run of a pool came to: with its own arrivals, or with others."""
    load = pool.load
    if seed:
        gaps_s = np.random.default_rng(seed).exponential(1 / pool.req_per_s, N_REQUESTS)
        load = replace(load, arrivals_s=np.cumsum(gaps_s))
    run = engine_run(pool.rules, pool.times, load, pool.n_instances)
    inner = slice(N_REQUESTS // 10, N_REQUESTS * 9 // 10)
    times = {"ttft": run.ttft_s[inner], "tpot": run.tpot_s[inner]}
    known = {name: t[~np.isnan(t)] for name, t in times.items()}
    means = {f"{name}_mean": float(t.mean()) for name, t in known.items()}
    return means | {f"{name}_p90": float(np.quantile(t, 0.9)) for name, t in known.items()}


def predicted(pool: Pool) -> ColocatedQueue:
    """What the model says of the pool."""
    return colocated_queue(pool.loop, pool.prompts, pool.req_per_s, pool.n_instances)


def rows(seed: int, number: int) -> Iterator[tuple[int, Pool, dict[str, float]]]:
    """Pools from a seed on, with their errors."""
    for s in range(seed, seed + number):
        pool = random_pool(s)
        yield s, pool, errors(pool, N_RUNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    args = parser.parse_args()
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for s, pool, row in rows(args.seed, args.count):
        doubts = predicted(pool).doubts
        print(_line(s, pool, row), *doubts, flush=True)
        key = "one instance" if pool.n_instances == 1 else "several", "doubted" if doubts else "within bands"
        for one in (key, ("all", key[1]), ("all", "all")):
            found.setdefault(one, []).append(row)
    for which, each in sorted(found.items()):
        for name in each[0]:
            values = np.array([row[name] for row in each])
            within = f"{np.mean(abs(values) <= TOLERANCES[name]):.0%} within" if name in TOLERANCES else ""
            spread = f"median {np.median(abs(values)):.3f}, P90 {np.quantile(abs(values), 0.9):.3f}"
            ends = f"worst {abs(values).max():.2f}, signed {np.median(values):+.3f}"
            print(f"{' '.join(which)}: {len(each)} pools, {name}: {within} {spread}, {ends}")


def _line(seed: int, pool: Pool, found: dict[str, float]) -> str:
    """A pool and its errors, and which of them are beyond the goals."""
    over = [name for name, most in TOLERANCES.items() if abs(found[name]) > most]
    prompt, answer = pool.load.prompt_tokens.mean(), pool.load.output_tokens.mean()
    first = " first" if pool.rules.is_prefill_first else ""
    how = f"{pool.n_instances} x {pool.rules.tokens_per_pass}/{pool.loop.most_running}{first} {prompt:.0f}+{answer:.0f}"
    shown = " ".join(f"{name} {value:+.3f}" for name, value in found.items())
    return f"{seed} load {pool.utilization:.2f} {how}: {shown} {' '.join(over)}"


if __name__ == "__main__":
    main()
