"""`planner fidelity`: measured serving points against predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import Format, FormatOption, print_json, print_rich, write_files
from planner.cli.point_options import ColumnsOption, PointsArgument, read_all, with_point_options
from planner.cli.progress import progress

if TYPE_CHECKING:
    from planner.profiles.points import PointDefaults, ServingPoint
    from planner.results.fidelity import Fidelity

ENOUGH_FRACTION = 0.95
"""Part of the points that must be answered: refusing is not accuracy."""


@with_point_options
def fidelity(
    points: PointsArgument,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the points again, with predicted columns.")
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option("--stack", metavar="STACK", help="Predict all by one stack, instead of what each point ran on."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Write a report with figures instead of tables.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --report: write nothing; exit 6 when the folder is stale.")
    ] = False,
    format_: FormatOption = Format.TEXT,
    columns: ColumnsOption = None,
    *,
    defaults: "PointDefaults",
) -> None:
    """Hold predictions against measured points; exit 6 where fewer than 95 % of them can be predicted."""
    check_options(points, out, report, check, stack)
    files = read_all(points, defaults, columns)
    if report is not None:
        found = report_on(points, files, report, check)
    else:
        found = score(files, stack)
        write_files(
            (out, lambda path: write_beside(found, points[0], path, None if columns is None else files[0], defaults))
        )
        show(found, format_)
    if found.answered_fraction < ENOUGH_FRACTION:
        raise_unanswered(found)


def check_options(
    points: Sequence[Path], out: Path | None, report: Path | None, check: bool, stack: str | None
) -> None:
    """Say before any work what does not go together, or cannot be written.

    Raises:
        UsageError: there is such a thing.
        InputError: what is asked for cannot be written.
    """
    from planner.errors import UsageError
    from planner.files import check_writable, check_writable_folder

    if out is not None and len(points) > 1:
        raise UsageError(f"--out {out}: takes one file of points, not {len(points)}")
    if out is not None and is_same_file(out, points[0]):
        raise UsageError(f"--out {out}: is the file of points itself; name another one")
    if check and report is None:
        raise UsageError("--check: is for --report DIR")
    if report is not None and (out is not None or stack is not None):
        raise UsageError(f"--report {report}: has no room for --out or --stack; it is of the stacks that points ran on")
    if out is not None:
        check_writable(out)
    if report is not None and not check:
        check_writable_folder(report)


def is_same_file(one: Path, other: Path) -> bool:
    """True if two paths lead to one file."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def score(files: "Sequence[Sequence[ServingPoint]]", stack: str | None) -> "Fidelity":
    """Predictions of all points, scored."""
    from planner.studies.fidelity import fidelity as scored

    points = [point for file in files for point in file]
    with progress(f"predicting {len(points):,} points"):
        return scored(points, stack)


def show(found: "Fidelity", format_: Format) -> None:
    """Print the answer."""
    if format_ is Format.JSON:
        print_json(found.model_dump(mode="json", by_alias=True))
        return
    from planner.report.fidelity_tables import fidelity_tables

    print_rich(*fidelity_tables(found))


def write_beside(
    found: "Fidelity", path: Path, out: Path, read: "list[ServingPoint] | None", defaults: "PointDefaults"
) -> None:
    """Write a file of points again with what was predicted of each; of points that were read already, a table."""
    from planner.profiles.points import write_predictions

    rows = found.points
    columns: dict[str, list[float | str | None]] = {
        "predicted_ttft_ms": [milliseconds(row.predicted_ttft_s) for row in rows],
        "predicted_tpot_ms": [milliseconds(row.predicted_tpot_s) for row in rows],
        "ttft_error": [row.ttft_error for row in rows],
        "tpot_error": [row.tpot_error for row in rows],
        "predicted_output_tokens_per_s_per_gpu": [row.predicted_tokens_per_s for row in rows],
        "throughput_error": [row.throughput_error for row in rows],
        "stack": [row.stack for row in rows],
        "doubtful": [row.doubt for row in rows],
        "refused": [row.reason for row in rows],
    }
    write_predictions(path, out, columns, defaults, read)


def milliseconds(seconds: float | None) -> float | None:
    """Seconds as milliseconds; None stays unknown."""
    return None if seconds is None else 1e3 * seconds


def report_on(
    paths: Sequence[Path], files: "Sequence[Sequence[ServingPoint]]", out_dir: Path, check: bool
) -> "Fidelity":
    """Write the report, or check the one that is there."""
    from planner.errors import CheckFailedError
    from planner.report.fidelity_folder import check_fidelity_report, write_fidelity_report
    from planner.studies.fidelity import survey

    stale: list[str] = []
    with progress("predicting all points"):
        found = survey([*zip(paths, files, strict=True)], out_dir)
        if check:
            stale = check_fidelity_report(found, out_dir)
        else:
            write_fidelity_report(found, out_dir)
    if stale:
        listed = "\n".join(f"  - {item}" for item in stale)
        names = " ".join(map(str, paths))
        raise CheckFailedError(f"{out_dir} is stale:\n{listed}\nRun: planner fidelity {names} --report {out_dir}")
    typer.echo(f"{out_dir} is current" if check else f"{out_dir / 'report.md'}")
    return found.fidelity


def raise_unanswered(found: "Fidelity") -> None:
    """Say how many points have no prediction."""
    from planner.errors import CheckFailedError
    from planner.units import percent

    raise CheckFailedError(
        f"{found.n_predicted:,} of {found.n_points:,} points are predicted, {percent(found.answered_fraction)}: "
        f"fewer than {percent(ENOUGH_FRACTION, 0)}, and refusing is not accuracy. The reasons are in 'refused'"
    )
