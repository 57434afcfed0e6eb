"""Every family of rows of the program alone, as the rows that it makes of one tiny problem."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from planner.comparison.evaluation import Evaluation
from planner.optimizer.batching import Batching
from planner.optimizer.capacity import threshold_loads
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.batch_needs import Need
from planner.optimizer.network.cells import Cell, point_cell
from planner.optimizer.network.columns import add_rate_columns, add_size_columns
from planner.optimizer.network.formulation import ROWS, build, price_use
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec
from planner.optimizer.pass_facets import PassFacet
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.strategies import best_solution
from planner.roofline import colocated_engine
from planner.scenario import instance_spec
from tests.builders import FAST, GPUS, HOME, in_classes, problem_of
from tests.colocated_cases import chat
from tests.conftest import GOLDENS

CHAT = {
    "lengths": {"kind": "empirical", "tokens": [1000, 3000]},
    "output_lengths": {"kind": "constant", "tokens": 800},
}
FILES = {"lengths": {"kind": "constant", "tokens": 9000}, "output_lengths": {"kind": "constant", "tokens": 400}}
LINE = {"tokens": [1000, 9000], "interpolation": "linear"}
TINY: dict[str, Any] = {
    "measured.fast.prefill": {**LINE, "seconds": [0.25, 2.25]},
    "measured.fast.kv": {**LINE, "bytes": [1e9, 5e9]},
    "measured.home.prefill": {**LINE, "seconds": [0.5, 4.5]},
    f"sites.remote.accelerators.{FAST}": 3 * GPUS,
    f"sites.local.accelerators.{HOME}": 5 * GPUS,
    "links.wan.capacity_gbps": "free",
    "links.wan.tiers": [
        {"capacity_gbps": 10, "usd_per_hour": 2.0, "max_ports": 4},
        {"capacity_gbps": 100, "usd_per_hour": 15.0},
    ],
    "links.wan.usd_per_gb": 0.01,
    "budget_usd_per_hour": 200.0,
    "routing.prefill_to_decode": "2:3",
    "pools.near.min_instances": 1,
    "pools.near.max_instances": 4,
}
DAY = {"day": {"hours": 16, "demand": 1.0}, "night": {"hours": 8, "demand": 0.5}}
RENTED = {f"pools.{name}.rent": "by-period" for name in ("near", "decode")}
RENTED |= {"pools.near.least_time_up_h": 20.0, "pools.decode.start_up_s": 3600.0}
CHEAPEST = {"objective": "min-cost", "demand_req_per_s": 2.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "start_instances": {**CHEAPEST, **RENTED, "periods": DAY},
    "keep_up": {**CHEAPEST, **RENTED, "periods": DAY},
    "keep_size": {**CHEAPEST, **RENTED, "periods": DAY},
    "own_accelerators": {**CHEAPEST, "routing.role_conversion": True, "periods": DAY},
    "divide_alike": {**CHEAPEST, "routing.thresholds": "per-model", "classes.files.slo": {"tpot_ms": 90.0}},
    "staff_used_pools": {"measured.fast.prefill.seconds": [1e-6, 9e-6], "measured.fast.kv.bytes": [1.0, 5.0]},
    "bound_late_requests": {"slo": {"ttft_s": 8.0}},
    "count_late_requests": {"slo": {"ttft_s": 8.0}},
}
"""What a family of rows needs to have any, beside the tiny problem."""
OF_BATCHES = ("decode_where_prefilled", "bound_passes", "need_instances")
NAMES = [add.__name__ for add in ROWS if add is not price_use]


def tiny_problem(name: str = "") -> Problem:
    """Two classes, three pools, two port sizes, a budget and a ratio: most families have rows, in round numbers."""
    files = CHAT if name == "divide_alike" else FILES
    problem = planning_problem(
        in_classes({"chat": (0.75, CHAT), "files": (0.25, files)}, TINY | VARIANTS.get(name, {}))
    )
    if name != "bound_families":
        return problem
    fast, near, decode = problem.pools  # the pool near by is one with two layouts
    layouts = (replace(near, name=f"near {layout}", layout=layout, min_instances=0) for layout in ("a", "b"))
    return replace(problem, pools=(fast, *layouts, decode))


def with_batches(problem: Problem) -> Problem:
    """The same with prompts in the batches of the pool that decodes, in round seconds: the chat's alone leave some."""
    fast, near, decode = problem.pools
    engine = colocated_engine(instance_spec(chat(), chat().pools["both"]))
    facets = PassFacet(1e-4, 1e-7, 1e-3, 1e-6), PassFacet(2e-4, 0.0, 5e-4, 2e-6)
    joint = replace(decode, parts=("long", "short"), rates=near.rates, batching=Batching(engine, facets))
    return replace(problem, pools=(fast, replace(near, classes=(1,)), joint))


def columns_of(name: str) -> MixedIntegerProgram:
    """The program of a family with its columns, and one cell of thresholds between the prompts of the chat."""
    problem = with_batches(tiny_problem(name)) if name in OF_BATCHES else tiny_problem(name)
    gbps = (10.0,) if name == "open_used_links" else ()
    loads = NetworkLoads(problem, is_optimistic=not gbps, gbps=gbps)
    low, high, share = (1000.0, 3000.0, 1.0) if not gbps else (1000.0, 1000.0, 0.5)
    used = [*range(len(problem.periods))] if problem.has_sizes_by_period else [0]
    cells = {(g, p): [Cell(low, high, 1 - share, share)] for g in range(len(problem.groups)) for p in used}
    sizes = {i: [(1, pool.max_instances)] for i, pool in enumerate(problem.pools)}
    has_late = name.endswith("late_requests")
    needs = {Need(2, q, Cell(low, high, 1 - share, share), None): 0.5 for q in (0, 1) if name == "need_instances"}
    situations = tuple(map(Situation, used))
    spec = ProgramSpec(loads, situations, cells, sizes, bool(gbps), shares_lateness=has_late, needs=needs)
    program = MixedIntegerProgram(spec)
    add_size_columns(program)
    for s in range(len(spec.situations)):
        add_rate_columns(program, s)
    return program


