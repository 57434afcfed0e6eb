"""Sensitivity of the decision to each input: planned again with every one changed, the stated plan held against it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from planner.comparison import Planned, best_fleet, posed_problem
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.notes import Note, note
from planner.optimizer.capacity import exact_loads
from planner.optimizer.colocated_layouts import scenario_as_run
from planner.optimizer.goodput import best_goodput, capacity_under_slo
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.routes import holds_prompts
from planner.optimizer.service_times import pool_stack
from planner.optimizer.single_route import RoutedSolution, most_of_sizes
from planner.optimizer.sized import sized_problem
from planner.optimizer.slo_attainment import FleetUnderSlo
from planner.optimizer.strategies import best_solution
from planner.profiles.stack import Band, Bands
from planner.progress import Progress
from planner.results.studies import InputSensitivity, Sensitivity, Variation
from planner.scenario import Pool, Scenario
from planner.schema import dotted
from planner.ties import SOLVED, largest_first
from planner.toml_lines import KeyPath
from planner.work_clock import work_s

FACTORS = (0.8, 0.9, 1.1, 1.2)
UNITS = {"max-throughput": "req/s", "min-cost": "USD/h", "min-ttft": "s"}


@dataclass(frozen=True)
class InputChange:
    """One input at another value."""

    label: str
    factor: float
    keys: Mapping[str, Any]
    """Keys of the scenario with their values then."""


@dataclass(frozen=True)
class Input:
    """Something that a scenario states and may be wrong about."""

    key: str
    title: str
    changes: tuple[InputChange, ...]


def sensitivity(
    scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0, progress: Progress = lambda _: None
) -> Sensitivity:
    """The decision with every input 10 and 20 % lower and higher, and at both ends of the predictor's band.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: limit of each single plan.
        progress: is told what is being planned.

    Returns:
        For each input the best sizes then, the objective, and what share of the demand the stated plan still serves
        when its sizes, ports and thresholds are kept; inputs that matter most first.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does, for the scenario itself.

    Valid:
        One input at a time. Of a network the sizes and ports are kept, and thresholds are chosen anew.
    """
    stated = best_fleet(scenario, data_dirs, time_limit_s)
    asked, notes = inputs(scenario)
    found = []
    for i, item in enumerate(asked):
        progress(f"{scenario.name}: {item.title} ({i + 1} of {len(asked)})")
        variations = tuple(_variation(scenario, stated, change, data_dirs, time_limit_s) for change in item.changes)
        found.append(InputSensitivity(key=item.key, title=item.title, variations=variations))
    return Sensitivity(
        objective=scenario.objective,
        unit=UNITS[scenario.objective],
        stated=stated.objective,
        n_instances=_sizes(stated),
        inputs=tuple(largest_first(found, lambda row: row.swing, SOLVED)),
        notes=tuple(notes),
    )


def _sizes(found: Planned) -> dict[str, int]:
    return {pool.name: pool.n_instances for pool in found.fleet.pools}


def _variation(
    scenario: Scenario, stated: Planned, change: InputChange, data_dirs: Sequence[Path], time_limit_s: float
) -> Variation:
    """The best plan with a change, and the stated one under it."""
    try:
        varied = scenario.varied(change.keys)
        found = best_fleet(varied, data_dirs, time_limit_s)
    except (InputError, InfeasibleError, UndecidedError):
        found = None
    sizes = None if found is None else _sizes(found)
    kept, retuned = _shares_served(scenario, change, stated, data_dirs, time_limit_s)
    return Variation(
        label=change.label,
        factor=change.factor,
        n_instances=sizes,
        objective=None if found is None else found.objective,
        objective_change=None if found is None else found.objective / stated.objective - 1,
        changes_fleet=_used(sizes) != _used(_sizes(stated)),
        kept_fraction=kept,
        retuned_fraction=retuned,
    )


def _shares_served(
    scenario: Scenario, change: InputChange, stated: Planned, data_dirs: Sequence[Path], time_limit_s: float
) -> tuple[float | None, float | None]:
    """Shares of the demand that the stated plan serves under a change, as it is and with new thresholds."""
    try:
        return _kept_fractions(scenario.varied(change.keys), stated, data_dirs, time_limit_s)
    except InfeasibleError:
        return 0.0, 0.0
    except (InputError, UndecidedError):
        return None, None


def _used(sizes: Mapping[str, int] | None) -> dict[str, int]:
    """Instances of the pools that are in use.

    >>> _used({"near": 2, "far": 0}), _used(None)
    ({'near': 2}, {})
    """
    return {name: n for name, n in (sizes or {}).items() if n}


def _kept_fractions(
    varied: Scenario, stated: Planned, data_dirs: Sequence[Path], time_limit_s: float
) -> tuple[float | None, float | None]:
    """Shares of the demand, else of the stated plan's rate, that its sizes serve as promised; None: unknown."""
    routed = stated.solution.routed
    if routed is None:
        share = _kept_of_network(posed_problem(scenario_as_run(varied, stated.fleet), data_dirs), stated, time_limit_s)
        return share, share
    problem = posed_problem(varied, data_dirs)
    if not problem.has_one_route:  # a pool no longer holds what it was sent
        return None, None
    problem = replace(problem, scenario=problem.scenario.model_copy(update={"budget_usd_per_hour": None}))
    wanted = problem.demand_req_per_s or stated.fleet.throughput_req_per_s
    kept = min(_kept_rate(problem, routed) / wanted, 1.0)
    if kept >= 1.0:
        return kept, kept
    return kept, max(min(_retuned_rate(problem, routed, time_limit_s) / wanted, 1.0), kept)


