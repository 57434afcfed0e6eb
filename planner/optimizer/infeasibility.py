"""No plan exists: which limits are in the way, and the least change of each that a plan was found with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.changes import Change, less_demand, longer_promises, more_budget, more_stock
from planner.optimizer.planned import Classes, Planned, planned
from planner.scenario import Routing, Scenario, Spare
from planner.units import number

TIME_SHARE = 0.5
"""Of the time limit: what looking for ways out may take."""
FEW = 3
"""A change takes a third of the time that is left at the most, and not less for many that are still to be tried."""
NOT_RULED_OUT = "; less was not ruled out in the time"


@dataclass
class _Asked:
    """Plans changed scenarios until a deadline, and notes what was not found out."""

    classes: Classes
    deadline: float
    unknown: list[str] = field(default_factory=list)

    def plan(self, scenario: Scenario, share: float = 1.0, is_any: bool = True) -> Planned | None:
        """A plan; None where there is none. Raises UndecidedError where that was not found out."""
        left = self.deadline - monotonic()
        if left <= 0:
            raise UndecidedError("the time is up")
        try:
            return planned(scenario, self.classes, monotonic() + share * left, is_any)
        except (InputError, InfeasibleError):
            return None

    def does(self, scenario: Scenario, share: float = 1.0) -> bool | None:
        """Whether a scenario has a plan; None where that was not found out."""
        try:
            return self.plan(scenario, share) is not None
        except UndecidedError:
            return None


def infeasible(scenario: Scenario, classes: Classes, time_limit_s: float) -> InfeasibleError:
    """The error for a scenario without a plan: what was asked, and every single change that was found to do.

    Args:
        scenario: a question that is proven to have no plan.
        classes: its requests, as they were read for that proof.
        time_limit_s: limit of the whole answer, of which this takes a part.

    Valid:
        A plan was found with every change that is named, and none with a little less of it; where less was not ruled
        out in the time, that is said.
    """
    asked = _Asked(classes, monotonic() + TIME_SHARE * time_limit_s)
    ways = [*_single(scenario, asked)]
    several = "" if ways else _several(scenario, [*_numbers(scenario)], asked)
    text = f"{scenario.name}: infeasible: {_question(scenario)}."
    if ways:
        text += "\nAny one of these would do:" + "".join(f"\n  - {way}" for way in ways)
    elif several:
        alone = "was found that can" if asked.unknown else "can"
        text += f"\nNo single limit {alone} be relaxed to help; together these would do:\n  - {several}"
    elif asked.unknown:
        text += "\nNo single limit was found that can be relaxed to help."
    else:
        text += "\nNo single limit can be relaxed to help."
    if asked.unknown:
        text += f"\nNot found out in the time: whether a change of {', '.join(dict.fromkeys(asked.unknown))} would do."
    return InfeasibleError(text, [*ways, *filter(None, [several])])


def _question(scenario: Scenario) -> str:
    """What no fleet does."""
    demand = scenario.demand_req_per_s if scenario.objective != "max-throughput" else None
    promised = {slo.ttft_s for slo in map(scenario.slo_of, scenario.workloads) if slo is not None and slo.ttft_s}
    served = "any request" if demand is None else f"{number(demand, 4)} req/s"
    within = f" within {number(promised.pop())} s to the first token" if len(promised) == 1 else ""
    return f"no fleet within the limits serves {served}{within or (' as promised' if promised else '')}"


def _numbers(scenario: Scenario) -> Iterator[Change]:
    yield from longer_promises(scenario)
    yield from more_stock(scenario)
    yield from more_budget(scenario)


def _single(scenario: Scenario, asked: _Asked) -> Iterator[str]:
    """Every change that does alone; of accelerators and instances also several together, where none does alone."""
    stock = [*more_stock(scenario)]
    others = [*less_demand(scenario), *more_budget(scenario), *longer_promises(scenario)]
    plain = [*_dropped(scenario)]
    n_left, is_short = len(others) + len(plain) + len(stock), True
    for change in (*others, *stock):
        found = _least(scenario, change, _part(asked, n_left))
        n_left -= 1
        if found:
            is_short &= change not in stock
            yield found
    for what, changed in plain:
        done = _part(asked, n_left).does(changed)
        n_left -= 1
        if done:
            yield what
        elif done is None:
            asked.unknown.append(what.partition(" ")[0])
    if is_short and len(stock) > 1 and scenario.demand_req_per_s is not None:
        yield from filter(None, [_several(scenario, stock, asked)])


def _part(asked: _Asked, n_left: int) -> _Asked:
    """The same with a part of the time that is left: what one change leaves is the others'."""
    now = monotonic()
    return replace(asked, deadline=now + (asked.deadline - now) / min(max(n_left, 1), FEW))