def written(program: MixedIntegerProgram, first: int) -> str:
    """Rows from one on, each in a line."""
    rows, lines = program.rows, []
    for r in range(first, len(rows.row_names)):
        entries = range(rows.starts[r], rows.starts[r + 1])
        terms = " ".join(f"{rows.factors[e]:+.6g} {rows.names[rows.columns[e]]}" for e in entries)
        low, high = rows.row_lows[r], rows.row_highs[r]
        limits = f"= {low:g}" if low == high else f">= {low:g}" if high == inf else f"<= {high:g}"
        lines.append(f"{rows.row_names[r]}: {terms} {limits}\n")
    return "".join(lines)


def rows_of(name: str) -> str:
    program = columns_of(name)
    first = len(program.rows.row_names)
    for add in ROWS:
        if add.__name__ == name or (name == "route_decode" and add.__name__ == "serve_demand"):
            first = len(program.rows.row_names)
            add(program)
    return written(program, first)


@pytest.mark.parametrize("name", NAMES)
def test_a_family_of_rows_alone_is_the_golden(name: str, golden: Callable[[str, str], None]) -> None:
    rows = rows_of(name)
    assert rows
    golden(f"lp/{name}.lp", rows)


def test_every_family_has_a_golden_and_no_golden_is_orphaned() -> None:
    assert {path.stem for path in (GOLDENS / "lp").glob("*.lp")} == set(NAMES)
    assert len(set(NAMES)) == len(NAMES)


def test_every_family_says_which_inequality_it_is() -> None:
    assert all(any(sign in (add.__doc__ or "") for sign in ("<=", "=", ">=")) for add in ROWS if add is not price_use)


def names_of(problem: Problem) -> str:
    cells = {(g, 0): [point_cell(3000.0)] for g in range(len(problem.groups))}
    sizes = {i: [(1, pool.max_instances)] for i, pool in enumerate(problem.pools)}
    return " ".join(build(ProgramSpec(NetworkLoads(problem), (Situation(0),), cells, sizes)).rows.row_names)


def test_no_budget_and_no_ratio_leave_no_row() -> None:
    limits = "bound_budget", "keep_prefill_to_decode_0"
    names = names_of(problem_of())
    assert not any(limit in names for limit in limits)
    with_both = names_of(problem_of({"budget_usd_per_hour": 100.0, "routing.prefill_to_decode": "1:1"}))
    assert all(limit in with_both for limit in limits)


def test_a_plan_satisfies_every_constraint_written_out() -> None:
    """The rows say what the docstrings say: checked on the numbers of a plan."""
    problem = tiny_problem()
    found = best_solution(problem, 60.0)
    assert found is not None
    (one,) = found.operations
    fast, near, decode = one.n_instances
    assert near * 3 == decode * 2
    assert fast <= 3
    assert near + decode <= 5
    rate = found.scale * problem.mean_req_per_s
    seconds = {"chat": {1000: (0.25, 0.5), 3000: (0.75, 1.5)}, "files": {9000: (2.25, 4.5)}}
    shares, sent_bytes = {"chat": {1000: 0.5, 3000: 0.5}, "files": {9000: 1.0}}, {1000: 1e9, 3000: 2e9, 9000: 5e9}
    long_s = short_s = sent = 0.0
    for flow in one.flows:
        name = problem.classes[problem.streams[flow.stream].request_class].name
        for tokens, share in shares[name].items():
            if (tokens > flow.threshold_tokens) == (flow.part == "long"):
                far_s, near_s = seconds[name][tokens]
                long_s += flow.req_per_s * share * far_s * (flow.part == "long")
                short_s += flow.req_per_s * share * near_s * (flow.part == "short")
                sent += flow.req_per_s * share * sent_bytes[tokens] * (flow.part == "long")
    assert long_s <= fast + 1e-6
    assert short_s <= near + 1e-6
    assert rate * (0.75 * 800 + 0.25 * 400) * 0.025 / 20 <= decode + 1e-6
    small, large = found.ports[0]
    assert sent * 8e-9 <= 10 * small + 100 * large + 1e-6
    bill = 32 * fast + 16 * (near + decode) + 2 * small + 15 * large + 3600 * sent / 1e9 * 0.01
    assert bill <= 200 + 1e-6
    assert Evaluation(problem, found).fleet()["cost"].usd_per_hour == pytest.approx(bill)


@pytest.mark.parametrize("k", range(3))
def test_loads_of_the_tiny_problem_are_those_computed_by_hand(k: int) -> None:
    """Chat prompts of 1000 and 3000 tokens take 0.25 and 0.75 s on the fast pool, 0.5 and 1.5 s near."""
    problem = tiny_problem()
    loads = threshold_loads(problem, problem.routes[0], np.array([-1.0, 1000.0, 3000.0])[k : k + 1])
    assert loads.long_fraction[0] == [1, 0.5, 0][k]
    assert loads.long_s[0] == pytest.approx([0.5, 0.375, 0][k])
    assert loads.short_s[0] == pytest.approx([0, 0.25, 1.0][k])
    assert loads.long_bytes[0] == pytest.approx([1.5e9, 1e9, 0][k])