def _kept_rate(problem: Problem, solution: RoutedSolution) -> float:
    """The most that fixed sizes and thresholds serve, under the promise on TTFT if there is one [req/s].

    Nothing, where a pool cannot hold a prompt that a threshold sends there.
    """
    t = solution.threshold_tokens
    if not holds_prompts(problem, t):
        return 0.0
    if not _promises(problem):
        return highest_req_per_s(problem, solution.sizing, exact_loads(problem, t))
    most = capacity_under_slo(problem, solution.sizing, np.array([t]), np.array([t]))[0]
    return FleetUnderSlo(problem, solution.sizing).goodput_at(t, most)


def _retuned_rate(problem: Problem, solution: RoutedSolution, time_limit_s: float) -> float:
    """The most that fixed sizes serve with thresholds chosen anew, under the promise if there is one [req/s]."""
    if _promises(problem):
        return best_goodput(problem, solution.sizing, work_s() + time_limit_s).rate
    return most_of_sizes(problem, solution.sizing, solution)


def _promises(problem: Problem) -> bool:
    return any(c.ttft_s is not None for c in problem.classes)


def _kept_of_network(problem: Problem, stated: Planned, time_limit_s: float) -> float | None:
    """Share of its demand that a network serves with the sizes and ports of a plan; None where roles change."""
    if problem.has_sizes_by_period:
        return None
    sizes = zip(stated.problem.pools, stated.solution.operations[0].n_instances, strict=True)
    known = {(pool.key, pool.layout_option): n for pool, n in sizes}
    n_instances = [known.get((pool.key, pool.layout_option), 0) for pool in problem.pools]
    kept = sized_problem(problem, n_instances, stated.solution.ports)
    if not all(any(arcs.values()) for arcs in kept.arcs):
        return 0.0
    found = best_solution(kept, time_limit_s)
    return 0.0 if found is None else min(found.scale, 1.0)


def inputs(scenario: Scenario) -> tuple[list[Input], list[Note]]:
    """Everything that is varied, and why something is not."""
    notes: list[Note] = []
    found = [*_demand(scenario, notes), *_prices(scenario), *_links(scenario), *_pools(scenario)]
    found += [*_lengths(scenario, notes), *model_error(scenario, notes)]
    return found, notes


