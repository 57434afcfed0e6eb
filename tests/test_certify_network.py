"""Plans of many sites, models and periods, certified period by period."""

import json
from typing import Any

import pytest
from rich.console import Console

from planner.comparison import Planned, optimize, sketched
from planner.comparison import solved as plan_of
from planner.errors import CheckFailedError, InfeasibleError, InputError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.promises.certify import certified_plan
from planner.promises.period_results import binding_periods
from planner.report.certified_tables import certified_tables
from planner.report.terminal import PRINT_WIDTH
from planner.results.certified import Promise
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from planner.scenario import Scenario
from tests.builders import BOTH_WAYS, FAST, GPUS, HOME, sketch, small_with
from tests.cpu_cost import cached

OUTPUT = {"kind": "constant", "tokens": 500}


def lengths(mu: float) -> dict[str, Any]:
    return {"kind": "lognormal", "mu": mu, "sigma": 1.0, "low_tokens": 128, "high_tokens": 65_536}


def request_class(share: float, mu: float, ttft_s: float) -> dict[str, Any]:
    workload = {"lengths": lengths(mu), "output_lengths": OUTPUT}
    return {"share": share, "sites": {"local": 1.0}, "slo": {"ttft_s": ttft_s}, "workload": workload}


ONE = {"workload": {"lengths": lengths(9.0), "output_lengths": OUTPUT}}
TWO = {
    "workload": None,
    "classes": {"chat": request_class(0.6, 8.5, 2.9), "docs": request_class(0.4, 9.3, 12.0)},
}
SIZED: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 3.0,
    "pools.fast.n_instances": 4,
    "pools.near.n_instances": 3,
    "pools.decode.n_instances": 5,
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "periods": {"night": {"hours": 12.0, "demand": 0.25}, "noon": {"hours": 12.0}},
}
SLOW = [{"kind": "slow", "pool": "decode", "instance": i, "at_s": 0.0, "slowdown": 3.0} for i in range(5)]
QUESTION = RunQuestion(24_000, 1, most_requests=192_000)
LIMIT_S = 20.0
PATIENT_S = 300.0


def question(of: dict[str, Any], **changes: Any) -> Scenario:
    return small_with({**SIZED, **of, **{key.replace("__", "."): value for key, value in changes.items()}})


@cached
def disciplined() -> tuple[Scenario, Plan]:
    """Two classes under a discipline that waits are not known for."""
    scenario = question(TWO, dispatch="round-robin", demand_req_per_s=2.4)
    return scenario, certified_plan(scenario, RunQuestion(40_000, 1), time_limit_s=LIMIT_S)


@cached
def held() -> Plan:
    return certified_plan(question(ONE, slo={"ttft_s": 5.0}), QUESTION, time_limit_s=LIMIT_S)


def test_a_plan_that_holds_as_asked_is_run_in_every_period_and_the_busiest_first() -> None:
    found = held().certified
    assert found is not None
    assert found.is_as_asked
    assert found.periods == ("noon", "night")
    assert {(p.period, p.metric) for p in found.promises} == {
        (period, metric) for period in ("noon", "night") for metric in ("throughput_req_per_s", "ttft_p90_s")
    }
    assert all(p.holds for p in found.promises)
    assert [p.limit for p in found.promises if p.metric == "throughput_req_per_s"] == pytest.approx([3.0, 0.75])
    assert held().classes[0].slo == {"ttft_s": 5.0, "ttft_percentile": 90.0}
    assert [p.name for p in held().periods] == ["night", "noon"]


