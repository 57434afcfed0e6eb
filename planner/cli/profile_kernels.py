"""`planner profiles kernels`: efficiencies of an accelerator from measured kernels."""

import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import ForceOption, Format, FormatOption, print_json
from planner.cli.progress import progress

DISTRIBUTION = "aiconfigurator-core"


def kernel_profile(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="Profile to write; its name is the accelerator's: h100-sxm.toml."),
    ],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE",
            help=f"Folder of the accelerator's kernel timings; if none, those of the installed {DISTRIBUTION}.",
        ),
    ] = None,
    force: ForceOption = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Condense kernel timings into a hardware profile: rates by number format, rows and length."""
    from planner.files import check_new, write_text
    from planner.profiles import check_profiles, hardware_profile
    from planner.profiles.catalogue import profile_path
    from planner.reading import read_text
    from planner.studies.kernels import installed_timings, kernel_figures, with_figures

    hardware = hardware_profile(out.stem)
    check_new(out, force)
    folder = source or installed_timings(hardware)
    with progress(f"reading kernels of {hardware.name}"):
        figures = kernel_figures(hardware, folder)
    write_text(out, with_figures(read_text(profile_path(hardware.name)), figures, cited(source)))
    problems = check_profiles([out]).problems
    if format_ is Format.JSON:
        own = {figure.key: figure.value for figure in figures}
        print_json({"schema": "planner.kernels/1", "name": hardware.name, "file": str(out), "figures": own})
    else:
        typer.echo(f"{out}: {len(figures)} figures of kernels")
        for problem in problems:
            typer.echo(f"{problem}")


def cited(source: Path | None) -> str:
    """Where figures come from, with the date."""
    today = f"as of {datetime.date.today().isoformat()}, condensed by planner profiles kernels"
    if source is not None:
        return f"Kernel timings of {source.name}, {today}"
    try:
        found = version(DISTRIBUTION)
    except PackageNotFoundError:
        found = "of a version that it does not say"
    return (
        f"AIConfigurator, kernel timings in the wheel {DISTRIBUTION} {found} (Apache-2.0), "
        f"https://github.com/ai-dynamo/aiconfigurator, {today}"
    )
