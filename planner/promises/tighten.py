"""Rounds of search and runs: a promise that runs do not bear out is planned more strictly, until they do."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from planner.comparison import Planned, posed_problem, sketched, solved
from planner.comparison.evaluation import Evaluation, evaluation, evaluation_at
from planner.comparison.infeasibility import Trials
from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec
from planner.optimizer.resolution import widened
from planner.optimizer.solution import Solution
from planner.promises.outcomes import STEP
from planner.promises.period_results import RATE, PeriodResult, PeriodRuns, RunSettings, binding_periods, period_results
from planner.promises.plan_to_run import PlanToRun
from planner.promises.targets import (
    LatencyTargets,
    as_asked,
    midpoint,
    modelled,
    question_at_targets,
    roomier,
    seeks_least,
    stated,
    tightened,
)
from planner.results.plan import Plan
from planner.scenario import Scenario, uneven_arrivals
from planner.units import rounded

MOST_ROUNDS = 8
DIGITS = 6
"""Of thresholds and rates that tell plans apart."""
MOST_STEPS = 2
"""Of capacity, for a system that keeps its promises and has not settled: beyond, it is the run that is too short."""
FAR = 2.0
"""Times what is promised from which on stricter promises do not tell how much larger a fleet must be."""
AS_GOOD = 1e-3
"""Relative difference to the plan as asked up to which a plan that holds is not improved upon, unless the search itself
counts more as none."""


@dataclass(frozen=True)
class PlanCandidate:
    """A plan that may be run."""

    targets: LatencyTargets
    problem: Problem
    """What the optimizer was asked."""
    found: Solution
    stated: Problem
    """The system as it is run, with disciplines that waits are known for."""
    as_run: Scenario
    """The same with the disciplines that are stated."""
    served: Solution
    """What is found, at what is asked for or claimed where that is another rate in every period alike."""
    rate: float | None
    """Rate that it is stated at; None: the one that `served` is for [1/s]."""
    planned: PlanToRun
    """At the demand and with the promises that are asked for."""

    @property
    def answer(self) -> Evaluation:
        """Its figures at its rate."""
        if self.rate is None:
            return evaluation(self.stated, self.served)
        return evaluation_at(self.stated, self.served, self.rate)

    @property
    def plan(self) -> Plan:
        """The plan at its rate."""
        assert isinstance(self.planned.plan, Plan), "what is sketched is a plan"
        return self.planned.plan

    def ttft_quantile_s(self, name: str, percentile: float, period: str | None) -> float | None:
        """TTFT that is predicted of a class, in a period of several; None where nothing is [s]."""
        if modelled(self.as_run) != self.as_run:
            return None
        found = Planned(self.stated, self.served).class_ttft(name, period, self.rate)
        return None if found is None else found.quantile_s(percentile / 100)

    def tpot_quantile_s(self, name: str, percentile: float, period: str | None) -> float | None:
        """Time per output token that is predicted of a class, in a period of several; None where nothing is [s]."""
        return Planned(self.stated, self.served).class_tpot_s(name, percentile / 100, period, self.rate)

    @property
    def idle_s(self) -> dict[str, float]:
        """TTFT without waits of every class, at the percentile that it is promised [s]."""
        slos = {name: self.as_run.slo_of(name) for name in self.as_run.workloads}
        known = Planned(self.stated, self.served)
        found = {
            name: (known.class_ttft(name, None, self.rate, is_loaded=False), slo.ttft_percentile)
            for name, slo in slos.items()
            if slo is not None and slo.ttft_s is not None
        }
        return {name: ttft.quantile_s(p / 100) for name, (ttft, p) in found.items() if ttft is not None}

    @property
    def run_key(self) -> tuple[object, ...]:
        """Key of all that a run depends on: that of two plans with the same one is the same."""
        operations = (
            (
                one.n_instances,
                *((*flow[:-2], *_rounded(flow[-2:])) for flow in one.flows),
                *((*decoding[:-1], *_rounded(decoding[-1:])) for decoding in one.decodings),
            )
            for one in self.served.operations
        )
        rate = () if self.rate is None else _rounded((self.rate,))
        promises = tuple(str(self.as_run.slo_of(name)) for name in self.as_run.workloads)
        return tuple(operations), self.served.ports, rate, promises

    @property
    def badness(self) -> float:
        """Cost of it, or its rate with the sign changed."""
        if self.problem.scenario.objective == "max-throughput":
            return -self.plan.throughput_req_per_s
        return self.plan.cost.usd_per_hour or float(self.plan.n_accelerators)


@dataclass(frozen=True)
class Attempt(PeriodRuns, PlanCandidate):
    """A plan, and what came of it in its runs."""

    results: tuple[PeriodResult, ...]


@dataclass
class PromiseSearch:
    """Rounds of search and runs, and what they have in common."""

    scenario: Scenario
    settings: RunSettings
    time_limit_s: float
    """Of the search for one plan."""
    classes: Sequence[ClassSpec] = ()
    """Requests as they were read first."""
    open_bound: float | None = None
    """Bound of the layouts that were left open when those of the scenario were chosen, as a problem has it."""
    is_explained: bool = True
    """Whether ways out are looked for where there is no plan as asked;"""
    trials: Trials | None = None
    """how those are run."""
    posed: dict[tuple[tuple[str, float], ...], Problem] = field(default_factory=dict)
    """Questions that were posed, by their limits on the time per token, with which pools are timed."""
    tried: list[Attempt] = field(default_factory=list)
    strict: LatencyTargets | None = None
    """What was strict enough, or more than any plan was found to keep by the optimizer's own account."""
    why: str = ""
    """What it says of that."""

    @property
    def best(self) -> Attempt | None:
        """The best of the plans that hold."""
        return min((tried for tried in self.tried if tried.is_kept), key=lambda one: one.badness, default=None)

    @property
    def open(self) -> Attempt | None:
        """The best of the plans that are undecided."""
        return min((tried for tried in self.tried if tried.is_undecided), key=lambda one: one.badness, default=None)

    def problem(self, scenario: Scenario) -> Problem:
        """A question with the requests of this one."""
        found = posed_problem(scenario, self.settings.data_dirs, self.classes)
        self.classes = self.classes or found.classes
        return found if self.open_bound is None else replace(found, open_bound=self.open_bound)

    def posed_as(self, scenario: Scenario, targets: LatencyTargets) -> Problem:
        """A question with some targets; another demand or TTFT times no pool anew, and limits sizes by the demand."""
        limits = tuple(targets.tpot_ms.items())
        if (known := self.posed.get(limits)) is not None:
            return known if known.scenario == scenario else widened(known.stating(scenario), 1)
        return self.posed.setdefault(limits, self.problem(scenario))

    def posed_first(self, problem: Problem) -> None:
        """Take the question as it is asked for posed."""
        self.classes = problem.classes
        self.posed[tuple(as_asked(self.scenario).tpot_ms.items())] = problem


