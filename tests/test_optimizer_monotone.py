"""A tighter promise, a higher demand or a higher price never costs less; a larger budget never serves less.

Bounds and plans prove one another: the bound of the easier question lies below every plan of the harder one, exactly;
plans may be out of order by what both searches say they left open, and small instances are left with nothing open.
"""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.search import network_search
from planner.optimizer.single_route import CAPACITY_GAP as GAP_TARGET
from planner.optimizer.single_route import SLO_GAP as GOODPUT_GAP
from planner.scenario import Scenario
from tests.builders import FAST, GPUS, HOME, Draw, search, small_with

TOLERANCE = 2e-6
"""The solver's, once for either search."""
SEEDS = st.integers(0, 10_000)
Changes = dict[str, Any]


class Answer(NamedTuple):
    """What a search says; costs are high and rates are 0 where it proves that there is no plan."""

    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """What the search left open [fraction]; inf where it found no plan and excluded none."""
        if self.bound == self.objective:
            return 0.0
        return abs(self.bound - self.objective) / self.objective if 0 < self.objective < inf else inf


Search = Callable[[Scenario], Answer]


def answer_of(scenario: Scenario, search_of: Callable[[Scenario], Any]) -> Answer:
    nothing, unknown = (inf, 0.0) if scenario.objective == "min-cost" else (0.0, inf)
    try:
        found = search_of(scenario)
    except InfeasibleError:
        return Answer(nothing, nothing)
    except UndecidedError:
        return Answer(nothing, unknown)
    return Answer(found.objective, found.bound) if found else Answer(nothing, nothing)


def planned(scenario: Scenario) -> Answer:
    return answer_of(scenario, lambda scenario: search(planning_problem(scenario)))


def planned_as_network(scenario: Scenario) -> Answer:
    return answer_of(scenario, lambda scenario: network_search(planning_problem(scenario), 20.0, gap=GAP_TARGET))


def is_at_most(low: float, high: float, open_fraction: float = 0.0) -> bool:
    return low <= high or low * (1 - TOLERANCE - open_fraction) <= high


def check_costs_no_less(easy: Answer, hard: Answer) -> None:
    assert is_at_most(easy.bound, hard.objective), "a plan of the harder question beats the bound of the easier one"
    assert is_at_most(easy.bound, hard.bound, hard.gap)
    assert is_at_most(easy.objective, hard.objective, easy.gap + hard.gap)


def check_serves_no_more(easy: Answer, hard: Answer) -> None:
    assert is_at_most(hard.objective, easy.bound), "a plan of the harder question beats the bound of the easier one"
    assert is_at_most(hard.bound, easy.bound, hard.gap)
    assert is_at_most(hard.objective, easy.objective, easy.gap + hard.gap)


def compared(search_of: Search, easy: Changes, hard: Changes, gap: float) -> None:
    """Hold two questions of which the second is harder against one another."""
    answers = [search_of(small_with(changes)) for changes in (easy, hard)]
    check = check_costs_no_less if easy.get("objective") == "min-cost" else check_serves_no_more
    check(*answers)
    assert max(answer.gap for answer in answers) <= gap * (1 + TOLERANCE)


# By capacity alone


def priced_question(seed: int, objective: str) -> tuple[Draw, Changes]:
    draw = Draw(np.random.default_rng(seed))
    changes = draw.question("constant", "empirical")
    for name in (FAST, HOME):
        changes[f"prices.{name}.usd_per_accelerator_hour"] = float(10 ** draw.rng.uniform(-0.5, 1))
    if draw.rng.random() < 0.5:
        changes |= draw.tiers()
    if draw.rng.random() < 0.5:
        changes |= draw.power()
    if objective == "min-cost":
        changes |= {"objective": objective, "demand_req_per_s": float(10 ** draw.rng.uniform(-2, 0.2))}
    return draw, changes


PRICES = {
    "fast": f"prices.{FAST}.usd_per_accelerator_hour",
    "home": f"prices.{HOME}.usd_per_accelerator_hour",
    "port": "links.wan.usd_per_hour",
    "traffic": "links.wan.usd_per_gb",
    "power": "sites.remote.usd_per_kwh",
}
"""Keys of what is paid for."""


def dearer(changes: Changes, what: str, factor: float) -> Changes:
    """The question with one price higher; one that is 0 becomes positive."""
    if what == "port" and "links.wan.tiers" in changes:
        tiers = [{**tier, "usd_per_hour": factor * tier["usd_per_hour"]} for tier in changes["links.wan.tiers"]]
        return changes | {"links.wan.tiers": tiers}
    old = changes.get(PRICES[what], 0.0)
    return changes | {PRICES[what]: factor * old if old else factor - 1}


@given(seed=SEEDS, factor=st.floats(1.0, 3.0))
def test_a_higher_demand_never_costs_less_nor_lowers_the_bound(seed: int, factor: float) -> None:
    _, easy = priced_question(seed, "min-cost")
    compared(planned, easy, easy | {"demand_req_per_s": factor * easy["demand_req_per_s"]}, GAP_TARGET)


