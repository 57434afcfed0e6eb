"""Sizes of large plans on their way down: periods fit what the whole program says they fit, and nothing idle stays."""

from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from time import monotonic

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import UndecidedError
from planner.optimizer.network import large_search as large_room
from planner.optimizer.network import search as search_room
from planner.optimizer.network.cost import use_usd_per_hour
from planner.optimizer.network.descent import Descent, Offers, begun_from, descent_of, is_settled_by_period, units_of
from planner.optimizer.network.dive import Dive
from planner.optimizer.network.evaluate import broken_classes
from planner.optimizer.network.formulation import build
from planner.optimizer.network.large import Look, answered, asked, every
from planner.optimizer.network.loads import OPTIMISTIC_WAITS, Cell, NetworkLoads
from planner.optimizer.network.model import Question
from planner.optimizer.network.period_fit import PeriodFit, Units
from planner.optimizer.network.problem import NetworkProblem, Situation, network_problem
from planner.optimizer.network.search import network_search, peak_situations
from planner.optimizer.network.solution import SearchState
from planner.scenario import Routing, Spare
from tests.network_scenarios import scale_scenario

LIMIT_S = 60.0
FOREVER = float("inf")


@cache
def problem_of_a_day() -> NetworkProblem:
    """With power by use, so that sizes are not all that costs."""
    problem = network_problem(scale_scenario(1, n_hours=3, n_sites=2, n_kinds=2, n_models=1))
    return replace(problem, pools=tuple(replace(p, busy_usd_per_hour=0.5 + i % 3) for i, p in enumerate(problem.pools)))


@cache
def look() -> Look:
    """A relaxed answer for the day, with every threshold."""
    problem = problem_of_a_day()
    loads = NetworkLoads(problem, OPTIMISTIC_WAITS)
    day = [Situation(p) for p in range(len(problem.periods))]
    segments = {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}
    found = answered(asked(loads, day, segments, every(loads, day)), LIMIT_S)
    assert found is not None
    return found


@cache
def safe_loads() -> NetworkLoads:
    problem = problem_of_a_day()
    gbps = tuple(max(tier.capacity_gbps for tier in link.tiers) for link in problem.links)
    return NetworkLoads(problem, 1.0, (), gbps)


def descent() -> Descent:
    """Sizes from the look, at a few thresholds."""
    units, dive = begun_from(look()), Dive(safe_loads(), look().ways(), {}, 0.0, FOREVER)
    return descent_of(dive, Offers(look().leanings(), 2, (0.5,)), look().worth(), units, FOREVER)


def offered(period: int) -> dict[tuple[int, int], list[Cell]]:
    dive = Dive(safe_loads(), look().ways(), {}, 0.0, FOREVER)
    ends = look().leanings()[0, period]
    return {(0, period): dive.points(0, [*ends, 4_000.0, 20_000.0], (0.25, 0.5, 0.75))}


def prices(problem: NetworkProblem) -> np.ndarray:
    tiers = [tier for link in problem.links for tier in link.tiers]
    return np.array([*(p.usd_per_hour or 0.0 for p in problem.pools), *(t.usd_per_hour or 0.0 for t in tiers)])


@cache
def fit(period: int) -> PeriodFit:
    problem, ways = problem_of_a_day(), look().ways()
    arcs = frozenset((q, period, arc) for q, arc in ways)
    sizes = {i: [(1, 1)] for i in range(len(problem.pools))}
    question = Question(safe_loads(), (Situation(period),), offered(period), sizes, True, arcs)
    return PeriodFit(build(question), prices(problem))


def fits_by_the_whole_program(period: int, units: Units) -> bool:
    """Whether the safe program with settled sizes and ports has an answer."""
    problem, ways = problem_of_a_day(), look().ways()
    n, left = tuple(int(m) for m in units[: len(problem.pools)]), iter(units[len(problem.pools) :])
    ports = tuple(tuple(int(next(left)) for _ in link.tiers) for link in problem.links)
    arcs = frozenset((q, period, arc) for q, arc in ways)
    sizes = {i: [(max(m, 1), max(m, 1))] for i, m in enumerate(n)}
    question = Question(safe_loads(), (Situation(period),), offered(period), sizes, True, arcs, fixed=(n, ports))
    return build(question).rows.solved(LIMIT_S, 0.01) is not None


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_period_fits_sizes_when_the_whole_program_with_these_sizes_has_an_answer(data: st.DataObject) -> None:
    period = data.draw(st.integers(0, 2))
    share = data.draw(st.floats(0.7, 1.5))
    units = np.ceil(share * np.concatenate(look().fractions())).astype(np.int64)
    units += np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(units), max_size=len(units))))
    units = np.minimum(units, limits())
    assert (fit(period).fits(units) is not None) == fits_by_the_whole_program(period, units)


