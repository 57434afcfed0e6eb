"""One site: the verdict says what it costs, what binds and what at hand is cheaper; no opponent is the plan itself."""

import json
import shlex
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import pytest

from planner.comparison import best_fleet, optimize
from planner.comparison.alternative_hardware import BEST_OF_EACH, is_same_fleet
from planner.comparison.margins import COLOCATED
from planner.comparison.one_site import adoption, one_site_text, worth_listing
from planner.optimizer.layout_choice import planning_problem
from planner.report.phrases import compared_ttft, status
from planner.report.tables import answer_rows
from planner.results.plan import Baseline, Fleet, Plan
from planner.scenario import Scenario, load_scenario, read_scenario
from planner.scenario.overrides import parsed_override
from tests.builders import POOLS_HERE, small_with
from tests.cpu_cost import cached
from tests.deploy_cases import UNPRICED, two_pools

ONE = (
    """
schema = "planner.scenario/1"
name = "one"
objective = "min-cost"
demand_req_per_s = 4

[model]
profile = "qwen3-32b"

[workload]
lengths = { kind = "lognormal", mu = 8.0, sigma = 1.0, low_tokens = 128, high_tokens = 4096 }
output_lengths = { kind = "constant", tokens = 200 }

[sites.here]

"""
    + POOLS_HERE
    + """
[prices]
h200-sxm = { usd_per_accelerator_hour = 3.0, basis = "assumed", source = "a test" }
h20-141gb = { usd_per_accelerator_hour = 1.4, basis = "assumed", source = "a test" }
"""
)


def one(changes: dict[str, Any] | None = None) -> Scenario:
    return load_scenario(ONE, "one.toml", Path()).varied(changes or {})


@cached
def _planned(changes: str) -> Plan:
    return optimize(one(json.loads(changes)))


def planned(changes: Mapping[str, Any] | None = None) -> Plan:
    """The plan of the question with keys changed, found once."""
    return _planned(json.dumps(changes or {}, sort_keys=True))


def asked(changes: dict[str, Any], sets: Sequence[str]) -> Scenario:
    """The question with keys changed, and more of them as `--set` takes them."""
    return one(changes).varied({".".join(map(str, key)): value for key, value in map(parsed_override, sets)})


def cheapest(plan: Plan) -> float:
    return min(other.cost.usd_per_hour or 0.0 for other in apart(plan))


def apart(plan: Plan) -> list[Baseline]:
    """Fleets of prefill and decode pools beside a plan: its verdict on what can be changed is about these."""
    return [other for other in plan.baselines if other.name not in COLOCATED]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"slo.ttft_s": 2.0},
        {"pools.decode.hardware": "h20-141gb"},
        {"objective": "max-throughput", "budget_usd_per_hour": 150.0},
        {"periods": {"day": {"demand": 2.0}, "night": {}}},
    ],
)
def test_a_verdict_on_one_site_says_its_cost_what_binds_and_no_word_of_another_site(changes: dict[str, Any]) -> None:
    plan = planned(changes)
    said = plan.verdict.because
    assert not plan.verdict.worth_it
    assert "second site" not in said
    assert "another site" not in said
    assert plan.cost.usd_per_hour is not None
    assert f"cost {plan.cost.usd_per_hour:,.2f} USD/h" in said
    assert "What binds is " in said or "No load binds" in said
    assert "heaper" in said


def test_what_is_said_to_be_cheaper_is_what_that_question_is_answered_with() -> None:
    plan = planned()
    assert "Cheaper would be: " in plan.verdict.because
    for other in apart(plan):
        changes: dict[str, Any] = {}
        for pool in other.pools:
            key = f"pools.{pool.name}"
            changes |= {f"{key}.hardware": pool.hardware, f"{key}.layout": pool.layout}
            changes |= {f"{key}.accelerators_per_instance": pool.accelerators_per_instance}
        found = best_fleet(one(changes | {"model.stack": plan.pools[0].stack})).fleet
        assert is_same_fleet(found, other), other.name
        assert found.cost == other.cost
        assert found.max_throughput_req_per_s >= 4
    assert f"{cheapest(plan):,.2f} USD/h" in plan.verdict.because


