"""A plan from what a command is given: an answer of `optimize --format json`, or a scenario, planned first."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.common import with_inputs
from planner.cli.progress import progress
from planner.cli.trace_options import scenario_read

if TYPE_CHECKING:
    from planner.results.plan import Plan
    from planner.scenario import Scenario


def plans_of(asked: Sequence[tuple[str, Sequence[str]]], time_limit_s: float) -> "list[Plan]":
    """The plans of files, or of scenarios; all files are read before any scenario is planned.

    Args:
        asked: names of files and scenarios, each with its `--set` overrides.

    Raises:
        UsageError: keys of a scenario are changed, and a plan is given.
        InputError, InfeasibleError, UndecidedError: these name it.
    """
    read = [(name, _read(name, overrides)) for name, overrides in asked]
    return [_planned(name, found, time_limit_s) for name, found in read]


def check_promise(plan: "Plan") -> None:
    """Say at the end that a run does not keep the promise of a plan. Raises UndecidedError or CheckFailedError."""
    from planner.errors import CheckFailedError, UndecidedError

    if plan.slo_run is None or plan.slo_run.outcome not in ("not kept", "undecided"):
        return
    from planner.report import phrases

    error = UndecidedError if plan.slo_run.outcome == "undecided" else CheckFailedError
    raise error(f"{plan.scenario}: {phrases.slo_run(plan)}")


def _read(name: str, overrides: Sequence[str]) -> "Plan | Scenario":
    from planner.errors import UsageError
    from planner.results.plan_file import plan_from

    if (text := _plan_text(name)) is None:
        return scenario_read(name, overrides)
    if overrides:
        raise UsageError(f"--set: changes a scenario, and {name} is a plan")
    return plan_from(text, name)


def _planned(name: str, question: "Plan | Scenario", time_limit_s: float) -> "Plan":
    """A plan as it is, or that of a scenario. Raises as `plans_of` does."""
    from planner.cli.optimize import plan_and_run
    from planner.errors import InfeasibleError, UndecidedError
    from planner.results.plan import Plan

    if isinstance(question, Plan):
        return question
    with progress(f"planning {name}") as update:
        try:
            return with_inputs(plan_and_run(question, time_limit_s, update), question)
        except InfeasibleError as error:
            raise InfeasibleError(_of(name, error), error.relaxations) from None
        except UndecidedError as error:
            raise UndecidedError(_of(name, error)) from None


def _of(name: str, error: Exception) -> str:
    """Error in the plan of that name, which is said once."""
    return str(error) if str(error).startswith(f"{name}:") else f"{name}: {error}"


def _plan_text(name: str) -> str | None:
    """The text of a file that is JSON, or is called so; None of anything else, which is taken for a scenario."""
    from planner.reading import read_text
    from planner.scenario import bundled_scenarios
    from planner.schema import is_file

    path = Path(name)
    if name in bundled_scenarios() or path.suffix == ".toml" or not (is_file(path) or path.suffix == ".json"):
        return None
    text = read_text(path)
    return text if path.suffix == ".json" or text.lstrip()[:1] == "{" else None
