"""A plan read back from the JSON that `planner optimize --format json` printed."""

from collections.abc import Mapping
from typing import Any

from planner.errors import InputError, InputProblem
from planner.results.plan import Plan
from planner.schema import Document, JsonFile

NAMES = {"schema": "schema_version", "from": "from_site", "to": "to_site"}
"""Fields that JSON calls otherwise."""
AROUND = ("pareto", "sensitivity", "explanation", "growth")
"""What `planner optimize` prints around a plan where it is asked to."""


def plan_from(text: str, name: str) -> Plan:
    """The plan of a JSON text, without studies around it; what JSON leaves out, the sweep over thresholds, is unknown.

    Args:
        text: what `planner optimize --format json` printed.
        name: how errors call the file.

    Raises:
        InputError: the text is not such a plan; every problem is named.
    """
    file = answer_file(text, name, "planner.plan/1", "the answer of planner optimize --format json")
    stated = {key: value for key, value in file.data.items() if key not in AROUND}
    return file.record(Plan, {"sweep": None, **_renamed(stated)})


def answer_file(text: str, name: str, schema: str, allowed: str) -> Document:
    """The JSON object of an answer that the planner printed.

    Raises:
        InputError: it is not JSON, or of another schema.
    """
    file = JsonFile(name, text, allowed)
    if not isinstance(file.data, dict) or file.data.get("schema") != schema:
        raise InputError(InputProblem(name, "schema", f"is not {schema}", allowed))
    return file


def _renamed(value: Any) -> Any:
    """The value with the fields' own names."""
    if isinstance(value, Mapping):
        return {NAMES.get(key, key): _renamed(item) for key, item in value.items()}
    return [_renamed(item) for item in value] if isinstance(value, list) else value
