"""The planner's commands, each in a process of its own, and the law that every one of them keeps.

The law: no traceback, nor a library's warning; an exit code of the documented ones; a limit on the
processor's time and 1 GB of memory; a message that is short and printable; nothing half-written. What `fuzz_inputs` and
`small_changes` have in common.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import planner
from planner.cli import main
from planner.errors import printable
from tests.campaigns.corpus import Case

CODES = {0, 2, 3, 4, 5, 6}
MOST_CPU_S, MOST_WALL_S = 10, 300
"""The limit is on the processor's time, so that a busy machine fails nothing; the wall's is for what waits. A command
that searches for as long as it is told has another."""
MOST_BYTES = 10**9
MOST_DATA_BYTES = 4 * 10**9
"""Up to which the system lends memory, so that no input takes the machine."""
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
    most_cpu_s: float

    def faults(self) -> Iterator[str]:
        """What breaks the law."""
        if self.code not in CODES or "Traceback" in self.err:
            yield f"exit {self.code}: {self.err.strip().splitlines()[-1][:200] if self.err.strip() else ''}"
        elif "Warning: " in self.err:
            yield f"warns: {next(line for line in self.err.splitlines() if 'Warning: ' in line)[:200]}"
        if self.cpu_s > self.most_cpu_s:
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


def ended(case: Case, kind: str, index: int, most_cpu_s: int = MOST_CPU_S) -> Ended:
    """A case run in a folder and a process of its own."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as outputs:
        for name, content in case.files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(content)
        before = {path for path in Path(folder).rglob("*")}
        out, err = Path(outputs) / "out", Path(outputs) / "err"
        code, usage = _forked(case.arguments, folder, out, err, most_cpu_s)
        left = tuple(str(path.relative_to(folder)) for path in sorted({*Path(folder).rglob("*")} - before))
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in (out, err)]
    cpu_s, peak_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    return Ended(kind, index, case.arguments, code, cpu_s, peak_bytes, texts[0], texts[1], left, most_cpu_s)


def _forked(
    arguments: Sequence[str], folder: str, out: Path, err: Path, most_cpu_s: int
) -> tuple[int, resource.struct_rusage]:
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads of the parent are not there; none is used
        child = os.fork()
    if child == 0:
        _run(arguments, folder, out, err, most_cpu_s)
    deadline = time.monotonic() + MOST_WALL_S
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), usage
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _run(arguments: Sequence[str], folder: str, out: Path, err: Path, most_cpu_s: int) -> None:
    """The command, in the child; never returns."""
    code = 1
    try:
        for path, number in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
        resource.setrlimit(resource.RLIMIT_CPU, (most_cpu_s + 5, most_cpu_s + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_DATA_BYTES, MOST_DATA_BYTES))
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


def load_rooms() -> None:
    """Import what commands import, once for all children; the kernels, which compile, are left to who needs them."""
    for module in pkgutil.walk_packages(planner.__path__, "planner."):
        if "executor.kernel" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)


def campaign_parser(about: str | None) -> argparse.ArgumentParser:
    """The options that every campaign of commands has."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--out", type=Path)
    return parser


def judged(title: str, given: argparse.Namespace, found: Callable[[Sequence[int]], Iterable[Ended]]) -> int:
    """Run the cases asked for, print what breaks the law, and write the summary: 1 where anything does, else 0.

    Args:
        title: of the summary.
        given: what the command line says.
        found: how the cases of some indexes ended, one after another.
    """
    runs: list[Ended] = []
    failures: list[str] = []
    deadline = time.monotonic() + 60 * given.minutes
    for one in found(range(given.start, given.start + given.count)):
        runs.append(one)
        for fault in one.faults():
            failures.append(f"{one.kind} {one.index} `{printable(' '.join(one.arguments), 200)}`: {fault}")
            print(failures[-1], flush=True)
        if given.verbose:
            print(one.index, one.kind, one.code, f"{one.cpu_s:.2f} s", one.err[-3000:], sep=" ", flush=True)
        if time.monotonic() > deadline:
            break
    text = _summary(title, runs, failures)
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    return 1 if failures else 0


def _summary(title: str, runs: Sequence[Ended], failures: Sequence[str]) -> str:
    counts = Counter((one.kind, one.code) for one in runs)
    codes = sorted({code for _, code in counts})
    kinds = sorted({kind for kind, _ in counts})
    rows = [f"| {kind} | {' | '.join(f'{counts[kind, code]:,}' for code in codes)} |" for kind in kinds]
    command = f"python -m tests.campaigns.{Path(sys.argv[0]).stem} {printable(' '.join(sys.argv[1:]), 200)}"
    slow = max(runs, key=lambda one: one.cpu_s)
    large = max(runs, key=lambda one: one.peak_bytes)
    return "\n".join(
        [
            f"# {title}",
            "",
            f"{date.today()}, `{command}`:",
            f"{len(runs):,} inputs, {len(failures)} that break the law. "
            f"Slowest: {slow.cpu_s:.1f} s ({slow.kind} {slow.index}). "
            f"Most memory: {large.peak_bytes / 1e6:.0f} MB ({large.kind} {large.index}).",
            "",
            f"| kind | {' | '.join(f'exit {code}' for code in codes)} |",
            f"|---|{'---|' * len(codes)}",
            *rows,
            *(["", *(f"- {failure}" for failure in failures)] if failures else []),
            "",
        ]
    )
