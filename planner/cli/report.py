"""`planner report`: a case as a folder of Markdown and figures."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import ScenarioArgument, SetOption, TimeLimitOption, data_dirs
from planner.cli.progress import progress
from planner.cli.trace_options import fitted, say_readings

if TYPE_CHECKING:
    from planner.results.case import BreakEvenResult, Case
    from planner.scenario import Scenario

TIME_LIMIT_S = 60.0


def report(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the report.")],
    scenario: ScenarioArgument = "prfaas-paper",
    overrides: SetOption = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 6 when the folder is stale.")] = False,
    inputs_alone: Annotated[
        bool,
        typer.Option("--inputs", help="With --check: ask only whether scenario, profiles and traces are still those."),
    ] = False,
    time_limit_s: TimeLimitOption = TIME_LIMIT_S,
) -> None:
    """Write a cost report of a scenario, or of a map of sizes, or check that a committed one is current.

    The scenario is copied into the folder, with paths in it that lead from there. Every break-even of it is told on
    stderr when it is found. Nothing is written before all is done: a report that is interrupted (130, 143) leaves the
    folder as it was. A report ends in the digest of what it was made from, which `--check --inputs` compares at once.
    """
    from planner.errors import UsageError
    from planner.files import check_writable_folder
    from planner.profiles.folders import schema_of
    from planner.report.folder import check_inputs, check_report, write_report
    from planner.report.reproduce import Reproduction
    from planner.scenario import Move, load_scenario, scenario_path
    from planner.schema import read_text
    from planner.studies.plan_inputs import case_digest

    if inputs_alone and not check:
        raise UsageError("--inputs: goes with --check")
    path, limit_s = scenario_path(scenario), None if time_limit_s == TIME_LIMIT_S else time_limit_s
    original, stated = read_text(path), tuple(overrides or ())
    if not check:
        check_writable_folder(out)
    if schema_of(original) == "size-map":
        _report_size_map(path, original, stated, out, check, inputs_alone, time_limit_s)
        return
    move = Move(path.resolve().parent, out.resolve(), data_dirs())
    text, changes = move.text(original), tuple(map(move.override, stated))
    question = fitted(load_scenario(text, str(path), move.new, changes))
    say_readings(question)
    inputs = case_digest(question, text, changes, data_dirs())
    again = Reproduction(changes, limit_s, move.traces_found_elsewhere(original), inputs)
    command = Reproduction(stated, limit_s).command(scenario, str(out))
    if inputs_alone:
        _say_whether_current(out, check_inputs(out, inputs), command)
        return
    case = _case(question, time_limit_s)
    if check:
        _say_whether_current(out, check_report(case, out, text, again), command)
        return
    with progress(f"drawing {question.name}"):
        write_report(case, out, text, again)
    typer.echo(f"{out / 'report.md'}")


def _say_whether_current(out: Path, stale: list[str], command: str) -> None:
    """That a folder is current; raises CheckFailedError where it is not."""
    from planner.errors import CheckFailedError

    if stale:
        listed = "\n".join(f"  - {item}" for item in stale)
        raise CheckFailedError(f"{out} is stale:\n{listed}\nRun: {command}")
    typer.echo(f"{out} is current")


def _report_size_map(
    path: Path,
    text: str,
    overrides: tuple[str, ...],
    out: Path,
    check: bool,
    inputs_alone: bool,
    time_limit_s: float,
) -> None:
    """The report of many demands, each sized both ways."""
    from planner.errors import UsageError
    from planner.jobs import Workers
    from planner.report.folder import check_inputs
    from planner.report.size_map_report import check_size_map, write_size_map
    from planner.studies.size_map import map_digest, size_map, size_map_question

    if overrides:
        raise UsageError("--set: changes scenarios, and this is a map of sizes (change the file)")
    question, command = size_map_question(text, str(path)), f"planner report {path} --out {out}"
    inputs = map_digest(question, text)
    if inputs_alone:
        _say_whether_current(out, check_inputs(out, inputs), command)
        return
    with progress(f"sizing {question.name}") as update:
        found = size_map(question, time_limit_s, update, Workers(os.cpu_count() or 1))
    if check:
        _say_whether_current(out, check_size_map(found, out, inputs), command)
        return
    write_size_map(found, out, inputs)
    typer.echo(f"{out / 'report.md'}")


def _case(question: "Scenario", time_limit_s: float) -> "Case":
    """The case; its break-evens, which may take hours, are told one by one, and so outlast an interrupt."""
    from planner.errors import LINE_CHARACTERS, printable
    from planner.studies.case import build_case

    n_found = 0

    def keep(item: "BreakEvenResult") -> None:
        from planner.report.phrases import break_even_line

        nonlocal n_found
        n_found += 1
        place = f"{question.name}: break-even {n_found} of {len(question.break_even)}"
        typer.echo(f"planner: {printable(f'{place}: {break_even_line(item)}', LINE_CHARACTERS)}", err=True)

    with progress(f"planning {question.name} and its variants") as update:

        def update_case(text: str) -> None:
            update(printable(f"{question.name}: {text}", LINE_CHARACTERS))

        return build_case(question, data_dirs(), time_limit_s, update_case, keep)
