"""`planner calibrate`: a stack profile from measured serving points."""

import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.common import ForceOption, Format, FormatOption, print_json, print_rich, write_files
from planner.cli.point_options import ColumnsOption, PointsArgument, read_all, with_point_options
from planner.cli.progress import progress
from planner.units import percent

if TYPE_CHECKING:
    from planner.profiles import StackProfile
    from planner.profiles.points import PointDefaults, ServingPoint
    from planner.results.fidelity import Fidelity
    from planner.studies.fidelity import PointsOf

NAME = re.compile(r"[a-z0-9][a-z0-9.-]*", re.ASCII)
SUFFIX = ".toml"


@with_point_options
def calibrate(
    points: PointsArgument,
    stack: Annotated[
        str,
        typer.Option("--stack", metavar="NAME", help="Framework, such as vllm; or vllm-0.19.0 for its default."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Profile to write, such as vllm.toml.")],
    catalogue: Annotated[
        bool, typer.Option("--catalogue/--no-catalogue", help="Fit to the published curves of model profiles as well.")
    ] = False,
    from_priors: Annotated[
        bool, typer.Option("--from-priors", help="Begin as with a framework of which nothing is known.")
    ] = False,
    memory_fraction: Annotated[
        float | None,
        typer.Option(metavar="F", min=0.05, max=1.0, help="Part of the memory that a device reports, for serving."),
    ] = None,
    chunk_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=16, max=10**9, help="Most prompt tokens of one prefill pass.")
    ] = None,
    reserves_output: Annotated[
        bool | None,
        typer.Option("--reserves-output/--grows-output", help="Whether a request reserves cache for all its output."),
    ] = None,
    quantized_kv: Annotated[
        bool | None,
        typer.Option("--quantized-kv/--full-kv", help="Whether the cache is fp8 beside weights of 8 bits or fewer."),
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="TEXT", help="Whose the points are, for the profile.")] = None,
    date: Annotated[str | None, typer.Option(metavar="YYYY-MM-DD", help="Day the profile bears; today.")] = None,
    force: ForceOption = False,
    format_: FormatOption = Format.TEXT,
    columns: ColumnsOption = None,
    *,
    defaults: "PointDefaults",
) -> None:
    """Fit a stack profile to measured points, and say how it does on what it did not see.

    The fit begins with the shipped stack of the framework, so that a few points of your own server do. Settings that
    are not given are those of the shipped profile.
    """
    day = calendar_day(date)
    check_out(out, force)
    files = read_all(points, defaults, columns)
    settings = {
        "memory_fraction": memory_fraction,
        "chunk_tokens": chunk_tokens,
        "reserves_output": reserves_output,
        "quantized_kv": quantized_kv,
    }
    profile, scores, before = fitted(points, files, stack, out.stem, (catalogue, from_priors), settings, source, day)
    write(profile, out)
    show(profile, scores, before, format_)


def calendar_day(text: str | None) -> datetime.date:
    """The day that an option names; today where it names none.

    Raises:
        UsageError: it is no day.
    """
    from planner.errors import UsageError

    try:
        return datetime.date.today() if text is None else datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--date {text}: is no day (such as 2026-01-31)") from None


def check_out(out: Path, force: bool) -> None:
    """Say before any work that a profile cannot be written there.

    Raises:
        UsageError: its name is not that of a profile.
        InputError: it is there and may not be replaced, or its folder cannot be written.
    """
    from planner.errors import UsageError
    from planner.files import check_new

    if out.suffix != SUFFIX or not NAME.fullmatch(out.stem):
        raise UsageError(f"--out {out}: is no name of a profile (small letters, digits, '.' and '-', then {SUFFIX})")
    check_new(out, force)


