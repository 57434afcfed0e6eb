"""`planner predict`: one model on one instance."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import Format, FormatOption, print_json, print_rich, write_files
from planner.cli.completion import hardware_names
from planner.cli.draft_options import (
    AcceptanceOption,
    DraftModelOption,
    DraftTokensOption,
    KvPrecisionOption,
    ModelArgument,
    PrecisionOption,
    StackOption,
    drafts_of_options,
)
from planner.cli.progress import progress

if TYPE_CHECKING:
    from planner.studies.predict import PredictQuestion

MILLISECONDS = 1000.0
MOST_SHOWN = 100
"""Characters of an option in a message."""
MOST_NUMBERS = 256
"""Numbers of one list."""


def predict(
    model: ModelArgument,
    hardware: Annotated[
        str,
        typer.Argument(
            metavar="HARDWARE", help="Name, alias or path of a hardware profile.", autocompletion=hardware_names
        ),
    ],
    accelerators: Annotated[
        int | None, typer.Option(metavar="N", help="Accelerators of the instance; 8, or as --layout has.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Such as tp=8,ep=1,dp=1,pp=1; tensor parallel if not given.")
    ] = None,
    precision: PrecisionOption = None,
    kv_precision: KvPrecisionOption = "bf16",
    stack: StackOption = None,
    memory_fraction: Annotated[
        float | None,
        typer.Option(metavar="F", help="Part of an accelerator's memory that the engine is told to use; as its stack."),
    ] = None,
    chunk_tokens: Annotated[int | None, typer.Option(metavar="N", help="Most tokens of a pass; as its stack.")] = None,
    most_running: Annotated[
        int | None, typer.Option(metavar="N", help="Most requests that a replica admits at once; as its stack.")
    ] = None,
    tokens: Annotated[str, typer.Option(metavar="LIST", help="Prompt lengths, cached tokens included.")] = (
        "1024,8192,32768,131072"
    ),
    cached: Annotated[int, typer.Option(metavar="TOKENS", help="Leading tokens of each prompt in a cache.")] = 0,
    batch: Annotated[str, typer.Option(metavar="LIST", help="Sequences decoded together.")] = "1,8,32,64,128",
    context: Annotated[int, typer.Option(metavar="TOKENS", help="Context of each of those sequences.")] = 4096,
    draft_tokens: DraftTokensOption = 0,
    acceptance: AcceptanceOption = None,
    draft_model: DraftModelOption = None,
    tpot_ms: Annotated[
        float | None, typer.Option(metavar="MS", help="Find the largest batch whose step is no longer.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the operators under the roofline: .png or .svg.")
    ] = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Predict prefill seconds, KV bytes and decode steps of a model; exit 4 where it, or every length, does not fit."""
    from planner.errors import InfeasibleError
    from planner.report.prediction_tables import shortfall
    from planner.studies.predict import PredictQuestion
    from planner.studies.predict import predict as predicted

    check_figure(figure)
    question = PredictQuestion(
        model=model,
        hardware=hardware,
        n_accelerators=accelerators,
        layout=layout,
        precision=precision,
        kv_precision=kv_precision,
        stack=stack,
        memory_fraction=memory_fraction,
        chunk_tokens=chunk_tokens,
        most_running=most_running,
        tokens=whole_numbers("--tokens", tokens),
        cached_tokens=cached,
        batch=whole_numbers("--batch", batch),
        context_tokens=context,
        drafts=drafts_of_options(draft_tokens, acceptance, draft_model),
        tpot_limit_s=None if tpot_ms is None else tpot_ms / MILLISECONDS,
    )
    with progress(f"predicting {model} on {hardware}"):
        found = predicted(question)
    if found.fits_any_prompt:
        write_files((figure, partial(_draw, question)))
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        from planner.report.prediction_tables import prediction_tables

        print_rich(*prediction_tables(found))
    if not found.fits_any_prompt:
        raise InfeasibleError(shortfall(found))


def _draw(question: "PredictQuestion", figure: Path) -> None:
    from planner.report.figure_files import write_roofline
    from planner.studies.predict import roofline_survey

    write_roofline(roofline_survey(question), figure)


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Numbers of a list such as 1024,8192.

    Raises:
        UsageError: not such a list.
    """
    from planner.errors import UsageError, printable

    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not (part.isascii() and part.isdigit() and len(part) < 10)]
    if wrong:
        shown = repr(wrong[0]) if wrong[0] else "nothing between commas" if len(parts) > 1 else "nothing"
        asked, shown = printable(text, MOST_SHOWN), printable(shown, MOST_SHOWN)
        raise UsageError(f"{option} {asked}: holds {shown} (whole numbers with commas, such as 1024,8192)")
    if len(parts) > MOST_NUMBERS:
        raise UsageError(
            f"{option} {printable(text, MOST_SHOWN)}: holds {len(parts):,} numbers (at most {MOST_NUMBERS})"
        )
    return tuple(map(int, parts))


def check_figure(path: Path | None) -> None:
    """Say before any work that a figure cannot be written.

    Raises:
        UsageError: its name ends in neither .png nor .svg.
        InputError: it cannot be written. A folder that is not there is no hindrance: it is made.
    """
    from planner.errors import UsageError
    from planner.files import check_writable, check_writable_folder

    if path is None:
        return
    if path.suffix.lower() not in (".png", ".svg"):
        raise UsageError(f"--figure {path}: is neither .png nor .svg")
    if path.parent.exists():
        check_writable(path)
    else:
        check_writable_folder(path.parent)
