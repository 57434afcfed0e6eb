"""A plan read back from the JSON that `planner optimize --format json` printed."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from planner.errors import InputError, Problem
from planner.results.plan import Plan

NAMES = {"schema": "schema_version", "from": "from_site", "to": "to_site"}
"""Fields that JSON calls otherwise."""


def plan_from(text: str, name: str) -> Plan:
    """The plan of a JSON text; what JSON leaves out, the sweep over thresholds, is unknown.

    Args:
        text: what `planner optimize --format json` printed.
        name: how errors call the file.

    Raises:
        InputError: the text is not such a plan; every problem is named.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"is not JSON: {error}"
        raise InputError(Problem(name, "", message, "the answer of planner optimize --format json")) from None
    if not isinstance(content, dict) or content.get("schema") != "planner.plan/1":
        raise InputError(
            Problem(name, "schema", "is not planner.plan/1", "the answer of planner optimize --format json")
        )
    try:
        return Plan.model_validate_json(json.dumps({"sweep": None, **_renamed(content)}))
    except ValidationError as error:
        raise InputError(json_problem(name, dict(e)) for e in error.errors()) from None


def _renamed(value: Any) -> Any:
    """The value with the fields' own names."""
    if isinstance(value, Mapping):
        return {NAMES.get(key, key): _renamed(item) for key, item in value.items()}
    return [_renamed(item) for item in value] if isinstance(value, list) else value


def json_problem(name: str, error: Mapping[str, Any]) -> Problem:
    """What pydantic finds wrong in a JSON file."""
    key = ".".join(str(part) for part in error["loc"])
    return Problem(name, key, str(error["msg"]).lower())
