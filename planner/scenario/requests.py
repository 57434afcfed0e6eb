"""Requests of a scenario's classes; a trace that is not there is told at the key that names it."""

from collections.abc import Sequence
from pathlib import Path

from planner.errors import InputError
from planner.scenario.question import Scenario
from planner.workload.mix import RequestMix
from planner.workload.requests import request_mix, trace_path


def requests_of(scenario: Scenario, class_name: str, data_dirs: Sequence[Path] = ()) -> RequestMix:
    """The requests of a class.

    Args:
        scenario: the question.
        class_name: the class; "all" where the scenario has one `workload`.
        data_dirs: folders in which traces are looked for.

    Raises:
        InputError: its trace is not there, at the line that names it, or does not hold.
    """
    _, workload = scenario.workloads[class_name]
    if workload.trace is not None:
        _check_trace(scenario, class_name, workload.trace.path, data_dirs)
    return request_mix(workload, scenario.directory, data_dirs)


def _check_trace(scenario: Scenario, class_name: str, path: str, data_dirs: Sequence[Path]) -> None:
    try:
        trace_path(path, scenario.directory, data_dirs)
    except InputError as error:
        table = ("classes", class_name, "workload") if scenario.workload is None else ("workload",)
        key = (*table, "trace", "path")
        problems = [scenario.problem(key, f"'{path}' {p.message}", p.allowed) for p in error.problems]
        raise InputError(problems) from None
