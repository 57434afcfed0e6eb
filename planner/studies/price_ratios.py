"""Dependence of the verdict on the price of the fast accelerator."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from planner.comparison.homogeneous_fleets import affordable_accelerators, homogeneous_fleet, homogeneous_rates
from planner.errors import InfeasibleError
from planner.optimizer.problem import Problem
from planner.results.case import PriceRatios
from planner.results.plan import Plan, PoolPlan

RATIOS = np.round(np.arange(1.2, 3.0 + 1e-9, 0.01), 2)
"""From a faster chip sold cheap to a steep premium, fine enough to show where whole instances come in."""
ALIKE = (0.25, 8.0)
"""Stated ratios beyond which a span of ratios tells nothing of the scenario's own prices."""
NO_GAIN = 1e-9
BREAK_EVEN_GRID = np.round(np.arange(0.5, 10.0 + 1e-9, 0.01), 2)


@dataclass(frozen=True)
class Rent:
    """The plan's rent, and accelerators of the homogeneous fleet that it buys."""

    n_fast: int
    n_other: int
    home_usd: float
    """Rent of one homogeneous accelerator [USD/h]."""
    n_per_instance: int
    """Accelerators in which it is had: 1 where its layouts are open."""

    def accelerators(self, ratios: NDArray[np.float64], extra_usd: float) -> NDArray[np.int64]:
        """Accelerators for the rent of the plan's and `extra_usd` per hour, by price ratio."""
        money = self.home_usd * (self.n_fast * ratios + self.n_other) + extra_usd
        return np.array([affordable_accelerators(float(usd), self.home_usd, self.n_per_instance) for usd in money])


def price_ratios(problem: Problem, plan: Plan) -> PriceRatios | None:
    """The plan against the homogeneous fleet that the same money buys, by price ratio.

    Args:
        problem: the resolved scenario.
        plan: its plan.

    Returns:
        Gains by ratio and the break-even; None unless the plan mixes two priced kinds of accelerators whose prices are
        of one order, and under a promise on TTFT, whose goodput does not grow with the fleet in proportion.

    Valid:
        Fleets of whole instances, so that the gain falls in steps.
    """
    home = next(pool for pool in problem.pools if pool.role == "decode")
    fast = _fast_pool(plan, home.hardware)
    if plan.goodput_req_per_s is not None or fast is None:
        return None
    if not home.usd_per_hour or not plan.cost.accelerators_usd_per_hour:
        return None
    n_fast = sum(p.n_accelerators for p in plan.pools if p.hardware == fast.hardware)
    home_usd = home.usd_per_hour / home.n_accelerators
    stated = (fast.usd_per_hour or 0.0) / fast.n_accelerators / home_usd
    if not ALIKE[0] <= stated <= ALIKE[1]:
        return None
    try:
        homogeneous = homogeneous_fleet(problem)
    except InfeasibleError:  # the one kind of accelerator does not hold the prompts
        return None
    is_open = bool(problem.scenario.open_pool(home.key).layouts)
    rent = Rent(n_fast, plan.n_accelerators - n_fast, home_usd, 1 if is_open else home.n_accelerators)
    total = plan.cost.usd_per_hour
    extra = None if total is None else total - plan.cost.accelerators_usd_per_hour
    gains = partial(_gains, homogeneous, plan.max_throughput_req_per_s, rent)
    return PriceRatios(
        long_hardware=fast.hardware,
        home_hardware=home.hardware,
        home_usd_per_accelerator_hour=home_usd,
        stated_ratio=stated,
        ratios=tuple(RATIOS.tolist()),
        equal_cost_accelerators=tuple(rent.accelerators(RATIOS, 0.0).tolist()),
        equal_cost_gain=tuple(gains(RATIOS, 0.0).tolist()),
        equal_bill_gain=None if extra is None else tuple(gains(RATIOS, extra).tolist()),
        break_even_cost=_break_even(gains(BREAK_EVEN_GRID, 0.0)),
        break_even_bill=None if extra is None else _break_even(gains(BREAK_EVEN_GRID, extra)),
    )


def _fast_pool(plan: Plan, home_hardware: str) -> PoolPlan | None:
    """The first pool in use for long prompts on other hardware than the homogeneous fleet's."""
    pools = (p for p in plan.pools if p.prompts == "long" and p.n_instances and p.hardware != home_hardware)
    return next((p for p in pools if p.usd_per_hour), None)


def _gains(
    fleet: Problem, req_per_s: float, rent: Rent, ratios: NDArray[np.float64], extra_usd: float
) -> NDArray[np.float64]:
    """Plan over homogeneous fleet, less one; fleets too small to serve count as one instance of each role."""
    per_role = ([p.n_accelerators for p in fleet.pools if p.is_prefill is prefills] for prefills in (True, False))
    least = sum(map(min, per_role))
    return req_per_s / homogeneous_rates(fleet, np.maximum(rent.accelerators(ratios, extra_usd), least)) - 1


def _break_even(gains: NDArray[np.float64]) -> float | None:
    """Least ratio at which the plan is no better than the homogeneous fleet."""
    worse = BREAK_EVEN_GRID[gains <= NO_GAIN]
    return float(worse[0]) if len(worse) else None
