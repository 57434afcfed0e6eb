"""`planner live`: the hybrid model really run on this machine beside what was predicted for it."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import MOST_SEED, Format, FormatOption, print_json, print_rich, write_files
from planner.cli.progress import progress

if TYPE_CHECKING:
    from planner.results.live import Live


class BackendName(StrEnum):
    """Libraries that the model computes with."""

    NUMPY = "numpy"
    TORCH = "torch"


class DeviceName(StrEnum):
    """Devices that torch computes on."""

    CPU = "cpu"
    CUDA = "cuda"


def live(
    minutes: Annotated[
        float, typer.Option(min=0.5, max=60.0, metavar="M", help="Time for measuring and serving together.")
    ] = 3.0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 6 when a check does not hold.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, metavar="S", help="Of weights, prompts and arrivals.")] = 0,
    load: Annotated[
        float, typer.Option(min=0.05, max=0.95, metavar="F", help="Rate of arrivals over the predicted capacity.")
    ] = 0.4,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep profiles, timed passes, records and the answer there.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report.md, its figures and the answer there.")
    ] = None,
    earlier: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Show the live.json of an earlier run; run nothing.")
    ] = None,
    backend: Annotated[
        BackendName, typer.Option(help="What the model computes with; torch is an extra to install.")
    ] = BackendName.NUMPY,
    device: Annotated[
        DeviceName | None, typer.Option(help="Where torch computes, cpu if not given; workers share one GPU.")
    ] = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Measure this machine, predict a small hybrid model on it, serve it over loopback, and compare.

    Workers are processes of one core each; nothing leaves this machine. The same requests go through the request-level
    executor.
    """
    from planner.errors import CheckFailedError, UsageError
    from planner.files import check_writable_folder

    if device is not None and backend is not BackendName.TORCH:
        raise UsageError(f"--device {device}: only with --backend torch; NumPy computes on the processor")

    for folder in (out, report):
        if folder is not None:
            check_writable_folder(folder)
    if earlier is not None:
        found = read(earlier, out)
    else:
        from planner.hybrid.arrays import Backend
        from planner.studies.live import LiveQuestion
        from planner.studies.live import live as study

        computes = Backend(backend.value, device.value if device else "cpu")
        with progress("starting workers") as update:
            question = LiveQuestion(minutes=minutes, seed=seed, load_fraction=load, backend=computes)
            found = study(question, out=out, progress=update).live
    if report is not None:
        from planner.report.live_folder import write_live_report

        write_files((report / "report.md", lambda path: write_live_report(found, path.parent)))
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        from planner.report.live_tables import live_tables

        print_rich(*live_tables(found))
    failed = [check.metric for check in found.checks if not check.holds]
    if strict and failed:
        raise CheckFailedError(f"{len(failed)} of {len(found.checks)} checks do not hold: {', '.join(failed)}")


def read(path: Path, out: Path | None) -> "Live":
    """The answer of an earlier run.

    Raises:
        UsageError: `--out` is given, which keeps what only a run has.
        InputError: the file is not such an answer.
    """
    from planner.errors import UsageError
    from planner.results.live_file import live_from
    from planner.schema import read_text

    if out is not None:
        raise UsageError(f"--out {out}: keeps what a run leaves; --from runs nothing")
    return live_from(read_text(path), str(path))
