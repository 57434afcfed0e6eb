"""A case: the plan of a scenario, its variants and everything they are held against."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer import PlanningProblem, optimized, planning_problem
from planner.optimizer.capacity import threshold_loads
from planner.optimizer.evaluate import highest_rate
from planner.optimizer.formulation import Sizing
from planner.profiles import MeasuredInstance
from planner.results import Case, ComparedPlan, LengthProfile, Plan, ServiceCurve, SourceNote
from planner.scenario import CapacityRule, Pool, Price, Scenario, Site
from planner.studies.claims import claim_results
from planner.studies.price_ratios import price_ratios
from planner.units import gbps, number
from planner.workload import weighted_quantile

N_CURVE = 81
N_ATOMS = 2048
OTHER_RULE: dict[CapacityRule, CapacityRule] = {"mean-length": "expected-work", "expected-work": "mean-length"}


def build_case(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0) -> Case:
    """Plan a scenario, its variant under the other capacity rule and its comparisons.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: limit of each single plan.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does, for the scenario itself.
    """
    variants = {name: scenario.compared(name) for name in scenario.comparisons}  # first: a slip is told at once
    problem = planning_problem(scenario, data_dirs)
    plan = optimized(problem, time_limit_s)
    other = _planned(_with_rule(problem, OTHER_RULE[scenario.capacity_rule]), time_limit_s)
    compared = tuple(
        _comparison(name, scenario.comparisons[name].title, planning_problem(variant, data_dirs), time_limit_s)
        for name, variant in variants.items()
    )
    plans = {"plan": plan, scenario.capacity_rule: plan, OTHER_RULE[scenario.capacity_rule]: other}
    plans |= {variant.name: variant.plan for variant in compared}
    return Case(
        name=scenario.name,
        title=scenario.title or scenario.name,
        notes=scenario.notes,
        plan=plan,
        other_rule=other,
        rule_shortfall=_shortfall(problem, plan if scenario.capacity_rule == "mean-length" else other),
        requests=length_profile(problem),
        curves=tuple(service_curve(problem, i) for i, pool in enumerate(problem.pools) if pool.role == "prefill"),
        comparisons=compared,
        claims=claim_results(scenario.claims, plans, scenario.name),
        price_ratios=price_ratios(problem, plan),
        inputs=tuple(_inputs(problem)),
        sources=scenario.sources,
    )


def _with_rule(problem: PlanningProblem, rule: CapacityRule) -> PlanningProblem:
    return replace(problem, scenario=problem.scenario.model_copy(update={"capacity_rule": rule}))


def _planned(problem: PlanningProblem, time_limit_s: float) -> Plan | None:
    try:
        return optimized(problem, time_limit_s)
    except (InfeasibleError, UndecidedError):
        return None


def _comparison(name: str, title: str, problem: PlanningProblem, time_limit_s: float) -> ComparedPlan:
    try:
        plan = optimized(problem, time_limit_s)
    except (InfeasibleError, UndecidedError) as error:
        return ComparedPlan(name=name, title=title, plan=None, failure=str(error))
    return ComparedPlan(name=name, title=title, plan=plan)


def _shortfall(problem: PlanningProblem, mean_length: Plan | None) -> float | None:
    """How far the sizes and threshold of the mean-length plan fall short of its rate under exact work."""
    if mean_length is None or mean_length.threshold_tokens is None or len(problem.routes) != 1:
        return None
    exact = _with_rule(problem, "expected-work")
    sizing = Sizing(
        tuple(mean_length.pool(pool.name).n_instances for pool in problem.pools),
        tuple(link.ports_by_tier for link in mean_length.links),
    )
    loads = threshold_loads(exact, exact.routes[0], np.array([mean_length.threshold_tokens]))
    return 1 - highest_rate(exact, sizing, [loads]).rate / mean_length.max_throughput_req_per_s


def length_profile(problem: PlanningProblem) -> LengthProfile:
    """The requests of all classes together, in figures."""
    parts = [c.mix.atoms(N_ATOMS) for c in problem.classes]
    uncached = np.concatenate([p.total_tokens - p.cached_tokens for p in parts])
    weights = np.concatenate([p.weights * c.share for p, c in zip(parts, problem.classes, strict=True)])
    low, high = max(float(uncached.min()), 1.0), float(uncached.max())
    lengths = np.unique(np.geomspace(low, max(high, low), N_CURVE))
    order = np.argsort(uncached, kind="stable")
    below = np.searchsorted(uncached[order], lengths, side="right")
    cumulative = np.concatenate([[0.0], np.cumsum(weights[order])])[below]
    total = sum(c.share * c.mix.mean_total_tokens for c in problem.classes)
    return LengthProfile(
        mean_total_tokens=total,
        mean_uncached_tokens=sum(c.share * c.mix.mean_uncached_tokens for c in problem.classes),
        mean_output_tokens=sum(c.share * c.mix.mean_output_tokens for c in problem.classes),
        cached_fraction=sum(c.share * c.mix.cached_fraction * c.mix.mean_total_tokens for c in problem.classes) / total,
        quantiles_tokens={
            f"p{q}": float(weighted_quantile(uncached, weights, np.array(q / 100))) for q in (10, 50, 90, 99)
        },
        lengths_tokens=tuple(lengths.tolist()),
        cumulative_fraction=tuple(np.minimum(cumulative, 1.0).tolist()),
    )


def service_curve(problem: PlanningProblem, index: int) -> ServiceCurve:
    """Prefill seconds and KV throughput of a pool's instances over the lengths that occur."""
    pool, scenario = problem.pools[index], problem.scenario
    measured = measured_times(problem, pool.name)
    if pool.rates.prefill is None:
        raise ValueError("a prefill pool has no prefill times")
    longest = max(c.mix.atoms(N_ATOMS).total_tokens.max() for c in problem.classes)
    shortest = max(min(c.mix.atoms(N_ATOMS).total_tokens.min() for c in problem.classes), 1.0)
    tokens = np.unique(np.geomspace(shortest, max(longest, shortest + 1), N_CURVE))
    seconds = pool.rates.prefill.curve(tokens)
    points = measured.prefill if measured else None
    return ServiceCurve(
        pool=pool.name,
        hardware=pool.hardware,
        basis=pool.rates.basis,
        source=citation(scenario, scenario.pools[pool.name], measured.source)
        if measured
        else roofline_source(pool.rates.stack),
        how=measured.how if measured else None,
        tokens=tuple(tokens.tolist()),
        prefill_s=tuple(seconds.tolist()),
        kv_gbps=tuple(gbps(1.0) * x for x in (pool.rates.kv_bytes(tokens) / seconds).tolist()),
        measured_tokens=tuple(float(t) for t in points.tokens) if points else (),
        measured_s=points.seconds if points else (),
    )


