"""`planner profiles`: the catalogue of accelerators, models and stacks, new ones, figures of kernels, and the gate."""

import datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import completion
from planner.cli.common import ForceOption, Format, FormatOption, print_json, print_rich
from planner.cli.problem_output import GateFormat, GateFormatOption, print_gate
from planner.cli.profile_import import import_config
from planner.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.profiles import ProfileCheck
    from planner.profiles.catalogue import AnyProfile
    from planner.profiles.folders import Kind

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
    from planner.errors import InputError, InputProblem, UsageError
    from planner.profiles.catalogue import find_path
    from planner.profiles.importer import profile_name

    better = profile_name(path.stem)
    if path.stem != better:
        raise UsageError(
            f"{path.stem}: is no name of a profile (small letters, digits, '.' and '-', as {better or 'my-chip'})"
        )
    taken = find_path(path.stem, ("hardware",))
    if taken and taken.resolve() != path.resolve():
        raise InputError(InputProblem(path.stem, "", f"already names {taken}", "a new name"))


SHIPPED = "shipped"
app = typer.Typer(
    help="Accelerators, models and stacks: list, show, check, import, new.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class SchemaKind(StrEnum):
    """Kinds of profile files."""

    HARDWARE = "hardware"
    MODEL = "model"
    STACK = "stack"


@app.command("list")
def list_profiles(format_: FormatOption = Format.TEXT) -> None:
    """List every accelerator, model and stack that has a profile."""
    from planner.cli import catalogue_tables as tables
    from planner.cli.stack_tables import stacks_table
    from planner.profiles import hardware_profile, model_profile, profile_names, stack_profile

    hardware = [hardware_profile(name) for name in profile_names("hardware")]
    models = [model_profile(name) for name in profile_names("model")]
    stacks = [stack_profile(name) for name in profile_names("stack")]
    if format_ is Format.JSON:
        found = {
            "schema": "planner.profiles/1",
            "hardware": [{**tables.summary(item), "origin": origin(item.name, "hardware")} for item in hardware],
            "models": [{**tables.summary(item), "origin": origin(item.name, "model")} for item in models],
            "stacks": [{**tables.summary(item), "origin": origin(item.name, "stack")} for item in stacks],
        }
        print_json(found)
    else:
        print_rich(tables.hardware_table(hardware), tables.models_table(models), stacks_table(stacks))
        print_rich(*own_tables())


def origin(name: str, kind: "Kind") -> str:
    """Where a profile of the catalogue comes from: shipped, or the file of an own one."""
    from planner.profiles.folders import own_paths

    return next((str(path) for path in own_paths(kind) if path.stem == name), SHIPPED)


def own_tables() -> "list[RenderableType]":
    """Own profiles with their files, and that all others are shipped; nothing where there are none."""
    from planner.cli.catalogue_tables import titled_table
    from planner.profiles.folders import KINDS, VARIABLE, own_paths

    table = titled_table(f"Own profiles, of {VARIABLE}; all others are shipped", "name", "kind", "file")
    for kind in KINDS:
        for path in own_paths(kind):
            table.add_row(path.stem, kind, str(path))
    return [table] if table.row_count else []


@app.command("show")
def show_profile(
    name: Annotated[
        str,
        typer.Argument(
            help="Name, alias or path of a profile.", metavar="PROFILE", autocompletion=completion.profile_names
        ),
    ],
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show one profile: every figure with its source."""
    from planner.cli.catalogue_tables import sources_table
    from planner.profiles import profile
    from planner.profiles.catalogue import is_shipped, profile_path

    found, path = profile(name), profile_path(name)
    if format_ is Format.JSON:
        print_json(found.model_dump(mode="json", by_alias=True, exclude_none=True))
        return
    title = found.title if is_shipped(path) else f"{found.title} (own, {path})"
    print_rich(title, *_tables_of(found), sources_table(found.sources))


def _tables_of(found: "AnyProfile") -> list["RenderableType"]:
    from planner.cli import catalogue_tables as tables
    from planner.cli.stack_tables import stack_tables
    from planner.profiles import HardwareProfile, ModelProfile

    if isinstance(found, HardwareProfile):
        return [f"Status: {found.status}", *tables.figures_tables(found)]
    if isinstance(found, ModelProfile):
        return [tables.shapes_table(found), *tables.measured_tables(found)]
    return [*stack_tables(found)]


@app.command("check", short_help="Check profile files; exit 6 with every problem.")
def check_files(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files, folders with all below, or names; the catalogue if none."),
    ] = None,
    format_: GateFormatOption = GateFormat.TEXT,
) -> None:
    """Check profile files; exit 6 and print every problem when they do not hold."""
    from planner.errors import CheckFailedError
    from planner.profiles import check_profiles
    from planner.profiles.check import named_file

    with progress("checking profiles"):
        found = check_profiles(map(named_file, paths or ()))
    print_gate(found.problems, format_, _checked(found, is_catalogue=not paths))
    if not found.holds:
        raise typer.Exit(CheckFailedError.exit_code)


def _checked(found: "ProfileCheck", is_catalogue: bool) -> str:
    """Summary of what was checked, so that nobody takes the shipped profiles for their own."""
    from planner.profiles.folders import VARIABLE, own_dirs

    n, n_own, others = found.n_files, found.n_files - found.n_shipped, found.n_skipped
    skipped = f"; {others} other TOML file{'s' * (others > 1)} skipped" if others else ""
    if n == 1:
        return f"1 profile holds: {found.files[0]}, {'own' if n_own else SHIPPED}{skipped}"
    counts = {f"{n_own} own": n_own, f"{found.n_shipped} {SHIPPED}": found.n_shipped}
    kinds = [text for text, count in counts.items() if count]
    unset = f"; {VARIABLE} names no folder of own ones" if is_catalogue and not own_dirs() else ""
    empty = f"; no profile lies in {VARIABLE}" if is_catalogue and own_dirs() and not n_own else ""
    return f"{n} profiles hold ({', '.join(kinds)}{unset}{empty}){skipped}"


@app.command("schema")
def print_schema(kind: Annotated[SchemaKind, typer.Argument(metavar="KIND", help="hardware, model or stack.")]) -> None:
    """Print the JSON Schema of a kind of profile."""
    from planner.documented import documented_schema
    from planner.profiles.catalogue import RECORDS

    schema = documented_schema(RECORDS[f"planner.{kind}/1"])
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


app.command("new", short_help="Write a hardware profile to fill in.")(new_profile)
app.command("kernels", short_help="Condense measured kernels into a hardware profile.")(kernel_profile)
app.command("import", short_help="Make a model profile from a config.json.")(import_config)
