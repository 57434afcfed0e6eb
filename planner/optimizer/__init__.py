"""A scenario to a problem in numbers, to a mixed-integer program, to a plan.

Public modules:

    batch_loads               passes of colocated pools, from the roofline or listed seconds
    batching                  colocated instances as waits see them
    capacity                  load of a request on each pool and link, by threshold
    colocated_layouts         layouts and tokens per pass of a colocated pool
    context                   prompts beyond what a model is made for
    delays                    delays that load adds to TTFT, and to steps of decode
    free_routing              what one threshold leaves on the table
    goodput                   highest rate of given sizes within a promise on TTFT
    layout_candidates         layouts that a pool may choose from
    layout_choice             the problem of a scenario, its layouts chosen
    network.cells             cells of thresholds, and the prompts of each
    network.cost              rent, power and traffic of a plan
    network.judged_moves      plans with colocated pools, brought within their promises
    network.loads             how busy pools and links may be
    network.period_operation  a plan in one period: loads, waits, thresholds
    network.ttft_bisection    the least TTFT at which a demand is served
    prices                    shadow prices
    problem                   the question in numbers
    problem_parts             its pools, links and classes
    rent                      instances that are rented by the period
    resolution                from a scenario to the question in numbers
    room                      which pools hold which prompts
    routed_capacity           highest rate of given sizes and thresholds, and what limits it
    routes                    routes through prefill pools, links and a decode pool
    service_times             seconds and bytes of a pool's instances
    single_route              fleets whose requests all take one route
    sized                     fleets of given sizes
    slo_attainment            share of requests within a promise
    solution                  sizes, thresholds and rates that a search found
    strategies                which search a question gets
    time_limit                one time limit for all that a command does
"""

from typing import TYPE_CHECKING

from planner.loading import on_first_use

if TYPE_CHECKING:
    from planner.optimizer.layout_choice import on_any_layout, planning_problem, posed
    from planner.optimizer.prices import shadow_prices
    from planner.optimizer.problem import Problem
    from planner.optimizer.problem_parts import LinkSpec, PoolSpec
    from planner.optimizer.resolution import resolved_problem
    from planner.optimizer.sized import sized_problem, within
    from planner.optimizer.solution import Solution
    from planner.optimizer.strategies import best_solution

_LAZY = {
    "LinkSpec": "problem_parts",
    "PoolSpec": "problem_parts",
    "Problem": "problem",
    "Solution": "solution",
    "on_any_layout": "layout_choice",
    "planning_problem": "layout_choice",
    "posed": "layout_choice",
    "resolved_problem": "resolution",
    "best_solution": "strategies",
    "shadow_prices": "prices",
    "sized_problem": "sized",
    "within": "sized",
}

__all__ = [
    "LinkSpec",
    "PoolSpec",
    "Problem",
    "Solution",
    "on_any_layout",
    "planning_problem",
    "posed",
    "resolved_problem",
    "best_solution",
    "shadow_prices",
    "sized_problem",
    "within",
]

__getattr__ = on_first_use(__name__, _LAZY)
