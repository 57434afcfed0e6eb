"""Options about how a trace is read, and what is said of it."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.common import data_dirs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.notes import Note
    from planner.scenario import Scenario
    from planner.workload.traces import Trace, TraceReading


class TimeUnitName(StrEnum):
    """Units of times."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


TimeUnitOption = Annotated[
    TimeUnitName | None, typer.Option("--time-unit", help="Of times that are numbers, in the file of --from.")
]
BlockTokensOption = Annotated[
    int | None,
    typer.Option("--block-tokens", metavar="N", min=1, max=1_000_000, help="Tokens of a block of its hash_ids."),
]
SkipInvalidOption = Annotated[
    bool, typer.Option("--skip-invalid", help="Leave out its rows that are no requests: 5 % at most, or one.")
]


def trace_reading(
    trace: Path | None, time_unit: TimeUnitName | None, block_tokens: int | None, skip_invalid: bool
) -> "TraceReading":
    """The way to read a trace, by the options. Raises UsageError where no file is named."""
    from planner.errors import UsageError
    from planner.workload.traces import TraceReading

    stated = {
        "--time-unit": time_unit is not None,
        "--block-tokens": block_tokens is not None,
        "--skip-invalid": skip_invalid,
    }
    for option, is_stated in stated.items():
        if is_stated and trace is None:
            raise UsageError(f"{option}: is about --from, which is not given")
    return TraceReading("auto", None if time_unit is None else time_unit.value, block_tokens, skip_invalid)


def trace_keys(path: str, trace: "Trace", reading: "TraceReading") -> dict[str, Any]:
    """The keys of a scenario by which it reads a trace as it was read now."""
    from planner.workload.traces import BLOCK_TOKENS

    keys: dict[str, Any] = {"path": path}
    if trace.times.is_known and trace.times.basis != "dates":
        keys["time_unit"] = trace.times.unit
    if trace.blocks is not None and (reading.block_tokens or trace.blocks.block_tokens != BLOCK_TOKENS):
        keys["block_tokens"] = trace.blocks.block_tokens
    return keys | ({"skip_invalid": True} if reading.skip_invalid else {})


def read_notes(trace: "Trace") -> "tuple[Note, ...]":
    """Notes on the reading of a trace, its usual unit included."""
    span_s = float(trace.arrival_s[-1] - trace.arrival_s[0])
    usual = () if trace.times.is_known else trace.times.notes(trace.n_requests, span_s)
    return (*usual, *trace.notes)


def scenario_read(name: str, overrides: "Sequence[str]" = ()) -> "Scenario":
    """A scenario; what is said of it is how its traces are read where that is not as their format says.

    Raises:
        InputError: it does not hold.
    """
    from planner.scenario import read_scenario

    found = read_scenario(name, overrides)
    say_readings(found)
    return fitted(found)


def fitted(scenario: "Scenario") -> "Scenario":
    """A scenario whose stacks have no points left that their factors are yet to be fitted to. Raises InputError."""
    if not any(own.points for own in scenario.stacks.values()):
        return scenario
    from planner.cli.progress import progress
    from planner.studies.fidelity import with_fitted_stacks

    with progress("fitting to measured points") as update:
        return with_fitted_stacks(scenario, update)


def say_readings(scenario: "Scenario") -> None:
    """Say how traces of a scenario are read that are not read as their format says."""
    from planner.errors import InputError

    for _, workload in scenario.workloads.values():
        if workload.trace is None:
            continue
        from planner.workload.requests import recorded_trace

        try:
            trace = recorded_trace(workload.trace, scenario.directory, data_dirs())
        except InputError:  # who plans for it tells it, at the key that names it
            continue
        for said in trace.notes:
            typer.echo(f"note: {trace.name}: {said}", err=True)
