"""At which value of an uncertain input the decision turns: found by planning again, at values between two bounds."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from math import sqrt
from pathlib import Path

from planner.comparison import Planned, decided, posed_problem, solved
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.problem import Problem
from planner.progress import Progress
from planner.results.case import BreakEvenResult, Turn
from planner.results.plan import Fleet
from planner.scenario import VERDICT, BreakEven, Scenario, parsed_key
from planner.schema import dotted
from planner.toml_lines import KeyPath
from planner.work_clock import work_s

N_STEPS = 4
"""Values looked at on each side of the stated one, before the bracket of the first turn is halved."""
PRECISION = 0.005
"""Relative width of a bracket that is narrow enough: prices are not known to half a per cent."""
COARSE_PRECISION = 0.02
"""The same where plans themselves are known to about a per cent."""
MOST_PLANS = 40
"""Time limits of one plan that all break-evens may take together; then the rest is left unknown."""
Decision = Callable[[float], bool | None]
"""Whether the decision is yes at a value of the input; None where there is no plan."""
Keep = Callable[[BreakEvenResult], None]

RESOLVED = {"prices", "assumed", "stacks", "measured", "model"}
"""Parts of a scenario that the pools of its problem hold in full: rents and service times."""
TOLD = {"name", "title", "notes", "sources", "comparisons", "claims", "break_even", "report"}
"""Parts that no fleet depends on."""


def _fingerprint(problem: Problem) -> bytes:
    """The same for problems that have the same fleet."""
    stated = problem.scenario.model_dump(exclude=RESOLVED | TOLD)
    return sha256(pickle.dumps((stated, problem.pools, problem.links))).digest()


@dataclass(frozen=True)
class Planner:
    """The optimizer, which plans no fleet twice: most inputs leave one of two compared fleets as it is."""

    data_dirs: Sequence[Path]
    time_limit_s: float
    known: dict[bytes, Fleet | None] = field(default_factory=dict)
    gaps: list[float] = field(default_factory=list)
    """Of the plans so far that are not proven to the last digit: distance of plan and bound [-]."""
    started_s: float = field(default_factory=work_s)

    def fleet(self, scenario: Scenario) -> Fleet | None:
        """The fleet; None where a value leaves none, or nothing that the roofline can time.

        Raises:
            UndecidedError: nothing was found in the time.
        """
        try:
            problem = posed_problem(scenario, self.data_dirs)
            same = _fingerprint(problem)
            if same not in self.known:
                self.known[same] = self._planned(problem)
        except (InputError, InfeasibleError):
            return None
        return self.known[same]

    def _planned(self, problem: Problem) -> Fleet | None:
        self._check_time()
        try:
            solution = solved(problem, self.time_limit_s, is_explained=False)
        except InfeasibleError:
            return None
        self._note(problem, solution.gap)
        return Planned(problem, solution).fleet

    def is_worth_it(self, scenario: Scenario) -> bool | None:
        """The verdict; None where there is no fleet. Raises UndecidedError as `fleet` does."""
        self._check_time()
        try:
            problem = posed_problem(scenario, self.data_dirs)
            found, gap = decided(problem, self.time_limit_s)
        except (InputError, InfeasibleError):
            return None
        self._note(problem, gap)
        return found.worth_it

    def _note(self, problem: Problem, gap: float) -> None:
        """A gap that is too wide to pass over."""
        if not problem.is_plain:
            self.gaps.append(gap)

    def _check_time(self) -> None:
        if work_s() - self.started_s > MOST_PLANS * self.time_limit_s:
            raise UndecidedError("the time for break-evens is up")


def break_evens(
    scenario: Scenario,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    progress: Progress = lambda _: None,
    keep: Keep = lambda _: None,
) -> tuple[BreakEvenResult, ...]:
    """Every break-even that a scenario asks for.

    Args:
        scenario: the question with its `break_even` entries.
        keep: gets every one as soon as it is found: all of them may take hours.

    Returns:
        Results in the order of the entries; empty without any. Of a network, those that take too long say so.
    """
    planner = Planner(data_dirs, time_limit_s)
    results: list[BreakEvenResult] = []
    for item in scenario.break_even:
        place = f"{len(results) + 1} of {len(scenario.break_even)}"
        progress(f"break-even {place}: {item.title} ({item.key} from {item.low:g} to {item.high:g})")
        results.append(_result(scenario, item, planner))
        keep(results[-1])
    return tuple(results)


def _result(scenario: Scenario, item: BreakEven, planner: Planner) -> BreakEvenResult:
    """A break-even, or that it was not found in the time."""
    try:
        return break_even(scenario, item, planner)
    except UndecidedError:
        return BreakEvenResult(
            key=item.key,
            title=item.title,
            decides=item.decides,
            stated=float(scenario.value_at(item.key)),
            low=item.low,
            high=item.high,
            decision=None,
            below=None,
            above=None,
            is_found=False,
        )


def break_even(scenario: Scenario, item: BreakEven, planner: Planner) -> BreakEvenResult:
    """The values nearest to the stated one, below and above it, at which the decision turns.

    Equation:
        decision(x) = the verdict of the plan with the key at x; or whether that plan beats the comparison's, with the
        key at x too, by its bill or its highest rate. Looked at in geometric steps (even ones from zero) away from the
        stated value; the first step across which it turns is halved

    Args:
        scenario: the question.
        item: key, span and decision.
        planner: what plans at each value.

    Returns:
        The decision as stated and where it turns; None on a side where it does not.

    Raises:
        InputError: a bound of the span is no value that the key may have.
        UndecidedError: a network of which some plan was not found in the time.

    Valid:
        A decision that turns and turns back within one step is not seen: fleets grow by whole instances. Networks are
        compared by their plans, which may cost more than the best ones by their gaps.
    """
    stated = float(scenario.value_at(item.key))
    _check_span(scenario, item)
    decision, first = _remembered(_decision(scenario, item, planner)), len(planner.gaps)
    here = decision(stated)
    width = COARSE_PRECISION if planner.gaps[first:] else PRECISION
    below = _turn(decision, here, steps(stated, item.low), width) if item.low < stated else None
    above = _turn(decision, here, steps(stated, item.high), width) if item.high > stated else None
    return BreakEvenResult(
        key=item.key,
        title=item.title,
        decides=item.decides,
        stated=stated,
        low=item.low,
        high=item.high,
        decision=here,
        below=below,
        above=above,
        gap=max(planner.gaps[first:], default=0.0),
    )


def _check_span(scenario: Scenario, item: BreakEven) -> None:
    """Every value is between the bounds, so that if these hold all do."""
    index = scenario.break_even.index(item)
    for name, value in (("low", item.low), ("high", item.high)):
        try:
            scenario.varied({item.key: value})
        except InputError as error:
            what, first = f"{value:g} is no value of {item.key}", error.problems[0]
            allowed = " ".join(filter(None, (first.message, first.allowed)))
            raise InputError(scenario.problem(("break_even", index, name), what, allowed)) from None


def steps(start: float, end: float, n: int = N_STEPS) -> tuple[float, ...]:
    """Values from a start to an end, both included: geometric between positive ones, else even.

    >>> steps(1.0, 64.0, 6), steps(3.0, 0.0, 3)
    ((1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0), (3.0, 2.0, 1.0, 0.0))
    """
    if start > 0 and end > 0:
        inner = [start * (end / start) ** (i / n) for i in range(1, n)]
    else:
        inner = [start + (end - start) * i / n for i in range(1, n)]
    return (start, *(round(value, 12) for value in inner), end)


def _turn(decision: Decision, here: bool | None, values: Sequence[float], width: float) -> Turn | None:
    """Where the decision first differs along the values, to a relative width; None where it never does."""
    for before, after in pairwise(values):
        if decision(after) != here:
            return _bisected(decision, here, (before, after), width)
    return None


def _bisected(decision: Decision, here: bool | None, between: tuple[float, float], width: float) -> Turn:
    """Where it turns between a value with the stated decision and one with another."""
    same, other = between
    smallest = width * max(abs(same), abs(other))
    while abs(other - same) > smallest:
        middle = sqrt(same * other) if same > 0 and other > 0 else (same + other) / 2
        if decision(middle) == here:
            same = middle
        else:
            other = middle
    return Turn(value=(same + other) / 2, decision=decision(other))


def _remembered(decision: Decision) -> Decision:
    """The same decision, asked once per value."""
    known: dict[float, bool | None] = {}

    def remembered(value: float) -> bool | None:
        if value not in known:
            known[value] = decision(value)
        return known[value]

    return remembered


def _decision(scenario: Scenario, item: BreakEven, planner: Planner) -> Decision:
    """The decision that an entry names, as a function of its key's value."""

    def worth_it(value: float) -> bool | None:
        return planner.is_worth_it(scenario.varied({item.key: value}))

    def ahead(value: float) -> bool | None:
        question = scenario.varied({item.key: value})
        ours = planner.fleet(question)
        if ours is None:
            return None
        theirs = planner.fleet(question.compared(item.decides))
        return theirs is None or _is_ahead(ours, theirs, question.objective == "min-cost")

    return worth_it if item.decides == VERDICT else ahead


