"""A plan of routes as flows of a period: every flow has requests, and all of a stream go somewhere."""

import pytest

from planner.optimizer.capacity import exact_loads
from planner.optimizer.network.cells import point_cell
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.single_route import CAPACITY_GAP, RoutedSolution, solution_of_routes
from planner.optimizer.single_route import SLO_GAP as GOODPUT_GAP
from planner.optimizer.single_route import SLO_GAP as LEAST_TTFT_GAP
from planner.optimizer.sized import Sizing
from tests.builders import problem_of

LENGTHS = {"kind": "empirical", "tokens": (1000, 4000, 16_000)}


@pytest.mark.parametrize(
    ("threshold", "parts"),
    [(100.0, {"long"}), (1000.0, {"long", "short"}), (4000.0, {"long", "short"}), (2e4, {"short"})],
)
def test_a_stream_flows_to_the_pools_of_its_long_and_its_short_prompts_where_it_has_any(
    threshold: float, parts: set[str]
) -> None:
    problem = problem_of({"workload.lengths": LENGTHS})
    sizing = Sizing((2, 3, 4), ((1,),))
    highest = highest_req_per_s(problem, sizing, exact_loads(problem, threshold))
    rate = 0.5 * highest
    routed = RoutedSolution(sizing, threshold, highest, rate, rate, rate, None)
    found = solution_of_routes(problem, routed)
    (operation,) = found.operations
    assert operation.n_instances == sizing.n_instances
    assert {flow.part for flow in operation.flows} == parts
    known = NetworkLoads(problem)
    taken = [known.fraction(flow.stream, flow.part, point_cell(flow.threshold_tokens)) for flow in operation.flows]
    assert min(taken) > 0
    assert sum(taken) == pytest.approx(1.0)
    assert {flow.req_per_s for flow in operation.flows} == {rate}
    assert operation.rate_of(0) == pytest.approx(rate)
    assert {problem.pools[flow.arc.pool].name for flow in operation.flows} == {
        {"long": "fast", "short": "near"}[part] for part in parts
    }
    assert found.scale * problem.mean_req_per_s == pytest.approx(rate)


@pytest.mark.parametrize(
    ("objective", "goodput", "gap"),
    [
        ("max-throughput", None, 10 * CAPACITY_GAP),
        ("max-throughput", 0.5, GOODPUT_GAP),
        ("min-ttft", 0.5, LEAST_TTFT_GAP),
    ],
)
def test_a_gap_counts_as_none_up_to_what_the_objective_is_proven_to(
    objective: str, goodput: float | None, gap: float
) -> None:
    """But for a tenth of it: bounds and plans are rounded."""
    asked = {} if objective == "max-throughput" else {"demand_req_per_s": 0.5}
    problem = problem_of({"workload.lengths": LENGTHS, "objective": objective, **asked})
    routed = RoutedSolution(Sizing((2, 3, 4), ((1,),)), 4000.0, 0.5, 0.5, 0.5, 0.5, goodput)
    assert gap <= solution_of_routes(problem, routed).target <= 1.1 * gap