def measured_times(problem: PlanningProblem, name: str) -> MeasuredInstance | None:
    """The figures that a pool's service times come from; None where it is the roofline."""
    scenario, spec = problem.scenario, next(pool for pool in problem.pools if pool.name == name)
    if spec.rates.stack is not None:
        return None
    pool = scenario.pools[name]
    return scenario.measured_instance(scenario.hardware_of(pool), spec.n_accelerators, pool.role, pool.model)


def roofline_source(stack: str | None) -> str:
    """What to say of service times that follow from shapes, datasheets and a stack's factors."""
    return f"roofline of shapes and datasheets with the factors of {stack}"


def citation(scenario: Scenario, pool: Pool, source: str) -> str:
    """The text of a source id of the profile of a pool's model; other text stands for itself."""
    return scenario.profile_of(pool.model).sources.get(source, source)


def price_words(price: Price) -> str:
    """A price as it was stated.

    >>> price_words(Price(usd_per_accelerator_hour=2.5, basis="quoted", source="a cloud"))
    '2.5 USD per accelerator-hour'
    """
    if price.purchase_usd is None:
        return f"{price.hourly_usd:g} USD per accelerator-hour"
    return f"{price.purchase_usd:g} USD each over {price.amortized_years:g} years, {number(price.hourly_usd)} USD/h"


def draw_words(site: Site) -> str:
    """The draw of a site's accelerators as it was stated.

    >>> draw_words(Site(draw_fraction=1.2, idle_draw_fraction=0.3))
    '1.2 of the TDP at work and 0.3 idle'
    """
    busy = f"{site.draw_fraction:g} of the TDP"
    return busy if site.idle_draw_fraction is None else f"{busy} at work and {site.idle_draw_fraction:g} idle"


def _inputs(problem: PlanningProblem) -> list[SourceNote]:
    """Every measured instance, price and link price that went in."""
    scenario = problem.scenario
    notes = []
    for name, pool in scenario.pools.items():
        n, hardware = pool.accelerators_per_instance, scenario.hardware_of(pool)
        what = f"{pool.role} of {name}, {n} x {hardware.name}"
        if measured := measured_times(problem, name):
            how = (measured.decode.how if pool.role == "decode" and measured.decode else None) or measured.how
            source = citation(scenario, pool, measured.source) + (f": {how}" if how else "")
            notes.append(SourceNote(what=what, basis=measured.basis, source=source))
        else:
            rates = next(spec.rates for spec in problem.pools if spec.name == name)
            notes.append(SourceNote(what=what, basis=rates.basis, source=roofline_source(rates.stack)))
    for name, price in scenario.prices.items():
        what = f"price of {name}: {price_words(price)}"
        notes.append(SourceNote(what=what, basis=price.basis, source=price.source))
    for name, site in scenario.sites.items():
        if site.usd_per_kwh:
            what = f"power at {name}: {site.usd_per_kwh:g} USD/kWh, PUE {site.pue:g}, {draw_words(site)}"
            basis = "quoted" if site.power_source else "assumed"
            notes.append(SourceNote(what=what, basis=basis, source=site.power_source or "the scenario"))
    for name, link in scenario.links.items():
        if link.source:
            notes.append(SourceNote(what=f"price of {name}", basis=link.basis, source=link.source))
    return list(dict.fromkeys(notes))
