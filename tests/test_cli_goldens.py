"""What the command line said last time: the reference plan to six digits, and every help page.

A golden file shows what changed, not what is right: tests/test_optimizer_*.py and tests/test_comparison_*.py hold plans
against paper and laws.
"""

import json
from collections.abc import Callable
from math import isclose
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from planner.cli import app

DIGITS = 6
NOISE = 1e-6
"""Gaps and gains below this are rounding of the solver."""


def rounded(value: Any) -> Any:
    """A JSON value with numbers to six significant digits, and 0 for what is only rounding."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return 0.0 if isclose(value, 0.0, abs_tol=NOISE) else float(f"{value:.{DIGITS}g}")
    return value


@pytest.mark.parametrize("rule", ["expected-work", "mean-length"])
def test_the_reference_plan_is_what_it_was(rule: str, golden: Callable[[str, str], None]) -> None:
    arguments = ["optimize", "prfaas-paper", "--set", f"capacity_rule={rule}", "--format", "json"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer.pop("inputs")["scenario"]  # the question and the profiles are files of their own
    text = json.dumps(rounded(answer), indent=2, ensure_ascii=False)
    golden(f"cli/optimize-prfaas-paper-{rule}.json", f"{text}\n")


def test_the_infeasible_answer_is_what_it_was(golden: Callable[[str, str], None]) -> None:
    arguments = ["optimize", "prfaas-paper", "--set", "objective=min-cost", "--set", "demand_req_per_s=1000"]
    arguments += ["--time-limit", "600"]  # what is found must not depend on how busy a machine is
    found = CliRunner().invoke(app, arguments)
    golden("cli/infeasible.txt", f"{found.exception}\n")


def commands() -> list[tuple[str, ...]]:
    """Every command of the command line, groups first."""
    top = typer.main.get_command(app)
    found: list[tuple[str, ...]] = [()]
    for name, command in sorted(getattr(top, "commands", {}).items()):
        found += [(name,), *((name, inner) for inner in sorted(getattr(command, "commands", {})))]
    return found


def test_every_help_page_is_what_it_was(golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    pages = []
    for names in commands():
        found = CliRunner().invoke(app, [*names, "--help"], prog_name="planner", terminal_width=100)
        assert found.exit_code == 0
        pages.append(f"$ planner {' '.join([*names, '--help'])}\n{found.stdout}")
    golden("cli/help.txt", "\n".join(pages))


def test_there_is_a_help_page_for_every_command_of_the_contract() -> None:
    wanted = {"optimize", "predict", "report", "size", "scenario new", "scenario check", "scenario schema"}
    wanted |= {f"profiles {name}" for name in ("list", "show", "check", "schema")}
    assert wanted <= {" ".join(names) for names in commands()}