def run_rounds(search: PromiseSearch) -> None:
    """Plan and run until a plan holds that is as good as the one that was asked for, or nothing is left to try.

    The question is planned as asked, and run. Where a class breaks its promise on TTFT or on the decode step, the
    optimizer is given a stricter one for that class, by as much as the run shows; where the rate is not served, a
    higher demand, or a lower rate is claimed. Between promises that were too lax and far stricter ones, middle ones are
    tried. Where no plan keeps a stricter promise, as the longest prompts take most of the time without waiting, it
    is waits that have to be shorter: the same promise is planned at a higher demand, or claimed of a lower rate.

    Args:
        search: what is asked for; plans that were run are added to it.

    Raises:
        InputError: a plan cannot be run.
        InfeasibleError, UndecidedError: there is no plan as asked, run or not.
        CheckFailedError: faults drop more than may be late.
    """
    targets = _next(search) if search.tried else as_asked(search.scenario)
    while targets is not None and len(search.tried) < MOST_ROUNDS and not (search.tried and search.settings.is_over):
        try:
            search.tried.append(run(search, candidate(search, targets)))
        except (InfeasibleError, UndecidedError) as error:
            if not search.tried:
                raise
            search.strict, search.why = targets, f"\na stricter promise: {error}"
        else:
            search.strict = search.strict if search.tried[-1].unkept else targets
        targets = _next(search)


