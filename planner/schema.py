"""Strict, frozen records and TOML files that know their lines: the base of every file the planner reads."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from planner.errors import ExcessiveAnswerError, InputError, InputProblem, did_you_mean, shown
from planner.reading import TOML_BYTES, ExcessError, is_file, json_value, parsed_toml, read_text
from planner.toml_lines import KeyPath, key_lines
from planner.units import exact_number, unit_of

__all__ = [
    "Document",
    "FieldError",
    "JsonFile",
    "StrictModel",
    "TomlFile",
    "dotted",
    "error_detail",
    "fault_detail",
    "is_file",
    "raise_details",
    "raise_faults",
    "read_text",
]

Record = TypeVar("Record", bound="StrictModel")

_BARE = re.compile(r"[\w-]+", re.ASCII)


class StrictModel(BaseModel):
    """No coercion, no unknown keys, no NaN, no change after it is made."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        defer_build=True,
        extra="forbid",
        allow_inf_nan=False,
        protected_namespaces=(),
    )


FAULT = "planner_fault"
OUT_OF_RANGE = ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number")
"""Pydantic's errors of a number that is none of those allowed."""
TOO_GREAT = {"less_than_equal": "le", "less_than": "lt"}
"""Those of a number above its greatest, with what they call that."""


def excessive_answer(error: ValidationError) -> ExcessiveAnswerError | None:
    """The message for an answer of which nothing is wrong but that a figure is greater than its field states.

    The question is to blame then; None for every other fault, which is one of the program.
    """
    found = error.errors(include_url=False)
    if any(fault["type"] not in TOO_GREAT for fault in found):
        return None
    first, bound = found[0], next(fault["ctx"][TOO_GREAT[fault["type"]]] for fault in found)
    return ExcessiveAnswerError(
        f"{dotted(first['loc'])} of the answer is {first['input']:.3g}, and no answer states more than {bound:.3g} "
        "(numbers of the scenario that are nearer to those of a fleet)"
    )


class FieldError(NamedTuple):
    """Something wrong across fields, and the key where a reader should look."""

    key: KeyPath
    message: str


def raise_faults(faults: Iterable[FieldError]) -> None:
    """Called by validators: reports every fault, each at its own key and not at the record that encloses it.

    Raises:
        ValidationError: when there is any fault.
    """
    raise_details([fault_detail(fault) for fault in faults])


def raise_details(details: list[InitErrorDetails]) -> None:
    """Raise pydantic's error with these details, if there are any."""
    if details:
        raise ValidationError.from_exception_data("record", details)


def fault_detail(fault: FieldError) -> InitErrorDetails:
    """A fault as pydantic carries it."""
    return error_detail(fault.key, FAULT, fault.message)


def error_detail(key: KeyPath, kind: str, message: str, context: Mapping[str, Any] | None = None) -> InitErrorDetails:
    """An error as pydantic carries it."""
    # The message travels as a value: given as a template, its braces would be taken for fields.
    error = PydanticCustomError(kind, "{message}", {**(context or {}), "message": message})
    return InitErrorDetails(type=error, loc=key, input=None)


class Document:
    """A parsed file, with the line of every key where its format lets that be told."""

    def __init__(self, name: str, data: Any, lines: Mapping[KeyPath, int] | None = None) -> None:
        self.name, self.data = name, data
        self.lines = lines or {}

    def line(self, key: KeyPath) -> int | None:
        """Line of a key, or of the nearest table that encloses it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[:-1]
        return None

    def problem(self, key: KeyPath, message: str, allowed: str = "") -> InputProblem:
        """A problem placed at the key's line."""
        return InputProblem(self.name, dotted(key), message, allowed, self.line(key))

    def record(self, model: type[Record], data: Mapping[str, Any] | None = None) -> Record:
        """The file, or `data` derived from it, as a strict record.

        Raises:
            InputError: with every problem of the file.
        """
        content = _frozen(self.data if data is None else data)
        try:
            return model.model_validate(content)
        except ValidationError as error:
            raise InputError(_merged(_problem(self, model, content, dict(e)) for e in error.errors())) from None


