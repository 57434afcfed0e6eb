"""No plan exists: which limits are in the way, and the least change of each that a plan was found, and run, with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import Any, NamedTuple

from planner.comparison.changes import BUDGET, Change, changes_of
from planner.comparison.planned import Classes, Planned, planned_fleet, too_slow
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.scenario import Scenario
from planner.schema import dotted
from planner.units import number
from planner.work_clock import work_s

TIME_SHARE = 2 / 3
"""Of the time limit of a search: what looking for ways out may take where nothing is run."""
FEW = 3
"""A change takes a third of the time that is left at the most, and not less for many that are still to be tried."""
MOST_PLANS = 40
"""Plans that are tried of one change."""
MOST_RUNS = 6
"""Plans that are run of one change until one is kept,"""
HALVINGS = 2
"""and between it and the one before."""
FURTHER = 0.02
"""Part of its value that a change goes further after the first that is not kept, and twice that after each other."""
ROUGH = 0.01
"""Part of a value to which the least of it is found by the latency model, where runs decide."""
TIME_UP = "in the time"
RAN = {None: "; predicted, not run", True: "; kept when run"}
"""What was found out of a promise, behind a change."""


class Trial(NamedTuple):
    """A changed scenario as it was run request by request."""

    is_kept: bool | None
    """Whether its plan keeps what is promised; None: it could not be run."""
    over: float = inf
    """How many times what is promised the run of the best of its plans took."""


@dataclass(frozen=True)
class Trials:
    """The way to run ways out, and the time that finding and running them may take."""

    run: Callable[[Scenario, float, bool], Trial]
    """Plans a scenario within so many seconds, and runs it, thoroughly: also plans of stricter promises. Raises as
    planning does."""
    deadline: float
    """`work_s()` time to stop at."""


class Remedy(NamedTuple):
    """A way out: values of changes that do together."""

    values: Mapping[Change, int]
    unclear: str = ""
    """Why less was not ruled out."""

    @property
    def sentence(self) -> str:
        """The changes in words."""
        return " with ".join(change.sentence(i) for change, i in self.values.items())

    @property
    def options(self) -> str:
        """The changes as options of a command line."""
        return " ".join(change.option(i) for change, i in self.values.items())

    @property
    def stated(self) -> dict[str, Any]:
        """The values by key, as they are printed."""
        return {dotted(change.key): change.value(i) for change, i in self.values.items()}


@dataclass
class _Asked:
    """Plans changed scenarios until a deadline, and notes what was not found out, and why."""

    scenario: Scenario
    classes: Classes
    deadline: float
    trials: Trials | None
    unknown: dict[str, str] = field(default_factory=dict)
    """What was not found out whether it would do, and why not."""
    unkept: list[str] = field(default_factory=list)
    """What is planned, and not kept when it is run."""
    n_plans: int = 0

    def plan(self, scenario: Scenario, share: float = 1.0, is_any: bool = True) -> Planned | None:
        """A plan; None where there is none. Raises UndecidedError where that was not found out."""
        left = self.deadline - work_s()
        self.n_plans += 1
        if left <= 0:
            raise UndecidedError(TIME_UP)
        if self.n_plans > MOST_PLANS:
            raise UndecidedError(f"in {MOST_PLANS} plans")
        try:
            return planned_fleet(scenario, self.classes, work_s() + share * left, is_any)
        except InfeasibleError:
            return None
        except (InputError, UndecidedError) as error:
            is_late = isinstance(error, UndecidedError) and work_s() > self.deadline - (1 - share) * left
            raise UndecidedError(TIME_UP if is_late else _reason(error)) from None

    def any_plan(self, scenario: Scenario) -> Planned | None:
        """A plan, if one is found in half of the time that is left."""
        with suppress(UndecidedError):
            return self.plan(scenario, 0.5)
        return None

    def trial(self, scenario: Scenario, is_thorough: bool = False) -> Trial:
        """A scenario run, where it promises anything. Raises UndecidedError where nothing came of it."""
        left = self.deadline - work_s()
        if not _promises(scenario):
            return Trial(True)
        if self.trials is None:
            return Trial(None)
        if left <= 0:
            raise UndecidedError(TIME_UP)
        try:
            return self.trials.run(scenario, left, is_thorough)
        except InfeasibleError:
            return Trial(False)

    def part(self, n_left: int) -> "_Asked":
        """The same with a part of the time that is left: what one change leaves is the others'."""
        now = work_s()
        return replace(self, deadline=now + (self.deadline - now) / min(max(n_left, 1), FEW), n_plans=0)


