"""A case: the plan of a scenario hour by hour, its variants and everything they are held against."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner.comparison import Planned, explained, optimize, optimized, posed_problem, solved
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.capacity import threshold_loads
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import PoolSpec
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.sized import Sizing
from planner.optimizer.solution import Solution
from planner.progress import Progress
from planner.results.case import Case, CaseFront, ComparedPlan, LengthProfile, ServiceCurve
from planner.results.executed import Executed
from planner.results.plan import Fleet, Plan
from planner.results.studies import Hour
from planner.roofline import InstanceRates
from planner.scenario import CapacityRule, Scenario
from planner.studies.break_even import Keep, break_evens, not_varied
from planner.studies.claims import claim_results
from planner.studies.cost_band import cost_band
from planner.studies.front import pareto_front
from planner.studies.inputs import citation, input_notes, measured_times, roofline_source
from planner.studies.price_ratios import price_ratios
from planner.studies.sensitivity import sensitivity
from planner.units import gbps
from planner.workload.distributions import weighted_quantile
from planner.workload.mix import RequestMix

N_CURVE = 81
N_ATOMS = 2048
N_REQUESTS, MOST_REQUESTS = 200_000, 6_400_000
"""Of a run of what is promised, and up to which it goes on."""
N_OF_PERIOD = 50_000
"""Of the first run of each of several periods: most hold with room."""
NETWORK_LIMIT_S = 1200.0
"""Beyond what a network of a report takes: its plan must not depend on how busy the machine is."""
Mixes = Sequence[tuple[float, RequestMix]]
"""Share and requests of every class."""
OTHER_RULE: dict[CapacityRule, CapacityRule] = {"mean-length": "expected-work", "expected-work": "mean-length"}


def build_case(
    scenario: Scenario,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    progress: Progress = lambda _: None,
    keep: Keep = lambda _: None,
) -> Case:
    """Plan a scenario, its variant under the other capacity rule and its comparisons; run it where it asks for that.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: limit of each single plan.
        progress: is told what is going on.
        keep: gets every break-even as soon as it is found.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does, for the scenario itself.
    """
    variants = {name: scenario.compared(name) for name in scenario.comparisons}  # first: a slip is told at once
    fronts = tuple(scenario.varied(front.set) for front in scenario.report.fronts)
    problem = posed_problem(scenario, data_dirs)
    is_plain, of_plan = problem.is_plain, time_limit_s
    if not is_plain:
        _check_is_shown(scenario)
        time_limit_s = max(time_limit_s, NETWORK_LIMIT_S)
    asked = problem
    plan, problem, solution = _plan_of(problem, data_dirs, time_limit_s, progress)
    other = None
    plan = plan.model_copy(update={"cost_band": cost_band(scenario, data_dirs, asked, plan)})
    if is_plain:
        other = _planned(_with_rule(problem, OTHER_RULE[scenario.capacity_rule]), time_limit_s)
    compared = _compared(scenario, variants, data_dirs, time_limit_s, progress)
    plans = {"plan": plan, scenario.capacity_rule: plan, OTHER_RULE[scenario.capacity_rule]: other}
    plans |= {variant.name: variant.plan for variant in compared}
    hours = scenario.report.hours
    case = Case(
        name=scenario.name,
        title=scenario.title or scenario.name,
        notes=scenario.notes,
        plan=plan,
        other_rule=other,
        rule_shortfall=_shortfall(problem, plans["mean-length"]),
        requests=length_profile(_mixes(problem)),
        curves=tuple(
            service_curve(scenario, pool.key, name, pool.rates, _mixes(problem))
            for name, pool in _curved(problem, solution)
        ),
        comparisons=compared,
        claims=claim_results(scenario.claims, plans, scenario.name),
        break_even=break_evens(scenario, data_dirs, time_limit_s, progress, keep),
        not_varied=not_varied(scenario),
        price_ratios=price_ratios(problem, plan) if is_plain else None,
        executed=_executed(problem, solution, plan, plans["mean-length"], data_dirs, progress),
        hours=hours_of(problem, solution, hours.factors) if hours else (),
        hours_source=hours.source if hours else "",
        inputs=input_notes(scenario, {pool.key: pool.rates for pool in problem.pools}),
        sources=scenario.sources,
    )
    return _shown(case, scenario, fronts, data_dirs, of_plan)


def _plan_of(
    problem: Problem, data_dirs: Sequence[Path], time_limit_s: float, progress: Progress
) -> tuple[Plan, Problem, Solution]:
    """The plan, what it answers and what was found; with a promise on latency one that was run."""
    if problem.scenario.promises_latency:
        from planner.executor.run_question import RunQuestion  # the executor takes its time to load
        from planner.promises.verified import verified

        question = RunQuestion(N_REQUESTS if problem.is_plain else N_OF_PERIOD, most_requests=MOST_REQUESTS)
        found = verified(problem.scenario, question, data_dirs, time_limit_s, progress, is_patient=True)
        return found.plan, found.problem, found.solution
    solution = solved(problem, time_limit_s)
    return explained(problem, solution, time_limit_s), problem, solution


def _check_is_shown(scenario: Scenario) -> None:
    """Raises InputError where a report of many sites, models or periods is asked for runs."""
    if scenario.execution.report is not None:
        what = "asks for runs, which are reported of plans for one demand and one model only"
        raise InputError(scenario.problem(("execution", "report"), what, "`planner validate --period NAME`"))


def _shown(
    case: Case, scenario: Scenario, fronts: Sequence[Scenario], data_dirs: Sequence[Path], time_limit_s: float
) -> Case:
    """The case with the fronts and the sensitivity that its scenario asks for."""
    found = tuple(
        CaseFront(
            title=asked.title,
            set={key: str(value) for key, value in asked.set.items()},
            front=pareto_front(question, case.plan, asked.against, asked.points, data_dirs, time_limit_s),
        )
        for asked, question in zip(scenario.report.fronts, fronts, strict=True)
    )
    study = sensitivity(scenario, data_dirs, time_limit_s) if scenario.report.sensitivity else None
    return case.model_copy(update={"fronts": found, "sensitivity": study})


def _executed(
    problem: Problem,
    solution: Solution,
    plan: Plan,
    mean_length: Plan | None,
    data_dirs: Sequence[Path],
    progress: Progress,
) -> Executed | None:
    """The plan run, where the scenario asks for it."""
    asked = problem.scenario.execution.report
    if asked is None:
        return None
    from planner.studies.executed import executed_plan  # the executor takes its time to load

    by_paper = None if mean_length is None else mean_length.max_throughput_req_per_s
    rates = plan.max_throughput_req_per_s, by_paper
    return executed_plan(problem, solution, plan, rates, asked, data_dirs, progress)


def _curved(problem: Problem, solution: Solution) -> list[tuple[str, PoolSpec]]:
    """Prefill pools by what their curves are called: by name, or where there are many by what sets them apart.

    Of layouts to choose from, those that the plan uses.
    """
    if problem.is_plain:
        return [(pool.name, pool) for pool in problem.pools if pool.is_prefill]
    pools, sizes = problem.scenario.pools, zip(problem.pools, solution.largest_sizes, strict=True)
    return _apart(problem.scenario, [pool for pool, n in sizes if n or not pools[pool.key].layouts])


def _apart(scenario: Scenario, pools: Sequence[PoolSpec]) -> list[tuple[str, PoolSpec]]:
    """Prefill pools that differ in their times, by what they differ in: accelerators, models, sizes, or all else."""
    alike = {id(pool.rates): pool for pool in reversed(pools) if pool.is_prefill}
    found = [pool for pool in pools if alike.get(id(pool.rates)) is pool]
    models = {pool.key: scenario.profile_of(scenario.pools[pool.key].model).name for pool in found}
    sizes = {pool.key: scenario.pools[pool.key].accelerators_per_instance for pool in found}
    namings: tuple[Callable[[PoolSpec], str], ...] = (
        lambda pool: pool.hardware,
        lambda pool: f"{models[pool.key]} on {pool.hardware}",
        lambda pool: f"{models[pool.key]} on {sizes[pool.key]} x {pool.hardware}",
        lambda pool: f"{pool.name}, {pool.hardware}",
    )
    several = len(set(models.values())) > 1
    enough = (naming for naming in namings[several:] if len(set(map(naming, found))) == len(found))
    naming = next(enough, namings[-1])
    return [(naming(pool), pool) for pool in found]


def _mixes(problem: Problem) -> Mixes:
    return [(c.share, c.mix) for c in problem.classes]


def _with_rule(problem: Problem, rule: CapacityRule) -> Problem:
    return replace(problem, scenario=problem.scenario.model_copy(update={"capacity_rule": rule}))


def _planned(problem: Problem, time_limit_s: float) -> Plan | None:
    try:
        return optimized(problem, time_limit_s)
    except (InfeasibleError, UndecidedError):
        return None


def _compared(
    scenario: Scenario,
    variants: Mapping[str, Scenario],
    data_dirs: Sequence[Path],
    time_limit_s: float,
    progress: Progress,
) -> tuple[ComparedPlan, ...]:
    """Every variant's plan."""
    found: list[ComparedPlan] = []
    for name, variant in variants.items():
        progress(f"comparison {len(found) + 1} of {len(variants)}: {name}")
        found.append(_comparison(name, scenario.comparisons[name].title, variant, data_dirs, time_limit_s))
    return tuple(found)


