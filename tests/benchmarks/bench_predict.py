"""How long a prediction takes, beside its goal: `python tests/benchmarks/bench_predict.py`. No time makes it fail."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

N_RUNS = 5
GOAL_S = 0.050
MODELS = ("llama-3.1-8b", "deepseek-v3", "kimi-linear-48b", "qwen3.5-397b", "nemotron-3-super-120b")
TOKENS = tuple(1024 * n for n in range(1, 21))
BATCH = tuple(8 * n for n in range(1, 21))


def median_s(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(N_RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return median(times)


def line(what: str, seconds: float, beside: str = "") -> None:
    print(f"{what:<58}{1e3 * seconds:10.1f} ms  {beside}".rstrip())


def in_process() -> None:
    from planner.studies.predict import PredictQuestion, predict, roofline_survey

    print(f"20 lengths and 20 batches in one warm process, median of {N_RUNS}")
    for model in MODELS:
        question = PredictQuestion(model, "h200-sxm", tokens=TOKENS, batch=BATCH)
        predict(question)
        taken = median_s(lambda question=question: predict(question))  # type: ignore[misc]
        line(f"predict {model} h200-sxm", taken, f"goal {1e3 * GOAL_S:g} ms: {taken / GOAL_S:.2f} of it")
    limited = PredictQuestion("deepseek-v3", "h200-sxm", tokens=TOKENS, batch=BATCH, tpot_limit_s=0.03)
    line("  with the largest batch within 30 ms", median_s(lambda: predict(limited)))
    line("roofline_survey deepseek-v3 h200-sxm", median_s(lambda: roofline_survey(limited)))


def fresh_process() -> None:
    print(f"\nfresh processes, start-up included, median of {N_RUNS}")
    command = [sys.executable, "-m", "planner", "predict", "deepseek-v3", "h200-sxm"]
    line(" ".join(command[2:]), median_s(lambda: subprocess.run(command, check=True, capture_output=True, cwd=ROOT)))


if __name__ == "__main__":
    in_process()
    fresh_process()
