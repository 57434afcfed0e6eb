"""Rows of a network's program about money: what use costs, and the budget."""

from __future__ import annotations

from planner.optimizer.network.program import MixedIntegerProgram
from planner.units import GB, SECONDS_PER_HOUR


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