class TomlFile(Document):
    """A parsed TOML file with the line of every key."""

    data: dict[str, Any]

    def __init__(self, name: str, text: str) -> None:
        """Raises InputError when the text is not TOML."""
        super().__init__(name, {})
        try:
            self.data = parsed_toml(text)
            self.lines = key_lines(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(_toml_problem(name, text, str(error))) from None
        except ExcessError as error:
            raise InputError(self._excess_problem(text, error)) from None

    @classmethod
    def read(cls, path: Path, name: str | None = None) -> Self:
        """Raises InputError when the file cannot be read."""
        return cls(name or str(path), read_text(path, TOML_BYTES))

    def _excess_problem(self, text: str, error: ExcessError) -> InputProblem:
        """Problem of a text with too much of something, at its line where that can be told."""
        found = error.excess
        if found.key:
            with suppress(RecursionError):
                self.lines = key_lines(text)
        line = self.line(found.key) if error.line is None else error.line
        return InputProblem(self.name, dotted(found.key), found.message, found.allowed, line)


class JsonFile(Document):
    """A parsed JSON file."""

    def __init__(self, name: str, text: str, allowed: str, is_strict: bool = True, line: int = 1) -> None:
        """Raises InputError when the text is not JSON.

        Args:
            name: how errors call the file.
            text: one JSON value.
            allowed: what the file should have been.
            is_strict: whether strings must be printable, as in files that the planner wrote.
            line: where the text starts in its file.
        """
        try:
            super().__init__(name, json_value(text, is_strict))
        except json.JSONDecodeError as error:
            at = line + error.lineno - 1
            raise InputError(InputProblem(name, "", f"is not JSON: {error.msg}", allowed, at)) from None
        except ExcessError as error:
            found = error.excess
            raise InputError(InputProblem(name, dotted(found.key), found.message, found.allowed, line)) from None


def dotted(key: KeyPath) -> str:
    """A key path as it is written in TOML.

    >>> dotted(("links", "wan", "tiers", 0, "capacity_gbps"))
    'links.wan.tiers[0].capacity_gbps'
    """
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            text += f".{name}" if text else name
    return text


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value


def _toml_problem(name: str, text: str, error: str) -> InputProblem:
    place = re.search(r"\(at line (\d+), column \d+\)", error)
    line = int(place[1]) if place else text.rstrip().count("\n") + 1  # else the parser says: at end of document
    message = re.sub(r" \(at .*\)$", "", error)
    return InputProblem(name, "", f"is not valid TOML: {message}", "TOML 1.0", line)


def _merged(problems: Iterable[InputProblem]) -> list[InputProblem]:
    """One problem per key: what each member of a union would allow is one choice for the user."""
    by_key: dict[str, list[InputProblem]] = {}
    for problem in problems:
        by_key.setdefault(problem.key, []).append(problem)
    return [_one_of(group) for group in by_key.values()]


def _one_of(group: list[InputProblem]) -> InputProblem:
    first = group[0]
    if len(group) == 1:
        return first
    others = " or ".join(dict.fromkeys(p.allowed.removeprefix("allowed: ") or p.message for p in group[1:]))
    return replace(first, allowed=f"{first.allowed} or {others}" if first.allowed else f"or {others}")


def _problem(file: Document, model: type[BaseModel], content: Any, error: dict[str, Any]) -> InputProblem:
    kind, context = error["type"], error.get("ctx", {})
    key = _path_in(content, error["loc"], names_absent_key=kind in ("missing", "extra_forbidden", FAULT))
    if kind == "extra_forbidden":
        known = _sibling_fields(model, content, key) - {key[-1]}
        return file.problem(key, "unknown key", did_you_mean(str(key[-1]), known))
    if kind == "missing":
        return file.problem(key, "is required")
    if kind.startswith("union_tag"):
        tag_key = (*key, str(context["discriminator"]).strip("'"))
        if "tag" not in context:
            return file.problem(tag_key, "is required")
        got = shown(error["input"][tag_key[-1]])
        return file.problem(tag_key, f"is {got}", f"allowed: {context['expected_tags']}")
    got = shown(error["input"])
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = re.sub(r"a valid dictionary( or (instance of \w+|object to extract fields from))?", "a table", message)
    message = message.replace("a valid tuple", "a list")
    if kind == "literal_error":
        return file.problem(key, f"is {got}", f"allowed: {context['expected']}")
    if kind == "greater_than_equal" and 0 < context["ge"] < 1 and float(error["input"]) <= 0:
        message = "should be greater than 0"  # the least is there for arithmetic's sake, and no news to a reader
    message = message[0].lower() + message[1:] + ("" if kind in ("value_error", FAULT) else f", got {got}")
    allowed = _range(model, content, key) if kind in OUT_OF_RANGE else ""
    return file.problem(key, message, _required(model, content, key) if "a table" in message else allowed)


def _path_in(content: Any, location: tuple[str | int, ...], names_absent_key: bool) -> KeyPath:
    """Pydantic's error location without the union tags, which are no part of the file."""
    path: KeyPath = ()
    for index, part in enumerate(location):
        if _holds(content, part):
            content = content[part]
            path = (*path, part)
        elif names_absent_key and index == len(location) - 1:
            path = (*path, part)
    return path


def _holds(content: Any, part: str | int) -> bool:
    if isinstance(content, Mapping):
        return part in content
    return isinstance(content, tuple) and isinstance(part, int) and part < len(content)


def _required(model: type[BaseModel], content: Any, key: KeyPath) -> str:
    """Keys that a table at a key must have; empty where the schema asks for none."""
    needed = dict.fromkeys(name for node in _nodes(model, content, key) for name in node.get("required", ()))
    return f"a table with {', '.join(needed)}" if needed else ""


def _range(model: type[BaseModel], content: Any, key: KeyPath) -> str:
    """Which numbers are allowed at a key, with their unit; empty where the schema does not say."""
    nodes = number_schemas(model, content, key)
    return " or ".join(dict.fromkeys(filter(None, (numbers_allowed(node, key) for node in nodes))))


def number_schemas(model: type[BaseModel], content: Any, key: KeyPath) -> list[dict[str, Any]]:
    """JSON schemas of the numbers that may stand at a key of some content; none where no number may."""
    return [node for node in _nodes(model, content, key) if node.get("type") in ("integer", "number")]


def numbers_allowed(node: Mapping[str, Any], key: KeyPath) -> str:
    """Least and most of a number by its JSON schema, with the unit that its key ends in.

    >>> numbers_allowed({"minimum": 0, "maximum": 60000}, ("links", "wan", "round_trip_ms"))
    '0 to 60,000 ms'
    >>> numbers_allowed({"exclusiveMinimum": 0, "maximum": 1e9}, ("tokens", 3))
    'above 0, at most 1,000,000,000'
    """
    low, above = node.get("minimum"), node.get("exclusiveMinimum")
    high, below = node.get("maximum"), node.get("exclusiveMaximum")
    names = [part for part in key if isinstance(part, str) and part != "value"]  # a figure's unit is in its own key
    unit = unit_of(names[-1]) if names else ""
    if low is not None and high is not None:
        text = f"{exact_number(low)} to {exact_number(high)}"
    else:
        bounds = (("at least", low), ("above", above), ("at most", high), ("below", below))
        text = ", ".join(f"{word} {exact_number(bound)}" for word, bound in bounds if bound is not None)
    return f"{text} {unit}".strip() if text else ""


def _sibling_fields(model: type[BaseModel], content: Any, key: KeyPath) -> set[str]:
    """Field names allowed beside an unknown key, found in the model's JSON schema."""
    return {name for node in _nodes(model, content, key[:-1]) for name in node.get("properties", {})}


def _nodes(model: type[BaseModel], content: Any, key: KeyPath) -> list[dict[str, Any]]:
    """Nodes of the model's JSON schema at a key, each member of a union a node of its own."""
    schema = _json_schema(model)
    nodes = [schema]
    for part in key:
        content = content[part]
        children = [child for node in nodes for child in _children(schema, node, part)]
        nodes = [node for node in children if _is_of_kind(node, content)] or children
    return nodes


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _is_of_kind(node: dict[str, Any], content: Any) -> bool:
    """True if a member of a union has the constants, such as its `kind`, that the content states."""
    constants = {name: field["const"] for name, field in node.get("properties", {}).items() if "const" in field}
    return isinstance(content, Mapping) and all(content.get(name, value) == value for name, value in constants.items())


def _children(root: dict[str, Any], node: dict[str, Any], part: str | int) -> Iterator[dict[str, Any]]:
    inner = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
    others = (
        [inner]
        if inner is not None
        else [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    )
    for other in others:
        yield from _resolved(root, other)


def _resolved(root: dict[str, Any], node: Any) -> Iterator[dict[str, Any]]:
    """A schema node with references and unions followed to the objects behind them."""
    if not isinstance(node, dict):
        return
    if "$ref" in node:
        yield from _resolved(root, root["$defs"][node["$ref"].rsplit("/", 1)[1]])
    elif choices := node.get("anyOf") or node.get("oneOf"):
        for choice in choices:
            yield from _resolved(root, choice)
    else:
        yield node
