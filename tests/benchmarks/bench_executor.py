"""How fast the executor runs, beside its goals: `python tests/benchmarks/bench_executor.py`. No time makes it fail.

Requests per second are of one core's own time (`process_time`), the event loop alone and with the drawing of requests.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
if TYPE_CHECKING:
    from planner.executor.kernel.state import SimulationState
    from planner.scenario import Scenario

N_PLAIN, N_CACHES, N_MEMORY = 1_000_000, 120_310, 10_000_000
N_FIRST = 1000
"""Requests of the run before the one that is timed."""
LOAD = 0.8
GIB = 2.0**30
FIRST_USE = """
import time; t = time.perf_counter(); c = time.process_time()
from tests.executor_cases import asked, run
run(asked([0.0], 10))
print(f'{time.perf_counter() - t:.1f} s, {time.process_time() - c:.1f} s of the core')
"""
TRACE = "mooncake_conversation.jsonl"


def compile_time() -> None:
    """Of a first use with an empty cache, and of a second one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PLANNER_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
        for what in ("first use, compiled", "second use, from the cache"):
            command = [sys.executable, "-c", FIRST_USE]
            found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            print(f"{what:<48}{found.stdout.strip()}")


def plain(n: int) -> None:
    """The reference case: Poisson arrivals, no caches."""
    from planner.scenario import read_scenario

    w = timed(f"reference case, {n:,} requests", read_scenario("prfaas-paper"), n)
    print(f"{'  events per request':<48}{w.clock[0]['n_events'] / n:.2f}")


def with_caches(n: int) -> None:
    """The recorded hour of conversations, again and again, with limited caches on both sites."""
    from planner.cli.common import data_dirs
    from planner.scenario import read_scenario

    if not any((folder / "traces" / TRACE).is_file() or (folder / TRACE).is_file() for folder in data_dirs()):
        print(f"with caches: {TRACE} is not here (set PLANNER_DATA)")
        return
    limits = "execution.cache={capacity_gb = {remote = 2000.0, local = 4000.0}, state_interval_tokens = 2048}"
    w = timed(f"trace with caches, {n:,} requests", read_scenario("mooncake-conversation", [limits]), n)
    hit = w.requests["cached_tokens"].sum() / w.requests["total_tokens"].sum()
    print(f"{'  prompt tokens found, entries dropped':<48}{hit:.1%}, {w.caches['n_evicted'].sum():,}")


def timed(what: str, scenario: "Scenario", n: int) -> "SimulationState":
    """Run the planned system, and say how fast that was; a first short run compiles, and reads traces."""
    from planner.cli.common import data_dirs
    from planner.comparison import optimize
    from planner.executor.draws import Draws, drawn_requests
    from planner.executor.initial_state import run_to_end, simulation_state
    from planner.executor.prompt_blocks import trace_blocks
    from planner.executor.systems import system

    plan = optimize(scenario, data_dirs())
    planned = system(scenario, plan, data_dirs())
    for n_now in (min(n, N_FIRST), n):
        start = process_time()
        requests = drawn_requests(scenario, n_now, LOAD * plan.throughput_req_per_s, Draws(0), data_dirs())
        blocks = None if scenario.execution.cache is None else trace_blocks(scenario, requests, data_dirs())
        w = simulation_state(planned, requests, blocks=blocks)
        drawn = process_time()
        run_to_end(w)
        end = process_time()
    report(what, n, start, drawn, end)
    return w


def report(what: str, n: int, start: float, drawn: float, end: float) -> None:
    print(f"{what:<48}{n / (end - drawn):12,.0f} req/s; {n / (end - start):,.0f} with drawing them")


def memory(n: int) -> None:
    """Of a run of so many requests in a process of its own."""
    start = perf_counter()
    command = [sys.executable, __file__, "plain", str(n)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(found.stdout.rstrip())
    print(f"{f'  memory of {n:,} requests':<48}{peak / GIB:.2f} GiB; {perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    if sys.argv[1:2] == ["plain"]:
        plain(int(sys.argv[2]))
    else:
        compile_time()
        plain(N_PLAIN)
        with_caches(N_CACHES)
        for n_requests in (N_MEMORY // 10, N_MEMORY):
            memory(n_requests)