def _comparison(
    name: str, title: str, variant: Scenario, data_dirs: Sequence[Path], time_limit_s: float
) -> ComparedPlan:
    """A variant's plan, or why there is none: also where a model does not even fit."""
    try:
        plan = optimize(variant, data_dirs, time_limit_s)
    except (InfeasibleError, UndecidedError) as error:
        return ComparedPlan(name=name, title=title, plan=None, failure=str(error))
    return ComparedPlan(name=name, title=title, plan=plan)


def _shortfall(problem: Problem, mean_length: Plan | None) -> float | None:
    """Fraction by which the sizes and threshold of the mean-length plan fall short of its rate under exact work."""
    if mean_length is None or mean_length.threshold_tokens is None or not problem.has_one_route:
        return None
    exact = _with_rule(problem, "expected-work")
    sizing = Sizing(
        tuple(mean_length.pool(pool.name).n_instances for pool in problem.pools),
        tuple(link.ports_by_tier for link in mean_length.links),
    )
    loads = threshold_loads(exact, exact.route, np.array([mean_length.threshold_tokens]))
    return 1 - highest_req_per_s(exact, sizing, loads) / mean_length.max_throughput_req_per_s


def length_profile(mixes: Mixes) -> LengthProfile:
    """The requests of all classes together, in figures; classes by their share."""
    parts = [mix.atoms(N_ATOMS) for _, mix in mixes]
    uncached = np.concatenate([p.total_tokens - p.cached_tokens for p in parts])
    weights = np.concatenate([p.weights * share for p, (share, _) in zip(parts, mixes, strict=True)])
    low, high = max(float(uncached.min()), 1.0), float(uncached.max())
    lengths = np.unique(np.geomspace(low, max(high, low), N_CURVE))
    order = np.argsort(uncached, kind="stable")
    below = np.searchsorted(uncached[order], lengths, side="right")
    cumulative = np.concatenate([[0.0], np.cumsum(weights[order])])[below]
    total = sum(share * mix.mean_total_tokens for share, mix in mixes)
    return LengthProfile(
        mean_total_tokens=total,
        mean_uncached_tokens=sum(share * mix.mean_uncached_tokens for share, mix in mixes),
        mean_output_tokens=sum(share * mix.mean_output_tokens for share, mix in mixes),
        cached_fraction=sum(share * mix.cached_fraction * mix.mean_total_tokens for share, mix in mixes) / total,
        quantiles_tokens={
            f"p{q}": float(weighted_quantile(uncached, weights, np.array(q / 100))) for q in (10, 50, 90, 99)
        },
        lengths_tokens=tuple(lengths.tolist()),
        cumulative_fraction=tuple(np.minimum(cumulative, 1.0).tolist()),
    )


