"""Memory of the runs that a command is asked for: said, or refused, before anything is planned."""

from typing import TYPE_CHECKING

import typer

from planner.cli.common import data_dirs

if TYPE_CHECKING:
    from planner.executor.run_question import RunQuestion
    from planner.jobs import Workers
    from planner.scenario import Scenario

MUCH_BYTES = 1e9
"""From here on a run says what it takes."""


def check_memory(
    scenario: "Scenario", question: "RunQuestion", by: "Workers | None" = None, *, keep: bool = False
) -> None:
    """Say what a run takes where that is much.

    Args:
        question: how many requests; up to its limit on them, where the caller was given one.
        by: who shares the replications; None: this process.
        keep: whether records are wanted.

    Raises:
        InputError: there is not the memory for it.
    """
    from planner.executor.memory import RunMemory
    from planner.jobs import HERE
    from planner.units import GB

    n_periods = max(len(scenario.periods), 1)
    need_bytes = RunMemory(scenario, data_dirs(), by or HERE, keep, n_periods).check(question)
    if need_bytes > MUCH_BYTES:
        n = max(question.n_requests, question.most_requests or 0)
        typer.echo(f"planner: {n:,} requests take up to {need_bytes / GB:.2g} GB of memory", err=True)
