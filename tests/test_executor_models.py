"""Several models in one run: each on its own instances, with its own times and bytes, on the links they share."""

from typing import Any

import pytest

from planner.comparison import sketched, solved
from planner.errors import InputError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.systems import system
from planner.optimizer.layout_choice import planning_problem
from planner.promises.certify import certified_plan
from planner.results.plan import Plan
from planner.results.run import Run
from planner.roofline import best_stack, kv_bytes_per_token
from planner.scenario import Scenario
from tests.builders import FAST, GPUS, HOME, small_with
from tests.cpu_cost import cached

OUTPUT = {"kind": "constant", "tokens": 500}


def request_class(share: float, mu: float, model: str | None = None) -> dict[str, Any]:
    lengths = {"kind": "lognormal", "mu": mu, "sigma": 1.0, "low_tokens": 128, "high_tokens": 65_536}
    found: dict[str, Any] = {
        "share": share,
        "sites": {"local": 1.0},
        "workload": {"lengths": lengths, "output_lengths": OUTPUT},
    }
    return found if model is None else {**found, "model": model}


def pool(site: str, hardware: str, role: str, n_instances: int, **changes: Any) -> dict[str, Any]:
    stated = {"site": site, "hardware": hardware, "role": role, "model": "other", "n_instances": n_instances}
    return {**stated, **changes}


MODELS: dict[str, Any] = {
    "workload": None,
    "models.other": {"profile": "kimi-linear-48b"},
    "classes": {"big": request_class(0.5, 9.0), "light": request_class(0.5, 9.5, "other")},
    "pools.fast.n_instances": 4,
    "pools.near.n_instances": 3,
    "pools.decode.n_instances": 5,
    "pools.light-fast": pool("remote", FAST, "prefill", 2),
    "pools.light-near": pool("local", HOME, "prefill", 1),
    "pools.light-decode": pool("local", HOME, "decode", 1, tpot_ms=15.0),
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "links.wan.capacity_gbps": 100,
    "objective": "min-cost",
    "demand_req_per_s": 4.0,
    "slo": {"ttft_s": 6.0},
    "periods": {"noon": {"hours": 12.0}, "night": {"hours": 12.0, "demand": 0.3}},
}


SHORT_S = 3.0


@cached
def planned() -> tuple[Scenario, Plan]:
    scenario = small_with(MODELS)
    problem = planning_problem(scenario)
    return scenario, sketched(problem, solved(problem, SHORT_S))


@cached
def ran(name: str) -> Run:
    return simulate(*planned(), RunQuestion(60_000, 1, 1.0), period=name)[0]


@pytest.mark.parametrize("name", ["noon", "night"])
def test_a_period_of_two_models_runs_as_it_was_promised(name: str) -> None:
    run = ran(name)
    period = next(p for p in planned()[1].periods if p.name == name)
    assert period.latency.ttft_mean_s is not None
    assert period.latency.ttft_p90_s is not None
    assert run.throughput_req_per_s == pytest.approx(period.demand_req_per_s, rel=0.02)
    assert run.ttft_mean_s == pytest.approx(period.latency.ttft_mean_s, rel=0.05)
    assert run.ttft_p90_s == pytest.approx(period.latency.ttft_p90_s, rel=0.10)
    assert run.tpot_mean_s == pytest.approx(period.latency.tpot_mean_s, rel=0.05)
    for planned_pool in period.pools:
        assert run.utilization[planned_pool.name] == pytest.approx(planned_pool.utilization, rel=0.05, abs=0.005)
    for link in period.links:
        assert run.links[link.name].mean_gbps == pytest.approx(link.mean_gbps, rel=0.03)


def test_a_pool_has_the_times_and_bytes_of_its_own_model() -> None:
    asked, plan = planned()
    found = system(asked, plan, (), "noon")
    times = {pool.name: t for pool, t in zip(found.prefill, found.prefill_times, strict=True)}
    for name in ("near", "light-near"):
        profile = asked.profile_of(asked.pools[name].model)
        per_token = times[name].wire_bytes(2e5) - times[name].wire_bytes(1e5)
        assert per_token / 1e5 == pytest.approx(kv_bytes_per_token(profile), rel=1e-6)
        assert times[name].n_layers == profile.architecture.n_layers
    assert times["light-near"].service.seconds(20_000.0, 0.0) < 0.5 * times["near"].service.seconds(20_000.0, 0.0)


