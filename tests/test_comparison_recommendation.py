"""The kind of serving that is recommended: that of every outcome that the bounds allow, and what follows from it."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.comparison import optimize
from planner.comparison.margins import ALTERNATIVES, WORTHWHILE, value_of
from planner.comparison.recommendation import SIMPLEST_FIRST, MeritBounds, best_kinds
from planner.results.fleet_merit import does_the_same
from planner.results.plan import Serving
from planner.scenario import Scenario
from tests.builders import small_with
from tests.serving_mixes import Mix, asked

RATE, COST = small_with({}), small_with({"objective": "min-cost", "demand_req_per_s": 2.0})
VALUES = st.floats(min_value=0.5, max_value=2.0)


def outcome(scenario: Scenario, merits: dict[Serving, float]) -> Serving:
    """What is best where all is known: a kind takes the place of a simpler one if it gains more than one per cent."""
    best: Serving | None = None
    for kind in (kind for kind in SIMPLEST_FIRST if kind in merits):
        theirs = merits[best or kind]
        gain = merits[kind] / theirs - 1 if scenario is RATE else 1 - theirs / merits[kind]  # one over bills
        if best is None or gain > WORTHWHILE:
            best = kind
    assert best is not None
    return best


@given(
    kinds=st.sets(st.sampled_from(SIMPLEST_FIRST), min_size=1),
    reached=st.tuples(VALUES, VALUES, VALUES),
    gaps=st.tuples(*[st.sampled_from([0.0, 0.005, 0.05, 0.4])] * 3),
    scenario=st.sampled_from([RATE, COST]),
)
def test_no_outcome_that_the_bounds_allow_is_left_out(
    kinds: set[Serving], reached: tuple[float, ...], gaps: tuple[float, ...], scenario: Scenario
) -> None:
    ends = {k: (x, x * (1 + g)) for k, x, g in zip(SIMPLEST_FIRST, reached, gaps, strict=True) if k in kinds}
    found = best_kinds(scenario, {kind: MeritBounds(*both) for kind, both in ends.items()})
    seen = {outcome(scenario, dict(zip(ends, values, strict=True))) for values in product(*ends.values())}
    assert seen <= found <= set(ends)
    if not any(gap for kind, gap in zip(SIMPLEST_FIRST, gaps, strict=True) if kind in kinds):
        assert found == seen


CASES = {
    "a rate": {},
    "a bill": {"objective": "min-cost", "demand_req_per_s": 2.0},
    "a dear line": {"objective": "min-cost", "demand_req_per_s": 2.0, "links.wan.usd_per_hour": 900},
    "much stock": {"sites.local.accelerators.h200-sxm": 400, "budget_usd_per_hour": 600.0},
    "little stock": {"sites.local.accelerators.h200-sxm": 40, "budget_usd_per_hour": 600.0},
    "bursts": {"slo.ttft_s": 30.0, "execution.arrivals": {"kind": "gamma", "squared_cv": 4.0}},
    "even arrivals": {"slo.ttft_s": 30.0, "execution.arrivals": {"kind": "gamma", "squared_cv": 0.5}},
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_all_that_a_verdict_says_follows_from_its_recommendation(case: str) -> None:
    said = optimize(small_with(CASES[case])).verdict
    apart = said.disaggregation
    assert said.worth_it is (said.recommendation == "separate-sites")
    assert said.decided or said.recommendation is None
    assert apart is not None
    if said.recommendation is not None:
        assert apart.decided
        assert apart.worth_it is (said.recommendation != "colocated")
    if said.worth_it:
        assert apart.worth_it
    for because, is_known in ((said.because, said.decided), (apart.because, apart.decided)):
        assert because.startswith("Not decided") is not is_known, because


@pytest.mark.parametrize(
    "mix",
    [
        Mix(1, "separate", "one", "always", "none"),
        Mix(1, "colocated", "models", "always", "none"),
        Mix(1, "both", "one", "always", "none"),
        Mix(2, "separate", "models", "always", "none"),
    ],
    ids=lambda mix: "-".join(map(str, mix)),
)
def test_the_recommended_kind_is_that_of_the_cheapest_fleet_that_can_be_had(mix: Mix) -> None:
    scenario = asked(mix)
    plan = optimize(scenario, (), 20.0)
    beside = (o for o in plan.baselines if o.name in ALTERNATIVES and not o.beyond_stock)
    best: dict[Serving, float] = {}
    for fleet in (plan, *(other for other in beside if does_the_same(scenario.objective, plan, other))):
        usd = value_of(scenario, fleet)
        assert usd is not None
        best[fleet.serving] = min(best.get(fleet.serving, usd), usd)
    assert len(best) > 1
    assert plan.verdict.recommendation is not None
    assert best[plan.verdict.recommendation] <= min(best.values()) / (1 - WORTHWHILE)
