"""Mutated inputs of every kind through the real commands, each in a process of its own.

The law: no traceback; an exit code of the documented ones; less than ten seconds of the processor and 1 GB of memory; a
message that is short and printable; nothing half-written. Run from the root of a checkout:

    python -m tests.campaigns.fuzz_inputs --seed 1 --count 20000 --out tests/campaigns/fuzz_inputs.md
"""

import argparse
import importlib
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random

import planner
from planner.cli import main
from planner.errors import printable
from planner.executor import RunQuestion, simulate
from planner.results import plan_from
from planner.scenario import load_scenario
from tests.campaigns.corpus import Case, corpus
from tests.campaigns.mutations import mutated

CODES = {0, 2, 3, 4, 5, 6}
MOST_CPU_S, MOST_WALL_S = 10, 300
"""The limit is on the processor's time, so that a busy machine fails nothing; the wall's is for what waits."""
MOST_BYTES = 10**9
EXECUTED = "plan"
"""Kind of the inputs that are run request by request."""
MOST_ERROR_LINES, MOST_ERROR_BYTES = 60, 40_000


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    kind: str
    index: int
    arguments: tuple[str, ...]
    code: int
    cpu_s: float
    peak_bytes: int
    out: str
    err: str
    left: tuple[str, ...]
    """Files that it made."""

    def faults(self) -> Iterator[str]:
        """What breaks the law."""
        if self.code not in CODES or "Traceback" in self.err:
            yield f"exit {self.code}: {self.err.strip().splitlines()[-1][:200] if self.err.strip() else ''}"
        if self.cpu_s > MOST_CPU_S:
            yield f"took {self.cpu_s:.1f} s"
        if self.peak_bytes > MOST_BYTES:
            yield f"took {self.peak_bytes / 1e6:.0f} MB"
        if len(self.err.splitlines()) > MOST_ERROR_LINES or len(self.err) > MOST_ERROR_BYTES:
            yield f"says {len(self.err.splitlines())} lines of {len(self.err)} characters"
        for name, text in (("stdout", self.out), ("stderr", self.err)):
            if odd := next((c for c in text if not c.isprintable() and c not in "\n\t"), ""):
                yield f"prints {odd!r} on {name}"
        if self.code in (2, 3, 4, 5) and self.left:
            yield f"leaves {', '.join(self.left)}"
        elif half := [name for name in self.left if name.rsplit("/")[-1].startswith(".")]:
            yield f"leaves {half[0]}"


def ended(case: Case, kind: str, index: int) -> Ended:
    """A case run in a folder and a process of its own."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as outputs:
        for name, content in case.files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(content)
        before = {path for path in Path(folder).rglob("*")}
        out, err = Path(outputs) / "out", Path(outputs) / "err"
        code, usage = _forked(case.arguments, folder, out, err)
        left = tuple(str(path.relative_to(folder)) for path in sorted({*Path(folder).rglob("*")} - before))
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in (out, err)]
    cpu_s, peak_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    return Ended(kind, index, case.arguments, code, cpu_s, peak_bytes, texts[0], texts[1], left)


def _forked(arguments: Sequence[str], folder: str, out: Path, err: Path) -> tuple[int, resource.struct_rusage]:
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads of the parent are not there; none is used
        child = os.fork()
    if child == 0:
        _run(arguments, folder, out, err)
    deadline = time.monotonic() + MOST_WALL_S
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), usage
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _run(arguments: Sequence[str], folder: str, out: Path, err: Path) -> None:
    """The command, in the child; never returns."""
    code = 1
    try:
        for path, number in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S + 5, MOST_CPU_S + 5))
        os.chdir(folder)
        sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))  # noqa: SIM115
        sys.argv = ["planner", *arguments]
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def campaign(seed: int, indexes: Sequence[int], kinds: Sequence[str] = ()) -> Iterator[Ended]:
    """Mutated inputs, every one made of the seed and its index alone."""
    _load_rooms()
    known = corpus()
    names = [*kinds] or [*known]
    if EXECUTED in names:  # what its kernel compiles into is there for all children
        _run_once(known[EXECUTED][0])
    for index in indexes:
        rng = Random(f"{seed}:{index}")
        kind = names[index % len(names)]
        case = rng.choice(known[kind])
        yield ended(case.changed(rng, mutated), kind, index)


def _run_once(case: Case) -> None:
    scenario = load_scenario(case.files["tiny.toml"].decode(), "tiny.toml", Path())
    plan = plan_from(case.files["plan.json"].decode(), "plan.json")
    simulate(scenario, plan, RunQuestion(200, 0, None, 2))


def _load_rooms() -> None:
    """Import what commands import, once for all children; the kernels, which compile, are left to who needs them."""
    for module in pkgutil.walk_packages(planner.__path__, "planner."):
        if "executor.kernel" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)


def _summary(
    seed: int, count: int, runs: Counter[tuple[str, int]], failures: Sequence[str], slowest: Ended | None
) -> str:
    kinds = sorted({kind for kind, _ in runs})
    codes = sorted({code for _, code in runs})
    rows = [f"| {kind} | {' | '.join(f'{runs[kind, code]:,}' for code in codes)} |" for kind in kinds]
    slow = f"Slowest: {slowest.cpu_s:.1f} s ({slowest.kind} {slowest.index}). " if slowest else ""
    return "\n".join(
        [
            "# Mutated inputs",
            "",
            f"{date.today()}, `python -m tests.campaigns.fuzz_inputs --seed {seed} --count {count}`: ",
            f"{sum(runs.values()):,} inputs, {len(failures)} that break the law. {slow}",
            "",
            f"| kind | {' | '.join(f'exit {code}' for code in codes)} |",
            f"|---|{'---|' * len(codes)}",
            *rows,
            *(["", *(f"- {failure}" for failure in failures)] if failures else []),
            "",
        ]
    )


def run() -> int:
    """The campaign as a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    runs: Counter[tuple[str, int]] = Counter()
    failures: list[str] = []
    slowest, deadline = None, time.monotonic() + 60 * given.minutes
    for found in campaign(given.seed, range(given.start, given.start + given.count), given.kind):
        runs[found.kind, found.code] += 1
        slowest = found if slowest is None or found.cpu_s > slowest.cpu_s else slowest
        for fault in found.faults():
            failures.append(f"{found.kind} {found.index} `{printable(' '.join(found.arguments), 200)}`: {fault}")
            print(failures[-1], flush=True)
        if given.verbose:
            print(found.index, found.kind, found.code, f"{found.cpu_s:.2f} s", found.err[:3000], sep=" ", flush=True)
        if time.monotonic() > deadline:
            break
    text = _summary(given.seed, given.count, runs, failures, slowest)
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run())
