"""The mixed-integer model of a network: columns, families of rows, and the objective."""

from planner.optimizer.network.columns import add_rate_columns, add_size_columns
from planner.optimizer.network.model import Model, Question
from planner.optimizer.network.rows_of_lateness import bound_late_requests, count_late_requests
from planner.optimizer.network.rows_of_limits import (
    bound_accelerators,
    bound_budget,
    bound_families,
    bound_link_bytes,
    open_used_links,
    own_accelerators,
    price_use,
)
from planner.optimizer.network.rows_of_routes import (
    choose_one_cell,
    divide_alike,
    link_rate_to_choice,
    route_decode,
    route_prompts,
    serve_demand,
)
from planner.optimizer.network.rows_of_work import bound_decode_slots, bound_prefill_work

ROWS = (
    serve_demand,
    choose_one_cell,
    link_rate_to_choice,
    route_prompts,
    divide_alike,
    route_decode,
    bound_prefill_work,
    bound_late_requests,
    count_late_requests,
    bound_decode_slots,
    bound_link_bytes,
    open_used_links,
    bound_accelerators,
    bound_families,
    own_accelerators,
    price_use,
    bound_budget,
)
"""Every family of rows, in the order they are added."""


def build(question: Question) -> Model:
    """The whole model, ready to solve."""
    model = Model(question)
    add_size_columns(model)
    for s in range(len(question.situations)):
        add_rate_columns(model, s)
    for add in ROWS:
        add(model)
    _objective(model)
    return model


def _objective(model: Model) -> None:
    """Cost, or without prices accelerators; for throughput the scale, negative since the objective is kept low."""
    if not model.problem.is_min_cost and model.question.least_scale is None:
        model.rows.costs[model.scale] = -1.0
        return
    if model.problem.is_priced:
        for column, usd in model.cost.items():
            model.rows.costs[column] = usd
        return
    for column in model.bought.values():
        model.rows.costs[column] = 1.0
    for (i, _), segments in model.n.items() if not model.bought else ():
        for column in segments.values():
            model.rows.costs[column] = float(model.problem.pools[i].n_accelerators)
