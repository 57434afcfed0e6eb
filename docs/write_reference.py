"""Writes the reference pages of the handbook from the code: `python docs/write_reference.py`, or `make reference`."""

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from planner.cli import app
from planner.cli.commands import Commands
from planner.cli.groups import KINDS
from planner.documented import field_texts
from planner.errors import CheckFailedError, InfeasibleError, InputError, PlannerError, UndecidedError, UsageError
from planner.notes import MEANINGS
from planner.profiles.hardware import HardwareProfile
from planner.profiles.model import ModelProfile
from planner.profiles.stack import StackProfile
from planner.report.scenario_keys import UNITS, anchor, scenario_keys_page
from planner.results.explanation import Explanation
from planner.results.fidelity import Fidelity
from planner.results.live import Live
from planner.results.plan import Plan
from planner.results.plan_diff import PlanDiff
from planner.results.prediction import Prediction
from planner.results.run import Run
from planner.results.scheduling import SchedulerComparison
from planner.results.validation import Validation
from planner.units import DASH

FOLDER = Path(__file__).parent / "reference"
WRITTEN = "<!-- Written by `make reference` from the code; edit the code, not this page. -->"
WORDS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    type(None): "null",
}
ANSWERS: Mapping[str, type[BaseModel]] = {
    "optimize": Plan,
    "simulate": Run,
    "validate": Validation,
    "predict": Prediction,
    "fidelity": Fidelity,
    "explain": Explanation,
    "diff": PlanDiff,
    "schedulers": SchedulerComparison,
    "live": Live,
}
PROFILES: Mapping[str, type[BaseModel]] = {"hardware": HardwareProfile, "model": ModelProfile, "stack": StackProfile}
ENDS = {
    129: ("SIGHUP", "The terminal went away. Nothing is left half written."),
    130: ("interrupted", "Ctrl-C. Nothing is left half written."),
    141: ("closed pipe", "Whoever read the output has left, as in `planner ... | head`."),
    143: ("SIGTERM", "The command was told to end. Nothing is left half written."),
}


def cell(text: str) -> str:
    """A text as a cell of a table."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts) or DASH


def table(headings: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *(tuple(map(cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


# Commands


def commands_page() -> str:
    """Every command with its arguments and options."""
    parts = ["# Commands", WRITTEN, "Every command has `--help`, which says the same as this page."]
    top: Any = typer.main.get_command(app)
    context = top.make_context("planner", ["optimize"], resilient_parsing=True)
    headings: dict[str, list[str]] = {}
    for name, entry in Commands.entries.items():
        headings.setdefault(entry.heading, []).append(f"- [`planner {name}`](#planner-{name}): {entry.text}")
    parts += [line for heading, lines in headings.items() for line in (f"**{heading}**", "\n".join(lines))]
    for name in Commands.entries:
        parts += list(_command(top.get_command(context, name), f"planner {name}", "##"))
    return "\n\n".join(parts) + "\n"


def _command(command: Any, path: str, level: str) -> Iterator[str]:
    yield f"{level} `{path}`"
    yield inspect.cleandoc(command.help or "").replace("\n\n", "\n\n")
    inner = getattr(command, "commands", None)
    if inner is not None:
        for name in inner:
            yield from _command(inner[name], f"{path} {name}", f"{level}#")
        return
    context = typer.Context(command, info_name=path)
    yield f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```"
    shown = [p for p in command.get_params(context) if p.get_help_record(context)]
    yield table(("argument or option", "default", "meaning"), (_parameter(p, context) for p in shown)).rstrip()


def _parameter(parameter: Any, context: Any) -> tuple[str, str, str]:
    """How it is written, its default, and its meaning, as the help page has them."""
    written, text = parameter.get_help_record(context) or ("", "")
    meaning, _, extra = text.partition("  [")
    default = re.search(r"default: ([^;\]]*)", extra)
    others = [part for part in extra.rstrip("]").split("; ") if part and not part.startswith(("default", "required"))]
    stated = "required" if parameter.required else f"`{default[1]}`" if default else DASH
    return f"`{written}`", stated, " ".join([meaning, *(f"({part})" for part in others)])


# Records


def records_of(root: type[BaseModel]) -> list[type[BaseModel]]:
    """A record and all that its fields hold, each once, in the order in which a reader comes to it."""
    found: list[type[BaseModel]] = []

    def visit(record: type[BaseModel]) -> None:
        if record not in found:
            found.append(record)
            for field in record.model_fields.values():
                if not field.exclude:
                    for inner in _records_in(field.annotation):
                        visit(inner)

    visit(root)
    return found


def _records_in(kind: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(kind) and not get_args(kind) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from _records_in(inner)


def takes(kind: Any) -> str:
    """What a field holds, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, NewType):
        return "text with its code"
    if origin is Annotated:
        return takes(inner[0])
    if origin is Literal:
        return " or ".join(f'`"{value}"`' if isinstance(value, str) else f"`{value}`" for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(takes, inner)))
    if origin in (tuple, list):
        return f"list of {takes(inner[0])}" if len(inner) < 3 and inner[-1] in (..., inner[0]) else "list"
    if origin is dict or (inspect.isclass(origin) and issubclass(origin, Mapping)):
        return f"table of {takes(inner[1])}"
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    return WORDS.get(kind, "any value")


