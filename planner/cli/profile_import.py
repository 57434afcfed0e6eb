"""`planner profiles import`: a model profile from a config.json, with the parameters it is recognised by."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.common import ForceOption, Format, FormatOption, print_json
from planner.notes import Note, note

if TYPE_CHECKING:
    from planner.profiles.imported import ImportedProfile
    from planner.profiles.stated_size import StatedSize
    from planner.profiles.weights_index import WeightsIndex

    Against = tuple[StatedSize | None, WeightsIndex | None]

SUFFIX = ".toml"


def import_config(
    path: Annotated[Path, typer.Argument(help="A config.json of Hugging Face.", metavar="CONFIG")],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the profile, or id of the model, such as mistralai/Mixtral-8x7B."),
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of the weights, if the config is silent.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="File to write, NAME.toml, or a folder for it; standard output if none."),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(metavar="N", help="Parameters it should have, such as 7.2e9 or 47B; a warning if it has others."),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The checkpoint's model.safetensors.index.json; a warning where it differs."),
    ] = None,
    force: ForceOption = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Make a model profile from a config; refuse what cannot be mapped rather than guess.

    Says how many parameters the shapes have, part by part. The file bears the profile's name, so that `planner profiles
    check` takes it as it is.
    """
    from planner.files import check_new, write_text
    from planner.profiles.importer import import_profile
    from planner.profiles.weights_index import weights_index

    stated = stated_parameters(parameters)
    tensors = None if index is None else weights_index(index)
    title = name if name and not is_name(name) else None
    found = import_profile(path, names(name, out), precision, title)
    file = None if out is None else out / f"{found.name}{SUFFIX}" if out.is_dir() else out
    if file is not None:
        check_new(file, force)
        write_text(file, found.text)
    if format_ is Format.JSON:
        print_json(fields(found, (stated, tensors), file))
        return
    if file is None:
        typer.echo(found.text, nl=False)
    for line in (*parameter_lines(found), *remarks(found, (stated, tensors)), next_step(found, file)):
        typer.echo(line, err=True)


def is_name(text: str) -> bool:
    """True if a profile may bear this name."""
    from planner.profiles.importer import profile_name

    return text == profile_name(text)


def names(name: str | None, out: Path | None) -> str | None:
    """Name of the profile: that of the file it is written to, else the one asked for; None: the config's.

    Raises:
        UsageError: the file cannot be the profile's.
    """
    from planner.errors import UsageError
    from planner.profiles.importer import profile_name

    own = profile_name(name) if name else None
    if name and not own:
        raise UsageError(f"--name {name}: has no letter or digit (such as mixtral-8x7b)")
    if out is None or out.is_dir():
        return own
    if out.suffix != SUFFIX or not is_name(out.stem):
        better = f"{profile_name(out.stem) or own or 'my-model'}{SUFFIX}"
        raise UsageError(f"--out {out}: is no file of a profile (small letters, digits, '.' and '-', as {better})")
    if own and "/" not in str(name) and own != out.stem:
        raise UsageError(f"--out {out}: the file of profile {own} is {own}{SUFFIX} (or leave --name out)")
    return out.stem


def stated_parameters(text: str | None) -> "StatedSize | None":
    """The figure of --parameters.

    Raises:
        UsageError: it is no number.
    """
    from planner.errors import UsageError
    from planner.profiles.stated_size import stated_total

    stated = None if text is None else stated_total(text)
    if text is not None and stated is None:
        raise UsageError(f"--parameters {text}: is no number of parameters (such as 7.2e9, 47B or 1T)")
    return stated


def parameter_lines(found: "ImportedProfile") -> list[str]:
    """Parameters in total, active ones, and those of each part; number formats."""
    total = found.n_parameters
    parts = sorted(found.parameters_by_part.items(), key=lambda item: -item[1])
    rows = [f"  {part.replace('_', ' '):<15}{n:>22,}{n / total:>8.1%}" for part, n in parts]
    return [
        f"{found.name}: {total:,} parameters, {found.n_active_parameters:,} active per token",
        *rows,
        f"  {found.formats_text}",
    ]


def warnings(found: "ImportedProfile", against: "Against") -> list[Note]:
    """Where the count disagrees with a size, or with the index of the checkpoint."""
    stated, tensors = against
    index = () if tensors is None else tensors.doubts(found)
    return [
        *(note("parameters-differ", text) for text in found.doubts(stated)),
        *(note("index-differs", text) for text in index),
    ]


def remarks(found: "ImportedProfile", against: "Against") -> list[str]:
    """Remarks on what the profile leaves out, what the config left out, and where the count disagrees with a size."""
    import json

    defaults = [f"{key} = {json.dumps(value)}" for key, value in found.assumed.items()]
    taken = [f"by default of its class: {', '.join(defaults)}"] if defaults else []
    unmapped = [f"not mapped: {key}" for key in found.unmapped]
    return [
        *unmapped,
        *taken,
        *(f"warning: {doubt}" for doubt in warnings(found, against)),
        *_agreed(found, against[1]),
    ]


def _agreed(found: "ImportedProfile", tensors: "WeightsIndex | None") -> list[str]:
    """That the checkpoint has exactly the parameters that were counted, or cannot be compared."""
    if tensors is None:
        return []
    n = tensors.parameters(found.profile.precision)
    if n is None:
        text = f"tensors of {found.profile.precision} checkpoints have several formats, whose bytes count no parameters"
        return [f"{tensors.name}: {text}"]
    return [f"{tensors.name}: {n:,} parameters, as counted"] if n == found.n_parameters else []


def next_step(found: "ImportedProfile", file: Path | None) -> str:
    """Next step with the profile."""
    if file is None:
        return f"save it as {found.name}{SUFFIX}, as --out . does; then: planner profiles check {found.name}{SUFFIX}"
    return f"wrote {file}; next: planner profiles check {file}"


def fields(found: "ImportedProfile", against: "Against", file: Path | None) -> dict[str, Any]:
    """The answer as JSON."""
    parameters = {"total": found.n_parameters, "active": found.n_active_parameters, "parts": found.parameters_by_part}
    stored = found.profile.checkpoint
    return {
        "schema": "planner.import/1",
        "name": found.name,
        "file": None if file is None else str(file),
        "parameters": parameters,
        "precision": found.profile.precision,
        "formats": {} if stored is None else stored.model_dump(mode="json")["formats"],
        "kv_precision": None if stored is None else stored.kv_precision,
        "not_mapped": [*found.unmapped],
        "by_default": dict(found.assumed),
        "warnings": warnings(found, against),
        "toml": found.text,
    }