def _by_percents(key: str, title: str, keys: Callable[[float], Mapping[str, Any]]) -> Input:
    return Input(key, title, tuple(InputChange(percent_label(f), f, keys(f)) for f in FACTORS))


def percent_label(factor: float) -> str:
    """A factor as a change.

    >>> percent_label(0.9), percent_label(1.2)
    ('-10 %', '+20 %')
    """
    return f"{100 * (factor - 1):+.0f} %"


def _scaled(values: Mapping[KeyPath, float]) -> Callable[[float], dict[str, Any]]:
    return lambda factor: {dotted(key): value * factor for key, value in values.items()}


def _demand(scenario: Scenario, notes: list[Note]) -> Iterator[Input]:
    demand = scenario.demand_req_per_s
    if demand is None:
        notes.append(note("input-not-varied", "no demand is stated, so none is varied"))
    else:
        yield _by_percents("demand_req_per_s", "demand", _scaled({("demand_req_per_s",): demand}))


def _prices(scenario: Scenario) -> Iterator[Input]:
    for name, price in scenario.prices.items():
        fields = {"usd_per_accelerator_hour": price.usd_per_accelerator_hour, "purchase_usd": price.purchase_usd}
        values: dict[KeyPath, float] = {("prices", name, key): value for key, value in fields.items() if value}
        if values:
            yield _by_percents(dotted(("prices", name)), f"price of {name}", _scaled(values))
    for name, site in scenario.sites.items():
        if site.usd_per_kwh:
            key: KeyPath = ("sites", name, "usd_per_kwh")
            yield _by_percents(dotted(key), f"electricity at {name}", _scaled({key: site.usd_per_kwh}))


def _links(scenario: Scenario) -> Iterator[Input]:
    for name, link in scenario.links.items():
        tiers = [tier.model_dump(exclude_none=True) for tier in link.options()]
        if link.usd_per_gb or any(tier.get("usd_per_hour") for tier in tiers):
            keys = _link_keys(name, tiers, "usd_per_hour", link.usd_per_gb)
            yield _by_percents(f"links.{name}.usd_per_hour", f"price of {name}", keys)
        keys = _link_keys(name, tiers, "capacity_gbps", None)
        yield _by_percents(f"links.{name}.capacity_gbps", f"capacity of {name}", keys)


def _link_keys(
    name: str, tiers: Sequence[Mapping[str, Any]], what: str, usd_per_gb: float | None
) -> Callable[[float], dict[str, Any]]:
    """The ports on offer with their capacity, or all prices, scaled; a fixed capacity stays what it is otherwise."""

    def keys(factor: float) -> dict[str, Any]:
        scaled = [{**tier, what: tier[what] * factor} if what in tier else dict(tier) for tier in tiers]
        # One port of a fixed capacity is what an offer of that one size, which must be taken whole, comes to.
        changes: dict[str, Any] = {f"links.{name}.capacity_gbps": "free", f"links.{name}.tiers": scaled}
        return changes | ({f"links.{name}.usd_per_gb": usd_per_gb * factor} if usd_per_gb else {})

    return keys


def _pools(scenario: Scenario) -> Iterator[Input]:
    for name, pool in scenario.pools.items():
        key: KeyPath = ("pools", name, "time_factor")
        title = f"{'prefill' if pool.role == 'prefill' else 'decode step'} seconds of {name}"
        yield _by_percents(dotted(key), title, _scaled({key: pool.time_factor}))