def _is_ahead(ours: Fleet, theirs: Fleet, by_cost: bool) -> bool:
    """True if a fleet costs less than another, or where the fleets are given serves more."""
    if not by_cost:
        return ours.most_req_per_s > theirs.most_req_per_s
    mine, other = ours.cost.usd_per_hour, theirs.cost.usd_per_hour
    return mine is not None and other is not None and mine < other


def not_varied(scenario: Scenario) -> tuple[str, ...]:
    """Inputs that the scenario assumes and no break-even of it varies; nothing where it asks for none."""
    if not scenario.break_even:
        return ()
    varied = [parsed_key(item.key) for item in scenario.break_even]
    keys = (key for key in _assumed_inputs(scenario) if not any(other[: len(key)] == key for other in varied))
    return tuple(dotted(key) for key in keys)


def _assumed_inputs(scenario: Scenario) -> Iterator[KeyPath]:
    """Prices, rents, electricity, figures and factors that rest on nothing but the scenario's word."""
    yield from (("prices", name) for name, price in scenario.prices.items() if price.basis == "assumed")
    yield from (("assumed", name, key) for name, items in scenario.assumed.items() for key in items)
    for name, site in scenario.sites.items():
        if site.usd_per_kwh and not site.power_source:
            yield "sites", name, "usd_per_kwh"
    for name, link in scenario.links.items():
        if link.basis == "assumed" and any(tier.usd_per_hour for tier in link.options()):
            yield "links", name
    yield from (("stacks", name, "factors", key) for name, own in scenario.stacks.items() for key in own.factors)
