"""Options of the commands that time drafted tokens."""

from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.completion import model_names

if TYPE_CHECKING:
    from planner.studies.drafts import AskedDrafts

MOST_SHOWN = 100
"""Characters of an option in a message."""

DraftTokensOption = Annotated[
    int, typer.Option("--draft-tokens", metavar="N", help="Tokens drafted per decode step, and verified in one pass.")
]
AcceptanceOption = Annotated[
    str | None,
    typer.Option("--acceptance", metavar="LIST", help="Probability that each is accepted: 0.7, or one each: 0.9,0.7."),
]
DraftModelOption = Annotated[
    str | None,
    typer.Option(
        "--draft-model", metavar="MODEL", help="Model that drafts; its own MTP layers.", autocompletion=model_names
    ),
]


def drafts_of_options(draft_tokens: int, acceptance: str | None, draft_model: str | None) -> "AskedDrafts":
    """Drafts that the three options ask for.

    Raises:
        UsageError: `--acceptance` is no list of numbers.
    """
    from planner.errors import UsageError, printable
    from planner.studies.drafts import AskedDrafts

    if acceptance is None:
        return AskedDrafts(draft_tokens, (), draft_model)
    try:
        found = tuple(float(part) for part in acceptance.split(","))
    except ValueError:
        found = ()
    if not found or not all(isfinite(value) for value in found):
        shown = printable(acceptance, MOST_SHOWN)
        raise UsageError(f"--acceptance {shown}: is no list of numbers (such as 0.7, or 0.9,0.7)")
    return AskedDrafts(draft_tokens, found, draft_model)


ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name, alias or path of a model profile.", autocompletion=model_names)
]
PrecisionOption = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="Of weights: bf16, fp8, int8, int4, fp4; the checkpoint's own.")
]
KvPrecisionOption = Annotated[str, typer.Option(metavar="FORMAT", help="Of the attention cache.")]
StackOption = Annotated[
    str | None, typer.Option(metavar="STACK", help="Such as vllm, sglang-0.5.9, datasheet; the best calibrated.")
]
