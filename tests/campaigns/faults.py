"""Faults planted one at a time in lines that compute, and the newcomer's tests of their rooms run on each.

A fault is caught where a test fails that passes without it, or takes more than CPU_LIMIT_S. The tests are, one stage
after another: the doctests of its module and the test files that import it or have its name; those that have the name
of its room; those that import from its room; those of the command line, which reaches every room. Faults are planted in
a copy of the checkout. The seed draws lines evenly over the rooms and over the modules of each, and compiled loops,
which are made anew for each fault, as a share of their own. `faults.toml` lists faults that change no output, each with
a proof. Exit 6 where less than 90 % of the others are caught.

    python -m tests.campaigns.faults --seed 7 --count 60
"""

import argparse
import ast
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any, Literal

from planner.executor.code_cache import CACHE_VARIABLE, COMPILERS, LOOPS
from tests.campaigns.computing_lines import Fault, faults
from tests.cpu_cost import cpu_s

ROOT = Path(__file__).resolve().parents[2]
STRUCK = Path(__file__).with_suffix(".toml")
LEAST_CAUGHT = 0.9
MOST_STRUCK = 5 / 60
"""Of the faults drawn."""
COMPILED, COMPILED_SHARE = "compiled", 5 / 60
CPU_LIMIT_S = {False: 60.0, True: 600.0}
"""For one test, without and with the loops to be compiled; a test that takes longer is stopped, and has caught it."""
WALL_LIMIT_S = 3600
"""For one stage, which is for what waits forever."""
MOST_DATA_BYTES = 8 * 10**9
"""Memory that a test may take."""
Ending = Literal["caught", "struck", "not caught"]


@dataclass(frozen=True)
class Planted:
    """A fault of a file."""

    path: str
    """From the root of the checkout."""
    source: str
    fault: Fault

    @property
    def room(self) -> str:
        """Its room; compiled loops are one of their own."""
        return room_of(self.path)

    @property
    def before(self) -> str:
        """The line as it stands."""
        return self.source.splitlines()[self.fault.line - 1].strip()

    @property
    def after(self) -> str:
        """The line with the fault."""
        return self.fault.applied(self.source).splitlines()[self.fault.line - 1].strip()

    def __str__(self) -> str:
        return f"{self.path}:{self.fault.line} {self.fault.kind}: `{self.before}` -> `{self.after}`"


def room_of(path: str) -> str:
    """Room of a module, as drawn from."""
    _, room, *within = PurePosixPath(path).parts
    return COMPILED if room == "executor" and within[0] in (*LOOPS, *COMPILERS) else room


def sources(root: Path = ROOT) -> dict[str, str]:
    """Sources of all rooms by path."""
    paths = sorted(path for path in (root / "planner").rglob("*.py") if path.parent.name != "planner")
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def drawn(known: Mapping[str, str], seed: int, count: int) -> list[Planted]:
    """Faults drawn from the lines that compute: at even distances from a random start, one of each line at random.

    >>> source = "def share(a, b):\\n    return a / b\\n"
    >>> for planted in drawn({"planner/roofline/a.py": source * 9, "planner/queueing/b.py": source}, 7, 3):
    ...     print(planted)
    planner/roofline/a.py:2 operator: `return a / b` -> `return a * b`
    planner/roofline/a.py:8 operator: `return a / b` -> `return a * b`
    planner/roofline/a.py:14 operator: `return a / b` -> `return a * b`
    """
    rng = Random(seed)
    lines: list[tuple[str, list[Fault]]] = []
    for path in sorted(known, key=lambda path: (room_of(path), path)):
        by_line: dict[int, list[Fault]] = {}
        for fault in faults(known[path]):
            by_line.setdefault(fault.line, []).append(fault)
        lines += [(path, found) for found in by_line.values()]
    start, count = rng.random(), min(count, len(lines))
    places = [int((start + i) * len(lines) / count) for i in range(count)]
    return [Planted(lines[at][0], known[lines[at][0]], rng.choice(lines[at][1])) for at in places]


