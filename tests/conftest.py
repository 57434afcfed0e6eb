"""What every test may use: settings of the law tests, and data that stays with its publisher."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from planner.threads import use_one_thread
from tests import tiers

if TYPE_CHECKING:
    from tests.trace_cases import Conversations

use_one_thread()  # as the command does, before anything imports NumPy: neither of these does
settings.register_profile("planner", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("campaign", deadline=None, derandomize=False, max_examples=60, print_blob=True)
settings.load_profile("planner")

os.environ.pop("PLANNER_PROFILES", None)  # own profiles of whoever runs the tests are no part of them
os.environ.pop("COLUMNS", None)  # tables are as wide as it says; here as wide as they get

ROOT = Path(__file__).resolve().parents[1]
GOLDENS = ROOT / "tests" / "goldens"
DATA_DIRS = [Path(p) for p in os.environ.get("PLANNER_DATA", "").split(os.pathsep) if p] + [
    ROOT.parent / "shared" / "data"
]


@pytest.fixture(scope="session")
def data_file() -> Callable[[str], Path]:
    """Finds a published data file by its name under the data directory; skips the test, naming it, where missing."""

    def find(name: str) -> Path:
        for path in (folder / name for folder in DATA_DIRS):
            if path.is_file():
                return path
        pytest.skip(f"{name} is not here: get it from its publisher and set PLANNER_DATA")

    return find


@pytest.fixture(scope="session")
def made_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small traces that tests make, under the names of the published ones."""
    from tests.trace_cases import AZURE, MOONCAKE, write_conversations, write_lengths

    folder = tmp_path_factory.mktemp("traces")
    write_conversations(folder / MOONCAKE)
    write_lengths(folder / AZURE)
    return folder


@pytest.fixture(scope="session", params=["made", "published"])
def mooncake(request: pytest.FixtureRequest, data_file: Callable[[str], Path]) -> "Conversations":
    """A trace of conversations of which the ideal hits are known: one that tests make, and the published one."""
    from tests.trace_cases import MOONCAKE, PUBLISHED_HOUR, made_conversations

    if request.param == "published":
        return PUBLISHED_HOUR._replace(path=data_file(f"traces/{MOONCAKE}"))
    return made_conversations(request.getfixturevalue("made_traces") / MOONCAKE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-goldens` rewrites the files under tests/goldens from what the planner says now; read the diff."""
    parser.addoption("--update-goldens", action="store_true", help="rewrite golden files instead of comparing them")
    parser.addoption(
        "--durations-list", action="store_true", help="write tests/slow.txt from the CPU seconds of this run"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tiers by CPU seconds."""
    config.pluginmanager.register(tiers)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(tiers.Durations(config))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a file under tests/goldens, or writes it there with `--update-goldens`."""

    def compare(name: str, text: str) -> None:
        path = GOLDENS / name
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{name} is missing: run pytest with --update-goldens and read it"
        assert text == path.read_text(encoding="utf-8")

    return compare
