"""`planner scenario new`: a commented scenario that holds, and that `planner optimize` plans, as it is written."""

import shlex
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.common import ForceOption, data_dirs
from planner.cli.trace_options import BlockTokensOption, SkipInvalidOption, TimeUnitOption, asked_reading

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
    from planner.errors import InputError, Problem
    from planner.files import check_new, write_text
    from planner.reading import unprintable

    reading = asked_reading(trace, time_unit, block_tokens, skip_invalid)
    path = Path(name) if name.endswith(".toml") else Path(f"{name}.toml")
    if not short_name(path) or unprintable(name):
        raise InputError(Problem(COMMAND, "NAME", f"is {name!r}", "letters or digits, or a path"))
    check_new(path, force)
    text, notes = scenario_text(Wanted(path=path, reading=reading, **options))
    _check(text, path)
    write_text(path, text)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{path}: edit it, then run: planner optimize {shlex.quote(str(path))}")


def _check(text: str, path: Path) -> None:
    """Raises InputError where no plan can be asked of it: accelerators may lack a figure that the model needs."""
    from planner.errors import InputError, Problem
    from planner.optimizer import posed
    from planner.scenario import load_scenario

    try:
        posed(load_scenario(text, str(path), path.resolve().parent), data_dirs())
    except InputError as error:  # of a file that is not there yet
        here = (p for p in error.problems if p.file == str(path))
        raise InputError([Problem(COMMAND, p.key, p.message, p.allowed) for p in here] or error.problems) from None
