"""The units that the periods of a network share: instances, or accelerators that change roles, and ports.

Where roles are fixed, a unit is an instance of a pool. Where they change, a unit is a number of accelerators of an
owner: the greatest common divisor of the accelerators of the instances that it may make of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.network.cells import Array
from planner.optimizer.network.period_operation import PeriodOperation
from planner.optimizer.network.relaxation import Relaxation
from planner.optimizer.problem import Problem

Units = NDArray[np.int64]
"""One number for every pool, or for every owner where roles change; then ports of every tier of every link."""
NOTHING = 1e-6


@dataclass(frozen=True, eq=False)
class SharedUnits:
    """The units of a network; arrays have one entry per unit, sizes before ports."""

    problem: Problem
    usd: Array
    """Price of a unit [USD/h], or its accelerators where prices are missing."""
    least: Units
    most: Units
    members: tuple[tuple[int, ...], ...]
    """Pools that a unit is for, of units that are not ports."""
    n_accelerators: Array
    """In a unit, of those that are not ports."""

    @property
    def n_sizes(self) -> int:
        """Number of units that are not ports [count]."""
        return len(self.members)

    def of_relaxation(self, relaxation: Relaxation) -> Units:
        """Units in the optimum of a relaxation, rounded down, shape (units,) [count].

        Args:
            relaxation: a relaxation of some periods.
        """
        sizes, ports = relaxation.fractional_units()
        step = self.n_accelerators if self.problem.scenario.routing.role_conversion else 1.0
        return np.floor(np.concatenate([sizes / step, ports]) + NOTHING).astype(np.int64)

    def of_plan(self, operations: Sequence[PeriodOperation], ports: Sequence[Sequence[int]]) -> Units:
        """Units that a plan needs in its largest period, shape (units,) [count].

        Args:
            operations: what every period does.
            ports: ports of every tier of every link [count].
        """
        held = self._instance_accelerators @ np.array([one.n_instances for one in operations]).T
        sizes = np.round(held.max(axis=1) / self.n_accelerators)
        return np.array([*sizes, *(m for of_link in ports for m in of_link)], np.int64)

    def of_group(self, group: int) -> Units:
        """Indices of the units that prefill prompts of a group.

        Args:
            group: the group.
        """
        problem = self.problem
        pools = {arc.pool for q in problem.groups[group] for arcs in problem.arcs[q].values() for arc in arcs}
        return np.array([u for u, members in enumerate(self.members) if pools.intersection(members)], np.int64)

    def ports(self, units: Units) -> tuple[tuple[int, ...], ...]:
        """Ports of every tier of every link [count].

        Args:
            units: units, shape (units,) [count].
        """
        left = iter(int(m) for m in units[self.n_sizes :])
        return tuple(tuple(next(left) for _ in link.tiers) for link in self.problem.links)

    @property
    def _instance_accelerators(self) -> Array:
        """Accelerators of an instance by unit and pool; 0 where a unit is not for a pool."""
        found = np.zeros((self.n_sizes, len(self.problem.pools)))
        for u, members in enumerate(self.members):
            for i in members:
                found[u, i] = self.problem.pools[i].n_accelerators
        return found


def shared_units(problem: Problem) -> SharedUnits:
    """The units of a problem, with their prices and limits.

    Args:
        problem: the resolved scenario.
    """
    pools, tiers = problem.pools, [tier for link in problem.links for tier in link.tiers]
    is_owned = problem.scenario.routing.role_conversion
    members = problem.owners if is_owned else tuple((i,) for i in range(len(pools)))
    steps = [gcd(*(pools[i].n_accelerators for i in own)) for own in members]
    prices = [(pools[own[0]].usd_per_hour or 0.0) / pools[own[0]].n_accelerators for own in members]
    port_usd = [(tier.usd_per_hour or 0.0) * problem.is_priced for tier in tiers]
    sizes_usd = [step * (usd if problem.is_priced else 1.0) for step, usd in zip(steps, prices, strict=True)]
    stock = {i: inventory.n_accelerators for inventory in problem.inventories for i in inventory.pools}
    most = [
        min(stock.get(own[0], np.inf), sum(pools[i].max_instances * pools[i].n_accelerators for i in own)) // step
        for own, step in zip(members, steps, strict=True)
    ]
    least = [0 if is_owned else pools[own[0]].min_instances for own in members]
    return SharedUnits(
        problem,
        np.array([*sizes_usd, *port_usd]),
        np.array([*least, *(0 for _ in tiers)], np.int64),
        np.array([*most, *(tier.max_ports for tier in tiers)], np.int64),
        members,
        np.array(steps, dtype=np.float64),
    )
