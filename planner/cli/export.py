"""`planner export`: what deploys a plan."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import SetOption, TimeLimitOption
from planner.cli.completion import scenario_names
from planner.cli.plan_argument import check_promise, plans_of


class Target(StrEnum):
    """Software that a plan is deployed with."""

    DYNAMO = "dynamo"
    LLM_D = "llm-d"
    KSERVE = "kserve"
    SGLANG = "sglang"
    VLLM = "vllm"


def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PLAN|SCENARIO",
            help="An answer of `optimize --format json` (.json), or a scenario, which is planned first.",
            autocompletion=scenario_names,
        ),
    ],
    target: Annotated[Target, typer.Option("--to", help="What it is deployed with.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder that is written: new, empty or an export.")],
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="KEY=VALUE", help="A fact no plan has, such as label.h200-sxm=NVIDIA-H200."),
    ] = None,
    overrides: SetOption = None,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Write the manifests or launch commands that deploy a plan, and NOT_EXPRESSED.md: what they cannot say of it."""
    from planner.deploy import TARGETS, check_export_folder, export_files, write_export

    check_export_folder(out)
    (plan,) = plans_of([(source, overrides or ())], time_limit_s)
    (name,) = (known for known in TARGETS if known == target.value)
    files = export_files(plan, name, parameters or (), source)
    write_export(files, out)
    for file in files:
        typer.echo(out / file)
    check_promise(plan)