@pytest.mark.parametrize("what", PRICES)
@settings(max_examples=15)
@given(seed=SEEDS, factor=st.floats(1.0, 3.0))
def test_a_higher_price_never_costs_less_nor_lowers_the_bound(seed: int, factor: float, what: str) -> None:
    _, easy = priced_question(seed, "min-cost")
    compared(planned, easy, dearer(easy, what, factor), GAP_TARGET)


@pytest.mark.parametrize("what", PRICES)
@settings(max_examples=10)
@given(seed=SEEDS, factor=st.floats(1.0, 3.0), budget=st.floats(40.0, 300.0))
def test_a_higher_price_never_serves_more_of_a_budget(seed: int, factor: float, budget: float, what: str) -> None:
    _, easy = priced_question(seed, "max-throughput")
    easy["budget_usd_per_hour"] = budget
    compared(planned, easy, dearer(easy, what, factor), GAP_TARGET)


@given(seed=SEEDS, budget=st.floats(20.0, 300.0), extra=st.floats(0.0, 200.0))
def test_a_larger_budget_never_lowers_the_rate_nor_the_bound(seed: int, budget: float, extra: float) -> None:
    _, hard = priced_question(seed, "max-throughput")
    hard["budget_usd_per_hour"] = budget
    compared(planned, hard | {"budget_usd_per_hour": budget + extra}, hard, GAP_TARGET)


@given(
    seed=SEEDS,
    step_ms=st.floats(5.0, 60.0),
    factor=st.floats(0.3, 1.0),
    objective=st.sampled_from(["max-throughput", "min-cost"]),
)
def test_a_shorter_decode_step_never_comes_cheaper_nor_serves_more(
    seed: int, step_ms: float, factor: float, objective: str
) -> None:
    """The batch is chosen by the roofline: the largest that keeps the step."""
    _, changes = priced_question(seed, objective)
    changes["pools.decode.service_times"] = "roofline"
    easy, hard = (changes | {"slo": {"tpot_ms": limit}} for limit in (step_ms, factor * step_ms))
    compared(planned, easy, hard, GAP_TARGET)


# Under a promise on TTFT


@st.composite
def promised_question(draw: st.DrawFn, objective: str) -> Changes:
    """Two or three lengths, a handful of instances and a promise that binds."""
    n = draw(st.integers(1, 3))
    tokens = draw(st.lists(st.integers(500, 30_000), min_size=n, max_size=n, unique=True))
    changes: Changes = {
        "workload.lengths": {"kind": "empirical", "tokens": tokens},
        "slo": {"ttft_s": draw(st.floats(1.0, 12.0)), "ttft_percentile": draw(st.sampled_from([50.0, 90.0, 99.0]))},
        "links.wan.capacity_gbps": draw(st.sampled_from([10.0, 100.0])),
        f"sites.remote.accelerators.{FAST}": GPUS * draw(st.integers(1, 2)),
        f"sites.local.accelerators.{HOME}": GPUS * draw(st.integers(2, 4)),
    }
    if objective == "min-cost":
        changes |= {"objective": objective, "demand_req_per_s": draw(st.floats(0.05, 1.5))}
    return changes


def tighter(changes: Changes, factor: float) -> Changes:
    return changes | {"slo": {**changes["slo"], "ttft_s": factor * changes["slo"]["ttft_s"]}}


PRICED: Changes = {PRICES["fast"]: 4.0, PRICES["home"]: 2.0, PRICES["port"]: 20.0}
"""Prices of the small scenario."""
FACTORS = st.floats(1.0, 3.0)
TERMS = ("promise", "demand", *PRICES)
"""What may get harder in a question of least cost."""


def harder(easy: Changes, how: str, factor: float) -> Changes:
    if how == "promise":
        return tighter(easy, 1 / factor)
    if how == "demand":
        return easy | {"demand_req_per_s": factor * easy["demand_req_per_s"]}
    return dearer(PRICED | easy, how, factor)


@pytest.mark.parametrize("how", TERMS)
@settings(max_examples=5)
@given(easy=promised_question("min-cost"), factor=FACTORS)
def test_a_promise_kept_under_harder_terms_never_costs_less(easy: Changes, factor: float, how: str) -> None:
    """Where use is charged, the bound does not know which thresholds the promise rules out, and may stay open."""
    compared(planned, easy, harder(easy, how, factor), inf if how in ("traffic", "power") else GOODPUT_GAP)


@settings(max_examples=5)
@given(easy=promised_question("max-throughput"), factor=FACTORS)
def test_a_shorter_promise_never_raises_goodput(easy: Changes, factor: float) -> None:
    compared(planned, easy, tighter(easy, 1 / factor), GOODPUT_GAP)


@settings(max_examples=10)
@given(hard=promised_question("max-throughput"), budget=st.floats(60.0, 160.0), extra=st.floats(0.0, 100.0))
def test_a_larger_budget_never_lowers_goodput_nor_its_bound(hard: Changes, budget: float, extra: float) -> None:
    hard = hard | {"budget_usd_per_hour": budget}
    compared(planned, hard | {"budget_usd_per_hour": budget + extra}, hard, GOODPUT_GAP)