def unit_of(name: str) -> str:
    """The unit that the end of a name says."""
    return next((unit for end, unit in UNITS if name.endswith(end)), DASH)


def record_section(record: type[BaseModel], level: str, is_written: bool) -> Iterator[str]:
    """Every field of a record; those of answers by the name that JSON gives them."""
    yield f"{level} {record.__name__}"
    yield inspect.cleandoc(record.__doc__ or "").partition("\n\n")[0]
    texts, fields = field_texts(record), record.model_fields.items()
    rows = (
        (
            f"`{(field.alias if is_written else field.serialization_alias) or name}`",
            takes(field.annotation),
            unit_of(name),
            *(("required" if field.is_required() else _default(field.default),) if is_written else ()),
            texts.get(name, field.description or ""),
        )
        for name, field in fields
        if not field.exclude
    )
    default = ("default",) if is_written else ()
    yield table(("key" if is_written else "field", "holds", "unit", *default, "meaning"), rows).rstrip()


def _default(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, int, float, bool)) else ""
    return f"`{text}`" if text and len(text) < 40 else DASH


def json_page() -> str:
    """Every field of every answer."""
    parts = [
        "# JSON answers",
        WRITTEN,
        "With `--format json` a command prints one JSON object on standard output and nothing else there. Each answer "
        "names its form in `schema`, such as `planner.plan/1`. New fields may be added. The meaning of a field does "
        "not change. A figure that is unknown is `null`. Fields that say nothing for a plan or run may be absent.",
        "\n".join(f"- `planner {name}`: [{root.__name__}](#{root.__name__.lower()})" for name, root in ANSWERS.items()),
        "A command that fails with exit code 3 to 6 prints an object of schema `planner.error/1` instead, see "
        "[exit codes](exit-codes.md).",
    ]
    done: set[type[BaseModel]] = set()
    for root in ANSWERS.values():
        for record in records_of(root):
            if record not in done:
                done.add(record)
                parts += list(record_section(record, "##" if record is root else "###", is_written=False))
    return "\n\n".join(parts) + "\n"


def profiles_page() -> str:
    """Every key of every kind of profile."""
    parts = [
        "# Profile fields",
        WRITTEN,
        "A profile is a TOML file. `planner profiles schema hardware`, `model` and `stack` print the same as JSON "
        "Schema. "
        "[Add an accelerator](../how-to/add-an-accelerator.md) shows how to write one.",
    ]
    done: set[type[BaseModel]] = set()
    for kind, root in PROFILES.items():
        parts.append(f"## A {kind} profile")
        for record in records_of(root):
            if record not in done:
                done.add(record)
                parts += list(record_section(record, "###", is_written=True))
    return "\n\n".join(parts) + "\n"


# Exit codes and notes


def exit_codes_page() -> str:
    """What each exit code means."""
    errors: tuple[type[PlannerError], ...] = (UsageError, InputError, InfeasibleError, UndecidedError, CheckFailedError)
    rows = [("0", "done", "The answer is on standard output.")]
    rows.append(("1", "bug", "A fault of the planner, with a traceback. Please report it."))
    rows += [
        (str(e.exit_code), KINDS.get(e.exit_code, "usage"), inspect.cleandoc(e.__doc__ or "").replace("\n", " "))
        for e in errors
    ]
    rows += [(str(code), *what) for code, what in ENDS.items()]
    example = (
        '```json\n{"schema": "planner.error/1", "exit_code": 3, "error": "bad input", "message": "fleet.toml:6: '
        'model.profil: unknown key ...",\n "problems": [{"file": "fleet.toml", "line": 6, "key": "model.profil", '
        '"message": "unknown key", "allowed": "did you mean \'profile\'?"}]}\n```'
    )
    kinds = ", ".join(f"`{name}`" for name in KINDS.values())
    parts = [
        "# Exit codes",
        WRITTEN,
        table(("exit code", "name", "meaning"), iter(rows)).rstrip(),
        "With `--format json` a command that exits with 3 to 6 prints one object on standard output, unless its answer "
        "is there already (`validate`, and `predict` of a model that does not fit):",
        example,
        f"`error` is one of {kinds}. `problems` comes with bad input. `relaxations` comes with an infeasible question: "
        "sentences, each with one change that would make a plan possible.",
    ]
    return "\n\n".join(parts) + "\n"


