"""Templates of reports in Markdown, filled in with records whose texts are escaped."""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, TypeVar

from planner.markdown_text import escaped, plain, prose
from planner.report.table import Table
from planner.schema import StrictModel


def rendered(template: str, **facts: Any) -> str:
    """A template of the package with its facts; those that are tables are written in Markdown.

    Args:
        facts: by the names that the template has for them; one that is missing is an error.

    Returns:
        Markdown that ends in one newline and is the same for the same facts.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, autoescape=False, finalize=_written
    )
    source = files("planner.report").joinpath("templates", template).read_text(encoding="utf-8")
    return re.sub(r"\n{3,}", "\n\n", environment.from_string(source).render(facts)).strip() + "\n"


def _written(fact: Any) -> Any:
    return fact.markdown() if isinstance(fact, Table) else fact


Record = TypeVar("Record", bound=StrictModel)


def escaped_record(record: Record) -> Record:
    """A record with every text in it escaped; its notes, where it has some in Markdown, as prose."""
    notes = getattr(record, "notes", None)
    kept = {"notes": prose(notes)} if isinstance(notes, str) else {}
    changed: Record = _mapped(record, escaped)
    return changed.model_copy(update=kept)


def plain_record(record: Record) -> Record:
    """A record with every text in it on one line, for what is not Markdown."""
    changed: Record = _mapped(record, plain)
    return changed


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A value with every text in it changed, keys of tables as well; the same value where nothing changes."""
    if isinstance(value, str):
        return value if value == (new := change(value)) else new
    if isinstance(value, StrictModel):
        fields = {name: (old, _mapped(old, change)) for name, old in value}
        update = {name: new for name, (old, new) in fields.items() if new is not old}
        return value.model_copy(update=update) if update else value
    if isinstance(value, tuple | list):
        items = [_mapped(item, change) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else type(value)(items)
    if isinstance(value, Mapping):
        pairs = [(key, item, _mapped(key, change), _mapped(item, change)) for key, item in value.items()]
        return value if all(a is c and b is d for a, b, c, d in pairs) else {c: d for *_, c, d in pairs}
    return value