def infeasible(
    scenario: Scenario, classes: Classes, time_limit_s: float, *, trials: Trials | None = None
) -> InfeasibleError:
    """The error for a scenario without a plan: what was asked, and every single change that was found to do.

    Args:
        scenario: a question that is proven to have no plan.
        classes: its requests, as they were read for that proof.
        time_limit_s: limit of the search, as long as a part of which this may take where nothing is run.
        trials: run what promises times; None: nothing is run, and what is promised is predicted.

    Valid:
        A plan was found with every change that is named, as it is printed, and kept when it was run if it could be. No
        plan was found with a little less of it; where less was not ruled out, or not kept, that is said.
    """
    deadline = work_s() + TIME_SHARE * time_limit_s if trials is None else trials.deadline
    asked, changes = _Asked(scenario, classes, deadline, trials), [*changes_of(scenario)]
    ways, several = [*_alone(changes, asked)], ""
    if not ways:  # the budget is the last to be lowered: it follows from what else is needed
        several = _together(sorted(changes, key=lambda change: change.key == BUDGET), replace(asked, n_plans=0))
    text = "\n".join(_lines(asked, ways, several))
    return InfeasibleError(text, [*ways, *filter(None, [several])])


def _lines(asked: _Asked, ways: Sequence[str], several: str) -> Iterator[str]:
    """Lines on what was asked, what would do, and what was not found out."""
    yield f"{asked.scenario.name}: infeasible: {_question(asked.scenario)}{too_slow(asked.scenario, asked.classes)}."
    if ways:
        yield "\n  - ".join(["Any one of these would do:", *ways])
    elif several:
        alone = "was found that can" if asked.unknown else "can"
        yield f"No single limit {alone} be relaxed to help; together these would do:\n  - {several}"
    else:
        found = "was found that can" if asked.unknown or asked.unkept else "can"
        yield f"No single limit {found} be relaxed to help."
    if asked.unkept:
        yield f"Planned, but not kept when it was run: {'; '.join(asked.unkept)}."
    for why in dict.fromkeys(asked.unknown.values()):
        names = ", ".join(name for name, its in asked.unknown.items() if its == why)
        yield f"Not found out {why}: whether a change of {names} would do."


def _question(scenario: Scenario) -> str:
    """Statement of what no fleet does."""
    demand = scenario.demand_req_per_s if scenario.objective != "max-throughput" else None
    promised = {slo.ttft_s for slo in map(scenario.slo_of, scenario.workloads) if slo is not None and slo.ttft_s}
    served = "any request" if demand is None else f"{number(demand, 4)} req/s"
    within = f" within {number(max(promised))} s to the first token" if len(promised) == 1 else ""
    does = "is predicted to serve" if promised else "serves"  # by the model of waits: a run may be kinder
    return f"no fleet within the limits {does} {served}{within or (' as promised' if promised else '')}"


def _alone(changes: Sequence[Change], asked: _Asked) -> Iterator[str]:
    """Every change that does alone; of accelerators and instances also several together, where none does alone."""
    stock, is_short = [change for change in changes if change.is_stock], True
    for i, change in enumerate(changes):
        found = _least(change, asked.part(len(changes) - i))
        if found:
            is_short &= not change.is_stock
            yield found
    if is_short and len(stock) > 1 and asked.scenario.demand_req_per_s is not None:
        yield from filter(None, [_together(stock, asked.part(1))])


def _reason(error: Exception) -> str:
    """Why something was not found out, behind what was not."""
    first = error.problems[0] if isinstance(error, InputError) else None
    text = f"{first.key}: {first.message}" if first else str(error).splitlines()[0]
    return f"({text.partition('; ')[0]})"


def _promises(scenario: Scenario) -> bool:
    return any(slo is not None and slo.promises_something for slo in map(scenario.slo_of, scenario.workloads))


def _least(change: Change, asked: _Asked) -> str:
    """A change with the least that does, as a way out; empty where none was found."""
    name, question, is_single = dotted(change.key), change.lifted(asked.scenario), change.n_values == 1
    try:
        lifted = asked.plan(question, 1.0 if is_single else 0.5, question.objective == asked.scenario.objective)
    except UndecidedError as error:
        asked.unknown[name] = str(error)
        return ""
    if lifted is None or is_single:
        return "" if lifted is None else _run(Remedy({change: 1}), asked)
    first = min(change.nearest(change.used(lifted.fleet)), change.n_values)
    least, unclear = _tried(asked.scenario, change, first, change.n_values, asked)
    if least is None:
        asked.unknown.update({name: unclear} if unclear else {})
        return ""
    return _run(Remedy({change: least}, unclear), asked)


