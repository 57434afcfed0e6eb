"""Where the compiled event loop is kept: the first folder that can be written, named after its sources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.executor import compiled


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    compiled.cache_folder.cache_clear()
    yield
    compiled.cache_folder.cache_clear()


def test_the_stated_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.CACHE_VARIABLE, str(tmp_path / "here"))
    found = compiled.cache_folder()
    assert found is not None
    assert found.parent == tmp_path / "here"
    assert found.is_dir()


def test_a_folder_that_cannot_be_written_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    monkeypatch.setenv(compiled.CACHE_VARIABLE, str(blocked))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    found = compiled.cache_folder()
    assert found is not None
    assert found.parent == tmp_path / "user" / "planner"


def test_without_any_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    monkeypatch.setattr(compiled, "_roots", lambda: [blocked])
    assert compiled.cache_folder() is None
    double = compiled.compiled_entry(lambda x: 2 * x)
    assert double(21) == 42


def test_other_sources_have_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.CACHE_VARIABLE, str(tmp_path))
    first = compiled.cache_folder()
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "loop.py").write_text("# changed", encoding="utf-8")
    monkeypatch.setattr(compiled, "KERNEL", tmp_path / "kernel")
    compiled.cache_folder.cache_clear()
    assert compiled.cache_folder() != first
