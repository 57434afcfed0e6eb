"""Failures as one JSON object, for whoever asked for JSON."""

from typing import Any

from planner.errors import CheckFailedError, InfeasibleError, InputError, PlannerError, UndecidedError

SCHEMA = "planner.error/1"
KINDS = {
    InputError.exit_code: "bad input",
    InfeasibleError.exit_code: "infeasible",
    UndecidedError.exit_code: "undecided",
    CheckFailedError.exit_code: "check failed",
}
"""Exit codes of which stdout gets an object, and what each is called there."""


def exit_code(error: PlannerError | OSError) -> int:
    """Exit code of a command that fails so; what the system refuses is taken for bad input."""
    return error.exit_code if isinstance(error, PlannerError) else InputError.exit_code


def failure(error: PlannerError | OSError) -> dict[str, Any] | None:
    """A failure for programs; None where it is about how the command was called, or a fault of the program."""
    code = exit_code(error)
    if code not in KINDS:
        return None
    answer: dict[str, Any] = {"schema": SCHEMA, "exit_code": code, "error": KINDS[code], "message": str(error)}
    if isinstance(error, InputError):
        answer["problems"] = [
            {"file": p.file, "line": p.line, "key": p.key, "message": p.message, "allowed": p.allowed}
            for p in error.problems
        ]
    if isinstance(error, InfeasibleError):
        answer["relaxations"] = list(error.relaxations)
    return answer