def _dropped(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """What a scenario asks for that can be left out."""
    ratio, survive = scenario.routing.prefill_to_decode, scenario.spare.survive
    if ratio != "free":
        routing = Routing(**{**scenario.routing.model_dump(), "prefill_to_decode": "free"})
        yield f'routing.prefill_to_decode = "free" (is "{ratio}")', scenario.model_copy(update={"routing": routing})
    if survive:
        bare = scenario.model_copy(update={"spare": Spare()})
        yield f"spare.survive = [] (is {list(survive)})".replace("'", '"'), bare


def _least(scenario: Scenario, change: Change, asked: _Asked) -> str:
    """A change with the least that does, as a way out; empty where none was found."""
    try:
        lifted = asked.plan(change.lifted(scenario), 0.5, is_any=change.sign != "at most")
    except UndecidedError:
        asked.unknown.append(change.told(1).partition(" ")[0])
        return ""
    if lifted is None:
        return ""
    first = min(change.nearest(change.used(lifted.fleet)), change.n_values)
    least, is_unclear = _tried(scenario, change, first, change.n_values, asked)
    if least is None and is_unclear:
        asked.unknown.append(change.told(1).partition(" ")[0])
    return "" if least is None else change.told(least) + (NOT_RULED_OUT if is_unclear else "")


def _tried(scenario: Scenario, change: Change, first: int, most: int, asked: _Asked) -> tuple[int | None, bool]:
    """The least number of a change that was found to do, and whether less, or any, was not ruled out."""
    answers: dict[int, bool | None] = {}

    def does(i: int) -> bool:
        if i not in answers:
            answers[i] = asked.does(change.at(scenario, i), 0.5)
        return bool(answers[i])

    least = _least_number(does, first, most)
    return least, any(known is None for i, known in answers.items() if least is None or i < least)


def _least_number(does: Callable[[int], bool], first: int, most: int) -> int | None:
    """The least number from 1 that does, where 0 does not and greater ones do if smaller ones do.

    Args:
        does: whether a number does.
        first: where to look first.
        most: the greatest number there is.

    >>> _least_number(lambda i: i >= 37, 40, 1000), _least_number(lambda i: i >= 37, 12, 1000)
    (37, 37)
    >>> _least_number(lambda i: False, 40, 1000) is None
    True
    """
    low, high, step = 0, first, 1 if first < most else max(most // 2, 1)
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
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return high


def _several(scenario: Scenario, changes: Sequence[Change], asked: _Asked) -> str:
    """Changes that do together, each the least beside the others; empty where even all of them do not."""
    more = [change for change in changes if change.is_more]
    lifted = scenario
    for change in more:
        lifted = change.lifted(lifted)
    try:
        found = asked.plan(lifted, 0.5)
    except UndecidedError:
        found = None
    if found is None:
        return ""
    needed = {c: c.nearest(c.used(found.fleet)) for c in more if c.used(found.fleet) > c.stated}
    if not asked.does(_changed(scenario, needed), 0.5):
        return ""
    unclear = False
    for change in [*needed]:
        others = _changed(scenario, {c: i for c, i in needed.items() if c is not change})
        if asked.does(others, 0.5):
            del needed[change]
            continue
        least, is_unclear = _tried(others, change, needed[change], needed[change], asked)
        needed[change], unclear = least or needed[change], unclear or is_unclear
    return " with ".join(change.told(i) for change, i in needed.items()) + (NOT_RULED_OUT if unclear else "")


def _changed(scenario: Scenario, values: Mapping[Change, int]) -> Scenario:
    """A scenario with several changes."""
    for change, i in values.items():
        scenario = change.at(scenario, i)
    return scenario