def test_a_promise_leaves_the_choice_of_the_cheapest_threshold_where_traffic_is_charged() -> None:
    """The threshold of the highest goodput sends more over the link than the demand needs."""
    changes: Changes = {
        "workload.lengths": {"kind": "empirical", "tokens": [1822, 2302, 2314]},
        "slo": {"ttft_s": 8.0},
        "links.wan.usd_per_gb": 0.05,
        "objective": "min-cost",
        "demand_req_per_s": 1.4,
    }
    found = planned(small_with(changes))
    free = planned(small_with(changes | {"links.wan.usd_per_gb": 0.0}))
    assert free.objective <= found.objective <= 80.0


# Many periods


@st.composite
def network_question(draw: st.DrawFn, objective: str, *, promise: bool) -> Changes:
    """Two sites, two or three periods, one or three lengths."""
    tokens = draw(st.lists(st.integers(500, 30_000), min_size=1, max_size=3, unique=True).filter(lambda x: len(x) != 2))
    periods = [draw(st.floats(0.1, 1.0)) for _ in range(draw(st.integers(2, 3)))]
    changes: Changes = PRICED | {
        "workload.lengths": {"kind": "empirical", "tokens": tokens},
        "periods": {f"p{i}": {"demand": demand, "hours": 8} for i, demand in enumerate(periods)},
        "links.wan.capacity_gbps": draw(st.sampled_from([10.0, 100.0])),
        "demand_req_per_s": draw(st.floats(0.05, 1.5)),
        f"sites.remote.accelerators.{FAST}": GPUS * draw(st.integers(1, 2)),
        f"sites.local.accelerators.{HOME}": GPUS * draw(st.integers(2, 4)),
    }
    if promise:
        changes["slo"] = {"ttft_s": draw(st.floats(2.0, 12.0))}
    return changes | ({"objective": objective} if objective == "min-cost" else {})


def test_the_bound_of_a_network_is_no_higher_than_a_plan_of_the_same_network_with_dearer_accelerators() -> None:
    """Two prefill instances and one that decodes, 48 USD/h, serve all; the dearer pool has no part in it."""
    changes: Changes = PRICED | {
        "workload.lengths": {"kind": "empirical", "tokens": [500, 501, 23857]},
        "periods": {"p0": {"demand": 1.0, "hours": 8}, "p1": {"demand": 1.0, "hours": 8}},
        "links.wan.capacity_gbps": 100.0,
        f"sites.remote.accelerators.{FAST}": GPUS,
        f"sites.local.accelerators.{HOME}": 3 * GPUS,
        "objective": "min-cost",
        "demand_req_per_s": 0.5,
    }
    dear = planned_as_network(small_with(dearer(changes, "fast", 2.0)))
    assert dear == (48.0, 48.0)
    assert planned_as_network(small_with(changes)).bound <= dear.objective


@pytest.mark.parametrize("how", TERMS[1:])
@settings(max_examples=8)
@given(easy=network_question("min-cost", promise=False), factor=FACTORS)
def test_a_network_under_harder_terms_never_costs_less(easy: Changes, factor: float, how: str) -> None:
    compared(planned_as_network, easy, harder(easy, how, factor), GAP_TARGET)


@settings(max_examples=12)
@given(
    hard=network_question("max-throughput", promise=False), budget=st.floats(60.0, 160.0), extra=st.floats(0.0, 100.0)
)
def test_a_larger_budget_never_lowers_the_scale_of_a_network(hard: Changes, budget: float, extra: float) -> None:
    hard = hard | {"budget_usd_per_hour": budget}
    compared(planned_as_network, hard | {"budget_usd_per_hour": budget + extra}, hard, GAP_TARGET)


@settings(max_examples=8)
@given(changes=network_question("min-cost", promise=False), step_ms=st.floats(10.0, 60.0), factor=FACTORS)
def test_a_shorter_decode_step_never_comes_cheaper_in_a_network(
    changes: Changes, step_ms: float, factor: float
) -> None:
    changes = changes | {"pools.decode.service_times": "roofline"}
    easy, hard = (changes | {"slo": {"tpot_ms": limit}} for limit in (step_ms, step_ms / factor))
    compared(planned_as_network, easy, hard, GAP_TARGET)


@pytest.mark.parametrize("how", TERMS)
@settings(max_examples=4)
@given(easy=network_question("min-cost", promise=True), factor=FACTORS)
def test_a_network_with_a_promise_under_harder_terms_never_costs_less(easy: Changes, factor: float, how: str) -> None:
    """Bounds count with shorter waits than plans, so an instance more or less may stay open."""
    compared(planned_as_network, easy, harder(easy, how, factor), inf)


@settings(max_examples=4)
@given(easy=network_question("max-throughput", promise=True), budget=st.floats(60.0, 160.0), factor=FACTORS)
def test_a_network_with_a_shorter_promise_or_a_smaller_budget_never_serves_more(
    easy: Changes, budget: float, factor: float
) -> None:
    easy = easy | {"budget_usd_per_hour": budget}
    compared(planned_as_network, easy, tighter(easy, 1 / factor), inf)
    compared(planned_as_network, easy, easy | {"budget_usd_per_hour": budget / factor}, inf)
