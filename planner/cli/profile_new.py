"""`planner profiles new`: a hardware profile to fill in."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import ForceOption, Format, FormatOption, print_json

SUFFIX = ".toml"


def new_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile, or the path of its TOML file.")],
    force: ForceOption = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Write a commented hardware profile to fill in."""
    from planner.files import check_new, write_text
    from planner.profiles import check_profiles
    from planner.profiles.new_hardware import new_hardware_profile

    path = Path(name if name.endswith(SUFFIX) else f"{name}{SUFFIX}")
    check_name(path)
    check_new(path, force)
    write_text(path, new_hardware_profile(path.stem))
    to_fill = check_profiles([path]).problems
    if format_ is Format.JSON:
        lines = [{"line": problem.line, "key": problem.key} for problem in to_fill]
        print_json({"schema": "planner.new/1", "name": path.stem, "file": str(path), "to_fill": lines})
    else:
        typer.echo(f"{path}: fill in at least {', '.join(problem.key.removesuffix('.value') for problem in to_fill)}")
        typer.echo(f"next: planner profiles check {path}")


def check_name(path: Path) -> None:
    """Say before anything is written what a new profile cannot be called.

    Raises:
        UsageError: no profile may have such a name.
        InputError: another profile has it.
    """
    from planner.errors import InputError, Problem, UsageError
    from planner.profiles.catalogue import find_path
    from planner.profiles.importer import profile_name

    better = profile_name(path.stem)
    if path.stem != better:
        raise UsageError(
            f"{path.stem}: is no name of a profile (small letters, digits, '.' and '-', as {better or 'my-chip'})"
        )
    taken = find_path(path.stem, ("hardware",))
    if taken and taken.resolve() != path.resolve():
        raise InputError(Problem(path.stem, "", f"already names {taken}", "a new name"))
