"""The folder of the compiled event loop: the first that can be written and is ours, named after its sources."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.executor import code_cache
from planner.jobs import Workers, answers


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    code_cache.cache_folder.cache_clear()
    yield
    code_cache.cache_folder.cache_clear()


def test_the_stated_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path / "here"))
    found = code_cache.cache_folder()
    assert found is not None
    assert found.parent == tmp_path / "here"
    assert found.is_dir()


def test_a_stated_folder_that_cannot_be_written_is_told_of_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(blocked))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    found = code_cache.cache_folder()
    assert found is not None
    assert found.parent == tmp_path / "user" / "planner"
    (said,) = caplog.messages
    assert said.startswith(f"compiled code is not stored in {blocked}: cannot be written: ")
    assert code_cache.CACHE_VARIABLE in said


def test_the_users_folder_is_passed_over_in_silence_for_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "user").write_text("no folder", encoding="utf-8")
    monkeypatch.delenv(code_cache.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert (found := code_cache.cache_folder()) is not None
    assert found.parent == tmp_path / f"planner-{os.getuid()}"
    assert not caplog.messages


def test_without_any_folder_all_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(blocked / "stated"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked / "user"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(blocked))
    assert code_cache.cache_folder() is None
    named = [said.removeprefix("compiled code is not stored in ").split(":")[0] for said in caplog.messages]
    assert named == [
        str(blocked / "stated"),
        str(blocked / "user" / "planner"),
        str(blocked / f"planner-{os.getuid()}"),
    ]


def test_a_copy_of_the_sources_at_another_place_and_time_has_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path))
    first = code_cache.cache_folder()
    sources = shutil.copytree(code_cache.SOURCES, tmp_path / "sources")
    for path in sources.rglob("*.py"):
        os.utime(path, (0, 0))
    monkeypatch.setattr(code_cache, "SOURCES", sources)
    code_cache.cache_folder.cache_clear()
    assert code_cache.cache_folder() == first


@pytest.mark.parametrize("changed", ["kernel/loop.py", "kernel/batch.py", "compiled.py", "compilation.py"])
def test_a_changed_line_has_another_folder(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path))
    first = code_cache.cache_folder()
    sources = shutil.copytree(code_cache.SOURCES, tmp_path / "sources")
    with (sources / changed).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    monkeypatch.setattr(code_cache, "SOURCES", sources)
    code_cache.cache_folder.cache_clear()
    assert code_cache.cache_folder() != first


@pytest.mark.parametrize("library", ["numba", "llvmlite", "numpy", "python", "NUMBA_OPT"])
def test_another_compiler_or_setting_of_it_has_another_folder(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path))
    first = code_cache.cache_folder()
    if library == "NUMBA_OPT":
        monkeypatch.setenv(library, "2")
    elif library == "python":
        monkeypatch.setattr(code_cache, "python_version", lambda: "3.99.0")
    else:
        usual = code_cache.version
        monkeypatch.setattr(code_cache, "version", lambda name: "99" if name == library else usual(name))
    code_cache.cache_folder.cache_clear()
    assert code_cache.cache_folder() != first


def test_processes_that_share_the_work_have_the_folder_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path))
    first = code_cache.cache_folder()
    assert answers(found_anew, [(str(tmp_path),)] * 2, Workers(2)) == [first, first]


def found_anew(root: str) -> Path | None:
    """The folder as another process finds it."""
    with pytest.MonkeyPatch.context() as patch:  # the process may have worked for other tests, and will
        patch.setenv(code_cache.CACHE_VARIABLE, root)
        code_cache.cache_folder.cache_clear()
        found = code_cache.cache_folder()
    code_cache.cache_folder.cache_clear()
    return found


def foreign(folder: Path) -> None:
    os.chown(folder, 12345, 12345)


def loose(folder: Path) -> None:
    folder.chmod(0o770)


def linked(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


SPOILED: list[Callable[[Path], None]] = [loose, linked]
if hasattr(os, "geteuid") and os.geteuid() == 0:
    SPOILED.append(foreign)


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
@pytest.mark.parametrize("place", ["user", "user's root", "stated"])
def test_compiled_code_is_not_taken_from_a_folder_that_others_may_have_filled(
    place: str,
    spoil: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if place == "stated":
        monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path / "stated"))
    else:
        monkeypatch.delenv(code_cache.CACHE_VARIABLE, raising=False)
    first = code_cache.cache_folder()
    assert first is not None
    spoil(first.parent if place == "user's root" else first)
    code_cache.cache_folder.cache_clear()
    second = code_cache.cache_folder()
    assert second is not None
    assert second.parent == (
        tmp_path / "user" / "planner" if place == "stated" else tmp_path / f"planner-{os.getuid()}"
    )
    assert f"compiled code is not stored in {first.parent}" in caplog.text
    assert stat.S_IMODE(second.stat().st_mode) == 0o700


def test_a_folder_that_others_may_only_read_is_none_to_keep_compiled_code_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path / "stated"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    first = code_cache.cache_folder()
    assert first is not None
    first.parent.chmod(0o755)
    code_cache.cache_folder.cache_clear()
    assert code_cache.cache_folder() == first
    first.chmod(0o755)
    code_cache.cache_folder.cache_clear()
    assert code_cache.cache_folder() != first
