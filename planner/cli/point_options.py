"""Arguments of the commands that read measured points: the files, and what to take as said where they are silent."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.progress import progress

if TYPE_CHECKING:
    from planner.errors import InputProblem
    from planner.profiles.points import PointDefaults, ServingPoint


MOST_COUNTED = 1_000_000
"""Of a number of instances, accelerators or requests at once: beyond any deployment."""


class Mode(StrEnum):
    """Choice of one set of workers for prefill and decode, or of one for each."""

    AGG = "agg"
    DISAGG = "disagg"


PointsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="POINTS", help="CSV tables, or results of serving benchmarks (JSON or CSV)."),
]


def _text(name: str, metavar: str, help_: str) -> Any:
    return Annotated[str | None, typer.Option(name, metavar=metavar, help=help_)]


def _size(name: str, help_: str) -> Any:
    return Annotated[int | None, typer.Option(name, metavar="N", min=1, max=MOST_COUNTED, help=help_)]


def _load(name: str, metavar: str, help_: str) -> Any:
    return Annotated[float | None, typer.Option(name, metavar=metavar, min=1e-6, max=MOST_COUNTED, help=help_)]


POINT_OPTIONS: dict[str, Any] = {
    "model": _text("--model", "NAME", "Where a file does not say: the model,"),
    "hardware": _text("--hardware", "NAME", "the accelerator,"),
    "framework": _text("--framework", "NAME", "the serving framework,"),
    "framework_version": _text("--framework-version", "VERSION", "its version,"),
    "precision": _text("--precision", "FORMAT", "the number format of weights,"),
    "kv_precision": _text("--kv-precision", "FORMAT", "that of the attention cache,"),
    "mode": Annotated[Mode | None, typer.Option("--mode", help="whether prefill and decode share workers,")],
    "n_accelerators": _size("--accelerators", "accelerators of the whole deployment,"),
    "tp_size": _size("--tp-size", "tensor-parallel size,"),
    "pp_size": _size("--pp-size", "pipeline stages,"),
    "attention_dp_size": _size("--attention-dp-size", "attention replicas,"),
    "moe_tp_size": _size("--moe-tp-size", "tensor-parallel size of experts,"),
    "moe_ep_size": _size("--moe-ep-size", "expert-parallel size,"),
    "prefill_num_workers": _size("--prefill-num-workers", "prefill workers of a disagg deployment,"),
    "prefill_tp_size": _size("--prefill-tp-size", "tensor-parallel size of each,"),
    "decode_num_workers": _size("--decode-num-workers", "decode workers,"),
    "decode_tp_size": _size("--decode-tp-size", "tensor-parallel size of each,"),
    "prefill_pp_size": _size("--prefill-pp-size", "pipeline stages of a prefill worker,"),
    "prefill_attention_dp_size": _size("--prefill-attention-dp-size", "its attention replicas,"),
    "prefill_moe_ep_size": _size("--prefill-moe-ep-size", "its expert-parallel size,"),
    "decode_pp_size": _size("--decode-pp-size", "pipeline stages of a decode worker,"),
    "decode_attention_dp_size": _size("--decode-attention-dp-size", "its attention replicas,"),
    "decode_moe_ep_size": _size("--decode-moe-ep-size", "its expert-parallel size,"),
    "max_num_seqs": _size("--max-num-seqs", "most sequences that an attention replica runs at once,"),
    "measured_date": _text("--measured-date", "DATE", "the day of the measurement,"),
    "concurrency": _load("--concurrency", "N", "requests always in flight,"),
    "request_rate_req_per_s": _load("--request-rate", "REQ_PER_S", "or their arrival rate."),
}
"""One option per field of PointDefaults, under the name that the reader's messages give it."""


def with_point_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all of these options, which it gets in one: its keyword `defaults`."""

    @wraps(command)
    def wrapped(**arguments: Any) -> None:
        from planner.profiles.points import PointDefaults

        said = {name: arguments.pop(name) for name in POINT_OPTIONS}
        command(**arguments, defaults=PointDefaults(**said))

    own = [parameter for parameter in signature(command).parameters.values() if parameter.name != "defaults"]
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in POINT_OPTIONS.items()
    ]
    ordered = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own] + options
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    wrapped.__dict__["__signature__"] = Signature(ordered)
    return wrapped


ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="ROLE=COLUMN,...", help="Files are requests, one a row: input=...,output=...,ttft_ms=..."
    ),
]


def read_all(paths: Sequence[Path], defaults: "PointDefaults", columns: str | None) -> "list[list[ServingPoint]]":
    """Points of every file, in the order of the files; of tables of requests where their columns are named.

    Raises:
        InputError: with every problem of every file.
        UsageError: the columns are not named as they have to be.
    """
    from planner.errors import InputError
    from planner.profiles.points import read_points
    from planner.workload.observed.request_table import parsed_columns

    roles = None if columns is None else parsed_columns(columns)
    found: list[list[ServingPoint]] = []
    problems: list[InputProblem] = []
    for path in paths:
        try:
            with progress(f"reading {path}"):
                found.append(read_points(path, defaults) if roles is None else _of_requests(path, roles, defaults))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _of_requests(path: Path, roles: dict[str, str], defaults: "PointDefaults") -> "list[ServingPoint]":
    """The point that recorded requests are together."""
    from planner.profiles.points.bench_points import bench_points
    from planner.workload.observed.bench import requests_run
    from planner.workload.observed.request_table import observed_table

    recorded = observed_table(path, roles)
    for note in recorded.notes:
        typer.echo(f"note: {path}: {note}", err=True)
    return bench_points(str(path), [requests_run(recorded, is_closed_loop=defaults.concurrency is not None)], defaults)
