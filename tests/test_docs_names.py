"""Every key, command, option, module and file that the README or a page of the handbook names is there."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import typer

from planner.cli import app
from planner.documented import documented_schema
from planner.scenario import Scenario

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
HANDBOOK = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
WRITTEN = [page for page in HANDBOOK if "<!-- Written by" in page.read_text("utf-8")]
"""Pages that `docs/write_reference.py` writes from the code."""
PAGES = [ROOT / "README.md", *sorted(page for page in HANDBOOK if page not in WRITTEN)]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
TAKEN_BY_ALL = {"--help", "--version", "--install-completion", "--show-completion"}
FOREIGN = {
    *("--gpu-memory-utilization", "--max-model-len", "--max-num-batched-tokens", "--max-num-seqs"),
    *("--mem-fraction-static", "--context-length", "--chunked-prefill-size", "--save-result", "--all-files"),
}
"""Options of servers, benchmarks and `pre-commit` that pages name."""
FILES = (".md", ".toml", ".json", ".py")
Node = dict[str, Any]


def spans(page: Path) -> list[str]:
    """What a page sets as code inside its sentences."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL))


def commands_of(page: Path) -> Iterator[list[str]]:
    """Arguments of every `planner` command of a page, in sentences and in blocks of a shell."""
    blocks = re.findall(r"```(?:sh|console|yaml)\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    lines = [*spans(page), *(line for block in blocks for line in block.replace("\\\n", " ").splitlines())]
    for line in lines:
        command = re.match(r"(?:\$ |(?:- )?run: )?planner (?!\.\.\.)(.*)", line.strip())
        if command:
            yield shlex.split(command[1].replace("\\|", "|"), comments=True)


@cache
def options() -> dict[tuple[str, ...], set[str]]:
    """Options of every command, by its words."""

    def below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield words, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from below((*words, name), inner)

    found = below((), typer.main.get_command(app))
    return {words: {o for x in it.params for o in (*x.opts, *x.secondary_opts)} | TAKEN_BY_ALL for words, it in found}


def named_options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


@EVERY_PAGE
def test_every_command_and_its_options_are_there(page: Path) -> None:
    for arguments in commands_of(page):
        words = next(tuple(arguments[:n]) for n in (2, 1, 0) if tuple(arguments[:n]) in options())
        assert words or arguments[0].startswith("-"), (arguments, "is no command")
        assert named_options(" ".join(arguments)) <= options()[words] | FOREIGN, arguments


@EVERY_PAGE
def test_every_option_that_a_sentence_names_is_one_of_a_command(page: Path) -> None:
    known = set().union(*options().values()) | FOREIGN
    scripts = [(ROOT / name).read_text("utf-8") for text in spans(page) for name in re.findall(r"tests/\S+\.py", text)]
    named = {option for text in spans(page) for option in named_options(text)} - known
    assert not [option for option in named if not any(f'"{option}"' in script for script in scripts)]


@EVERY_PAGE
def test_every_module_function_and_file_of_the_project_is_there(page: Path) -> None:
    for text in spans(page):
        for name in re.findall(r"^planner(?:\.[A-Za-z_]\w*)+$", text):
            resolve_name(name)
        for path in re.findall(r"(?<![\w/.-])(?:tests|planner|reports|docs)/[\w/.-]+\.\w+", text):
            assert (ROOT / path).is_file(), path


SCHEMA = documented_schema(Scenario)


def inner(node: Node, key: str) -> list[Node]:
    """What a record, or a choice of records, may have under a key; any name where tables have names of their own."""
    if "$ref" in node:
        return inner(SCHEMA["$defs"][node["$ref"].rsplit("/", 1)[1]], key)
    choices = [*node.get("anyOf", ()), *node.get("oneOf", ()), *([node["items"]] if "items" in node else [])]
    named = [node.get("additionalProperties"), *node.get("patternProperties", {}).values()]
    own = [node["properties"][key]] if key in node.get("properties", {}) else []
    return [
        *own,
        *(each for each in named if isinstance(each, dict)),
        *(x for each in choices for x in inner(each, key)),
    ]


def is_key(dotted: str) -> bool:
    """Whether a scenario has a key or table at this place."""
    nodes: list[Node] = [SCHEMA]
    for key in dotted.split("."):
        nodes = [found for node in nodes for found in inner(node, key)]
    return bool(nodes)


def is_known_table(dotted: str) -> bool:
    """Whether it is of a scenario, or a field of a profile."""
    pages = [page.read_text("utf-8") for page in WRITTEN if page.stem.startswith("profiles")]
    fields = re.findall(r"^\| `(\w+)`", "\n".join(pages), re.MULTILINE)
    return is_key(dotted) or dotted.split(".")[0] in fields


@EVERY_PAGE
def test_every_key_and_table_of_a_scenario_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    assert all(is_known_table(name) for name in re.findall(r"`\[+([\w.-]+)\]+`", text))
    dotted = [name for name in re.findall(r"`([a-z_]+\.[\w.-]*\w)(?: ?= ?[^`]+)?`", text) if is_key(name.split(".")[0])]
    assert all(is_key(name) for name in dotted if not name.endswith(FILES)), dotted
    for key, table in re.findall(r"`(\w+)`\s+(?:in|of|under)\s+`\[+([\w.]+)\]+`", text):
        assert is_key(f"{table}.{key}") or not is_key(table), (table, key)


@cache
def words_of_the_code() -> set[str]:
    """Every name in the code, its profiles, scenarios and templates."""
    kinds = ("*.py", "*.toml", "*.js", "*.json", "*.yaml", "*.jinja")
    files = [
        path
        for room in ("planner", "hardware_profiles", "model_profiles")
        for kind in kinds
        for path in (ROOT / room).rglob(kind)
    ]
    return {word for path in files for word in re.findall(r"\w+", path.read_text("utf-8"))}


@EVERY_PAGE
def test_every_name_with_underscores_is_one_of_the_code(page: Path) -> None:
    """Keys of files, columns, fields of answers, settings of servers: a name that the code no longer has is stale."""
    named = {word for text in spans(page) for word in re.findall(r"(?<![\w/{.*-])[a-z]+(?:_[a-z0-9]+)+(?![\w/])", text)}
    files = {path.stem for path in (ROOT / "tests").rglob("*.*")} | {path.name for path in ROOT.iterdir()}
    assert named - words_of_the_code() - files - words_of_the_data() == set()


@cache
def words_of_the_data() -> set[str]:
    """Files of traces and points on the page of data, and keys of configs in the tests of importing them."""
    texts = [REFERENCE / "data.md", *(ROOT / "tests").glob("test_profiles_hf*.py")]
    return {word for path in texts for word in re.findall(r"\w+", path.read_text("utf-8"))}


def test_a_stale_name_is_found() -> None:
    assert all(is_key(name) for name in ("slo.tpot_ms", "pools.fast.n_instances", "links.wan.tiers"))
    assert not any(is_key(name) for name in ("model.tpot_ms", "links.wan.gbps", "slow"))
    assert "--votes" not in set().union(*options().values())
    assert "surely_drafted" not in words_of_the_code()
