"""What every test may use: settings of the law tests, and data that stays with its publisher."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("planner", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("planner")

ROOT = Path(__file__).resolve().parents[1]
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