def test_nothing_is_said_to_be_cheaper_where_nothing_is() -> None:
    stated = {"pools.prefill.accelerators_per_instance": 1, "pools.decode.accelerators_per_instance": 1}
    dear = {"prices.h20-141gb.usd_per_accelerator_hour": 3.5}
    plan = planned(stated | dear)
    assert plan.cost.usd_per_hour is not None
    assert all((other.cost.usd_per_hour or 0) >= plan.cost.usd_per_hour for other in apart(plan))
    assert "Cheaper would be" not in plan.verdict.because


def test_a_kind_without_a_price_is_not_at_hand() -> None:
    changes = {"prices": {"h200-sxm": {"usd_per_accelerator_hour": 3.0, "basis": "assumed", "source": "a test"}}}
    plan = planned(changes)
    assert {pool.hardware for other in plan.baselines for pool in other.pools} == {"h200-sxm"}


def test_a_site_whose_pools_are_all_measured_and_stated_so_has_nothing_to_compare_with() -> None:
    plan = optimize(
        read_scenario("not-worth-it", ["pools.pd-p.service_times=measured", "pools.pd-d.service_times=measured"])
    )
    assert apart(plan) == []
    assert "could be planned to compare with" in plan.verdict.because


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"slo.ttft_s": 2.0},
        {"demand_req_per_s": 11.0},
        {"pools.decode.layouts": ["tp=8", "tp=4,dp=2"]},
        {"pools.decode.layout": "tp=8", "pools.prefill.n_instances": 2, "pools.decode.max_instances": 3},
        {"model.profile": "deepseek-v3", "model.precision": "fp8"},
        {"periods": {"day": {"demand": 2.0}, "night": {}}},
    ],
)
def test_the_changes_of_another_fleet_make_it_the_plan(changes: dict[str, Any]) -> None:
    plan = planned(changes)
    told = [other for other in plan.baselines if other.changes]
    assert told
    for other in told:
        fleet = best_fleet(asked(changes, other.changes)).fleet
        assert is_same_fleet(fleet, other), other.name
        assert fleet.cost == other.cost


@pytest.mark.parametrize(
    "price", [{}, {"prices.h20-141gb.usd_per_accelerator_hour": 0.6}, {"pools.prefill.accelerators_per_instance": 2}]
)
def test_a_note_adopts_the_fleet_that_the_verdict_says_is_cheaper_at_that_cost(price: dict[str, Any]) -> None:
    plan = planned(price)
    assert "Cheaper would be: " in plan.verdict.because
    (note,) = [note for note in plan.notes if " the plan is that fleet: " in note]
    words = shlex.split(note.removeprefix("with ").partition(" the plan is ")[0])
    assert set(words[::2]) == {"--set"}
    cost = best_fleet(asked(price, words[1::2])).fleet.cost.usd_per_hour
    assert cost == cheapest(plan)
    assert f", {cost:,.2f} USD/h, " in plan.verdict.because
    assert status(plan).startswith("optimal for the kinds and layouts that the pools state: ")


def test_a_fleet_that_serves_more_for_the_same_bill_is_said_to() -> None:
    plan = planned()
    (other,) = [o for o in plan.baselines if o.changes][:1]
    more = other.model_copy(
        update={
            "cost": plan.cost,
            "pools": other.pools,
            "max_throughput_req_per_s": 1.7 * plan.max_throughput_req_per_s,
        }
    )
    requests = {c.name: (c.share, c.mix) for c in planning_problem(one()).classes}
    said = one_site_text(one(), requests, plan, [more])
    assert "not cheaper" not in said
    assert f"for the same bill {more.title} serves {1.7 * plan.most_req_per_s:.3g} req/s" in said
    assert f"instead of {plan.most_req_per_s:.3g}" in said
    assert next(adoption(one(), plan, [more])).startswith("with --set ")


@cached
def judged_by(objective: str) -> Scenario:
    return one({"objective": objective, "demand_req_per_s": None if objective == "max-throughput" else 4.0})


