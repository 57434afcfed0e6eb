"""Shipped profiles with one text replaced, and what the gate must say of them."""

from dataclasses import dataclass
from pathlib import Path

from planner.profiles import check_profiles
from planner.profiles.folders import KINDS, profile_paths


@dataclass(frozen=True)
class Planted:
    """A shipped file, or a text given, with one text replaced, and what must be said of it."""

    name: str
    old: str
    new: str
    key: str
    says: str
    at: str = ""
    base: str = ""

    def text(self) -> str:
        text = self.base or shipped_text(self.name)
        assert text.count(self.old) == 1, f"{self.old!r} must be in {self.name} once"
        return text.replace(self.old, self.new)

    def line(self) -> int:
        text = self.text()
        return text[: text.index(self.at or self.new)].count("\n") + 1


def shipped_text(name: str) -> str:
    paths = {path.stem: path for kind in KINDS for path in profile_paths(kind)}
    return paths[name].read_text(encoding="utf-8")


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def assert_found_alone(planted: Planted, folder: Path) -> None:
    """The planted fault is the only problem of its file, at its line, and named."""
    found = check_profiles([written(folder, planted.name, planted.text())])
    assert [problem.key for problem in found.problems] == [planted.key]
    assert found.problems[0].line == planted.line()
    assert planted.says in str(found.problems[0]), found.problems[0]