def test_the_class_that_breaks_its_promise_is_tightened_until_a_run_of_another_seed_keeps_it() -> None:
    scenario, plan = disciplined()
    found = plan.certified
    assert found is not None
    first, last = found.rounds[0], found.rounds[found.chosen]
    assert first.broken == ("noon chat ttft_p90_s",)
    assert first.ttft_by_class_s == {"chat": 2.9, "docs": 12.0}
    assert last.ttft_by_class_s["chat"] < 2.9
    assert last.ttft_by_class_s["docs"] == 12.0
    assert not last.broken
    assert {p.request_class for p in found.promises} == {None, "chat", "docs"}
    assert {p.limit for p in found.promises if p.request_class == "chat"} == {2.9}
    run, _ = simulate(scenario, plan, RunQuestion(60_000, 77, 1.0), period="noon")
    late = {c.name: c.ttft_promised_s for c in run.classes}
    assert late["chat"] is not None
    assert late["chat"] <= 2.9 * 1.02  # another seed: within its own noise
    assert late["docs"] is not None
    assert late["docs"] <= 12.0
    # what no queue is known for is not predicted
    assert plan.latency.ttft_mean_s is None
    assert plan.latency.tpot_mean_s is not None
    assert all(p.latency.ttft_p90_s is None for p in plan.periods)
    assert {"ttft_mean_s", "ttft_p90_s"} <= set(found.unpredicted)
    assert any("supposed dispatch" in note for note in plan.notes)


def test_a_rate_that_a_period_does_not_serve_is_not_claimed() -> None:
    """Every decode instance is slower than it was measured: what is claimed falls to what a full run serves."""
    scenario = question(ONE, objective="max-throughput", demand_req_per_s=1.0, execution__faults=SLOW)
    found = certified_plan(scenario, QUESTION, time_limit_s=LIMIT_S)
    assert found.certified is not None
    assert found.certified.rounds[0].broken == ("noon throughput_req_per_s",)
    noon = found.periods[1]
    assert noon.demand_req_per_s == pytest.approx(5 * 20 / (3.0 * 0.025 * 500), rel=0.02)
    assert found.throughput_req_per_s == pytest.approx((noon.demand_req_per_s + found.periods[0].demand_req_per_s) / 2)
    assert found.certified.rounds[0].req_per_s > 1.5 * found.throughput_req_per_s


def test_where_no_plan_holds_the_periods_and_promises_are_named() -> None:
    scenario = question(ONE, demand_req_per_s=4.0, execution__faults=SLOW)
    with pytest.raises(CheckFailedError) as caught:
        certified_plan(scenario, QUESTION, time_limit_s=LIMIT_S)
    assert caught.value.exit_code == 6
    assert "  - noon: throughput_req_per_s: 4 promised" in str(caught.value)
    assert "a stricter promise: small: infeasible" in str(caught.value)


def test_the_least_ttft_of_a_network_is_stated_as_its_runs_bear_it_out() -> None:
    found = certified_plan(question(ONE, objective="min-ttft"), QUESTION, time_limit_s=LIMIT_S)
    assert found.certified is not None
    promise = next(p for p in found.certified.promises if (p.period, p.metric) == ("noon", "ttft_p90_s"))
    assert promise.holds
    assert promise.ci_high is not None
    assert promise.ci_high <= promise.limit
    claimed = [one.ttft_s or 0.0 for one in found.certified.rounds]
    assert claimed == sorted(claimed), "what is found is claimed, and more only where a run asks for it"
    assert promise.limit == claimed[found.certified.chosen]
    assert len(claimed) == 1 or found.certified.rounds[0].broken
    assert found.objective == "min-ttft"


def test_what_has_no_plan_at_all_is_infeasible_and_not_a_failed_check() -> None:
    with pytest.raises(InfeasibleError):
        certified_plan(question(ONE, demand_req_per_s=1000.0), QUESTION, time_limit_s=LIMIT_S)


def test_a_network_of_one_demand_is_run_as_one_period() -> None:
    """Sites and promises of classes make a network of a scenario that has no periods."""
    scenario = question(TWO, periods={}, classes__chat__slo={"ttft_s": 6.0})
    found = certified_plan(scenario, QUESTION, time_limit_s=LIMIT_S)
    assert found.periods == ()
    assert found.certified is not None
    assert found.certified.periods == ("always",)
    assert {p.request_class for p in found.certified.promises} == {None, "chat", "docs"}


def test_drops_beyond_what_may_be_missed_of_the_rate_fail_at_once() -> None:
    crash = [{"kind": "crash", "pool": "decode", "instance": i, "at_s": 1500.0} for i in range(5)]
    with pytest.raises(CheckFailedError, match="requests were dropped in noon"):
        certified_plan(question(ONE, slo={"ttft_s": 9.0}, execution__faults=crash), QUESTION, time_limit_s=LIMIT_S)


