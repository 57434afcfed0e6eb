"""The mixed-integer program of a network: columns, families of rows, and the objective."""

from __future__ import annotations

from planner.optimizer.network.columns import add_rate_columns, add_size_columns
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec
from planner.optimizer.network.rows_of_lateness import bound_late_requests, count_late_requests
from planner.optimizer.network.rows_of_links import bound_link_bytes, open_used_links
from planner.optimizer.network.rows_of_passes import bound_passes, decode_where_prefilled, need_instances
from planner.optimizer.network.rows_of_rent import keep_size, keep_up, start_instances
from planner.optimizer.network.rows_of_routes import (
    choose_one_cell,
    divide_alike,
    link_rate_to_choice,
    route_decode,
    route_prompts,
    serve_demand,
)
from planner.optimizer.network.rows_of_stock import (
    bound_accelerators,
    bound_families,
    keep_prefill_to_decode,
    own_accelerators,
)
from planner.optimizer.network.rows_of_work import bound_decode_slots, bound_prefill_work, staff_used_pools
from planner.units import GB, SECONDS_PER_HOUR
from planner.work_clock import spend


def price_use(program: MixedIntegerProgram) -> None:
    """Prices of use: traffic by volume and power of busy instances, weighted by the time of the period.

    Equation:
        w_p (p_i T_u + g_l S_u) per unit of a rate u: w_p the part of the time, p_i the price of a busy instance, g_l
        that of the traffic on a link

    Args:
        program: the program.
    """
    problem, loads = program.problem, program.spec.loads
    for (_, s, _, _, arc), column, seconds, sent_bytes in program.prefill_uses:
        situation = program.spec.situations[s]
        if situation.loss is None:
            usd = problem.pools[arc.pool].busy_usd_per_hour * seconds
            if arc.link is not None:
                usd += SECONDS_PER_HOUR / GB * problem.links[arc.link].usd_per_gb * sent_bytes
            _charge(program, column, problem.weights[situation.period] * usd)
    for (q, s, i), column in program.decode_rates.items():
        situation = program.spec.situations[s]
        if situation.loss is None:
            usd = problem.pools[i].busy_usd_per_hour * loads.decode_s(q, i)
            _charge(program, column, problem.weights[situation.period] * usd)


def _charge(program: MixedIntegerProgram, column: int, usd_per_hour: float) -> None:
    if usd_per_hour > 0:
        program.usd_per_hour[column] = usd_per_hour


def bound_budget(program: MixedIntegerProgram) -> None:
    """Cost is within the budget.

    Equation:
        sum of price times column <= budget

    Args:
        program: the program; every column has its price.
    """
    budget = program.problem.scenario.budget_usd_per_hour
    if budget is not None:
        program.shared_rows.append(program.rows.row("bound_budget", program.usd_per_hour.items(), high=budget))


ROWS = (
    serve_demand,
    choose_one_cell,
    link_rate_to_choice,
    route_prompts,
    divide_alike,
    route_decode,
    decode_where_prefilled,
    bound_prefill_work,
    bound_passes,
    need_instances,
    staff_used_pools,
    bound_late_requests,
    count_late_requests,
    bound_decode_slots,
    bound_link_bytes,
    open_used_links,
    bound_accelerators,
    bound_families,
    keep_prefill_to_decode,
    own_accelerators,
    start_instances,
    keep_up,
    keep_size,
    price_use,
    bound_budget,
)
"""Every family of rows, in the order they are added."""
OBJECTIVE = 1e4
"""What the greatest scale of the demand is to be worth in the eyes of a solver."""
NARROWER = 1e-6
"""Weight of a Gbps beside an accelerator, where prices are missing."""
LINE_S, TERM_S = 2.5e-5, 1.5e-6
"""What a column or a row takes to be added, and a term of a row [s]."""


def build(spec: ProgramSpec) -> MixedIntegerProgram:
    """The program of a network, ready to solve.

    Equation:
        min cost, or max R, subject to the rows of every family in `ROWS`; each family states its equation

    Args:
        spec: coefficients, situations, cells and what is fixed or allowed.

    Returns:
        The program with its rows; see `program` for its variables.
    """
    program = MixedIntegerProgram(spec)
    add_size_columns(program)
    for s in range(len(spec.situations)):
        add_rate_columns(program, s)
    for add in ROWS:
        add(program)
    _objective(program)
    rows = program.rows
    spend(TERM_S * len(rows.columns) + LINE_S * (len(rows.names) + len(rows.row_names)))
    return program


def _objective(program: MixedIntegerProgram) -> None:
    """Minimise cost, or accelerators where prices are missing; for throughput minimise the scale with a minus."""
    if not program.problem.is_min_cost and program.spec.least_scale is None:
        program.rows.costs[program.scale] = -1.0
        top = program.rows.highs[program.scale]
        program.rows.weight = max(OBJECTIVE / top, 1.0) if top > 0 else 1.0
        return
    if program.problem.is_priced:
        for column, usd in program.usd_per_hour.items():
            program.rows.costs[column] = usd
        return
    for column in program.bought_accelerators.values():
        program.rows.costs[column] = 1.0
    for (i, _), segments in program.instances.items() if not program.bought_accelerators else ():
        for column in segments.values():
            program.rows.costs[column] = float(program.problem.pools[i].n_accelerators)
    for row, link in zip(program.ports, program.problem.links, strict=True) if program.spec.is_conservative else ():
        for column, tier in zip(row, link.tiers, strict=True):  # of plans that are equal the one with narrower links
            program.rows.costs[column] = NARROWER * tier.capacity_gbps