def notes_page() -> str:
    """Every note and warning."""
    parts = [
        "# Notes and warnings",
        WRITTEN,
        "Answers end with notes: what you must know to use the figures. Each note ends with its code, as in "
        "`(note: queue-saturated)`. Codes are stable, so scripts may look for them. In JSON the notes are texts in "
        "`notes`, with the code at the end of each.",
    ]
    parts.append(" \u00b7 ".join(f"[{code}](#{code})" for code in sorted(MEANINGS)))
    for code, meaning in sorted(MEANINGS.items()):
        of = " and ".join(f"`planner {name.strip()}`" for name in meaning.of.split(","))
        parts += [f"## {code}", f"From {of}. {meaning.means}", f"**What to do.** {meaning.do}"]
    return "\n\n".join(parts) + "\n"


# Pages of a length that a reader scrolls through


PARTS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "commands": {
        "commands-run-and-predict": ("Commands: run, predict and calibrate", "planner-simulate"),
        "commands-files": ("Commands: scenarios and profiles", "planner-scenario"),
    },
    "scenario-keys": {
        "scenario-keys-demand": ("Scenario keys: model, requests and promises", "model"),
        "scenario-keys-supply": ("Scenario keys: routing, sites, pools, links and prices", "routing"),
        "scenario-keys-times": ("Scenario keys: software and measured times", "stacksname"),
        "scenario-keys-execution": ("Scenario keys: the run", "execution"),
        "scenario-keys-cache-and-faults": ("Scenario keys: caches, faults and limits of a run", "executioncache"),
        "scenario-keys-report": ("Scenario keys: comparisons, claims and reports", "comparisonsname"),
    },
    "json": {
        "json-optimize": ("JSON of a plan: fleet, cost and latency", "plan"),
        "json-optimize-compared": (
            "JSON of a plan: what binds, verdict, promise, periods and other fleets",
            "bottleneck",
        ),
        "json-optimize-certified": ("JSON of a plan: certified, and from today's fleet", "certified"),
        "json-run": ("JSON of a run, and of a validation", "run"),
        "json-predict": ("JSON of predictions, fidelity and explanations", "prediction"),
        "json-others": ("JSON of differences, schedulers and live runs", "plandiff"),
    },
    "profiles": {
        "profiles-hardware": ("Fields of a hardware profile", "a-hardware-profile"),
        "profiles-model": ("Fields of a model profile", "a-model-profile"),
        "profiles-model-layers": ("Fields of a model profile: layers and measured times", "gqalayers"),
        "profiles-stack": ("Fields of a stack profile", "a-stack-profile"),
    },
    "notes": {"notes-n-to-z": ("Notes and warnings: n to z", "nearly-full")},
}
"""Titles and first headings, as anchors, of the pages that the rest of a long page is cut into."""
HEADING = re.compile(r"^(#{2,}) (.*)$", re.MULTILINE)


def parts_of(name: str, text: str) -> dict[str, str]:
    """Pages by their names that a long page is cut into, the first under its own name; links lead across."""
    titles = PARTS.get(name, {})
    first = {start: part for part, (_, start) in titles.items()}
    texts, where, page = {name: ""}, {}, name
    for piece in re.split(r"^(?=#{2,} )", text, flags=re.MULTILINE):
        heading = HEADING.match(piece)
        if heading:
            page = first.get(anchor(heading[2]), page)
            where[anchor(heading[2])] = page
        texts[page] = texts.get(page, "") + piece
    assert list(texts) == [name, *titles], (name, list(texts))
    return {page: _page(page, texts[page], titles, where) for page in texts}


def _page(page: str, text: str, titles: Mapping[str, tuple[str, str]], where: Mapping[str, str]) -> str:
    """One of them: its own title, headings from the second level on, and links to where a heading is now."""

    def link(found: "re.Match[str]") -> str:
        there = where[found[1]]
        return f"](#{found[1]})" if there == page else f"]({there}.md#{found[1]})"

    linked = re.sub(r"\]\(#([\w-]+)\)", link, text)
    if page in titles:
        above = min(len(found[1]) for found in HEADING.finditer(linked)) - 2
        linked = HEADING.sub(lambda found: f"{found[1][above:]} {found[2]}", linked)
        return f"# {titles[page][0]}\n\n{WRITTEN}\n\n{linked.rstrip()}\n"
    if not titles:
        return linked
    tree = "\n".join(("```{toctree}", ":hidden:", "", *titles, "```"))
    more = "\n".join(f"- [{title}]({part}.md)" for part, (title, _) in titles.items())
    return f"{linked.rstrip()}\n\nThe rest of this page is in parts:\n\n{more}\n\n{tree}\n"


WHOLE = {
    "commands": commands_page,
    "scenario-keys": scenario_keys_page,
    "json": json_page,
    "profiles": profiles_page,
    "exit-codes": exit_codes_page,
    "notes": notes_page,
}
"""What writes each page before it is cut."""


def reference_pages() -> dict[str, str]:
    """Every page of the reference that the code writes, by the name of its file."""
    return {f"{part}.md": text for name, page in WHOLE.items() for part, text in parts_of(name, page()).items()}


if __name__ == "__main__":
    for name, text in reference_pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
