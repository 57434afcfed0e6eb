"""A plan of routes as flows of a period: every flow has requests, and all of a stream go somewhere."""

import pytest

from planner.optimizer.capacity import exact_loads
from planner.optimizer.formulation import Sizing
from planner.optimizer.network.cells import point
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.routed_capacity import highest_rate
from planner.optimizer.search import RoutedSolution
from planner.optimizer.strategies import solution_of_routes
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
    loads = tuple(exact_loads(problem, [threshold]))
    highest = highest_rate(problem, sizing, loads)
    here = highest.scaled_to(0.5 * highest.rate)
    routed = RoutedSolution(sizing, (threshold,), loads, highest, here, here.rate, here.rate, None)
    found = solution_of_routes(problem, routed)
    (operation,) = found.operations
    assert operation.n_instances == sizing.n_instances
    assert {flow.part for flow in operation.flows} == parts
    known = NetworkLoads(problem)
    taken = [known.fraction(flow.stream, flow.part, point(flow.threshold_tokens)) for flow in operation.flows]
    assert min(taken) > 0
    assert sum(taken) == pytest.approx(1.0)
    assert {flow.req_per_s for flow in operation.flows} == {here.rate}
    assert operation.rate_of(0) == pytest.approx(here.rate)
    assert {problem.pools[flow.arc.pool].name for flow in operation.flows} == {
        {"long": "fast", "short": "near"}[part] for part in parts
    }
    assert found.scale * problem.mean_req_per_s == pytest.approx(here.rate)
