"""A plan from what a command is given: an answer of `optimize --format json`, or a scenario, planned first."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.common import with_inputs
from planner.cli.progress import progress
from planner.cli.trace_options import scenario_read

if TYPE_CHECKING:
    from planner.results import Plan


def plan_of(name: str, overrides: Sequence[str], time_limit_s: float) -> "Plan":
    """The plan of a file, or of a scenario.

    Raises:
        UsageError: keys of a scenario are changed, and a plan is given.
        InputError, InfeasibleError, UndecidedError: these name it.
    """
    from planner.cli.optimize import planned
    from planner.errors import InfeasibleError, UndecidedError, UsageError
    from planner.results import plan_from

    if (text := _plan_text(name)) is not None:
        if overrides:
            raise UsageError(f"--set: changes a scenario, and {name} is a plan")
        return plan_from(text, name)
    question = scenario_read(name, overrides)
    with progress(f"planning {name}") as tell:
        try:
            return with_inputs(planned(question, time_limit_s, tell), question)
        except InfeasibleError as error:
            raise InfeasibleError(_of(name, error), error.relaxations) from None
        except UndecidedError as error:
            raise UndecidedError(_of(name, error)) from None


def _of(name: str, error: Exception) -> str:
    """What is wrong with the plan of that name, which is said once."""
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