FLEETS = [*product((80.0, 100.0, 125.0), (3.0, 4.0, 4.5, 6.0))]
"""Bills [USD/h] and highest rates [1/s] around those of the plan."""


@pytest.mark.parametrize("objective", ["min-cost", "max-throughput"])
def test_the_fleet_that_is_named_is_the_best_of_those_that_serve_enough(objective: str) -> None:
    """By the hour where the demand is stated, by the request where the rate is sought; of one price the faster."""
    is_sought, ours, most, least = objective == "max-throughput", 100.0, 4.5, 4.0
    rates = {"throughput_req_per_s": least, "max_throughput_req_per_s": most}
    plan = two_pools(cost=UNPRICED.model_copy(update={"usd_per_hour": ours}), **rates)
    fleets = [_beside(plan, *one) for one in FLEETS]
    for chosen in [*combinations(range(len(FLEETS)), 1), *permutations(range(len(FLEETS)), 2)]:
        enough = [i for i in chosen if is_sought or FLEETS[i][1] >= least]
        said = one_site_text(judged_by(objective), {}, plan, [fleets[i] for i in chosen])
        if not enough:
            assert "could be planned to compare with" in said
            continue
        price, slower, best = min(
            (round(FLEETS[i][0] / (FLEETS[i][1] if is_sought else 1), 9), -FLEETS[i][1], i) for i in enough
        )
        name = fleets[best].title
        if price < 0.99 * (ours / most if is_sought else ours):
            assert f"Cheaper would be: {name}, " in said
        elif not is_sought and price <= ours and -slower > 1.01 * most:
            assert f"for the same bill {name} serves {-slower:.3g} req/s" in said
        else:
            stated = f"{1000 * price / 3600:.4g} USD per thousand requests" if is_sought else f"{price:,.2f} USD/h"
            assert f"{name}, {stated}." in said
            assert ("The only other fleet" in said) == (len(enough) == 1)


def _beside(plan: Plan, usd_per_hour: float, req_per_s: float) -> Baseline:
    """The plan under another name, of another bill and another highest rate."""
    cost = UNPRICED.model_copy(update={"usd_per_hour": usd_per_hour})
    changed = {"cost": cost, "max_throughput_req_per_s": req_per_s}
    fleet = {name: getattr(plan, name) for name in Fleet.model_fields} | changed
    return Baseline(name="other", title=f"fleet {usd_per_hour:g} {req_per_s:g}", ratio=1.0, **fleet)


def listed(names: dict[str, tuple[float, int]]) -> list[str]:
    """Names that are worth listing of fleets with a bill and instances of prefill."""
    plan = planned()
    base = next(other for other in plan.baselines if other.changes)
    others = []
    for name, (usd, n) in names.items():
        pools = (base.pools[0].model_copy(update={"n_instances": n}), *base.pools[1:])
        cost = base.cost.model_copy(update={"usd_per_hour": usd})
        others.append(base.model_copy(update={"name": name, "cost": cost, "pools": pools}))
    return [other.name for other in worth_listing(one(), others)]


@pytest.mark.parametrize(
    ("usd", "n", "is_listed"), [(9.0, 3, True), (10.0, 3, False), (10.5, 3, False), (12.5, 3, False), (10.0, 1, False)]
)
def test_all_changes_together_are_listed_only_where_they_beat_each_alone(usd: float, n: int, is_listed: bool) -> None:
    names = listed({"one": (10.0, 1), "two": (12.0, 2), BEST_OF_EACH: (usd, n)})
    assert names == ["one", "two", *([BEST_OF_EACH] if is_listed else [])]


@pytest.mark.parametrize("changes", [{}, {"demand_req_per_s": 1.0}, {"pools.decode.hardware": "h20-141gb"}])
def test_no_two_rows_are_of_the_same_fleet(changes: dict[str, Any]) -> None:
    others = planned(changes).baselines
    assert not any(is_same_fleet(a, b) for a, b in combinations(others, 2))


