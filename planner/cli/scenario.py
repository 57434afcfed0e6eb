"""`planner scenario`: start a scenario, from requests or without, check one, and its schema."""

import shlex
from collections.abc import Iterable, Iterator
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.common import ForceOption, data_dirs, print_json, print_rich
from planner.cli.completion import scenario_names
from planner.cli.problem_output import GateFormat, GateFormatOption, print_gate
from planner.cli.progress import progress
from planner.cli.trace_options import BlockTokensOption, SkipInvalidOption, TimeUnitOption, scenario_read, trace_reading

COMMAND = "planner scenario new"
OTHERS = ("name", "force", "time_unit", "block_tokens", "skip_invalid")
"""Options that say nothing of the scenario by themselves."""


class Precision(StrEnum):
    """Number formats of weights and products."""

    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    FP4 = "fp4"


def _amount(value: float | None) -> float | None:
    """A number above 0; an option's own limits let nan pass."""
    if value is not None and not (isfinite(value) and 0 < value <= 1e9):
        raise typer.BadParameter(f"{value:g} is not a number above 0 (at most 1e9)")
    return value


def _length(value: float | None) -> float | None:
    if value is not None and not 1 <= value <= 1e9:
        raise typer.BadParameter(f"{value:g} is not a number of tokens (1 to 1e9)")
    return value


def _percentile(value: float | None) -> float | None:
    if value is not None and not 0 < value < 100:
        raise typer.BadParameter(f"{value:g} is not between 0 and 100")
    return value


def _name(name: str, text: str) -> Any:
    return typer.Option(name, metavar="PROFILE", help=text)


def _number(name: str, unit: str, text: str) -> Any:
    return typer.Option(name, metavar=unit, help=text, callback=_length if unit == "TOKENS" else _amount)


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the scenario, or the path of its TOML file.")],
    trace: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Plan for what this has: a trace, a CSV, metrics, a benchmark's results."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="ROLE=COLUMN,...", help="Of a CSV: arrived=TIME,input=PROMPT,output=ANSWER[,cached=...]."),
    ] = None,
    time_unit: TimeUnitOption = None,
    block_tokens: BlockTokensOption = None,
    skip_invalid: SkipInvalidOption = False,
    one_site: Annotated[bool, typer.Option("--one-site", help="Prefill and decode at one site, no link.")] = False,
    model: Annotated[str | None, _name("--model", "Model to serve.")] = None,
    hardware: Annotated[str | None, _name("--hardware", "Accelerators of the only, or the local, site.")] = None,
    remote_hardware: Annotated[str | None, _name("--remote-hardware", "Accelerators of the remote site.")] = None,
    precision: Annotated[Precision | None, typer.Option(help="Of weights and products; else the checkpoint's.")] = None,
    demand: Annotated[float | None, _number("--demand", "REQ_PER_S", "Rate to serve at the least cost.")] = None,
    slo_ttft: Annotated[float | None, _number("--slo-ttft", "SECONDS", "Promise on time to first token.")] = None,
    percentile: Annotated[
        float | None, typer.Option(metavar="P", callback=_percentile, help="Of the requests that it is kept for; 90.")
    ] = None,
    slo_tpot_ms: Annotated[float | None, _number("--slo-tpot-ms", "MS", "Promise on time per output token.")] = None,
    input_tokens: Annotated[float | None, _number("--input", "TOKENS", "Length of every prompt.")] = None,
    output_tokens: Annotated[float | None, _number("--output", "TOKENS", "Length of every answer.")] = None,
    accelerators: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=10**7, help="Most accelerators of the only, or local, site.")
    ] = None,
    per_instance: Annotated[
        int | None,
        typer.Option(
            "--accelerators-per-instance", metavar="N", min=1, max=10**4, help="As needed if not given: 1, 2, 4 ..."
        ),
    ] = None,
    price: Annotated[float | None, _number("--price", "USD", "Rent of a --hardware per hour.")] = None,
    force: ForceOption = False,
) -> None:
    """Write a commented scenario to start from, which can be planned at once.

    Options combine; what they do not say is chosen, and can be edited. A file that is there is kept without --force.

    --from takes a trace (JSON lines or CSV of known columns), any CSV with --columns (arrived, input, output, cached,
    ttft_s, tpot_s; _ms for milliseconds), metrics of vLLM, SGLang, TensorRT-LLM, Dynamo or the Gateway API inference
    extension (Prometheus text, or the JSON of a range query), and results of vllm bench serve, SGLang bench_serving,
    AIPerf, GenAI-Perf, guidellm and inference-perf.
    """
    options = {key: value for key, value in locals().items() if key not in OTHERS}
    from planner.cli.scenario_text import Wanted, scenario_text, short_name
    from planner.errors import InputError, InputProblem
    from planner.files import check_new, write_text
    from planner.reading import unprintable

    reading = trace_reading(trace, time_unit, block_tokens, skip_invalid)
    path = Path(name) if name.endswith(".toml") else Path(f"{name}.toml")
    if not short_name(path) or unprintable(name):
        raise InputError(InputProblem(COMMAND, "NAME", f"is {name!r}", "letters or digits, or a path"))
    check_new(path, force)
    text, notes = scenario_text(Wanted(path=path, reading=reading, **options))
    _check(text, path)
    write_text(path, text)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{path}: edit it, then run: planner optimize {shlex.quote(str(path))}")


