"""CPU seconds of fresh processes, and beside those of `import typer, rich`: `python tests/benchmarks/bench_startup.py`.

CPU seconds (user and system, the least of several runs) are compared, and as ratios: both depend little on what else
the machine does. No time makes it fail. A first run of each, not counted, leaves compiled modules and caches behind.
"""

import os
import resource
import subprocess
import sys

N_RUNS = 5
HELP_GOAL = 1.2
"""Of `planner --help` over the imports that every command line of this kind needs."""
OPTIMIZE_GOAL_S = 1.5
PROMISE_GOAL_S, RUN_GOAL_S = 4.0, 10.0
"""Of a plan with a promise: predicted, and run before it is printed."""
PLANNER = (sys.executable, "-c", "from planner.cli import main; main()")
"""As the installed command: `-m` would load more."""
BASE = (sys.executable, "-c", "import typer, rich")
FASTEST = ("optimize", "--set", "slo.ttft_s=6")
CHEAPEST = ("optimize", "--set", "objective=min-cost", "--set", "demand_req_per_s=2", "--set", "slo.ttft_s=8")
COMMANDS = {
    "planner --help": (*PLANNER, "--help"),
    "import planner.optimizer.strategies": (sys.executable, "-c", "import planner.optimizer.strategies"),
    "planner predict llama-3.1-8b h100-sxm": (*PLANNER, "predict", "llama-3.1-8b", "h100-sxm"),
    "planner optimize": (*PLANNER, "optimize"),
    "planner optimize --format json": (*PLANNER, "optimize", "--format", "json"),
    "goodput within 6 s, --no-run": (*PLANNER, *FASTEST, "--no-run"),
    "least cost within 8 s, --no-run": (*PLANNER, *CHEAPEST, "--no-run"),
    "goodput within 6 s, run": (*PLANNER, *FASTEST),
    "least cost within 8 s, run": (*PLANNER, *CHEAPEST),
}
GOALS = {
    "planner --help": f"goal {HELP_GOAL:g} times",
    "planner optimize": f"goal {OPTIMIZE_GOAL_S:g} s",
    "goodput within 6 s, --no-run": f"goal {PROMISE_GOAL_S:g} s",
    "least cost within 8 s, --no-run": f"goal {PROMISE_GOAL_S:g} s",
    "goodput within 6 s, run": f"goal {RUN_GOAL_S:g} s",
    "least cost within 8 s, run": f"goal {RUN_GOAL_S:g} s",
}


def least_cpu_s(command: tuple[str, ...]) -> float:
    """User and system seconds of a fresh process, the least of several."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    taken = []
    for _ in range(N_RUNS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken[1:])


def main() -> None:
    base_s = least_cpu_s(BASE)
    print(f"{'import typer, rich':<42}{base_s:7.3f} CPU s  least of {N_RUNS}")
    for name, command in COMMANDS.items():
        cpu_s = least_cpu_s(command)
        print(f"{name:<42}{cpu_s:7.3f} CPU s  {cpu_s / base_s:5.2f} times  {GOALS.get(name, '')}".rstrip())


if __name__ == "__main__":
    main()