@pytest.mark.parametrize("changes", [{}, {"slo.ttft_s": 2.0}, {"periods": {"day": {"demand": 2.0}, "night": {}}}])
def test_a_plan_of_one_site_has_no_word_of_links_thresholds_or_itself(changes: dict[str, Any]) -> None:
    plan = planned(changes)
    assert not {"threshold", "link"} & dict(answer_rows(plan)).keys()
    assert "threshold" not in status(plan)
    assert not any("plan itself" in note for note in plan.notes)
    two = optimize(small_with({}))
    assert {"threshold", "link"} <= dict(answer_rows(two)).keys()


@pytest.mark.parametrize("percentile", [50.0, 99.0])
def test_fleets_are_compared_under_the_demand_at_the_promised_percentile(percentile: float) -> None:
    plan = planned({"slo.ttft_s": 3.0, "slo.ttft_percentile": percentile})
    waits, name, found = compared_ttft(plan)
    assert (waits, name) == ("under load, at 4.00 req/s", f"P{percentile:.0f}")
    expected = [
        (f.latency.ttft_mean_s, getattr(f.latency, f"ttft_p{percentile:.0f}_s")) for f in (plan, *plan.baselines)
    ]
    assert found == expected


def test_fleets_at_rates_of_their_own_are_compared_without_waiting() -> None:
    plan = planned({"objective": "max-throughput", "budget_usd_per_hour": 150.0, "demand_req_per_s": None})
    waits, _, found = compared_ttft(plan)
    assert waits == "without waiting"
    assert found[0] == (plan.latency.ttft_unloaded_mean_s, plan.latency.ttft_unloaded_p90_s)


@pytest.mark.parametrize("limit_ms", [None, 1000.0, 14.0, 18.0])
def test_what_binds_says_what_limits_the_batches_of_decode(limit_ms: float | None) -> None:
    long = {"workload.lengths.high_tokens": 16_384, "workload.output_lengths.tokens": 2000}
    changes = {"demand_req_per_s": 36.0, **long}
    free = planned(changes).pool("decode").batch_limit
    plan = planned(changes | ({"pools.decode.tpot_ms": limit_ms} if limit_ms else {}))
    batch = plan.pool("decode").batch_limit
    assert free is not None
    assert batch is not None
    limit = "memory" if batch == free else f"the step of {limit_ms:g} ms"
    assert "What binds is decode: " in plan.verdict.because
    assert f"; its batches of {batch:,} are limited by {limit}." in plan.verdict.because


@pytest.mark.parametrize("demand", [1.0, 9.0, 17.0])
def test_what_binds_says_why_a_pool_that_is_not_full_is_the_limit(demand: float) -> None:
    for changes in ({}, {"slo.ttft_s": 2.0}):
        plan = planned({"demand_req_per_s": demand} | changes)
        busiest = max(plan.pools, key=lambda pool: pool.utilization)
        n = busiest.n_instances
        one_less = n > 1 and busiest.capacity_req_per_s * (n - 1) / n < busiest.offered_req_per_s
        assert ("one less would be over its capacity" in plan.verdict.because) is one_less
        kept = f"the promise on TTFT holds up to {plan.most_req_per_s:.3g} req/s only"
        is_told = bool(changes) and not one_less and "What binds" in plan.verdict.because
        assert (kept in plan.verdict.because) is is_told


@pytest.mark.parametrize(("demand", "far"), [(0.2, 4.0), (1.0, 0.5), (1.0, 40.0), (3.0, 4.0)])
def test_no_fleet_is_compared_with_itself(demand: float, far: float) -> None:
    keys = {"objective": "min-cost", "demand_req_per_s": demand}
    for changes in ({}, {"periods": {"day": {}, "night": {"demand": 0.5}}}):
        plan = optimize(small_with({**keys, **changes, "prices.h100-sxm.usd_per_accelerator_hour": far}))
        assert not any(is_same_fleet(plan, other) for other in plan.baselines)
        sends = any(link.mean_gbps > 0 for link in plan.links)
        left_out = next((note for note in plan.notes if "that is the plan itself" in note), "")
        is_far_cheap = (demand, far) in {(3.0, 4.0), (1.0, 0.5)}
        assert sends is is_far_cheap
        if not is_far_cheap:
            assert left_out
        for other in plan.baselines:
            assert f"{other.name}," not in left_out