def limits() -> Units:
    problem = problem_of_a_day()
    tiers = [tier for link in problem.links for tier in link.tiers]
    return np.array([*(pool.max_instances for pool in problem.pools), *(tier.max_ports for tier in tiers)])


def test_what_a_period_adds_is_enough_and_no_one_or_two_units_of_less_rent_are() -> None:
    usd, period = prices(problem_of_a_day()), 1
    units = (0.9 * np.concatenate(look().fractions())).astype(np.int64)
    assert fit(period).fits(units) is None
    added = fit(period).added(units, limits())
    assert added is not None
    assert fit(period).fits(units + added) is not None
    rent, n_checked = float(usd @ added), 0
    for pair in product(range(len(units)), repeat=2):
        more = np.bincount(pair, minlength=len(units))
        if usd @ more < rent - 0.05 * rent and np.all(units + more <= limits()):
            n_checked += 1
            assert fit(period).fits(units + more) is None
    assert n_checked > len(units)


def test_sizes_that_are_begun_with_fit_every_period_and_after_dropping_every_unit_is_needed() -> None:
    problem, down = problem_of_a_day(), descent()
    assert down.begun(begun_from(look()))
    begun = down.cost
    down.dropped()
    assert down.cost <= begun
    for u in np.flatnonzero((down.units > 0) & (prices(problem) > 0)):
        less = down.units.copy()
        less[u] -= 1
        again = descent()
        assert any(period.fits(less) is None for period in again.periods)


def test_the_cost_of_sizes_is_rent_and_use_and_changes_only_lower_it() -> None:
    problem, down = problem_of_a_day(), descent()
    assert down.begun(begun_from(look()))
    costs = [down.cost]
    for _ in range(30):
        down.changed()
        costs.append(down.cost)
    assert all(after <= before for before, after in pairwise(costs))
    settled = down.settled()
    use = sum(problem.weights[one.period] * use_usd_per_hour(problem, one) for one in settled)
    assert use > 0.0
    assert down.cost == pytest.approx(float(prices(problem) @ units_of(settled[0], down.ports())) + use)
    assert broken_classes(problem, settled, down.ports()) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"objective": "max-throughput", "budget_usd_per_hour": 300.0}, False),
        ({"spare": Spare(survive=("instance",))}, False),
        ({"routing": Routing(thresholds="per-model", role_conversion=True)}, False),
        ({"budget_usd_per_hour": 1e6}, False),
    ],
    ids=["plain", "throughput", "spare", "roles", "budget"],
)
def test_what_periods_share_besides_sizes_is_noticed(changes: dict[str, object], expected: bool) -> None:
    scenario = scale_scenario(1, n_hours=2, n_sites=2, n_kinds=2, n_models=1).model_copy(update=changes)
    assert is_settled_by_period(network_problem(scenario)) is expected


@pytest.mark.parametrize(("req_per_s", "expected"), [(1e5, False), (200.0, True)])
def test_a_large_search_tells_a_network_without_a_plan_from_one_with(req_per_s: float, expected: bool) -> None:
    scenario = scale_scenario(1, n_hours=2, n_sites=2, n_kinds=2, n_models=1)
    problem = network_problem(scenario.model_copy(update={"demand_req_per_s": req_per_s}))
    segments = {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}
    peaks, loads = peak_situations(problem), NetworkLoads(problem, OPTIMISTIC_WAITS)
    state = SearchState(problem, peaks, {}, segments, [1.0] * len(problem.classes), loads, 0.1)
    assert large_room.large_search(state, LIMIT_S, monotonic() + LIMIT_S) is expected
    assert (state.best is not None) is expected


@pytest.mark.parametrize("left_out", ["_begin", "_dive"])
def test_either_way_to_a_plan_of_a_large_network_finds_one_above_the_bound(
    monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    problem = problem_of_a_day()
    monkeypatch.setattr(search_room, "LARGE", 0)
    monkeypatch.setattr(large_room, left_out, lambda *_: None)
    try:
        found = network_search(problem, LIMIT_S, 0.15)
    except UndecidedError:
        pytest.fail("no plan was found")
    assert found is not None
    assert found.bound <= found.objective <= 1.15 * found.bound
    assert broken_classes(problem, found.settled, found.ports) == []