@cached
def solved() -> tuple[Problem, Solution]:
    problem = planning_problem(question(TWO))
    return problem, plan_of(problem, LIMIT_S)


def test_the_search_under_a_stricter_promise_begins_with_the_bound_that_is_known() -> None:
    problem = planning_problem(question(ONE, slo={"ttft_s": 6.0}))
    laxer = plan_of(problem, PATIENT_S)
    stricter = planning_problem(question(ONE, slo={"ttft_s": 5.0}))
    found = plan_of(stricter, PATIENT_S, laxer=laxer)
    assert found.bound >= laxer.bound * (1 - 1e-9)
    assert found.objective >= laxer.bound * (1 - 1e-9)
    assert found.gap <= laxer.gap + 0.01 + 1e-9
    (name,) = (part.name for part in stricter.classes)
    late = Planned(stricter, found).class_ttft(name)
    assert late is not None
    assert late.quantile_s(0.9) <= 5.0 * (1 + 1e-6)


def test_the_same_ways_at_a_part_of_the_demand_keep_sizes_and_thresholds() -> None:
    problem, solution = solved()
    whole, half = sketched(problem, solution), sketched(problem, solution.at(0.5))
    assert half.throughput_req_per_s == pytest.approx(0.5 * whole.throughput_req_per_s)
    for one, other in zip(whole.periods, half.periods, strict=True):
        assert other.demand_req_per_s == pytest.approx(0.5 * one.demand_req_per_s)
        assert other.thresholds == one.thresholds
        assert [p.utilization for p in other.pools] == pytest.approx([0.5 * p.utilization for p in one.pools])
    assert [p.n_instances for p in half.pools] == [p.n_instances for p in whole.pools]


def test_periods_bind_where_a_pool_or_link_is_busiest_and_idle_ones_never() -> None:
    plan = sketched(*solved())
    assert binding_periods(plan) == ["noon"]
    night, noon = plan.periods
    busy = night.pools[0].model_copy(update={"utilization": 0.99})
    odd = night.model_copy(update={"pools": (busy, *night.pools[1:])})
    assert binding_periods(plan.model_copy(update={"periods": (odd, noon)})) == ["noon", "night"]
    idle = odd.model_copy(update={"demand_req_per_s": 0.0})
    assert binding_periods(plan.model_copy(update={"periods": (idle, noon)})) == ["noon"]


EACH_OTHERS: dict[str, Any] = {
    **BOTH_WAYS,
    "objective": "min-cost",
    "demand_req_per_s": 4.0,
    "workload": None,
    "slo": {"ttft_s": 6.0},
    "classes": {
        "east": {"share": 0.5, "sites": {"local": 1.0}, **ONE},
        "west": {"share": 0.5, "sites": {"remote": 1.0}, **ONE},
    },
}


@cached
def each_others() -> Plan:
    return sketch(small_with(EACH_OTHERS), time_limit_s=LIMIT_S)


def test_a_pool_that_takes_long_and_short_prompts_is_run_and_requests_take_the_ways_that_the_plan_says() -> None:
    scenario, plan = small_with(EACH_OTHERS), each_others()
    assert [pool.name for pool in plan.pools if pool.role == "prefill" and pool.n_instances] == ["fast"]
    run, kept = simulate(scenario, plan, RunQuestion(100_000, 3, 1.0, 2), keep=True)
    assert run.n_completed == 100_000
    assert kept is not None
    classes, pools = kept.words["request_class"], kept.words["prefill_pool"]
    for c, name in enumerate(classes):
        (shares,) = plan.periods[0].pool_shares[name].values()
        for is_long in (False, True):
            mine = (kept.columns["request_class"] == c) & (kept.columns["is_long"] == is_long)
            for p, of in enumerate(pools):
                if mine.sum() > 500:
                    taken = (kept.columns["prefill_pool"][mine] == p).mean()
                    planned = shares["long" if is_long else "short"].get(of, 0.0)
                    assert taken == pytest.approx(planned, abs=0.04), (name, of)
    assert run.offload_fraction == pytest.approx(plan.periods[0].offload_fraction, abs=0.01)
    assert run.ttft_p90_s == pytest.approx(plan.periods[0].latency.ttft_p90_s, rel=0.05)
    for pool in plan.periods[0].pools:
        if pool.utilization > 0.1:
            assert run.utilization[pool.name] == pytest.approx(pool.utilization, rel=0.03), pool.name


