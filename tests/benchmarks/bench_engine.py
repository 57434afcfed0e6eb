"""How fast the engine's pass loop runs, beside its goal: `python tests/benchmarks/bench_engine.py`.

The goal is 8 million passes per second of one core's own time (`process_time`), warm, at 300 output tokens and 64
requests in flight. No time makes it fail.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

FIRST_USE = """
import numpy, numba, time
from tests.engine_cases import alike, linear_times, rules
from planner.executor.engine import engine_run
c = time.process_time()
engine_run(rules(), linear_times(), alike(9, 9, 9, 3))
print(f'{time.process_time() - c:.1f} s of the core')
"""
N_REQUESTS, OUTPUT_TOKENS, GOAL = 200_000, 300, 8e6
RUNS = {
    "64 in flight": (64, {}),
    "8 in flight": (8, {}),
    "64 in flight, prompts first": (64, {"is_prefill_first": True}),
    "64 in flight, memory for 40": (64, {"room_tokens": 40 * 1150.0}),
    "64 in flight on 8 replicas": (64, {"n_replicas": 8, "tokens_per_pass": 2048}),
}


def compile_time() -> None:
    """Of a first use with an empty cache, and of a second one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PLANNER_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
        for what in ("first use, compiled", "second use, from the cache"):
            command = [sys.executable, "-c", FIRST_USE]
            found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            print(f"{what:<36}{found.stdout.strip()}")


def passes() -> None:
    """Passes and requests per second of one core."""
    import numpy as np

    from planner.executor.engine import EngineLoad, engine_run
    from tests.engine_cases import alike, linear_times, rules

    engine_run(rules(), linear_times(), alike(9, 9, 9, 3))
    draw = np.random.default_rng(0)
    prompts = draw.integers(800, 1200, N_REQUESTS)
    outputs = draw.integers(OUTPUT_TOKENS * 4 // 5, OUTPUT_TOKENS * 6 // 5, N_REQUESTS)
    for what, (concurrency, changed) in RUNS.items():
        how = rules(**changed)
        times = linear_times(most=concurrency, n_replicas=how.n_replicas)
        start = process_time()
        run = engine_run(how, times, EngineLoad(prompts, outputs, concurrency=concurrency))
        seconds = process_time() - start
        rate = run.n_passes / seconds
        goal = f"; the goal is {GOAL / 1e6:g}" if what == next(iter(RUNS)) else ""
        preempted = f", {run.n_preempted.sum():,} preemptions" if run.n_preempted.any() else ""
        print(f"{what:<36}{rate / 1e6:6.2f} M passes/s, {N_REQUESTS / seconds:10,.0f} req/s{preempted}{goal}")


if __name__ == "__main__":
    compile_time()
    passes()
