"""No plan exists: which limits are in the way, and the least change of each that a plan was found, and run, with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from planner.comparison.changes import (
    Change,
    laxer_promises,
    less_demand,
    more_budget,
    more_stock,
    set_option,
    wider_links,
)
from planner.comparison.planned import Classes, Planned, planned
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.scenario import Scenario
from planner.schema import dotted
from planner.toml_lines import KeyPath
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


class Trial(NamedTuple):
    """A changed scenario as it was run request by request."""

    is_kept: bool | None
    """Whether its plan keeps what is promised; None: it could not be run."""
    over: float = inf
    """How many times what is promised the run of the best of its plans took."""


@dataclass(frozen=True)
class Trials:
    """How ways out are run, and how long it may take to find and run them."""

    run: Callable[[Scenario, float, bool], Trial]
    """Plans a scenario within so many seconds, and runs it, thoroughly: also plans of stricter promises. Raises as
    planning does."""
    deadline: float
    """`work_s()` time to stop at."""


class Relaxation(NamedTuple):
    """A way out: values of changes that do together."""

    values: Mapping[Change, int]
    unclear: str = ""
    """Why less was not ruled out."""

    @property
    def told(self) -> str:
        """The changes in words."""
        return " with ".join(change.told(i) for change, i in self.values.items())

    @property
    def options(self) -> str:
        """The changes as options of a command line."""
        return " ".join(change.option(i) for change, i in self.values.items())

    @property
    def stated(self) -> dict[str, float]:
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
    why: str = ""
    """Why the last question was not answered."""

    def plan(self, scenario: Scenario, share: float = 1.0, is_any: bool = True) -> Planned | None:
        """A plan; None where there is none. Raises UndecidedError where that was not found out."""
        left = self.deadline - work_s()
        self.n_plans += 1
        if left <= 0:
            raise UndecidedError(TIME_UP)
        if self.n_plans > MOST_PLANS:
            raise UndecidedError(f"in {MOST_PLANS} plans")
        try:
            return planned(scenario, self.classes, work_s() + share * left, is_any)
        except InfeasibleError:
            return None
        except (InputError, UndecidedError) as error:
            is_late = isinstance(error, UndecidedError) and work_s() > self.deadline - (1 - share) * left
            raise UndecidedError(TIME_UP if is_late else _reason(error)) from None

    def does(self, scenario: Scenario, share: float = 1.0) -> bool | None:
        """Whether a scenario has a plan; None where that was not found out."""
        try:
            return self.plan(scenario, share) is not None
        except UndecidedError as error:
            self.why = str(error)
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
    asked = _Asked(scenario, classes, deadline, trials)
    ways = [*_single(asked)]
    several = "" if ways else _together(_numbers(scenario), replace(asked, n_plans=0))
    text = f"{scenario.name}: infeasible: {_question(scenario)}."
    if ways:
        text += "\nAny one of these would do:" + "".join(f"\n  - {way}" for way in ways)
    elif several:
        alone = "was found that can" if asked.unknown else "can"
        text += f"\nNo single limit {alone} be relaxed to help; together these would do:\n  - {several}"
    elif asked.unknown or asked.unkept:
        text += "\nNo single limit was found that can be relaxed to help."
    else:
        text += "\nNo single limit can be relaxed to help."
    if asked.unkept:
        text += f"\nPlanned, but not kept when it was run: {'; '.join(asked.unkept)}."
    for why in dict.fromkeys(asked.unknown.values()):
        names = ", ".join(name for name, its in asked.unknown.items() if its == why)
        text += f"\nNot found out {why}: whether a change of {names} would do."
    return InfeasibleError(text, [*ways, *filter(None, [several])])


def _question(scenario: Scenario) -> str:
    """What no fleet does."""
    demand = scenario.demand_req_per_s if scenario.objective != "max-throughput" else None
    promised = {slo.ttft_s for slo in map(scenario.slo_of, scenario.workloads) if slo is not None and slo.ttft_s}
    served = "any request" if demand is None else f"{number(demand, 4)} req/s"
    within = f" within {number(promised.pop())} s to the first token" if len(promised) == 1 else ""
    does = "is predicted to serve" if promised else "serves"  # by the model of waits: a run may be kinder
    return f"no fleet within the limits {does} {served}{within or (' as promised' if promised else '')}"


def _numbers(scenario: Scenario) -> list[Change]:
    return [
        *laxer_promises(scenario),
        *wider_links(scenario),
        *more_stock(scenario),
        *more_budget(scenario),
    ]


def _single(asked: _Asked) -> Iterator[str]:
    """Every change that does alone; of accelerators and instances also several together, where none does alone."""
    scenario = asked.scenario
    stock = [*more_stock(scenario)]
    others = [*less_demand(scenario), *more_budget(scenario), *laxer_promises(scenario), *wider_links(scenario)]
    plain = [*_dropped(scenario)]
    n_left, is_short = len(others) + len(plain) + len(stock), True
    for change in (*others, *stock):
        found = _least(change, asked.part(n_left))
        n_left -= 1
        if found:
            is_short &= change not in stock
            yield found
    for key, was, value in plain:
        found = _left_out(key, was, value, asked.part(n_left))
        n_left -= 1
        if found:
            yield found
    if is_short and len(stock) > 1 and scenario.demand_req_per_s is not None:
        yield from filter(None, [_together(stock, asked.part(1))])


def _dropped(scenario: Scenario) -> Iterator[tuple[KeyPath, str, object]]:
    """What a scenario asks for that can be left out: a key, what it says, and what it may say instead."""
    ratio, survive = scenario.routing.prefill_to_decode, scenario.spare.survive
    if ratio != "free":
        yield ("routing", "prefill_to_decode"), f'"{ratio}"', "free"
    if survive:
        yield ("spare", "survive"), f"{list(survive)}".replace("'", '"'), []
    for name, link in scenario.links.items():
        if link.capacity_gbps != "free" and link.tiers:
            yield ("links", name, "capacity_gbps"), f"{link.capacity_gbps:.12g}", "free"


def _left_out(key: KeyPath, was: str, value: object, asked: _Asked) -> str:
    """A key that is left out as a way out; empty where it is none."""
    changed = asked.scenario.varied({dotted(key): value})
    new = f'"{value}"' if isinstance(value, str) else f"{value}"
    told = f"{dotted(key)} = {new} (is {was})"
    try:
        if asked.plan(changed) is None:
            return ""
        tried = asked.trial(changed, is_thorough=True)
    except UndecidedError as error:
        asked.unknown[dotted(key)] = str(error)
        return ""
    if tried.is_kept is False:
        asked.unkept.append(told)
        return ""
    return f"{told}{_of_run(changed, tried)}: {set_option(key, str(value))}"


def _of_run(scenario: Scenario, tried: Trial) -> str:
    """What was found out of a promise, as words behind a change."""
    if not _promises(scenario):
        return ""
    return "; predicted, not run" if tried.is_kept is None else "; kept when run"


def _reason(error: Exception) -> str:
    """Why something was not found out, behind what was not."""
    first = error.problems[0] if isinstance(error, InputError) else None
    text = f"{first.key}: {first.message}" if first else str(error).splitlines()[0]
    return f"({text.partition('; ')[0]})"


def _promises(scenario: Scenario) -> bool:
    return any(slo is not None and slo.promises_something for slo in map(scenario.slo_of, scenario.workloads))


def _least(change: Change, asked: _Asked) -> str:
    """A change with the least that does, as a way out; empty where none was found."""
    name = dotted(change.key)
    try:
        question = change.lifted(asked.scenario)
        lifted = asked.plan(question, 0.5, is_any=question.objective == asked.scenario.objective)
    except UndecidedError as error:
        asked.unknown[name] = str(error)
        return ""
    if lifted is None:
        return ""
    first = min(change.nearest(change.used(lifted.fleet)), change.n_values)
    least, unclear = _tried(asked.scenario, change, first, change.n_values, asked)
    if least is None:
        asked.unknown.update({name: unclear} if unclear else {})
        return ""
    return _run(Relaxation({change: least}, unclear), asked)


def _run(way: Relaxation, asked: _Asked) -> str:
    """A way out as it is printed, planned and run with just those figures, or with further ones where that is not kept.

    What is promised is laxer by as much as the run shows, all else goes further by a part of its value. Between what is
    not kept and what is, middle ones are run too.
    """
    unkept: Relaxation | None = None
    tried, is_last = _ran(way, asked), False
    for n in range(1, MOST_RUNS):
        if tried is None or tried.is_kept is not False or is_last:
            break
        values = {change: _further(change, i, tried.over, n - 1) for change, i in way.values.items()}
        is_last = n == MOST_RUNS - 1 or values == way.values
        unkept, way = way, Relaxation(values)
        tried = _ran(way, asked, is_thorough=is_last)
    if tried is None:
        return ""
    if tried.is_kept is False:
        asked.unkept.append(way.told)
        return ""
    if unkept is not None:
        way, unkept = _nearer(unkept, way, asked)
    ran = _of_run(asked.scenario, tried)
    if unkept is not None:
        ran += f" ({', '.join(f'{c.value(i):.12g}' for c, i in unkept.values.items())} as first planned was not)"
    less = f"; less was not ruled out {way.unclear}" if way.unclear else ""
    return f"{way.told}{ran}{less}: {way.options}"


def _ran(way: Relaxation, asked: _Asked, *, is_thorough: bool = False) -> Trial | None:
    """A way out, run with its figures exactly as they are printed; None where nothing came of it, which is noted."""
    try:
        return asked.trial(asked.scenario.varied(way.stated), is_thorough)
    except (InputError, UndecidedError) as error:
        asked.unknown[way.told] = str(error) if str(error) == TIME_UP else _reason(error)
        return None


def _nearer(unkept: Relaxation, kept: Relaxation, asked: _Asked) -> tuple[Relaxation, Relaxation]:
    """A way that is kept nearer to one that is not, and that one: after a few middle ones."""
    for _ in range(HALVINGS):
        middle = Relaxation({change: (unkept.values[change] + i) // 2 for change, i in kept.values.items()})
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
    answers: dict[int, bool | None] = {}
    reasons: dict[int, str] = {}

    def does(i: int) -> bool:
        if i not in answers:
            answers[i] = asked.does(change.at(scenario, i), 0.5)
            reasons[i] = asked.why
        return bool(answers[i])

    is_rough = asked.trials is not None and _promises(scenario)
    least = _least_number(does, first, most, change.n_within(ROUGH) if is_rough else 1)
    why = (reasons[i] for i, known in answers.items() if known is None and (least is None or i < least))
    return least, next(why, "")


def _least_number(does: Callable[[int], bool], first: int, most: int, apart: int = 1) -> int | None:
    """The least number from 1 that does, where 0 does not and greater ones do if smaller ones do.

    Args:
        does: whether a number does.
        first: where to look first.
        most: the greatest number there is.
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
    """Changes that do together as one way out; empty where even all of them do not."""
    way = _several(asked.scenario, changes, asked)
    return "" if way is None else _run(way, asked)


def _several(scenario: Scenario, changes: Sequence[Change], asked: _Asked) -> Relaxation | None:
    """Changes that do together, each the least beside the others; None where even all of them do not."""
    more = [change for change in changes if change.is_more]
    lifted = scenario
    for change in more:
        lifted = change.lifted(lifted)
    try:
        found = asked.plan(lifted, 0.5)
    except UndecidedError:
        found = None
    if found is None:
        return None
    needed = {c: c.nearest(c.used(found.fleet)) for c in more if c.used(found.fleet) > c.stated}
    if not asked.does(_changed(scenario, needed), 0.5):
        return None
    unclear = ""
    for change in [*needed] * 2:  # less of one may leave room for less of those before it
        if change not in needed:
            continue
        others = _changed(scenario, {c: i for c, i in needed.items() if c is not change})
        if asked.does(others, 0.5):
            del needed[change]
            continue
        least, why = _tried(others, change, needed[change], needed[change], asked)
        needed[change], unclear = least or needed[change], unclear or why
    return Relaxation(needed, unclear)


def _changed(scenario: Scenario, values: Mapping[Change, int]) -> Scenario:
    """A scenario with several changes."""
    for change, i in values.items():
        scenario = change.at(scenario, i)
    return scenario
