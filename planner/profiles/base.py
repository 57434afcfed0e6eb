"""Common base of hardware, model and stack profiles: a name, aliases, cited sources, and reports that miss no fault."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails

from planner.errors import did_you_mean
from planner.ranges import ProfileName
from planner.schema import FieldError, StrictModel, error_detail, fault_detail, raise_details
from planner.toml_lines import KeyPath

Precision = Literal["bf16", "fp8", "int8", "int4", "fp4"]
Text = Annotated[str, Field(min_length=1, max_length=10_000)]


class Profile(StrictModel):
    """A named file of sourced facts."""

    name: ProfileName
    """Name of the profile: its file name without suffix."""
    title: Text
    """Name as people write it."""
    aliases: tuple[Text, ...] = ()
    """Other names it is found by, in any case of letters."""
    sources: Annotated[dict[Text, Text], Field(min_length=1)]
    """Citations and addresses by a short id; everything sourced names one of these ids."""

    def __hash__(self) -> int:
        """By name: equal profiles have equal names, and the tables inside cannot be hashed."""
        return hash((type(self), self.name))

    @model_validator(mode="wrap")
    @classmethod
    def _cites_listed_sources(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # Wrapped, so that unknown sources are reported together with whatever else is wrong.
        unknown = [fault_detail(fault) for fault in _unknown_sources(data)]
        try:
            record = handler(data)
        except ValidationError as error:
            raise_details([*map(_repeated, error.errors()), *unknown])
            raise
        raise_details(unknown)
        return record


def _unknown_sources(data: Any) -> Iterator[FieldError]:
    sources = dict(_items(data)).get("sources")
    if isinstance(sources, Mapping):
        for key, source in _cited(data):
            if source not in sources:
                yield FieldError(key, f"names no listed source: {source!r} ({did_you_mean(source, map(str, sources))})")


def _cited(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    for name, item in _items(value):
        if name == "source" and isinstance(item, str):
            yield (*key, name), item
        else:
            yield from _cited(item, (*key, name))


def _items(value: Any) -> Iterable[tuple[str | int, Any]]:
    """Keys and values of a table, a record or an array; nothing for anything else."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, tuple):
        return enumerate(value)
    return value if isinstance(value, BaseModel) else ()


def _repeated(error: ErrorDetails) -> InitErrorDetails:
    detail = error_detail(error["loc"], error["type"], error["msg"], error.get("ctx", {}))
    return {**detail, "input": error["input"]}
