"""A live run read back from the JSON that `planner live` wrote."""

from planner.results.live import Live
from planner.results.plan_file import answer_file


def live_from(text: str, name: str) -> Live:
    """The live run of a JSON text.

    Args:
        text: what `planner live --format json` printed, or the `live.json` that it kept.
        name: how errors call the file.

    Raises:
        InputError: the text is not such an answer; every problem is named.
    """
    file = answer_file(text, name, "planner.live/1", "the answer of planner live --format json")
    return file.record(Live, {key: value for key, value in file.data.items() if key not in ("schema", "holds")})