def fitted(
    paths: Sequence[Path],
    files: "Sequence[Sequence[ServingPoint]]",
    name: str,
    stem: str,
    how: tuple[bool, bool],
    settings: dict[str, Any],
    source: str | None,
    day: datetime.date,
) -> "tuple[StackProfile, Fidelity, Fidelity | None]":
    """The profile, and its points scored by it and, where the fit began with that, by the shipped stack.

    Args:
        how: whether curves of the catalogue are fitted to as well, and whether the fit begins with the priors.
        settings: how the framework is run, where that is stated.
    """
    from planner.profiles.stack_writer import as_written
    from planner.studies.fidelity import (
        calibrated_stack,
        fidelity,
        shipped_conventions,
        shipped_factors,
        shipped_settings,
        wanted_framework,
    )

    catalogue, from_priors = how
    framework = wanted_framework(name, [point for file in files for point in file])
    start = None if from_priors else shipped_factors(framework)
    check_stem(stem, framework)
    stated, usual = {key: value for key, value in settings.items() if value is not None}, shipped_settings(framework)
    own_settings = [key for key, value in stated.items() if getattr(usual, key) != value]
    parts = parts_of(paths, files, framework, catalogue)
    with progress(f"calibrating {framework}") as update:
        profile = calibrated_stack(
            stem,
            framework,
            parts,
            settings=usual.model_copy(update=stated),
            conventions=shipped_conventions(framework, own_settings),
            described=source,
            start=start,
            day=day,
            progress=update,
        )
        update("scoring the points")
        own = [point for part in parts for point in part.points if point.framework.casefold() == framework]
        written = as_written(profile)
        before = None if start is None else fidelity(own, framework)
        return written, fidelity(own, profile=written), before


def check_stem(stem: str, framework: str) -> None:
    """Hold the name of a profile against its framework's.

    Raises:
        UsageError: `--stack` would not find it under that name.
    """
    from planner.errors import UsageError

    if stem != framework and not stem.startswith(f"{framework}-"):
        allowed = f"{framework}{SUFFIX}, or a name that begins with {framework}-"
        raise UsageError(f"--out {stem}{SUFFIX}: is no name for a profile of {framework} ({allowed})")


def parts_of(
    paths: Sequence[Path], files: "Sequence[Sequence[ServingPoint]]", framework: str, catalogue: bool
) -> "list[PointsOf]":
    """Points by file, then those of the catalogue."""
    from planner.studies.fidelity import PointsOf, catalogue_points

    found = [PointsOf(path, tuple(points)) for path, points in zip(paths, files, strict=True)]
    published = tuple(catalogue_points(framework)) if catalogue else ()
    return [*found, PointsOf(None, published)] if published else found


def write(profile: "StackProfile", out: Path) -> None:
    """Write a profile, and say where the gate would not let it pass."""
    from planner.files import write_text
    from planner.profiles import check_profiles
    from planner.profiles.stack_writer import stack_toml

    write_files((out, lambda path: write_text(path, stack_toml(profile))))
    for problem in check_profiles([out]).problems:
        typer.echo(f"planner profiles check: {problem}", err=True)


def show(profile: "StackProfile", scores: "Fidelity", before: "Fidelity | None", format_: Format) -> None:
    """Print what was fitted."""
    if format_ is Format.JSON:
        print_json(profile.model_dump(mode="json", by_alias=True, exclude_none=True))
        return
    from planner.cli.stack_tables import stack_tables
    from planner.report.fidelity_tables import worst_table
    from planner.report.terminal import printed

    worst = printed(worst_table(scores.points, "worst residuals"))
    print_rich(
        *stack_tables(profile),
        *([worst] if worst else []),
        *fitted_to_text(profile),
        *gains(scores, before),
        *scores.notes,
    )


def fitted_to_text(profile: "StackProfile") -> list[str]:
    """Lines on what the points determine, what they do not, and whether predictions get an error band."""
    factors = profile.factors.stated.items()
    learnt = [key for key, factor in factors if factor.basis != "assumed"]
    assumed = [key for key, factor in factors if factor.basis == "assumed"]
    found = profile.calibration
    n_points = sum(file.n_used for file in found.points) if found else 0
    points = f"{n_points:,} point{'s' * (n_points != 1)}"
    lines = [f"{points}: {len(learnt)} of {len(factors)} factors rest on them{listed(learnt)}"]
    if assumed:
        lines.append(f"{len(assumed)} are as the fit began, and the points hardly move them{listed(assumed)}")
    if found and not (found.model_bands.prefill or found.model_bands.decode):
        lines.append(
            "no error band: it takes points of two models or accelerators, each predicted by a fit to the rest"
        )
    return lines


def gains(scores: "Fidelity", before: "Fidelity | None") -> list[str]:
    """Errors on the points by the stack that the fit began with, and by the profile."""
    if before is None:
        return []
    pairs = (("TTFT", before.ttft, scores.ttft), ("TPOT", before.tpot, scores.tpot))
    known = [
        f"of {name} {percent(old.mean_abs_error)} by the shipped stack, {percent(new.mean_abs_error)} by this one"
        for name, old, new in pairs
        if old.mean_abs_error is not None
    ]
    return [f"mean error on these points: {'; '.join(known)}"] if known else []


def listed(names: Sequence[str]) -> str:
    """Names after a colon; nothing where there are none."""
    return f": {', '.join(names)}" if names else ""
