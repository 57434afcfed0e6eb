"""Compiled code of an earlier process: used where it is whole and the same, else made anew and told of as it is."""

import errno
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.event import install_recorder

from planner.executor import code_cache, compilation
from planner.executor.compilation import machine_code

DAY_S = 86400.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Path]:
    """Folder of compiled code, empty."""
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path))
    caplog.set_level(logging.INFO, "planner")
    code_cache.cache_folder.cache_clear()
    found = code_cache.cache_folder()
    assert found is not None
    yield found
    code_cache.cache_folder.cache_clear()


def doubled(x: float) -> float:
    """A function as small as can be compiled."""
    return 2 * x


def n_compilations(argument: float = 21, function: Callable[[Any], Any] = doubled) -> int:
    """How often a function is compiled where a process calls it that has not called it yet."""
    compilation.KNOWN.clear()
    with install_recorder("numba:compile") as recorder:
        (code,) = machine_code({function: (argument,)})
        assert code(argument) == 2 * argument
    return sum(event.is_start for _, event in recorder.buffer)


def test_what_a_process_compiled_the_next_one_loads_and_only_the_first_says_that_it_compiles(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert n_compilations() == 1
    assert [said.split(",")[0] for said in caplog.messages] == [
        "compiling the executor once",
        "the executor is compiled",
    ]
    caplog.clear()
    assert n_compilations() == 0
    assert not caplog.messages


def test_code_for_other_types_is_stored_beside() -> None:
    assert [n_compilations(argument) for argument in (21, 2.5, 21, 2.5)] == [1, 1, 0, 0]


def test_code_for_another_processor_is_stored_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    assert n_compilations() == 1
    with monkeypatch.context() as patch:
        patch.setattr("llvmlite.binding.get_host_cpu_name", lambda: "another")
        assert n_compilations() == 1
    assert n_compilations() == 0


def test_a_second_call_in_a_process_neither_loads_nor_compiles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert n_compilations() == 1
    caplog.clear()
    monkeypatch.delattr(Path, "read_bytes")
    (code,) = machine_code({doubled: (22,)})
    assert code(22) == 44
    assert not caplog.messages


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_by_a_byte(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def garbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def text(path: Path) -> None:
    path.write_text("no code", encoding="utf-8")


def unreadable(path: Path) -> None:
    path.chmod(0)


@pytest.fixture
def _bound_by_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without the mode for it are not read, whoever runs the tests."""
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        if not path.stat().st_mode & 0o400:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)


@pytest.mark.usefixtures("_bound_by_modes")
@pytest.mark.parametrize("which", ["nbi", "nbc", "sums"])
@pytest.mark.parametrize("damage", [cut, cut_by_a_byte, emptied, garbled, text, unreadable], ids=lambda f: f.__name__)
def test_a_damaged_file_is_told_of_once_and_made_anew(
    damage: Callable[[Path], None], which: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert n_compilations() == 1
    (path,) = folder.glob(f"*/*{which}")
    damage(path)
    caplog.clear()
    assert n_compilations() == 1
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == [f"compiled code in {folder} is damaged, and is made anew (note: compiled-code-damaged)"]
    caplog.clear()
    assert n_compilations() == 0
    assert not caplog.messages
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])
def test_a_disk_that_takes_nothing_is_told_of_once_and_the_function_answers(
    number: int, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: str, target: str) -> None:
        raise OSError(number, os.strerror(number), target)

    monkeypatch.setattr(os, "replace", full)
    assert [n_compilations(argument) for argument in (21, 2.5, 21)] == [1, 1, 1]
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == [
        f"compiled code is not stored in {folder}: cannot be written: {os.strerror(number)} "
        f"(make room there, or set {code_cache.CACHE_VARIABLE}) (note: compiled-code-not-stored)"
    ]
    assert not list(folder.iterdir())


def test_without_any_folder_a_function_is_compiled_and_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code_cache, "_roots", list)
    code_cache.cache_folder.cache_clear()
    assert [n_compilations() for _ in range(2)] == [1, 1]
    assert caplog.messages[0].startswith("compiling the executor for this run only, as no folder keeps it (set ")


def test_a_folder_removed_since_it_was_found_is_no_failure(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.rmdir()
    assert n_compilations() == 1
    assert f"compiled code is not stored in {folder}: " in caplog.text


def test_two_processes_that_store_at_once_leave_one_whole_folder(folder: Path) -> None:
    """The first stays; the other one finds it when it is done."""
    place = folder / "name"
    with code_cache.replaced_folder(place) as ours:
        (ours / "code").write_text("ours", encoding="utf-8")
        with code_cache.replaced_folder(place) as theirs:
            (theirs / "code").write_text("theirs", encoding="utf-8")
        assert code_cache.is_intact(place)
    assert (place / "code").read_text(encoding="utf-8") == "theirs"
    assert code_cache.is_intact(place)
    assert list(folder.iterdir()) == [place]


def beside(folder: Path, name: str, unused_days: float, mode: int = 0o700) -> Path:
    """Another folder with a file, not used for some days."""
    made = folder.with_name(name)
    made.mkdir()
    made.chmod(mode)
    (made / "advance.code").write_bytes(b"code")
    used_s = time.time() - unused_days * DAY_S
    os.utime(made, (used_s, used_s))
    return made


def test_folders_of_other_versions_go_when_they_were_not_used_for_a_month(folder: Path) -> None:
    old = beside(folder, "executor-0123456789abcdef", 31)
    recent = beside(folder, "executor-123456789abcdef0", 29)
    of_the_user = beside(folder, "executor-of-the-rocket", 400)
    shared = beside(folder, "executor-23456789abcdef01", 400, mode=0o755)
    linked = folder.with_name("executor-3456789abcdef012")
    linked.symlink_to(beside(folder, "elsewhere", 400))
    assert n_compilations() == 1
    assert not old.exists()
    assert all((made / "advance.code").exists() for made in (recent, of_the_user, shared, linked))


def test_the_twenty_folders_used_last_are_left(folder: Path) -> None:
    others = [beside(folder, f"executor-{n:016x}", n / 10) for n in range(25)]
    assert n_compilations() == 1
    assert [made for made in others if made.exists()] == others[: code_cache.MOST_FOLDERS]


def test_a_folder_is_used_by_who_loads_from_it(folder: Path) -> None:
    n_compilations()
    os.utime(folder, (0, 0))
    assert n_compilations() == 0
    assert time.time() - folder.stat().st_mtime < DAY_S


def test_what_a_killed_process_had_not_finished_is_removed_after_a_day(folder: Path) -> None:
    old, young = folder / ".planner-0123", folder / ".planner-4567"
    for path, days in ((old, 2.0), (young, 0.5)):
        path.mkdir()
        (path / "code").write_bytes(b"half")
        os.utime(path, (time.time() - days * DAY_S,) * 2)
    n_compilations()
    assert not old.exists()
    assert young.exists()


ROOT = Path(__file__).parents[1]
SIMULATED = """
import sys
from numba.core.event import install_recorder
with install_recorder("numba:compile") as recorder:
    try:
        from planner.cli import main
        sys.argv = ["planner", "simulate", "--requests", "200", "--format", "json"]
        main()
    finally:
        print(sum(event.is_start for _, event in recorder.buffer), "compilations", file=sys.stderr)
"""


def simulated(root: Path, cache: Path) -> tuple[str, list[str], int]:
    """Answer of `planner simulate` from a copy of the sources, what it says of compiling, and how often it compiles."""
    environment = {**os.environ, code_cache.CACHE_VARIABLE: str(cache), "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", SIMULATED]
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    *said, last = ran.stderr.splitlines()
    return ran.stdout, [line for line in said if "compil" in line and " so far" not in line], int(last.split()[0])


def test_copies_of_the_sources_share_what_one_has_compiled_and_a_damaged_file_is_mended(tmp_path: Path) -> None:
    cache, copies = tmp_path / "cache", [tmp_path / name for name in ("one", "two")]
    for copy in copies:
        for name in ("planner", "hardware_profiles", "model_profiles", "stack_profiles"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ROOT.glob("reports/*/scenario.toml"):
            (copy / path.relative_to(ROOT)).parent.mkdir(parents=True)
            shutil.copy(path, copy / path.relative_to(ROOT))
    first, second = (simulated(copy, cache) for copy in copies)
    assert [line.split(",")[0] for line in first[1]] == [
        "planner: compiling the executor once",
        "planner: the executor is compiled",
    ]
    assert first[2] > 0
    assert second == (first[0], [], 0)
    cut(next(cache.glob("*/*/*.nbc")))
    mended = simulated(copies[0], cache)
    assert "is damaged, and is made anew" in mended[1][0]
    assert mended[2] > 0
    assert simulated(copies[1], cache) == second


AT_ONCE = """
from planner.executor.compilation import machine_code
def doubled(x): return 2 * x
for argument in (21, 2.5, (1, 2)[0]):
    (code,) = machine_code({doubled: (argument,)})
    print(code(argument))
"""


def test_processes_at_once_get_the_right_answers(folder: Path) -> None:
    command = [sys.executable, "-c", AT_ONCE]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    several = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in several:
        with process:
            assert process.communicate()[0].split() == ["42", "5.0", "2"]
            assert process.returncode == 0
    assert all(map(code_cache.is_intact, folder.iterdir()))
    assert len(list(folder.iterdir())) == 2
