"""Which cases of a family a newcomer's suite runs; the rest is of the slow one."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick_first(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """The cases of a parametrised test: all but those named as quick are marked slow."""
    return [case if case in quick else _slow(case) for case in cases]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
