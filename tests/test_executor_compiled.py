"""Where the compiled event loop is kept: the first folder that can be written, named after its sources."""

import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.executor import code_cache
from planner.executor.compiled import compiled_entry


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


def test_a_folder_that_cannot_be_written_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(blocked))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    found = code_cache.cache_folder()
    assert found is not None
    assert found.parent == tmp_path / "user" / "planner"


def test_without_any_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    monkeypatch.setattr(code_cache, "_roots", lambda: [(blocked, False)])
    assert code_cache.cache_folder() is None
    double = compiled_entry(lambda x: 2 * x)
    assert double(21) == 42


def test_other_sources_have_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path))
    first = code_cache.cache_folder()
    sources = shutil.copytree(code_cache.SOURCES, tmp_path / "sources")
    (sources / "kernel" / "loop.py").write_text("# changed", encoding="utf-8")
    monkeypatch.setattr(code_cache, "SOURCES", sources)
    code_cache.cache_folder.cache_clear()
    assert code_cache.cache_folder() != first


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
    assert f"compiled code is not kept in {first.parent}" in caplog.text
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


def test_a_first_call_that_compiles_is_told_of_and_a_second_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path))
    caplog.set_level(logging.INFO, "planner")
    double = compiled_entry(_doubled)
    for _ in range(2):
        with code_cache.told_of_compiling("double", double):
            assert double(21) == 42
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "compiling the executor once",
        "the executor is compiled",
    ]
    assert code_cache.is_compiled("double")


def _doubled(x: int) -> int:
    return 2 * x
