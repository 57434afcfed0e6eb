"""Arguments and options of commands about one model on some accelerators: formats of numbers, and the stack."""

from typing import Annotated

import typer

from planner.cli.completion import model_names

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