def test_a_network_without_periods_is_run_with_the_ways_of_its_plan() -> None:
    scenario, plan = small_with(EACH_OTHERS), each_others()
    assert all(set(part.pool_shares) >= {"decode"} for part in plan.classes)
    run, _ = simulate(scenario, plan, RunQuestion(100_000, 3, 1.0, 2))
    assert run.offload_fraction == pytest.approx(plan.offload_fraction, abs=0.01)
    for link in plan.links:
        assert run.links[link.name].mean_gbps == pytest.approx(link.mean_gbps, rel=0.05)


def test_a_scheduler_has_nothing_to_hold_against_each_other_where_one_queue_takes_both() -> None:
    scenario = small_with({**EACH_OTHERS, "execution.scheduler.short_term": {}})
    with pytest.raises(InputError, match=r"execution.scheduler.*'fast' has one queue for both.*two pools"):
        simulate(scenario, each_others(), RunQuestion(1_000, 3, 1.0, 1))


def test_pools_of_one_site_that_are_to_be_apart_are_two_of_the_scenario() -> None:
    apart = {"pools.near.prompts": "short", "pools.mine.prompts": "long"}
    other = {"pools.mine.site": "local", "pools.mine.hardware": HOME, "pools.mine.role": "prefill"}
    found = planning_problem(small_with({**EACH_OTHERS, **other, **apart}))
    assert {pool.name: pool.parts for pool in found.pools if pool.name in ("near", "mine", "fast")} == {
        "near": ("short",),
        "mine": ("long",),
        "fast": ("long", "short"),
    }


def text_of(plan: Plan) -> str:
    console = Console(width=PRINT_WIDTH, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        for part in certified_tables(plan):
            if part is not None:
                console.print(part)
    return captured.get()


def test_the_answer_shows_of_every_promise_the_period_nearest_to_breaking_it() -> None:
    plan = held()
    assert plan.certified is not None
    (asked,) = plan.certified.rounds
    targets = asked.model_copy(update={"ttft_s": 4.5, "broken": ()})
    broken = asked.model_copy(update={"broken": tuple(f"h{i} ttft_p90_s" for i in range(9))})
    certified = plan.certified.model_copy(update={"rounds": (broken, targets), "chosen": 1})
    text = text_of(plan.model_copy(update={"certified": certified}))
    assert max(map(len, text.splitlines())) <= PRINT_WIDTH
    assert "its own demand in each of 2 periods" in text
    assert "noon    ttft_p90_s " in text
    assert "night   ttft_p90_s " not in text.partition("predictions beside the run")[0]
    assert "links.wan.mean_gbps" in text
    said = " ".join(text.split())
    assert "handed to the optimizer: TTFT of 4.5 s instead of 5 s" in said
    assert "h3 ttft_p90_s and 5 more" in said


def test_a_certified_network_is_read_back() -> None:
    assert plan_from(json.dumps(held().answer()), "plan.json").answer() == held().answer()


def test_promises_of_runs_of_one_period_name_none() -> None:
    one = Promise(metric="m", limit=1.0, executed=1.0, ci_low=None, ci_high=None, allowed=0.0, holds=True)
    assert (one.period, one.request_class) == (None, None)


def test_what_cannot_be_run_is_said_in_one_message() -> None:
    with pytest.raises(InputError, match="not all requests come from one trace") as caught:
        certified_plan(question(ONE, execution__arrivals={"kind": "recorded"}), QUESTION, time_limit_s=LIMIT_S)
    assert len(caught.value.problems) == 1


def test_certifying_changes_nothing_about_a_plan_that_is_not_asked_for_it() -> None:
    assert optimize(question(ONE), (), LIMIT_S).certified is None