def candidate(search: PromiseSearch, targets: LatencyTargets) -> PlanCandidate:
    """The plan of a question with some promises; that of the round before where the same is asked again."""
    search.settings.progress(f"{search.scenario.name}: planning, round {len(search.tried) + 1}")
    last = search.tried[-1] if search.tried else None
    question = question_at_targets(search.scenario, targets)
    if last is not None and last.problem.scenario == question:
        return as_stated(search, targets, last.problem, last.found)
    problem = search.posed_as(question, targets)
    # What would do instead is of interest of the question as it was asked, and takes long.
    laxer = search.tried[0].found if search.tried else None
    is_explained = search.is_explained and not search.tried
    found = solved(problem, search.time_limit_s, is_explained, laxer, search.trials)
    return as_stated(search, targets, problem, found)


def as_stated(search: PromiseSearch, targets: LatencyTargets, problem: Problem, found: Solution) -> PlanCandidate:
    """A solution at the demand and with the promises that are asked for."""
    scenario = search.scenario
    if seeks_least(scenario) and not search.tried:
        free = {name: found.objective for name in scenario.workloads if name not in targets.ttft_s}
        targets = replace(targets, ttft_s={**targets.ttft_s, **free})
    as_run = stated(scenario, targets)
    as_known = modelled(as_run)
    known = problem if problem.scenario == as_known else problem.stating(as_known)
    ratio = targets.claimed_fraction / targets.demand_factor
    rate = Planned(problem, found).fleet.throughput_req_per_s * ratio if known.is_plain else None
    served = found
    if not known.is_plain and ratio != 1:  # its scale is of the demand that is asked for, and not of what was planned
        served = replace(found.at(ratio), scale=found.scale * targets.claimed_fraction)
    plan = sketched(known, served, rate)
    if ratio > 1:
        plan = plan.model_copy(update={"goodput_req_per_s": plan.throughput_req_per_s})
    if served is found and known is problem:  # what a network keeps takes long to find: it is found once
        highest, goodput = plan.max_throughput_req_per_s, plan.goodput_req_per_s
        found = served = replace(found, highest_req_per_s=highest, goodput_req_per_s=goodput)
    planned = _planned(known, served, plan, as_run)
    return PlanCandidate(targets, problem, found, known, as_run, served, rate, planned)


def claiming(targets: LatencyTargets, times: float) -> LatencyTargets:
    """The same promises, and a multiple of what was claimed of the rate that was found."""
    return replace(targets, claimed_fraction=times * targets.claimed_fraction)


def _planned(known: Problem, served: Solution, plan: Plan, as_run: Scenario) -> PlanToRun:
    """A plan at any load; of disciplines that waits are not known for without what they would be."""
    is_known = known.scenario == as_run

    def at(load: float) -> Plan:
        there = sketched(known, served, load * plan.throughput_req_per_s)
        return there if is_known else _without_ttft(there)

    return PlanToRun(plan if is_known else _without_ttft(plan), at, {}, {})


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(rounded(value, DIGITS) for value in values)


def run(search: PromiseSearch, one: PlanCandidate) -> Attempt:
    """Run the periods of a plan that bind, all where those hold, as far as there is time; the same plan once."""
    same = (tried for tried in search.tried if tried.run_key == one.run_key)
    return _run(search, one, ()) if (known := next(same, None)) is None else _tried(one, known.results)


def run_again(search: PromiseSearch, one: Attempt, seed: int) -> Attempt:
    """Run the periods of a plan that bind with another seed: no other is near enough to have flattered it."""
    binding = binding_periods(one.plan)
    far = [period for period in one.results if period.name is not None and period.name not in binding]
    question = replace(search.settings.question, seed=seed)
    return _run(replace(search, settings=replace(search.settings, question=question)), one, far)


def _run(search: PromiseSearch, one: PlanCandidate, known: Sequence[PeriodResult]) -> Attempt:
    n = len(search.tried) + 1
    settings = replace(
        search.settings, progress=lambda what: search.settings.progress(f"{search.scenario.name}: {what}, round {n}")
    )
    promised = stated(search.scenario, replace(one.targets, tpot_ms={}))  # a stricter step is planned, not promised
    found = list(period_results(settings, one.as_run, promised, one.planned, known))
    return _tried(one, (*found, *known) if found else ())