def _check(text: str, path: Path) -> None:
    """Raises InputError where no plan can be asked of it: accelerators may lack a figure that the model needs."""
    from planner.errors import InputError, InputProblem
    from planner.optimizer.layout_choice import posed
    from planner.scenario import load_scenario

    try:
        posed(load_scenario(text, str(path), path.resolve().parent), data_dirs())
    except InputError as error:  # of a file that is not there yet
        here = (p for p in error.problems if p.file == str(path))
        raise InputError([InputProblem(COMMAND, p.key, p.message, p.allowed) for p in here] or error.problems) from None


app = typer.Typer(
    help="Scenarios: list, show, start or check them, print the schema.", no_args_is_help=True, rich_markup_mode=None
)


app.command("new", short_help="Write a commented scenario to start from.")(new)


@app.command("list")
def list_scenarios() -> None:
    """List the bundled scenarios, which every command takes by name."""
    from planner.cli.catalogue_tables import titled_table
    from planner.scenario import bundled_scenarios, read_scenario

    table = titled_table("Bundled scenarios", "name", "title")
    for name in bundled_scenarios():
        table.add_row(name, read_scenario(name).title or "")
    print_rich(table)


@app.command("show")
def show(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A bundled name, or a file.", autocompletion=scenario_names)
    ],
) -> None:
    """Print the file of a scenario, to copy one that is bundled: planner scenario show prfaas-paper > mine.toml."""
    from planner.scenario import scenario_path
    from planner.schema import read_text

    typer.echo(read_text(scenario_path(scenario)), nl=False)


@app.command("check", short_help="Check scenarios and everything they name.")
def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="TOML files, folders with all below, or bundled names.", autocompletion=scenario_names
        ),
    ],
    skip_others: Annotated[
        bool, typer.Option("--skip-others", help="Leave out files that state no scenario: for hooks that name all.")
    ] = False,
    format_: GateFormatOption = GateFormat.TEXT,
) -> None:
    """Check scenarios: keys, names, comparisons and traces, and whether a plan can be asked of them.

    Every problem is told: exit 3, or 4 where all that is wrong is that no plan can be. In a folder the files are
    checked that state the schema of scenarios, and those called scenario.toml.
    """
    from planner.errors import InputError, InputProblem, PlannerError

    held: list[str] = []
    failures: list[PlannerError] = []
    problems: list[InputProblem] = []
    asked = list(dict.fromkeys(_scenarios(files, skip_others)))
    for file in asked:
        try:
            with progress(f"checking {file}"):
                held.append(_valid_line(file))
        except PlannerError as error:
            failures.append(error)
            problems += error.problems if isinstance(error, InputError) else [InputProblem(file, "", str(error))]
    if format_ is GateFormat.TEXT and failures:
        typer.echo("".join(f"{line}\n" for line in held), nl=False)
        raise InputError(problems) if any(isinstance(error, InputError) for error in failures) else failures[0]
    print_gate(problems, format_, "\n".join(held) or "no scenario is among these files")
    if failures:
        raise typer.Exit(min(error.exit_code for error in failures))


def _scenarios(files: Iterable[str], skip_others: bool) -> Iterator[str]:
    """Scenarios to check of what is named; a folder without any stands for itself, and is told."""
    from planner.scenario import bundled_scenarios
    from planner.scenario.bundled import is_scenario, scenarios_below

    bundled = bundled_scenarios()
    for file in files:
        path = Path(file)
        if file not in bundled and path.is_dir():
            found = scenarios_below(path)
            yield from map(str, found if found or skip_others else [path])
        elif not skip_others or file in bundled or is_scenario(path):
            yield file


def _valid_line(file: str) -> str:
    """Line on a scenario that holds, and its notes. Raises PlannerError where it does not."""
    from planner.optimizer.layout_choice import posed
    from planner.scenario import question_notes

    scenario = scenario_read(file)
    for name in scenario.comparisons:
        scenario.compared(name)
    problem = posed(scenario, data_dirs())
    counted = (
        (len(scenario.pools), "pool", "s"),
        (len(problem.links), "link", "s"),
        (len(problem.classes), "class", "es"),
    )
    counts = ", ".join(f"{n} {noun}{end if n != 1 else ''}" for n, noun, end in counted)
    return "\n".join([f"{file}: holds ({counts})", *(f"{file}: note: {text}" for text in question_notes(scenario))])


class SchemaFormat(StrEnum):
    """Format that the schema is printed in."""

    JSON = "json"
    MARKDOWN = "markdown"


@app.command("schema", short_help="Every key of a scenario.")
def schema(
    format_: Annotated[SchemaFormat, typer.Option("--format", help="JSON Schema, or a page to read.")] = (
        SchemaFormat.JSON
    ),
) -> None:
    """Print every key of a scenario: as JSON Schema, for editors, or as a page to read."""
    from planner.documented import documented_schema
    from planner.scenario import Scenario

    if format_ is SchemaFormat.MARKDOWN:
        from planner.report.scenario_keys import scenario_keys_page

        typer.echo(scenario_keys_page(), nl=False)
        return
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **documented_schema(Scenario)})
