"""What a command does not load: what its answer does not need."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "matplotlib", "jinja2", "scipy", "dask", "pyarrow", "torch")
"""Packages that take longer to load than a small plan to find."""
PLANNING = (*(name for name in HEAVY if name != "scipy"), "scipy.optimize", "scipy.sparse", "scipy.stats")
"""Waits for decode places take special functions, and nothing else of scipy."""
COLOCATED = tuple(name for name in HEAVY if name != "scipy")
"""Facets of passes in one batch are duals of a linear program."""
SOLVERS = ("pulp", "highspy")
ROOMS = ("planner.executor.run", "planner.hybrid", "planner.studies.live")
NETWORKS = tuple(
    f"planner.optimizer.{name}" for name in ("network.ttft_bisection", "prices.programs", "prices.least_ttft")
)
"""What is asked of networks alone; the search is one for all."""
BASE = ("numpy", "pydantic", "planner.profiles", "planner.scenario", "planner.optimizer")
COMMANDS = {
    "--help": (
        *HEAVY,
        *SOLVERS,
        *ROOMS,
        "numpy",
        "pydantic",
        "planner.optimizer",
        "planner.scenario",
        "planner.profiles",
    ),
    "--version": (*HEAVY, *SOLVERS, *ROOMS, "numpy", "pydantic", "planner.optimizer", "planner.scenario"),
    "predict llama-3.1-8b h100-sxm": (*HEAVY, *SOLVERS, *ROOMS, *NETWORKS, "planner.optimizer"),
    "size llama-3.1-8b h100-sxm --rate 9 --input 900 --output 90 --no-run": (*COLOCATED, *ROOMS),
    "optimize": (*PLANNING, *ROOMS, *NETWORKS),
    "optimize --format json": (*PLANNING, *ROOMS, *NETWORKS, "rich", "planner.report"),
}
LOADED = """
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from planner.cli import main
sys.argv = ["planner", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, sep="\\n", file=sys.stderr)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_leaves_alone_what_its_answer_does_not_need(command: str) -> None:
    found = subprocess.run([sys.executable, "-c", LOADED, *command.split()], capture_output=True, text=True, check=True)
    loaded = set(found.stderr.splitlines())
    assert "planner.cli" in loaded
    assert [name for name in COMMANDS[command] if name in loaded] == []
