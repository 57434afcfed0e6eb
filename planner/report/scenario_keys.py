"""The page of scenario keys: what every key takes, its default and meaning, and an example, from the schema itself."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from planner.documented import documented_schema
from planner.scenario import Scenario
from planner.units import DASH

COMMAND = "planner scenario schema --format markdown"
EXAMPLES = "key_examples.toml"
ROOT = "Scenario"
LONGEST_DEFAULT = 40
UNITS = (
    ("_req_per_s", "requests/s"),
    ("_tb_per_s", "TB/s"),
    ("_gb_per_s", "GB/s"),
    ("_tokens_per_s", "tokens/s"),
    ("_tflops", "TFLOP/s"),
    ("_mhz", "MHz"),
    ("_watts", "W"),
    ("_w", "W"),
    ("usd_per_accelerator_hour", "USD/h"),
    ("usd_per_hour", "USD/h"),
    ("usd_per_kwh", "USD/kWh"),
    ("usd_per_gb", "USD/GB"),
    ("_usd", "USD"),
    ("_gbps", "Gbps"),
    ("_gb", "GB"),
    ("_ms", "ms"),
    ("_us", "us"),
    ("_s", "s"),
    ("seconds", "s"),
    ("bytes", "bytes"),
    ("tokens", "tokens"),
    ("hours", "h"),
    ("_years", "years"),
    ("_fraction", "part of 1"),
    ("_percentile", "%"),
    ("mean_days_between_crashes", "days"),
)
"""Ends of keys, and the unit that a number under such a key has."""
KINDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
LIMITS = {
    "minimum": "{:,.12g} or more",
    "maximum": "at most {:,.12g}",
    "exclusiveMinimum": "above {:,.12g}",
    "exclusiveMaximum": "below {:,.12g}",
    "minItems": "{} or more",
    "maxItems": "at most {:,}",
}
"""Limits of a schema, in words."""
NAME = "^[a-z0-9][a-z0-9-]*$"
"""Pattern of what the introduction calls a name."""
INTRODUCTION = f"""# Every key of a scenario

<!-- Written by `{COMMAND}`; edit the models, not this page. -->

A scenario is a TOML file with a question for the planner. `planner scenario new` writes one to start from, and
`planner scenario check` says whether one holds. The [tutorial](../tutorial/index.md) starts from one. Every key can
be changed for one run: `planner optimize FILE --set pools.pd-p.n_instances=3`.

`NAME` stands for a name of your own (lower-case letters, digits and dashes), `HARDWARE` for accelerators as `planner
profiles list` calls them. Numbers are in the unit that their key ends in; 1 GB is 1e9 bytes. A key with a dash
({DASH}) for a default may be left out, and its meaning says what holds then. `planner scenario schema` prints the same
as JSON Schema, for editors.
"""
Node = Mapping[str, Any]


def anchor(heading: str) -> str:
    """Address of a heading in its page.

    >>> anchor('`[workload.lengths]` of kind "lognormal"')
    'workloadlengths-of-kind-lognormal'
    """
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


@dataclass
class SchemaTable:
    """A record of the schema, and every place of a scenario where it is written."""

    name: str
    node: Node
    paths: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str | None:
        """Value of `kind` by which a scenario chooses this record among others."""
        found: str | None = self.node.get("properties", {}).get("kind", {}).get("const")
        return found

    @property
    def heading(self) -> str:
        """The first of its places, as TOML writes it."""
        if not self.paths[0]:
            return "Top of the file"
        path = self.paths[0]
        brackets = f"[[{path.removesuffix('[]')}]]" if path.endswith("[]") else f"[{path.replace('[]', '')}]"
        return f"`{brackets}`" + (f' of kind "{self.kind}"' if self.kind else "")

    @property
    def indent(self) -> str:
        """Blanks before its line in the contents: a table in a table stands below it."""
        return "  " * len(re.findall(r"\.(?!NAME|HARDWARE|KEY)", self.paths[0]))

    @property
    def anchor(self) -> str:
        """Where a link to the heading leads."""
        return anchor(self.heading)


def scenario_keys_page() -> str:
    """The page, as Markdown."""
    schema = documented_schema(Scenario)
    tables, examples = _tables(schema), _examples()
    contents = [f"{table.indent}- [{table.heading}](#{table.anchor}): {_summary(table)}" for table in tables.values()]
    sections = [_section(table, tables, examples.get(_plain(table.name), {})) for table in tables.values()]
    return "\n".join((INTRODUCTION, *contents, "", "\n".join(sections)))


def _examples() -> dict[str, dict[str, Any]]:
    text = files("planner.report").joinpath(EXAMPLES).read_text(encoding="utf-8")
    return tomllib.loads(text)


def _tables(schema: Node) -> dict[str, SchemaTable]:
    """Every record by its name in the schema, in the order in which a scenario comes to it."""
    found = {ROOT: SchemaTable(ROOT, schema, [""])}
    _descend(schema, found[ROOT], found)
    return found


def _descend(schema: Node, table: SchemaTable, found: dict[str, SchemaTable]) -> None:
    for key, node in table.node.get("properties", {}).items():
        for name, path in _inner(node, f"{table.paths[0]}.{key}".lstrip(".")):
            is_new = name not in found
            inner = found.setdefault(name, SchemaTable(name, schema["$defs"][name]))
            if path not in inner.paths:
                inner.paths.append(path)
            if is_new:
                _descend(schema, inner, found)


def _inner(node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Records below a key, and where they are written."""
    if "$ref" in node:
        yield node["$ref"].rsplit("/", 1)[1], path
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _inner(choice, path)
    if "items" in node:
        yield from _inner(node["items"], f"{path}[]")
    name = "HARDWARE" if path in ("prices", "assumed") else "KEY" if path.startswith("assumed.") else "NAME"
    for value in (node.get("additionalProperties"), *node.get("patternProperties", {}).values()):
        if isinstance(value, Mapping):
            yield from _inner(value, f"{path}.{name}")


