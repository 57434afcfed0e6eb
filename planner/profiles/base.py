"""What hardware and model profiles share: a name, aliases, cited sources, and reports that miss no fault."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from planner.errors import did_you_mean
from planner.schema import KeyPath, StrictModel

Precision = Literal["bf16", "fp8", "int8", "int4", "fp4"]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]


class Fault(NamedTuple):
    """Something wrong across fields, and the key where a reader should look."""

    key: KeyPath
    message: str


def raise_faults(faults: Iterable[Fault]) -> None:
    """Called by validators: reports every fault, each at its own key and not at the record that encloses it.

    Raises:
        ValidationError: when there is any fault.
    """
    _raise_details([_detail(fault.key, "value_error", fault.message) for fault in faults])


class Profile(StrictModel):
    """A named file of sourced facts."""

    name: Name
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
        unknown = [_detail(fault.key, "value_error", fault.message) for fault in _unknown_sources(data)]
        try:
            record = handler(data)
        except ValidationError as error:
            _raise_details([*map(_repeated, error.errors()), *unknown])
            raise
        _raise_details(unknown)
        return record


def _unknown_sources(data: Any) -> Iterator[Fault]:
    sources = dict(_items(data)).get("sources")
    if isinstance(sources, Mapping):
        for key, source in _cited(data):
            if source not in sources:
                yield Fault(key, f"names no listed source: {source!r} ({did_you_mean(source, map(str, sources))})")


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


def _raise_details(details: list[InitErrorDetails]) -> None:
    if details:
        raise ValidationError.from_exception_data("profile", details)


def _repeated(error: ErrorDetails) -> InitErrorDetails:
    detail = _detail(error["loc"], error["type"], error["msg"], error.get("ctx", {}))
    return {**detail, "input": error["input"]}


def _detail(key: KeyPath, kind: str, message: str, context: Mapping[str, Any] | None = None) -> InitErrorDetails:
    # The message travels as a value: given as a template, its braces would be taken for fields.
    error = PydanticCustomError(kind, "{message}", {**(context or {}), "message": message})
    return InitErrorDetails(type=error, loc=key, input=None)
