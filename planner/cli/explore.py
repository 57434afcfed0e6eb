"""`planner explore`: a page in which a plan is turned and looked at, and an index of such pages."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import ScenarioArgument, SetOption, TimeLimitOption, data_dirs
from planner.cli.progress import progress
from planner.cli.trace_options import scenario_read

if TYPE_CHECKING:
    from planner.results.explorer import Explorer
    from planner.results.plan import Plan
    from planner.scenario import Scenario


def explore(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page: one HTML file.")],
    scenario: ScenarioArgument = "prfaas-paper",
    overrides: SetOption = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Show this answer of `optimize --format json`; plan if not given."),
    ] = None,
    studies: Annotated[
        bool, typer.Option("--studies", help="With the fronts, variations and runs that the scenario's report has.")
    ] = False,
    index: Annotated[
        Path | None,
        typer.Option("--index", metavar="DIR", help="An index of the pages in the folders of DIR, instead of a page."),
    ] = None,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Write one page, without network, in which threshold, load and sizes of a plan are turned.

    The page opens from disk. Its figures are those of optimize --set at the nodes of its tables, and interpolated
    between them.
    """
    from planner.files import check_writable, write_text
    from planner.report.explore_index import index_html
    from planner.report.explore_page import explore_html

    _check(out, scenario, overrides, plan, studies, index)
    check_writable(out)
    if index is not None:
        write_text(out, index_html(index, out.parent))
    else:
        write_text(out, explore_html(_page(scenario, tuple(overrides or ()), plan, studies, time_limit_s)))
    typer.echo(f"{out}")


def _check(
    out: Path, scenario: str, overrides: list[str] | None, plan: Path | None, studies: bool, index: Path | None
) -> None:
    """Say before any work what cannot be asked for together. Raises UsageError."""
    from planner.errors import UsageError

    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {out}: is no page (FILE.html)")
    if plan is not None and studies:
        raise UsageError("--studies: plans anew, and --plan says not to (one of them)")
    if index is not None and (overrides or plan is not None or studies or scenario != "prfaas-paper"):
        raise UsageError(
            "--index: lists pages that are there, and takes neither a scenario nor --set, --plan, --studies"
        )


def _page(name: str, overrides: tuple[str, ...], plan: Path | None, studies: bool, time_limit_s: float) -> "Explorer":
    from planner import __version__
    from planner.scenario import scenario_path
    from planner.schema import read_text
    from planner.studies.explore import PageInputs, explorer

    question = scenario_read(name, overrides)
    sets = (part for text in overrides for part in ("--set", text))
    as_predicted = ["--no-run"] if question.promises_latency else []  # as the page is
    command = shlex.join(["planner", "optimize", name, *as_predicted, *sets])
    with progress(f"planning {question.name}") as update:
        finished = _finished(question, plan)
        asked = PageInputs(question, read_text(scenario_path(name)), command, __version__, finished, studies)
        return explorer(asked, data_dirs(), time_limit_s, update)


def _finished(question: "Scenario", path: Path | None) -> "Plan | None":
    """The plan in a file. Raises InputError where it is none, or one of another scenario."""
    from planner.cli.simulate import plan_of

    return None if path is None else plan_of(question, path, 0.0)
