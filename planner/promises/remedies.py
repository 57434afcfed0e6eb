"""Ways out of infeasibility run request by request, as their plans are before they are printed."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from planner.comparison.infeasibility import TIME_UP, Trial, Trials
from planner.errors import UndecidedError
from planner.executor.run_question import RunQuestion
from planner.optimizer.time_limit import TimeLimit
from planner.progress import Progress
from planner.promises.period_results import PeriodRuns, RunSettings
from planner.promises.targets import as_asked, modelled, seeks_least
from planner.results.certified import Promise
from planner.scenario import Scenario

RUN_ON = 4
"""Times its requests that an undecided run goes on for; what is nearer to its promise than that is not called kept."""
SEARCH_PART = 0.5
"""Of the time for a changed scenario, what one search may take."""


def trials(question: RunQuestion, data_dirs: Sequence[Path], progress: Progress, limit: TimeLimit) -> Trials:
    """Trials of changed scenarios: each run as one that states those values, without looking for cheaper plans.

    A plan as asked that is kept when it is run is kept whenever the scenario is planned with the same seed. Plans of
    stricter promises, which may be kept where that one is not, are run of what is to be run thoroughly alone.
    """

    def trial(scenario: Scenario, time_limit_s: float, is_thorough: bool) -> Trial:
        whole, searching = TimeLimit.of(time_limit_s), TimeLimit.of(SEARCH_PART * time_limit_s)
        most = question.most_requests
        if most is not None and not is_thorough:
            most = min(RUN_ON * question.n_requests, most)
        settings = RunSettings(
            replace(question, most_requests=most), data_dirs, progress, sees_rate=False, deadline=whole.deadline
        )
        try:
            return _planned(scenario, settings, searching.left_s, is_thorough)
        except UndecidedError:
            if searching.left_s > 0:
                raise
            raise UndecidedError(TIME_UP) from None

    return Trials(trial, limit.deadline)


def _planned(scenario: Scenario, settings: RunSettings, time_limit_s: float, is_thorough: bool) -> Trial:
    """Outcome of a changed scenario that is planned and run."""
    from planner.promises.tighten import PromiseSearch, candidate, run
    from planner.promises.verified import chosen_by_runs

    if modelled(scenario) != scenario or seeks_least(scenario):  # such a plan is not run
        return Trial(None)
    search = PromiseSearch(scenario, settings, time_limit_s, is_explained=False)
    asked = candidate(search, as_asked(scenario))
    if not is_thorough:
        ran = run(search, asked)
        if ran.is_cut_short:
            raise UndecidedError(TIME_UP)
        return _trial([ran], is_kept=ran.is_kept)
    chosen = chosen_by_runs(search, asked, is_improved=False)
    if not search.tried:
        return Trial(None)
    return _trial(search.tried, is_kept=chosen.because is None)


def _trial(tried: Sequence[PeriodRuns], *, is_kept: bool) -> Trial:
    return Trial(is_kept, min((max(map(_over, one.promises), default=inf) for one in tried), default=inf))


def _over(one: Promise) -> float:
    """Ratio of what a run took to what is promised, at the worse end of its interval."""
    return (one.ci_high or one.executed) / one.limit