def _plain(name: str) -> str:
    """A record's name without the module that tells it from another of that name."""
    return name.rsplit("__", 1)[-1]


def _summary(table: SchemaTable) -> str:
    return _prose(table.node).partition(".")[0].partition(";")[0].partition(":")[0]


def _prose(node: Node) -> str:
    return re.sub(r"\s+", " ", node.get("description", "")).strip()


def _section(table: SchemaTable, tables: Mapping[str, SchemaTable], examples: Mapping[str, Any]) -> str:
    also = ", ".join(f"`{path}`" for path in table.paths[1:])
    rows = [_row(table, key, node, tables, examples) for key, node in table.node.get("properties", {}).items()]
    head = [f"## {table.heading}", "", _prose(table.node), *([f"Also at {also}."] if also else []), ""]
    columns = ["| key | takes | default | meaning | example |", "|---|---|---|---|---|"]
    return "\n".join((*head, *columns, *rows, ""))


def _row(
    table: SchemaTable, key: str, node: Node, tables: Mapping[str, SchemaTable], examples: Mapping[str, Any]
) -> str:
    required = key in table.node.get("required", ())
    takes = " or ".join(dict.fromkeys(_allowed_values(node, key, tables)))
    default = "required" if required else _default(node.get("default"))
    example = f"`{key} = {toml(examples[key])}`" if key in examples else _written_below(node, table, key)
    meaning = _prose(node) or "Which of the kinds it is."
    cells = (f"`{key}`", takes, default, meaning, example)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _written_below(node: Node, table: SchemaTable, key: str) -> str:
    """Spelling of a key that is a table of its own."""
    for _, path in _inner(node, f"{table.paths[0]}.{key}".lstrip(".")):
        return f"`[[{path.removesuffix('[]')}]]`" if path.endswith("[]") else f"`[{path.replace('[]', '')}]`"
    return DASH


def _allowed_values(node: Node, key: str, tables: Mapping[str, SchemaTable]) -> Iterator[str]:
    """Values that a key takes, each of several choices by itself."""
    if "$ref" in node:
        table = tables[node["$ref"].rsplit("/", 1)[1]]
        yield f"[{table.kind or 'table'}](#{table.anchor})"
    elif choices := (*node.get("anyOf", ()), *node.get("oneOf", ())):
        for choice in choices:
            yield from _allowed_values(choice, key, tables)
    elif "const" in node or "enum" in node:
        yield from (f"`{toml(value)}`" for value in node.get("enum", [node.get("const")]))
    elif node.get("type") == "array":
        items = " or ".join(_allowed_values(node.get("items", {}), key, tables))
        yield f"list of {items}{_span(node, 'minItems', 'maxItems')}"
    elif node.get("type") == "object":
        yield from _table_taken(node, key, tables)
    elif node.get("type") != "null":
        yield _value(node, key)


def _table_taken(node: Node, key: str, tables: Mapping[str, SchemaTable]) -> Iterator[str]:
    values = [node.get("additionalProperties"), *node.get("patternProperties", {}).values()]
    texts = [text for value in values if isinstance(value, Mapping) for text in _allowed_values(value, key, tables)]
    yield "a table by name of " + " or ".join(texts) if texts else "a table of keys with their values"


def _value(node: Node, key: str) -> str:
    kind = KINDS.get(node.get("type", ""), "any value")
    unit = next((unit for end, unit in UNITS if key.endswith(end)), "") if kind.endswith("number") else ""
    multiple = f", a multiple of {node['multipleOf']}" if "multipleOf" in node else ""
    pattern = node.get("pattern")
    kind = "name" if pattern == NAME else f"{kind} like `{pattern}`" if pattern else kind
    limits = _span(node, "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    return f"{kind}{f' [{unit}]' if unit else ''}{limits}{multiple}"


def _span(node: Node, *names: str) -> str:
    """Limits in words.

    >>> _span({"minimum": 0, "maximum": 5000}, "minimum", "maximum"), _span({"minItems": 2}, "minItems", "maxItems")
    (', 0 or more, at most 5,000', ', 2 or more')
    """
    return "".join(f", {LIMITS[name].format(node[name])}" for name in names if name in node)


def _default(value: Any) -> str:
    if value is None or value == "":
        return DASH
    if isinstance(value, Mapping) or value == []:
        return "none" if not value else "its own"
    text = toml(value)
    return f"`{text}`" if len(text) <= LONGEST_DEFAULT else "its own"


def toml(value: Any) -> str:
    """A value as TOML writes it in one line.

    >>> toml({"a b": [1, 2.5], "c": True})
    '{ "a b" = [1, 2.5], c = true }'
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
