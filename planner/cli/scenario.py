"""`planner scenario`: start a scenario, check one, and its schema."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import data_dirs, print_json
from planner.cli.completion import scenario_names
from planner.cli.progress import progress

app = typer.Typer(
    help="Scenarios: start one, check one, print the schema.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("new", short_help="Write a commented scenario to start from.")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the scenario, or the path of its TOML file.")],
    trace: Annotated[
        Path | None, typer.Option("--from", metavar="TRACE", help="Plan for the requests of this trace.")
    ] = None,
) -> None:
    """Write a commented scenario to start from; an existing file is never overwritten."""
    from planner.errors import InputError, Problem
    from planner.files import write_text
    from planner.scenario import load_scenario

    path = Path(name) if name.endswith(".toml") else Path(f"{name}.toml")
    if not _short_name(path):
        raise InputError(Problem("planner scenario new", "NAME", f"is {name!r}", "letters or digits, or a path"))
    if os.path.lexists(path):
        raise InputError(Problem(str(path), "", "exists already", "a new name, or delete the file first"))
    text = _scenario_text(path, trace)
    load_scenario(text, str(path), path.resolve().parent)
    write_text(path, text)
    typer.echo(f"{path}: edit it, then run: planner optimize {shlex.quote(str(path))}")


def _scenario_text(path: Path, trace: Path | None) -> str:
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    source = files("planner.cli").joinpath("templates/scenario.toml.jinja").read_text(encoding="utf-8")
    return environment.from_string(source).render(
        name=_short_name(path), file=shlex.quote(path.name), trace=_seen_from(path, trace)
    )


def _short_name(path: Path) -> str:
    """A file's name as scenarios may be called: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", path.name.removesuffix(".toml").lower()).strip("-")


def _seen_from(path: Path, trace: Path | None) -> dict[str, object] | None:
    """A trace as the scenario's folder sees it, with what a first read of it tells."""
    if trace is None:
        return None
    from planner.workload import read_trace
    from planner.workload.requests import trace_path

    if not trace.exists():
        trace = trace_path(str(trace), Path.cwd(), data_dirs())
    with progress(f"reading {trace}"):
        found = read_trace(trace, "auto")
    return {
        "path": json.dumps(Path(os.path.relpath(trace.resolve(), path.resolve().parent)).as_posix()),
        "n_requests": found.n_requests,
        "mean_tokens": round(float(found.total_tokens.mean())),
        "mean_req_per_s": round(found.n_requests / max(float(found.arrival_s[-1] - found.arrival_s[0]), 1e-9), 3),
        "has_blocks": found.blocks is not None,
    }


@app.command("check", short_help="Check a scenario and everything it names.")
def check(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A bundled scenario or a TOML file.", autocompletion=scenario_names)
    ],
) -> None:
    """Check a scenario: its keys, names, comparisons and traces, and whether a plan can be asked of it."""
    from planner.optimizer import network_problem, planning_problem
    from planner.scenario import read_scenario

    with progress(f"checking {file}"):
        scenario = read_scenario(file)
        for name in scenario.comparisons:
            scenario.compared(name)
        problem = (network_problem if scenario.is_network else planning_problem)(scenario, data_dirs())
    typer.echo(
        f"{file}: holds ({len(problem.pools)} pools, {len(problem.links)} links, {len(problem.classes)} classes)"
    )


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of a scenario, for editors."""
    from planner.scenario import Scenario

    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **Scenario.model_json_schema()})
