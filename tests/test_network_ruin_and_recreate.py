"""Sizes of large plans on their way down: periods fit what the whole program says they fit, and nothing idle stays."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import UndecidedError
from planner.optimizer import planning_problem
from planner.optimizer.network import completion as completion_module
from planner.optimizer.network import decomposed_search as decomposed_module
from planner.optimizer.network import search as search_module
from planner.optimizer.network.cost import use_usd_per_hour
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PeriodArc
from planner.optimizer.network.loads import LINK_BUSY, NetworkLoads
from planner.optimizer.network.period_operation import classes_missing_slo, link_gbps
from planner.optimizer.network.period_subproblem import PeriodSubproblem, period_subproblem
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.relax_and_fix import RelaxAndFix
from planner.optimizer.network.relaxation import Relaxation, all_thresholds, relaxed_program, solved_relaxation
from planner.optimizer.network.ruin_and_recreate import (
    RuinAndRecreate,
    ThresholdOffers,
    is_separable_by_period,
    ruin_and_recreate,
)
from planner.optimizer.network.search import network_search, peak_situations
from planner.optimizer.network.search_state import SearchState
from planner.optimizer.network.shared_units import SharedUnits, Units, shared_units
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.sized import Sizing
from planner.optimizer.solution import Solution
from planner.scenario import LinkTier, Routing, Spare
from planner.work_clock import work_s
from tests.cpu_cost import cached
from tests.network_scenarios import scale_scenario

LIMIT_S = 60.0
FOREVER = float("inf")


ROLES = pytest.mark.parametrize("changing", [False, True], ids=["fixed", "changing"])


@cached
def problem_of_a_day(changing: bool = False) -> Problem:
    """With power by use, so that sizes are not all that costs."""
    problem = planning_problem(scale_scenario(1, n_hours=3, n_sites=2, n_kinds=2, n_models=1, conversion=changing))
    return replace(problem, pools=tuple(replace(p, busy_usd_per_hour=0.5 + i % 3) for i, p in enumerate(problem.pools)))


@cached
def shared(changing: bool = False) -> SharedUnits:
    return shared_units(problem_of_a_day(changing))


@cached
def relaxation(changing: bool = False) -> Relaxation:
    """A relaxed answer for the day, with every threshold."""
    problem = problem_of_a_day(changing)
    loads = NetworkLoads(problem, is_optimistic=True)
    day = [Situation(p) for p in range(len(problem.periods))]
    segments = {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}
    found = solved_relaxation(relaxed_program(loads, day, segments, all_thresholds(loads, day)), LIMIT_S)
    assert found is not None
    return found


@cached
def relax_and_fix(changing: bool = False) -> RelaxAndFix:
    """Limits that keep every promise."""
    problem = problem_of_a_day(changing)
    gbps = tuple(max(tier.capacity_gbps for tier in link.tiers) for link in problem.links)
    return RelaxAndFix(
        NetworkLoads(problem, gbps=gbps),
        relaxation(changing).arcs(),
        relaxation(changing).used_segments(),
        0.0,
        FOREVER,
    )


def descent(changing: bool = False) -> RuinAndRecreate:
    """Sizes from the look, at a few thresholds."""
    day = relaxation(changing)
    units = shared(changing).of_relaxation(day)
    return ruin_and_recreate(
        relax_and_fix(changing), ThresholdOffers(day.mixed_thresholds(), 2, (0.5,)), day.period_prices(), units, FOREVER
    )


def fractions(changing: bool) -> np.ndarray:
    """Units of the look, in parts."""
    sizes, ports = relaxation(changing).fractional_units()
    return np.concatenate([sizes / (shared(True).n_accelerators if changing else 1.0), ports])


def spec_of(period: int, changing: bool) -> ProgramSpec:
    """A period at a few thresholds, with sizes as ruin and recreate has them."""
    problem, found = problem_of_a_day(changing), relax_and_fix(changing)
    points = found.points(
        0, [*relaxation(changing).mixed_thresholds()[0, period], 4_000.0, 20_000.0], (0.25, 0.5, 0.75)
    )
    arcs = frozenset(PeriodArc(q, period, arc) for q, arc in found.arcs)
    sizes = found.segments if changing else {i: [(1, 1)] for i in range(len(problem.pools))}
    return ProgramSpec(found.loads, (Situation(period),), {(0, period): points}, sizes, True, arcs)


@cached
def fit(period: int, changing: bool = False) -> PeriodSubproblem:
    return period_subproblem(build(spec_of(period, changing)), shared(changing))


def fits_by_the_whole_program(period: int, units: Units, changing: bool) -> bool:
    """Whether the safe program with settled units has an answer."""
    spec, ports = spec_of(period, changing), shared(changing).ports(units)
    if changing:
        model = build(spec)
        for column, n in zip(
            [*model.bought_accelerators.values(), *(c for row in model.ports for c in row)], units, strict=True
        ):
            step = shared(True).n_accelerators[0] if column in model.bought_accelerators.values() else 1.0
            model.rows.lows[column] = model.rows.highs[column] = float(n) * step
        return model.rows.solved(LIMIT_S, 0.01) is not None
    n = tuple(int(m) for m in units[: shared().n_sizes])
    sizes = {i: [(max(m, 1), max(m, 1))] for i, m in enumerate(n)}
    # Long work among short work counts for as much as at the sizes that the period was built with.
    near_sizes = dict.fromkeys(sizes, 1)
    whole = build(replace(spec, segments=sizes, fixed=Sizing(n, ports), near_sizes=near_sizes))
    return whole.rows.solved(LIMIT_S, 0.01) is not None


@ROLES
@given(st.data())
def test_a_period_fits_units_when_the_whole_program_with_these_has_an_answer(
    changing: bool, data: st.DataObject
) -> None:
    period = data.draw(st.integers(0, 2))
    units = np.ceil(data.draw(st.floats(0.7, 1.5)) * fractions(changing)).astype(np.int64)
    units += np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(units), max_size=len(units))))
    units = np.minimum(units, shared(changing).most)
    assert (fit(period, changing).solution_at(units) is not None) == fits_by_the_whole_program(period, units, changing)


@ROLES
def test_what_a_period_adds_is_enough_and_no_one_or_two_units_of_less_rent_are(changing: bool) -> None:
    usd, period, most = shared(changing).usd, fit(1, changing), shared(changing).most
    units = ((0.8 if changing else 0.9) * fractions(changing)).astype(np.int64)
    assert period.solution_at(units) is None
    added, values = np.zeros_like(units), None
    # Pools that were empty have less room than their next sizes say.
    while period.solution_at(units + added, values) is None:
        found = period.cheapest_addition(units + added, most, values)
        assert found is not None
        more, values = found
        assert more.any()
        added = added + more
    assert period.solution_at(units + added) is not None
    rent, n_checked = float(usd @ added), 0
    for pair in product(range(len(units)), repeat=2):
        more = np.bincount(pair, minlength=len(units))
        if usd @ more < rent - 0.05 * rent and np.all(units + more <= most):
            n_checked += 1
            assert period.solution_at(units + more) is None
    assert n_checked > len(units)


@ROLES
def test_units_that_are_begun_with_fit_every_period_and_after_dropping_every_unit_is_needed(changing: bool) -> None:
    down = descent(changing)
    assert down.start_from(shared(changing).of_relaxation(relaxation(changing)))
    begun = down.cost
    down.drop_idle_units()
    assert down.cost <= begun
    for u in np.flatnonzero((down.units > 0) & (shared(changing).usd > 0)):
        less = down.units.copy()
        less[u] -= 1
        again = descent(changing)
        assert any(period.solution_at(less) is None for period in again.periods)


@ROLES
def test_the_cost_of_units_is_rent_and_use_and_detours_are_short_and_gone_back_from(changing: bool) -> None:
    problem, down, units = problem_of_a_day(changing), descent(changing), shared(changing)
    assert down.start_from(units.of_relaxation(relaxation(changing)))
    costs = [down.cost]
    for _ in range(30):
        before = min(costs)
        assert down.step() == (down.cost < before - 1e-6)
        assert down.cost <= (1 + SETTINGS.detour) * before + 1e-6
        costs.append(down.cost)
    down.restore_cheapest()
    assert down.cost == min(costs)
    operations = down.operations()
    use = sum(problem.weights[one.period] * use_usd_per_hour(problem, one) for one in operations)
    assert use > 0.0
    assert down.cost == pytest.approx(float(units.usd @ down.units) + use)
    needed = units.of_plan(operations, down.ports())
    assert np.all(needed <= down.units) if changing else np.array_equal(needed, down.units)
    assert classes_missing_slo(problem, operations, down.ports()) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"objective": "max-throughput", "budget_usd_per_hour": 300.0}, False),
        ({"spare": Spare(survive=("instance",))}, True),
        ({"spare": Spare(survive=("instance", "link"))}, False),
        ({"routing": Routing(thresholds="per-model", role_conversion=True)}, True),
        ({"budget_usd_per_hour": 1e6}, True),
    ],
    ids=["plain", "throughput", "spare", "links may fail", "roles", "budget"],
)
def test_what_periods_share_besides_sizes_is_noticed(changes: dict[str, object], expected: bool) -> None:
    scenario = scale_scenario(1, n_hours=2, n_sites=2, n_kinds=2, n_models=1).model_copy(update=changes)
    assert is_separable_by_period(planning_problem(scenario)) is expected


@pytest.mark.parametrize(("req_per_s", "expected"), [(1e5, False), (200.0, True)])
def test_a_large_search_tells_a_network_without_a_plan_from_one_with(req_per_s: float, expected: bool) -> None:
    scenario = scale_scenario(1, n_hours=2, n_sites=2, n_kinds=2, n_models=1)
    problem = planning_problem(scenario.model_copy(update={"demand_req_per_s": req_per_s}))
    segments = {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}
    peaks, loads = peak_situations(problem), NetworkLoads(problem, is_optimistic=True)
    state = SearchState(problem, peaks, {}, segments, [1.0] * len(problem.classes), loads, 0.1)
    assert decomposed_module.decomposed_search(state, LIMIT_S, work_s() + LIMIT_S) is expected
    assert (state.best is not None) is expected


def small_ports(req_per_s: float, smallest_gbps: float) -> Problem:
    """Two sites whose links have ports of two sizes, at one price per Gbps."""
    scenario = scale_scenario(1, n_hours=3, n_sites=2, n_kinds=2, n_models=1)
    problem = planning_problem(scenario.model_copy(update={"demand_req_per_s": req_per_s}))
    tiers = tuple(LinkTier(capacity_gbps=g, usd_per_hour=0.225 * g, max_ports=8) for g in (smallest_gbps, 100.0))
    return replace(problem, links=tuple(replace(link, tiers=tiers) for link in problem.links))


def test_a_link_with_little_traffic_gets_small_ports_if_they_keep_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small_ports(100.0, 10.0)
    monkeypatch.setattr(search_module, "SETTINGS", replace(SETTINGS, large_columns=0))
    found = network_search(problem, LIMIT_S, 0.015)
    assert found is not None
    gbps, sent = problem.gbps(found.ports), np.max([link_gbps(problem, one) for one in found.operations], axis=0)
    assert [there for there, most in zip(gbps, sent, strict=True) if most > 0] == [10.0]
    assert (sent <= LINK_BUSY * np.array(gbps) * (1 + 1e-9)).all()
    assert classes_missing_slo(problem, found.operations, found.ports) == []


@pytest.mark.parametrize(
    ("is_late_anyhow", "port_step", "slo_factors"),
    [(False, 1, 1.0), (True, 0, SETTINGS.slo_tightening)],
    ids=["ports", "waits"],
)
def test_a_broken_promise_asks_for_larger_ports_where_these_are_at_fault_and_else_for_shorter_waits(
    monkeypatch: pytest.MonkeyPatch, is_late_anyhow: bool, port_step: int, slo_factors: float
) -> None:
    problem, loads = problem_of_a_day(), NetworkLoads(problem_of_a_day(), is_optimistic=True)
    found = descent()
    assert found.start_from(shared().of_relaxation(relaxation()))
    all_ports = [[tier.max_ports for tier in link.tiers] for link in problem.links]

    def broken(_problem: Problem, _settled: object, ports: object) -> list[int]:
        return [0] if is_late_anyhow or ports != all_ports else []

    monkeypatch.setattr(completion_module, "classes_missing_slo", broken)
    monkeypatch.setattr(decomposed_module, "classes_missing_slo", broken)
    state = SearchState(problem, peak_situations(problem), {}, {}, [1.0] * len(problem.classes), loads, 0.1)
    least = decomposed_module._safe_loads(state, state.port_step).least_gbps
    assert not decomposed_module._meets_slo(state, found)
    assert (state.best, state.port_step, state.slo_factors[0]) == (None, port_step, slo_factors)
    assert decomposed_module._safe_loads(state, state.port_step).least_gbps == tuple(
        (10.0, 100.0)[port_step] for _ in problem.links
    )
    assert least == tuple(10.0 for _ in problem.links)
    # At the largest ports nothing is left but to wait less.
    state.port_step = 1
    state.slo_factors = [1.0] * len(problem.classes)
    assert not decomposed_module._meets_slo(state, found)
    assert (state.port_step, state.slo_factors[0]) == (1, SETTINGS.slo_tightening)
    # What the best plan does with is enough.
    state.best = Solution((), ((2, 0), (0, 0)), 1.0, 1.0, 1.0)
    assert decomposed_module._safe_loads(state, state.port_step).least_gbps == (20.0, 100.0)
    assert decomposed_module._safe_loads(state).opened_gbps == (100.0, 100.0)


@pytest.mark.parametrize(
    ("changing", "left_out"),
    [(False, "_first_plan"), (False, "_relax_and_fix"), (True, "_relax_and_fix")],
    ids=["dive", "begin", "roles"],
)
def test_either_way_to_a_plan_of_a_large_network_finds_one_above_the_bound(
    monkeypatch: pytest.MonkeyPatch, changing: bool, left_out: str
) -> None:
    problem = problem_of_a_day(changing)
    monkeypatch.setattr(search_module, "SETTINGS", replace(SETTINGS, large_columns=0))
    monkeypatch.setattr(decomposed_module, left_out, lambda *_: None)
    try:
        found = network_search(problem, LIMIT_S, 0.15)
    except UndecidedError:
        pytest.fail("no plan was found")
    assert found is not None
    assert found.bound <= found.objective <= 1.15 * found.bound
    assert classes_missing_slo(problem, found.operations, found.ports) == []
