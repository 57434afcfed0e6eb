"""Tables of a plan that is turned by hand: sums over a few requests, and waits of the queues that they stand for."""

from math import exp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.queueing.service import Service
from planner.queueing.waits import gigc_wait
from planner.results.explorer import Explorer, Tables
from planner.results.plan import LinkPlan, Plan
from planner.studies.explore import study
from planner.studies.explore.study import solution_of_plan
from planner.studies.explore.tables import MULTIPLES, USE, tables_of
from tests.builders import FAST, HOME, problem_of
from tests.cpu_cost import cached
from tests.deploy_cases import link, plan, pool, request_class
from tests.test_report_records import make_executed

LENGTHS, WEIGHTS = (1000.0, 8000.0), (0.75, 0.25)
THRESHOLD, RATE, N_FAST, N_NEAR, N_DECODE = 5000.0, 0.9, 1, 1, 2
DECODE_S = 0.025 * 500 / 20


def asked() -> Problem:
    lengths = {"kind": "empirical", "tokens": LENGTHS, "weights": WEIGHTS}
    return problem_of({"workload.lengths": lengths, "objective": "min-cost", "demand_req_per_s": RATE})


def of_plan(threshold_tokens: float | None = THRESHOLD) -> Plan:
    sizes = {"fast": N_FAST, "near": N_NEAR, "decode": N_DECODE}
    sites = {
        "fast": ("remote", FAST, "prefill"),
        "near": ("local", HOME, "prefill"),
        "decode": ("local", HOME, "decode"),
    }
    pools = tuple(
        pool(name, role, site, hardware=hardware, n_instances=sizes[name])
        for name, (site, hardware, role) in sites.items()
    )
    wan = LinkPlan(**{**link("remote", "local").model_dump(), "name": "wan"})
    rates = {"throughput_req_per_s": RATE, "max_throughput_req_per_s": 1.6, "threshold_tokens": threshold_tokens}
    classes = (request_class(threshold_tokens=threshold_tokens),)
    return plan("small", pools, links=(wan,), classes=classes, **rates)


def read_back() -> tuple[Problem, Solution]:
    problem = asked()
    solution = solution_of_plan(problem, of_plan())
    assert solution is not None
    return problem, solution


@cached
def turned() -> tuple[Problem, Tables]:
    problem, solution = read_back()
    return problem, tables_of(problem, solution)


def seconds(problem: Problem, index: int, tokens: float) -> float:
    service = problem.pools[index].rates.prefill
    assert service is not None
    return float(service.seconds(tokens, 0.0))


def test_a_finished_plan_is_read_back_with_its_sizes_its_threshold_and_its_rate() -> None:
    problem, solution = read_back()
    (operation,) = solution.operations
    assert operation.n_instances == (N_FAST, N_NEAR, N_DECODE)
    assert {(flow.part, flow.threshold_tokens) for flow in operation.flows} == {
        ("long", THRESHOLD),
        ("short", THRESHOLD),
    }
    assert [flow.req_per_s for flow in operation.flows] == pytest.approx([RATE, RATE])
    assert solution.ports == ((1,),)
    alone = [
        N_FAST / (WEIGHTS[1] * seconds(problem, 0, LENGTHS[1])),
        N_NEAR / (WEIGHTS[0] * seconds(problem, 1, LENGTHS[0])),
        N_DECODE / DECODE_S,
    ]
    assert solution.highest_req_per_s == pytest.approx(min(alone))
    none_is_short = solution_of_plan(problem, of_plan(None))
    assert none_is_short is not None
    assert {flow.part for flow in none_is_short.operations[0].flows} == {"long"}


