"""Users in place of a rate: closed loops against the machine-repair queue, and plans against the response time law."""

from math import comb, exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import at_population_rate, optimize, posed_problem
from planner.errors import InputError, UsageError
from planner.executor.initial_state import run_to_end, simulation_state
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.systems import system
from planner.promises.plan_to_run import plan_to_run
from planner.promises.verified import verified_plan
from planner.scenario import Scenario, load_scenario
from tests.executor_cases import TOKEN_S, asked, fleet, scenario

SCENARIO = """
schema = "planner.scenario/1"
name = "users"
objective = "min-cost"
users = 400
think_s = 30
[model]
profile = "llama-3.1-8b"
[workload]
lengths = { kind = "lognormal", mu = 7.2, sigma = 0.7, low_tokens = 50, high_tokens = 20000 }
output_lengths = { kind = "constant", tokens = 300 }
[slo]
ttft_s = 1.0
tpot_ms = 30
[sites.here]
[pools.prefill]
site = "here"
hardware = "h100-sxm"
role = "prefill"
service_times = "roofline"
n_instances = "free"
[pools.decode]
site = "here"
hardware = "h100-sxm"
role = "decode"
service_times = "roofline"
n_instances = "free"
[prices.h100-sxm]
usd_per_accelerator_hour = 2.0
"""


def stated(text: str = SCENARIO) -> Scenario:
    return load_scenario(text, "users.toml", Path())


def idle_fraction(n_users: int, think_s: float, service_s: float) -> float:
    """Time in which the only server of a machine-repair queue with constant service is idle: Takacs (1962), ch. 5."""
    a, product, total = 1 / think_s, 1.0, 0.0
    for i in range(n_users):
        if i:
            f = exp(-i * a * service_s)
            product *= (1 - f) / f
        total += comb(n_users - 1, i) * product
    return 1 / (1 + n_users * a * service_s * total)


@pytest.mark.parametrize(("n_users", "think"), [(1, 2.0), (5, 4.0), (12, 8.0), (12, 30.0)])
def test_one_server_and_users_who_think_are_the_machine_repair_queue(n_users: int, think: float) -> None:
    n, tokens = 20_000, 1000
    service_s = tokens * TOKEN_S
    found = []
    for seed in range(8):
        requests = asked(np.zeros(n), np.full(n, tokens), output=1)
        requests["arrival_s"] = np.random.default_rng([n_users, seed]).exponential(think * service_s, n)
        w = simulation_state(system(scenario(None, 1_000_000), fleet(n_near=1)), requests, users=n_users)
        run_to_end(w)
        assert w.samples[:, 1].max() <= n_users
        finish_s = np.sort(w.requests["finish_s"])
        found.append((n - 2000) / (finish_s[-1] - finish_s[1999]))
    expected = (1 - idle_fraction(n_users, think * service_s, service_s)) / service_s
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - expected) <= 4 * error + 1e-3 * expected


def test_users_who_do_not_think_keep_as_many_requests_inside() -> None:
    one = stated(SCENARIO.replace("think_s = 30", "think_s = 0").replace("users = 400", "users = 20"))
    run, _ = simulate(one, plan_to_run(one), RunQuestion(8000))
    assert run.users == 20
    assert run.mean_inside == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize("load", [None, 0.5])
def test_a_run_keeps_the_response_time_law(load: float | None) -> None:
    """Users are their rate times thinking and answering: Little's law of the whole loop."""
    run, records = simulate(stated(), plan_to_run(stated()), RunQuestion(20_000, 3, load), keep=True)
    assert records is not None
    users = 400 * (load or 1)
    assert run.users == users
    assert run.load is None
    stay_s = run.mean_inside / run.throughput_req_per_s
    assert run.throughput_req_per_s * (30 + stay_s) == pytest.approx(users, rel=0.02)


