"""What every target gets of six plans, file by file, or why it is refused."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from planner.deploy import TARGETS, Target
from planner.errors import InputError
from tests.deploy_cases import CASES, exported


def told(case: str, target: Target) -> str:
    """All files of an export in one text, or what is said against it."""
    try:
        files = exported(CASES[case](), target)
    except InputError as error:
        return f"refused:\n{error}\n"
    return "".join(f"==> {name} <==\n{text}" for name, text in files.items())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_an_export_is_what_it_was(case: str, target: Target, golden: Callable[[str, str], None]) -> None:
    golden(f"deploy/{case}-{target}.txt", told(case, target))


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_takes_a_two_pool_plan_and_refuses_the_wrong_one_by_name(target: Target) -> None:
    assert not told("two-pools", target).startswith("refused")
    if target != "sglang":  # it hands caches over by other means
        assert "recurrent layers, whose state NIXL hands over between equal tp only" in told("unequal-hybrid", target)


def test_the_same_plan_gives_the_same_bytes_whatever_strings_hash_to() -> None:
    script = (
        "from tests.test_deploy_goldens import *\n"
        "print(''.join(told(case, target) for case in CASES for target in TARGETS))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