def _lengths(scenario: Scenario, notes: list[Note]) -> Iterator[Input]:
    """Prompts and answers of all classes together; a trace has the lengths that it has."""
    workloads = {name: workload for name, (_, workload) in scenario.workloads.items()}
    if any(workload.trace is not None for workload in workloads.values()):
        notes.append(note("input-not-varied", "lengths of a trace are recorded, so they are not varied"))
        return
    for field, title in (("lengths", "prompt lengths"), ("output_lengths", "output lengths")):
        stated = {
            f"classes.{name}.workload.{field}" if scenario.classes else f"workload.{field}": getattr(
                workload, field
            ).model_dump(exclude_none=True)
            for name, workload in workloads.items()
        }

        def keys(factor: float, stated: Mapping[str, dict[str, Any]] = stated) -> dict[str, Any]:
            return {key: longer(lengths, factor) for key, lengths in stated.items()}

        yield _by_percents(field, title, keys)


def longer(lengths: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Lengths times a factor; a log-normal shifts its mu and keeps its ends.

    >>> longer({"kind": "constant", "tokens": 1000.0}, 1.1)["tokens"]
    1100.0
    """
    if lengths["kind"] == "lognormal":
        return {**lengths, "mu": lengths["mu"] + log(factor)}
    if lengths["kind"] == "mixture":
        parts = [{**part, "lengths": longer(part["lengths"], factor)} for part in lengths["components"]]
        return {**lengths, "components": parts}
    if lengths["kind"] == "constant":
        return {**lengths, "tokens": round(max(lengths["tokens"] * factor, 1.0), 9)}
    key = "edges" if lengths["kind"] == "histogram" else "tokens"
    # Edges that would all be 1 token stay apart.
    least = [1.0 + (key == "edges") * 1e-6 * i for i in range(len(lengths[key]))]
    return {**lengths, key: [max(t * factor, low) for t, low in zip(lengths[key], least, strict=True)]}


def model_error(scenario: Scenario, notes: list[Note]) -> Iterator[Input]:
    """Both ends of the predictor's 90 % band, at once in every pool whose times are the roofline's."""
    bands = {name: band for name, pool in scenario.pools.items() if (band := _band(scenario, pool)) is not None}
    unknown = [name for name, pool in scenario.pools.items() if _is_predicted(scenario, pool) and name not in bands]
    if unknown:
        notes.append(
            note(
                "error-band-unknown",
                f"the error of predicted times is unknown for {', '.join(unknown)}: no band of their stack",
            )
        )
    if not bands:
        if not unknown:
            notes.append(
                note(
                    "error-band-unknown",
                    "no pool is timed by the roofline, so there is no error of the predictor to vary",
                )
            )
        return
    changes = []
    for end, label in (("low", "5 % quantile"), ("high", "95 % quantile")):
        factors = {name: getattr(band, end) for name, band in bands.items()}
        keys = {f"pools.{name}.time_factor": f * scenario.pools[name].time_factor for name, f in factors.items()}
        changes.append(InputChange(label, float(np.mean(list(factors.values()))), keys))
    yield Input("model-error", f"error of the predictor ({', '.join(bands)})", tuple(changes))


def _band(scenario: Scenario, pool: Pool) -> Band | None:
    """Measured over predicted seconds in nine of ten cases; None where the times are not a calibrated roofline's."""
    if not _is_predicted(scenario, pool):
        return None
    hardware = scenario.hardware_of(pool)
    found = pool_stack(scenario, pool).calibration
    if found is None:
        return None
    low, high = found.n_accelerators
    known = hardware.name in found.hardware and low <= pool.accelerators_per_instance <= high
    near, far = (_of_role(bands, pool.role) for bands in (found.model_bands, found.hardware_bands))
    return near if known else far or near


def _of_role(bands: Bands, role: str) -> Band | None:
    """The band of a role; of a colocated pool the one that holds those of both."""
    found = [one for name in ("prefill", "decode") if (one := getattr(bands, name)) and role in (name, "colocated")]
    if not found or (role == "colocated" and len(found) < 2):
        return None
    return Band(low=min(one.low for one in found), high=max(one.high for one in found), n=min(one.n for one in found))


def _is_predicted(scenario: Scenario, pool: Pool) -> bool:
    """True if a pool's seconds are the roofline's."""
    return pool.service_times != "measured" and scenario.measured_for(pool) is None