def campaign_faults(seed: int, count: int, rooms: Sequence[str] = ()) -> list[Planted]:
    """Faults of a campaign; of some rooms only where any is named."""
    known = {path: source for path, source in sources().items() if not rooms or room_of(path) in rooms}
    if rooms:
        return drawn(known, seed, count)
    n_compiled = round(COMPILED_SHARE * count)
    loops = {path: source for path, source in known.items() if room_of(path) == COMPILED}
    plain = {path: source for path, source in known.items() if path not in loops}
    return drawn(plain, seed, count - n_compiled) + drawn(loops, seed, n_compiled)


@cache
def imports(root: Path = ROOT) -> dict[str, set[str]]:
    """What every module of the planner and of its tests imports, anywhere in it, by path."""
    paths = {
        path.relative_to(root).as_posix() for folder in ("planner", "tests") for path in (root / folder).rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for path in paths:
        names: set[str] = set()
        for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        stems = [name.replace(".", "/") for name in names]
        found[path] = paths & {f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")}
    return found


def distances(path: str, graph: Mapping[str, set[str]]) -> dict[str, int]:
    """How many imports away a module is, by the path of who imports it.

    >>> distances("a", {"a": set(), "b": {"a"}, "c": {"b", "d"}, "d": set()})
    {'a': 0, 'b': 1, 'c': 2}
    """
    found, waiting = {path: 0}, deque([path])
    while waiting:
        at = waiting.popleft()
        for other in sorted(graph):
            if at in graph[other] and other not in found:
                found[other] = found[at] + 1
                waiting.append(other)
    return found


def stages(path: str, graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Files whose tests may catch a fault of a module, nearest first."""
    far = distances(path, graph)
    _, room, *_, name = path.removesuffix(".py").split("/")
    tests = sorted((one for one in graph if one.startswith("tests/test_")), key=lambda one: (far.get(one, 99), one))
    near = [test for test in tests if far.get(test, 99) <= 1 or test.startswith(f"tests/test_{room}_{name}")]
    doctested = sorted(one for one in graph if one.startswith(f"planner/{room}/"))
    named = [test for test in tests if test.startswith((f"tests/test_{room}_", f"tests/test_{room}."))]
    of_room = [test for test in tests if _imports_from(room, graph[test])]
    of_commands = [test for test in tests if _imports_from("cli", graph[test])]
    found: list[list[str]] = []
    for stage in ([path, *near], [*doctested, *named], of_room, of_commands):
        seen = {one for earlier in found for one in earlier}
        found.append([one for one in dict.fromkeys(stage) if one not in seen])
    return [stage for stage in found if stage]


def _imports_from(room: str, imported: Iterable[str]) -> bool:
    return any(one.startswith(f"planner/{room}/") for one in imported)


class Checkout:
    """A copy of the checkout, in which faults are planted."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)

    def ending(self, planted: Planted, of_stages: Iterable[Sequence[str]]) -> tuple[bool, str]:
        """Whether the tests catch a fault, and which test did."""
        for files in of_stages:
            self._write(planted.path, planted.fault.applied(planted.source))
            code, said = self._pytest(files, planted.room == COMPILED)
            self._write(planted.path, planted.source)
            if code in (0, 5):  # all pass, or there are none
                continue
            if code < 0 or "timed out" in said:
                return True, f"{said}, in {files[0]} ..."
            code, again = self._pytest(
                files, planted.room == COMPILED, "--last-failed", "--last-failed-no-failures=none"
            )
            if code not in (0, 5):
                raise SystemExit(f"{again} fails without a fault")
            return True, said
        return False, ""

    def _write(self, path: str, source: str) -> None:
        file = self.folder / path
        Path(cache_from_source(str(file))).unlink(missing_ok=True)  # two writes of a second have one time
        file.write_text(source, encoding="utf-8")

    def _pytest(self, files: Sequence[str], is_compiled: bool, *options: str) -> tuple[int, str]:
        """Exit code of a run of tests, and what it says of the test that failed."""
        command = [sys.executable, "-m", "pytest", "-p", "tests.campaigns.faults", "--numprocesses=0", "-x", "-q"]
        command += ["-m", "not slow and not campaign", "-rfE", "--tb=no", *options, *files]
        environment = os.environ | {"PYTHONPATH": str(self.folder), LIMIT_VARIABLE: str(CPU_LIMIT_S[is_compiled])}
        if is_compiled:
            environment[CACHE_VARIABLE] = str(self.folder / ".compiled")
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=WALL_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return -signal.SIGKILL, "timed out"
        failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if process.returncode > 2 and process.returncode != 5:
            raise SystemExit(f"pytest ended with {process.returncode}: {said[-2000:]}")
        return process.returncode, failed[0] if failed else f"stopped by signal {-process.returncode}"


LIMIT_VARIABLE = "PLANNER_FAULT_CPU_S"


def pytest_configure() -> None:
    """As a plugin of the tests that are run on a fault: the memory that they may take."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_DATA_BYTES, MOST_DATA_BYTES))


def pytest_runtest_setup() -> None:
    """As such a plugin: the CPU seconds that one test may take, else the signal ends the process."""
    signal.setitimer(signal.ITIMER_PROF, float(os.environ[LIMIT_VARIABLE]))


def equivalents() -> list[dict[str, str]]:
    """Faults that are known to change no output, with `file`, `line`, `fault` and `proof`."""
    found: Any = tomllib.loads(STRUCK.read_text(encoding="utf-8"))
    return [*found["equivalent"]]


def is_equivalent(planted: Planted, known: Iterable[Mapping[str, str]]) -> bool:
    """True of a fault that is listed, wherever in its file the line stands now."""
    return (planted.path, planted.before, planted.after) in {(one["file"], one["line"], one["fault"]) for one in known}


def endings(chosen: Sequence[Planted], n_stages: int = 4) -> Iterator[tuple[Planted, Ending]]:
    """How every fault ended; progress goes to stderr."""
    left, graph = int(MOST_STRUCK * len(chosen) + 1e-9), imports()
    known = equivalents()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        checkout = Checkout(Path(folder))
        for i, planted in enumerate(chosen):
            start_s = cpu_s()
            ending: Ending = "struck" if is_equivalent(planted, known) and left > 0 else "not caught"
            left -= ending == "struck"
            by = ""
            if ending != "struck":
                is_caught, by = checkout.ending(planted, stages(planted.path, graph)[:n_stages])
                ending = "caught" if is_caught else ending
            print(f"{i + 1}/{len(chosen)} {ending}, {cpu_s() - start_s:.0f} CPU s: {planted} {by}", file=sys.stderr)
            yield planted, ending


def summary(found: Sequence[tuple[Planted, Ending]]) -> tuple[str, int]:
    """The answer in text, and the exit code."""
    counts = Counter(ending for _, ending in found)
    by_room = Counter((planted.room, ending) for planted, ending in found)
    judged = len(found) - counts["struck"]
    share = counts["caught"] / judged if judged else 1.0
    lines = [f"{len(found)} faults, {counts['struck']} struck; {counts['caught']} of {judged} caught, {share:.0%}", ""]
    lines += ["| room | caught | struck | not caught |", "|---|---|---|---|"]
    for room in sorted({room for room, _ in by_room}):
        cells = " | ".join(str(by_room[room, ending]) for ending in ("caught", "struck", "not caught"))
        lines.append(f"| {room} | {cells} |")
    missed = [f"- {planted}" for planted, ending in found if ending == "not caught"]
    return "\n".join([*lines, "", *(["Not caught:", "", *missed] if missed else [])]), 0 if share >= LEAST_CAUGHT else 6


def main() -> int:
    """The campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--room", action="append", default=[], help="draw from these rooms only")
    parser.add_argument("--stages", type=int, default=4, help="of tests, nearest first; 2 are the room by name")
    parser.add_argument("--list", action="store_true", help="print the faults, and plant none")
    given = parser.parse_args()
    chosen = campaign_faults(given.seed, given.count, given.room)
    if given.list:
        print("\n".join(map(str, chosen)))
        return 0
    text, code = summary([*endings(chosen, given.stages)])
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