def test_work_and_shares_of_pools_and_links_are_sums_over_requests_at_every_threshold() -> None:
    problem, tables = turned()
    fast, near, decode = tables.pools
    for k, threshold in enumerate(tables.fine_tokens):
        long = [w if n > threshold else 0.0 for n, w in zip(LENGTHS, WEIGHTS, strict=True)]
        short = [w - part for w, part in zip(WEIGHTS, long, strict=True)]
        for table, index, parts in ((fast, 0, long), (near, 1, short)):
            assert table.taken_fraction[k] == pytest.approx(sum(parts))
            work_s = sum(part * seconds(problem, index, n) for part, n in zip(parts, LENGTHS, strict=True))
            assert table.work_s[k] == pytest.approx(work_s)
        assert (decode.taken_fraction[k], decode.work_s[k]) == (1.0, pytest.approx(DECODE_S))
        kv = problem.pools[0].rates.kv_bytes
        sent = sum(part * float(kv(n)) for part, n in zip(long, LENGTHS, strict=True))
        assert tables.links[0].gbps_per_req_per_s[k] == pytest.approx(sent * 8 / 1e9)
    assert {LENGTHS[0], THRESHOLD} <= set(tables.fine_tokens)
    assert (tables.planned_tokens, tables.planned_req_per_s) == (THRESHOLD, pytest.approx(RATE))
    assert tables.offload_fraction == fast.taken_fraction
    assert (tables.links[0].capacity_gbps, tables.links[0].usd_per_hour) == (100.0, 20.0)
    assert [table.n_planned for table in tables.pools] == [N_FAST, N_NEAR, N_DECODE]
    assert [table.usd_per_instance_hour for table in tables.pools] == [32.0, 16.0, 16.0]


def test_waits_are_those_of_as_many_instances_as_busy() -> None:
    problem, tables = turned()
    for table, index, tokens in ((tables.pools[0], 0, LENGTHS[1]), (tables.pools[1], 1, LENGTHS[0])):
        each_s, node = seconds(problem, index, tokens), tables.node_tokens.index(THRESHOLD)
        waits = table.waits
        assert waits is not None
        assert waits.n_instances == (1, 2, 3)
        for i, n in list(enumerate(waits.n_instances))[:2]:
            for k, use in list(enumerate(USE))[2:8:3]:
                expected = gigc_wait(n, use * n / each_s, Service.of([each_s]))
                assert exp(waits.log_waiting[node][i][k]) == pytest.approx(expected.waiting_fraction, rel=1e-4)
                given_s = expected.mean_s / expected.waiting_fraction
                assert exp(waits.log_idle_wait[node][i][k]) == pytest.approx(given_s * (1 - use), rel=1e-4)
                late = expected.survival(np.array(MULTIPLES[:5]) * given_s) / expected.waiting_fraction
                assert np.exp(waits.log_survival[node][i][k][:5]) == pytest.approx(late, rel=1e-3)


def test_times_after_the_wait_are_means_between_quantiles_that_keep_the_mean() -> None:
    problem, tables = turned()
    node = tables.node_tokens.index(THRESHOLD)
    assert sum(tables.kind_weights) == pytest.approx(1.0)
    near = next(path for path in tables.paths if tables.pools[path.prefill].name == "near")
    assert float(np.dot(tables.kind_weights, near.kinds_s[node])) == pytest.approx(seconds(problem, 1, LENGTHS[0]))
    assert [tables.pools[path.decode].name for path in tables.paths] == ["decode", "decode"]
    all_short = next(k for k, t in enumerate(tables.node_tokens) if t == max(tables.node_tokens))
    assert list(near.kinds_s[all_short]) == sorted(near.kinds_s[all_short])


@pytest.mark.parametrize("was_executed", [True, False])
def test_a_page_with_studies_has_what_was_executed_but_for_the_series_of_schedulers(was_executed: bool) -> None:
    page = Explorer.model_construct(fronts=("reached",), break_even=())
    executed = make_executed() if was_executed else None
    case: Any = SimpleNamespace(
        executed=executed, fronts=("studied",), sensitivity=None, break_even=("even",), hours=()
    )
    found = study._with_studies(page, case)
    assert (found.fronts, found.break_even) == (("reached", "studied"), ("even",))
    if executed is None:
        assert found.executed is None
        return
    assert executed.scheduler_series
    assert found.executed == executed.model_copy(update={"schedulers": None, "scheduler_series": ()})