def test_decode_is_timed_for_the_classes_that_it_serves() -> None:
    """A pool of one model decodes in the contexts of that model's classes: another model's long ones change nothing."""
    asked, plan = planned()
    steps = []
    for scenario in (asked, asked.varied({"classes.big": request_class(0.5, 10.5)})):
        found = system(scenario, plan, (), "noon")
        index = next(d for d, pool in enumerate(found.decode) if pool.name == "light-decode")
        steps.append(found.decode_times[index])
    assert steps[0].batch_limit == steps[1].batch_limit
    assert (steps[0].step_s == steps[1].step_s).all()


def test_models_that_share_no_link_do_not_notice_each_other() -> None:
    """The light model's requests stay at their site: alone, at its own rate, it is as quick as beside the other."""
    scenario, plan = planned()
    noon = plan.periods[0]
    stays = noon.model_copy(update={"thresholds": {**noon.thresholds, "light": {"local": None}}})
    plan = plan.model_copy(update={"periods": (stays,)})
    both, _ = simulate(scenario, plan, RunQuestion(60_000, 3, 0.5))
    light_alone = {"light": {"local": noon.decoded_req_per_s["light"]["local"]}}
    demand = light_alone["light"]["local"]
    alone = stays.model_copy(update={"decoded_req_per_s": light_alone, "demand_req_per_s": demand})
    single, _ = simulate(scenario, plan.model_copy(update={"periods": (alone,)}), RunQuestion(30_000, 4, 0.5))
    light = next(c for c in both.classes if c.name == "light")
    sure, other = light.intervals["ttft_mean_s"], single.intervals["ttft_mean_s"]
    assert sure.low <= other.high
    assert other.low <= sure.high
    assert light.ttft_mean_s == pytest.approx(single.ttft_mean_s, rel=0.05)


def test_every_class_keeps_its_own_promise_and_steps_in_the_answer() -> None:
    run = ran("noon")
    by_name = {c.name: c for c in run.classes}
    assert set(by_name) == {"big", "light"}
    for found in by_name.values():
        assert found.ttft_promised_s == pytest.approx(found.ttft_p90_s)  # nothing was dropped
        assert set(found.intervals) >= {"ttft_promised_s", "ttft_mean_s", "tpot_mean_s"}
    assert by_name["big"].tpot_mean_s == pytest.approx(0.025, rel=0.01)
    assert (by_name["light"].tpot_mean_s or 1.0) < 0.015


def test_stacks_are_chosen_for_the_model_of_the_pool() -> None:
    scenario = planned()[0]
    light = scenario.profile_of("other").name
    problem = planning_problem(scenario)
    stacks = {pool.name: pool.rates.stack for pool in problem.pools}
    framework = (stacks["light-decode"] or "").partition("-")[0]  # with the version that it was measured under
    assert framework == best_stack(light, HOME).name
    assert framework != best_stack(scenario.model_profile.name, HOME).name


def test_a_network_of_two_models_is_certified() -> None:
    found = certified_plan(small_with(MODELS), RunQuestion(16_000, 1), time_limit_s=SHORT_S)
    assert found.certified is not None
    assert {p.request_class for p in found.certified.promises} == {None, "big", "light"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"execution.cache": {}}, "several models"),
        ({"execution.pools.light-near.instances_of": "near"}, "another kind"),
    ],
)
def test_what_models_cannot_share_is_said_in_one_message(changes: dict[str, Any], said: str) -> None:
    scenario, plan = planned()
    with pytest.raises(InputError, match=said) as caught:
        simulate(scenario.varied(changes), plan, RunQuestion(1000, 1, 1.0), period="noon")
    assert len(caught.value.problems) == 1
