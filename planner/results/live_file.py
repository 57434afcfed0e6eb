"""A live run read back from the JSON that `planner live` wrote."""

import json

from pydantic import ValidationError

from planner.errors import InputError, Problem
from planner.results.live import Live
from planner.results.plan_file import json_problem

ALLOWED = "the answer of planner live --format json"


def live_from(text: str, name: str) -> Live:
    """The live run of a JSON text.

    Args:
        text: what `planner live --format json` printed, or the `live.json` that it kept.
        name: how errors call the file.

    Raises:
        InputError: the text is not such an answer; every problem is named.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(Problem(name, "", f"is not JSON: {error}", ALLOWED)) from None
    if not isinstance(content, dict) or content.get("schema") != "planner.live/1":
        raise InputError(Problem(name, "schema", "is not planner.live/1", ALLOWED))
    stated = {key: value for key, value in content.items() if key not in ("schema", "holds")}
    try:
        return Live.model_validate_json(json.dumps(stated))
    except ValidationError as error:
        raise InputError(json_problem(name, dict(e)) for e in error.errors()) from None