def _tried(one: PlanCandidate, seen: tuple[PeriodResult, ...]) -> Attempt:
    return Attempt(**{name: getattr(one, name) for name in PlanCandidate.__dataclass_fields__}, results=seen)


def _without_ttft(plan: Plan) -> Plan:
    """A plan that predicts no TTFT under load: it is run with disciplines that waits are not known for."""
    marks = dict.fromkeys(("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s"))
    periods = (p.model_copy(update={"latency": p.latency.model_copy(update=marks)}) for p in plan.periods)
    classes = (c.model_copy(update={"latency": c.latency.model_copy(update=marks)}) for c in plan.classes)
    update = {"latency": plan.latency.model_copy(update=marks), "goodput_req_per_s": None}
    return plan.model_copy(update={**update, "periods": tuple(periods), "classes": tuple(classes)})


def _next(search: PromiseSearch) -> LatencyTargets | None:
    """Targets to hand over next; None where nothing is left between what was too lax and what was strict enough."""
    broken, last = [tried for tried in search.tried if tried.unkept], search.tried[-1]
    if not broken or (not last.unkept and (seeks_least(search.scenario) or _is_as_good(last, broken[0]))):
        return None
    if search.strict is None:
        return _tightened(search, broken)
    lax, strict = broken[-1].targets, search.strict
    middle = midpoint(lax, strict)
    if middle is None and search.best is None and lax.headroom >= strict.headroom:
        return roomier(search.scenario, lax)
    return middle


def _tightened(search: PromiseSearch, broken: Sequence[Attempt]) -> LatencyTargets | None:
    """Stricter by as much as the last run showed; twice as far, and so on, where that was not enough before.

    What a run shows is noisy, and so is what a stricter promise changes of a plan: small steps would take many runs.
    A system that has not settled within its promises gets more capacity, and after two steps a longer run must decide.
    Where bursts that no model of waits counts with make requests late by far, it is capacity that lacks.
    """
    last = broken[-1]
    if _is_overrun(search, last):
        return roomier(search.scenario, last.targets, 2 ** (len(broken) - 1))
    if _is_unsettled(search, last):
        n = sum(_is_unsettled(search, one) for one in broken)
        return roomier(search.scenario, last.targets) if n <= MOST_STEPS else None
    targets = _as_planned(search, last)
    n_alike = sum(one.targets.headroom == last.targets.headroom for one in broken)
    for _ in range(2 ** (n_alike - 1)):
        targets = tightened(search.scenario, targets, last.unkept, last.idle_s)
    return targets


def _is_overrun(search: PromiseSearch, last: Attempt) -> bool:
    """True if a time to first token was missed by far, of requests that arrive in bursts."""
    is_late = any(one.executed > FAR * one.limit for one in last.unkept if one.metric not in (RATE, STEP))
    return is_late and not seeks_least(search.scenario) and bool(uneven_arrivals(search.scenario))


def _is_unsettled(search: PromiseSearch, one: Attempt) -> bool:
    """True if its run keeps every promise with all of its interval, and its system only has not settled."""
    within = (p.metric != RATE and not p.decided and p.ci_high is not None and p.ci_high <= p.limit for p in one.unkept)
    return not seeks_least(search.scenario) and all(within)


def _as_planned(search: PromiseSearch, last: Attempt) -> LatencyTargets:
    """Targets as planned for, or as the plan is predicted to keep where that is less: what is laxer changes no plan."""
    ttft_s, asked = dict(last.targets.ttft_s), as_asked(search.scenario).ttft_s
    for one in last.unkept:
        name = one.request_class or next(iter(search.scenario.workloads))
        slo = search.scenario.slo_of(name)
        if one.metric in (RATE, STEP) or slo is None or name not in asked:
            continue
        predicted_s = last.ttft_quantile_s(name, slo.ttft_percentile, one.period)
        ttft_s[name] = min(ttft_s[name], predicted_s or ttft_s[name])
    return replace(last.targets, ttft_s=ttft_s)


def _is_as_good(held: Attempt, asked: Attempt) -> bool:
    return held.badness - asked.badness <= max(AS_GOOD, asked.found.target) * abs(asked.badness)