def test_the_rate_is_that_of_users_who_wait_for_the_plans_own_answers() -> None:
    plan = optimize(stated())
    assert plan.latency.ttft_mean_s is not None
    assert plan.latency.tpot_mean_s is not None
    answer_s = plan.latency.ttft_mean_s + 299 * plan.latency.tpot_mean_s
    assert plan.throughput_req_per_s == pytest.approx(400 / (30 + answer_s), rel=0.005)
    assert plan.throughput_req_per_s >= 400 / (30 + answer_s) * (1 - 0.005)
    assert any(note.startswith("runs are a closed loop of 400 users") for note in plan.notes)


def test_a_plan_for_users_is_the_plan_for_the_rate_that_they_send() -> None:
    rated = at_population_rate(stated())
    assert rated.demand_req_per_s is not None
    alone = stated(SCENARIO.replace("users = 400\nthink_s = 30", f"demand_req_per_s = {rated.demand_req_per_s}"))
    assert optimize(stated()).cost == optimize(alone).cost
    assert at_population_rate(rated) is rated
    assert posed_problem(rated).scenario.demand_req_per_s == rated.demand_req_per_s


def test_more_users_and_less_thought_never_cost_less() -> None:
    def usd(users: int, think_s: float) -> float:
        text = SCENARIO.replace("users = 400", f"users = {users}").replace("think_s = 30", f"think_s = {think_s}")
        return optimize(stated(text)).cost.usd_per_hour or 0.0

    bills = [usd(200, 30), usd(2000, 30), usd(2000, 10), usd(2000, 0)]
    assert bills == sorted(bills)
    assert bills[0] < bills[-1]


def test_a_promise_to_users_is_run_as_their_closed_loop() -> None:
    plan = verified_plan(stated(), RunQuestion(20_000, most_requests=200_000))
    assert plan.slo_run is not None
    assert plan.slo_run.outcome == "kept"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("think_s = 30\n", "", "users: is given without think_s"),
        ("users = 400\n", "", "think_s: is given without users"),
        ("users = 400", "users = 0", "greater than or equal to 1"),
        ('objective = "min-cost"', 'objective = "max-throughput"', "users: is a demand"),
        ("[slo]", "[periods.day]\nhours = 8\n[slo]", "periods: says when requests come"),
        ("[slo]", '[execution]\narrivals = { kind = "gamma", squared_cv = 3 }\n[slo]', "execution.arrivals: says when"),
        ("[workload]", '[workload]\narrivals = { kind = "gamma", squared_cv = 3 }', "workload.arrivals: says when"),
    ],
)
def test_what_does_not_go_with_users_is_said(before: str, after: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        stated(SCENARIO.replace(before, after))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--users", "400"], "--users, --think-s: both are needed"),
        (["--users", "400", "--think-s", "3", "--rate", "3"], "--rate: is what --users stand for"),
        (["--users", "400", "--think-s", "-3"], "--think-s: is -3"),
    ],
)
def test_size_says_what_is_wrong_with_users(options: list[str], said: str) -> None:
    stated: list[Any] = ["size", "llama-3.1-8b", "h100-sxm", "--input", "1000", "--output", "100", "--price", "2"]
    found = CliRunner().invoke(app, [*stated, *options])
    assert isinstance(found.exception, UsageError | InputError)
    assert said in str(found.exception)


def test_size_writes_the_users_that_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "asked.toml"
    lengths = ["--input", "1000", "--output", "100", "--price", "2", "--ttft-ms", "1000"]
    asked_for = ["size", "llama-3.1-8b", "h100-sxm", "--users", "400", "--think-s", "20", "--no-run"]
    found = CliRunner().invoke(app, [*asked_for, *lengths, "--write", str(path)])
    assert found.exit_code == 0, found.stderr
    assert "400 users who think for 20 s" in found.stdout
    written = load_scenario(path.read_text(), str(path), tmp_path)
    assert (written.users, written.think_s, written.demand_req_per_s) == (400, 20, None)