def service_curve(scenario: Scenario, key: str, name: str, rates: InstanceRates, mixes: Mixes) -> ServiceCurve:
    """Prefill seconds and KV throughput of a pool's instances over the lengths that occur."""
    pool = scenario.pools[key]
    measured = measured_times(scenario, key, rates)
    if rates.prefill is None:
        raise ValueError("a prefill pool has no prefill times")
    longest = max(mix.atoms(N_ATOMS).total_tokens.max() for _, mix in mixes)
    shortest = max(min(mix.atoms(N_ATOMS).total_tokens.min() for _, mix in mixes), 1.0)
    tokens = np.unique(np.geomspace(shortest, max(longest, shortest + 1), N_CURVE))
    seconds = rates.prefill.curve(tokens)
    points = measured.prefill if measured else None
    return ServiceCurve(
        pool=name,
        hardware=scenario.hardware_of(pool).name,
        basis=rates.basis,
        source=citation(scenario, pool, measured.source) if measured else roofline_source(rates.stack),
        how=measured.how if measured else None,
        tokens=tuple(tokens.tolist()),
        prefill_s=tuple(seconds.tolist()),
        kv_gbps=tuple(gbps(1.0) * x for x in (rates.kv_bytes(tokens) / seconds).tolist()),
        measured_tokens=tuple(float(t) for t in points.tokens) if points else (),
        measured_s=points.seconds if points else (),
    )


def hours_of(problem: Problem, solution: Solution, factors: Sequence[float]) -> tuple[Hour, ...]:
    """A planned fleet at the demand of every hour, its sizes, ports and thresholds kept.

    Equation:
        lambda_h = factor_h lambda, everything else as planned; USD per token = USD per hour over that hour's tokens

    Args:
        problem: the resolved scenario, which states the demand of the busiest hour.
        solution: its plan.
        factors: demand of every hour over that demand [-].

    Returns:
        An hour for every factor, in order.

    Raises:
        ValueError: the scenario states no demand.
    """
    demand = problem.scenario.demand_req_per_s
    if demand is None:
        raise ValueError("hours are of a demand")
    return tuple(_hour(Planned(problem, solution).at(demand * factor)) for factor in factors)


def _hour(fleet: Fleet) -> Hour:
    used = {pool.name: pool.utilization for pool in fleet.pools if pool.n_instances}
    used |= {link.name: link.utilization for link in fleet.links if link.n_ports}
    return Hour(
        demand_req_per_s=fleet.throughput_req_per_s,
        utilization=used,
        ttft_mean_s=fleet.latency.ttft_mean_s,
        ttft_p90_s=fleet.latency.ttft_p90_s,
        usd_per_hour=fleet.cost.usd_per_hour,
        usd_per_million_input_tokens=fleet.cost.usd_per_million_input_tokens,
        usd_per_million_output_tokens=fleet.cost.usd_per_million_output_tokens,
    )