def _run(way: Remedy, asked: _Asked) -> str:
    """A way out as it is printed, planned and run with just those figures, or with further ones where that is not kept.

    What is promised is laxer by as much as the run shows, all else goes further by a part of its value. Between what is
    not kept and what is, middle ones are run too.
    """
    unkept: Remedy | None = None
    for n in range(MOST_RUNS):
        is_last = n == MOST_RUNS - 1 or all(i >= change.n_values for change, i in way.values.items())
        tried = _ran(way, asked, is_thorough=is_last)
        if tried is None:
            return ""
        is_kept = tried.is_kept
        if is_kept is not False:
            break
        if is_last:
            asked.unkept.append(way.sentence)
            return ""
        further = {change: _further(change, i, tried.over, n) for change, i in way.values.items()}
        unkept, way = way, Remedy(further)
    ran = RAN[is_kept] if _promises(asked.scenario) else ""
    if unkept is not None:
        way, unkept = _nearer(unkept, way, asked)
        ran += f" ({', '.join(f'{c.value(i):.12g}' for c, i in unkept.values.items())} as first planned was not)"
    less = f"; less was not ruled out {way.unclear}" if way.unclear else ""
    return f"{way.sentence}{ran}{less}: {way.options}"


def _ran(way: Remedy, asked: _Asked, *, is_thorough: bool = False) -> Trial | None:
    """A way out, run with its figures exactly as they are printed; None where nothing came of it, which is noted."""
    try:
        return asked.trial(asked.scenario.varied(way.stated), is_thorough)
    except (InputError, UndecidedError) as error:
        asked.unknown[way.sentence] = str(error) if str(error) == TIME_UP else _reason(error)
        return None


def _nearer(unkept: Remedy, kept: Remedy, asked: _Asked) -> tuple[Remedy, Remedy]:
    """A way that is kept nearer to one that is not, and that one: after a few middle ones."""
    for _ in range(HALVINGS):
        middle = Remedy({change: (unkept.values[change] + i) // 2 for change, i in kept.values.items()})
        if middle.values == unkept.values:
            break
        tried = _ran(middle, replace(asked, unknown={}))
        if tried is None:
            break
        unkept, kept = (unkept, middle) if tried.is_kept else (middle, kept)
    return kept, unkept


def _further(change: Change, i: int, over: float, n: int) -> int:
    """The next value to be run of a change, after the n-th was not kept."""
    value, part = change.value(i), FURTHER * 2**n
    if change.key[-1] in ("ttft_s", "tpot_ms") and 1 < over < inf:
        part = over - 1
    further = change.nearest(value * (1 + part if change.is_more else 1 / (1 + part)))
    return min(max(further, i + 1), change.n_values)


def _tried(scenario: Scenario, change: Change, first: int, most: int, asked: _Asked) -> tuple[int | None, str]:
    """The least number of a change that was found to do, and why less, or any, was not ruled out."""
    reasons: dict[int, str] = {}

    @cache
    def does(i: int) -> bool:
        try:
            return asked.plan(change.at(scenario, i), 0.5) is not None
        except UndecidedError as error:
            reasons[i] = str(error)
            return False

    is_rough = asked.trials is not None and _promises(scenario)
    least = _least_number(does, first, most, change.n_within(ROUGH) if is_rough else 1)
    return least, next((why for i, why in reasons.items() if least is None or i < least), "")


def _least_number(does: Callable[[int], bool], first: int, most: int, apart: int = 1) -> int | None:
    """The least number from 1 that does, where 0 does not and greater ones do if smaller ones do.

    Args:
        does: whether a number does.
        apart: how far above a number that does not the one that is found may be.

    >>> _least_number(lambda i: i >= 37, 40, 1000), _least_number(lambda i: i >= 37, 12, 1000)
    (37, 37)
    >>> _least_number(lambda i: False, 40, 1000) is None
    True
    """
    low, high, step = 0, first, apart if first < most else max(most // 2, 1)
    if does(first):
        while (nearer := high - step) > low:
            if not does(nearer):
                low = nearer
                break
            high, step = nearer, 2 * step
    else:
        low = first
        while not does(high := min(low + step, most)):
            if high >= most:
                return None
            low, step = high, 4 * step
    while high - low > apart:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return high


def _together(changes: Sequence[Change], asked: _Asked) -> str:
    """Changes that do together as one way out, each the least beside the others; empty where even all do not."""
    scenario = lifted = asked.scenario
    more = [change for change in changes if change.is_more]
    for change in more:
        lifted = change.lifted(lifted)
    if (found := asked.any_plan(lifted)) is None:
        return ""
    needed = {c: c.nearest(c.used(found.fleet)) for c in more if c.used(found.fleet) > c.stated}
    if asked.any_plan(_changed(scenario, needed)) is None:
        return ""
    unclear = ""
    for change in [*needed] * 2:  # less of one may leave room for less of those before it
        if change not in needed:
            continue
        others = _changed(scenario, {c: i for c, i in needed.items() if c is not change})
        if asked.any_plan(others) is not None:
            del needed[change]
            continue
        least, why = _tried(others, change, needed[change], needed[change], asked)
        needed[change], unclear = least or needed[change], unclear or why
    return _run(Remedy(needed, unclear), asked)


def _changed(scenario: Scenario, values: Mapping[Change, int]) -> Scenario:
    """A scenario with several changes."""
    for change, i in values.items():
        scenario = change.at(scenario, i)
    return scenario
