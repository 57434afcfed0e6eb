"""Rates of a demand that fleets of given sizes serve as promised, and at what cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from planner.comparison import Planned, sketched
from planner.errors import UndecidedError
from planner.optimizer.problem import Problem
from planner.optimizer.sized import sized_problem, within
from planner.optimizer.solution import Solution
from planner.optimizer.strategies import best_solution
from planner.results.plan import Fleet, Plan
from planner.results.studies import SERVED
from planner.studies.migration.order import Sizes
from planner.work_clock import work_s

Ports = tuple[tuple[int, ...], ...]
EXACTLY = 1 - 1e-6
"""A share of the demand from which on all of it counts as served, where no latency is promised."""
PART_OF_TIME = 0.25
"""Of the time that is left, what one fleet may take."""


@dataclass(frozen=True)
class ServedFleet:
    """A fleet and the most that it serves."""

    problem: Problem
    """Of its sizes and ports alone."""
    solution: Solution | None
    """None where it serves nothing."""
    most_req_per_s: float
    """As promised, over all classes and the whole time."""

    def fleet(self, demand_req_per_s: float | None) -> Fleet | None:
        """It at a demand, or at the most it serves; None where it serves nothing."""
        if self.solution is None:
            return None
        if demand_req_per_s is None or demand_req_per_s >= self.most_req_per_s:
            return Planned(self.problem, self.solution).fleet
        return Planned(self.problem, self.solution).at(demand_req_per_s)

    def plan(self, demand_req_per_s: float | None) -> Plan | None:
        """The same as a plan that can be run."""
        if self.solution is None:
            return None
        rate = self.most_req_per_s if demand_req_per_s is None else min(demand_req_per_s, self.most_req_per_s)
        return sketched(self.problem, self.solution, rate)


@dataclass
class Fleets:
    """Fleets of one question, each looked at once, until a deadline.

    Sizes are the most instances of every pool; a pool that is rented by the period may be smaller in some of them.
    """

    problem: Problem
    deadline: float
    known: dict[tuple[Sizes, Ports, float | None], ServedFleet] = field(default_factory=dict)
    followed: dict[tuple[Sizes, Ports], ServedFleet] = field(default_factory=dict)

    @property
    def demand_req_per_s(self) -> float | None:
        """Rate that is asked for [1/s]; None: as much as can be."""
        return self.problem.demand_req_per_s

    @property
    def enough(self) -> float:
        """Share of a rate from which on all of it counts as served: a goodput is known no better."""
        return SERVED if any(c.ttft_s is not None for c in self.problem.classes) else EXACTLY

    def of(self, sizes: Sizes, ports: Ports, threshold_tokens: float | None = None) -> ServedFleet:
        """A fleet of given sizes and the most that it serves.

        Args:
            threshold_tokens: the only threshold there may be; None: the best.

        Raises:
            UndecidedError: the time is up.
        """
        key = sizes, ports, threshold_tokens
        if key not in self.known:
            self.known[key] = self._looked_at(_at_threshold(self.problem, threshold_tokens), sizes, ports)
        return self.known[key]

    def rented(self, sizes: Sizes, ports: Ports) -> ServedFleet:
        """A fleet as it is rented at the demand: pools that follow the periods have these instances at the most.

        Without such pools, without a demand or where it serves less, it is the fleet with all of them at all times.

        Raises:
            UndecidedError: the time is up, or no schedule was found in it.
        """
        served, demand = self.of(sizes, ports), self.demand_req_per_s
        if not self.problem.is_followed or demand is None or not self.does(served.most_req_per_s):
            return served
        if (sizes, ports) not in self.followed:
            found = self._cheapest(self._following(sizes, ports), min(demand, served.most_req_per_s))
            if found is None:
                raise UndecidedError("no schedule was found in the time")
            self.followed[sizes, ports] = replace(found, most_req_per_s=served.most_req_per_s)
        return self.followed[sizes, ports]

    def _following(self, sizes: Sizes, ports: Ports) -> Problem:
        """The problem of a fleet whose pools that are rented by the period may be smaller in some."""
        own = sized_problem(self.problem, sizes, ports)
        pools = (
            spec if pool.by_period is None else within(pool, 0, n)
            for spec, pool, n in zip(own.pools, self.problem.pools, sizes, strict=True)
        )
        return replace(own, pools=tuple(pools))

    def does(self, most_req_per_s: float, least_req_per_s: float | None = None) -> bool:
        """True if a fleet's rate is as much as is asked for, or as another one; without either, if it is above 0."""
        least = self.demand_req_per_s if least_req_per_s is None else least_req_per_s
        return most_req_per_s > 0 if least is None else most_req_per_s >= self.enough * least

    def _looked_at(self, problem: Problem, sizes: Sizes, ports: Ports) -> ServedFleet:
        own = sized_problem(problem, sizes, ports)
        solution = best_solution(own, self._part_s())
        if solution is None:
            return ServedFleet(own, None, 0.0)
        most, demand = solution.scale * own.mean_req_per_s, self.demand_req_per_s
        if own.is_plain and demand is not None and most >= self.enough * demand and own.charges_use:
            return replace(self._cheapest(own, demand) or _with_all_ports(own, solution, most), most_req_per_s=most)
        if demand is not None and most < self.enough * demand <= solution.bound * own.mean_req_per_s:
            return self._cheapest(own, demand) or _with_all_ports(own, solution, most)
        return _with_all_ports(own, solution, most)

    def _cheapest(self, own: Problem, demand_req_per_s: float) -> ServedFleet | None:
        """The cheapest ways through the same fleet at a demand; None where none were found."""
        asked = own.demanding(demand_req_per_s, "min-cost")
        try:
            found = best_solution(asked, self._part_s())
        except UndecidedError:
            return None
        return None if found is None else _with_all_ports(asked, found, demand_req_per_s)

    def _part_s(self) -> float:
        left_s = self.deadline - work_s()
        if left_s <= 0:
            raise UndecidedError("the time is up")
        return PART_OF_TIME * left_s


def _with_all_ports(problem: Problem, solution: Solution, most_req_per_s: float) -> ServedFleet:
    """A fleet with every port that it has: those that a plan could do without are paid for too."""
    ports = tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links)
    return ServedFleet(problem, replace(solution, ports=ports), most_req_per_s)


def _at_threshold(problem: Problem, threshold_tokens: float | None) -> Problem:
    if threshold_tokens is None:
        return problem
    routing = problem.scenario.routing.model_copy(update={"threshold_tokens": threshold_tokens})
    return replace(problem, scenario=problem.scenario.model_copy(update={"routing": routing}))


def links_gbps(problem: Problem, ports: Sequence[Sequence[int]]) -> dict[str, float]:
    """Bandwidth of every link [Gbps]."""
    return {link.name: gbps for link, gbps in zip(problem.links, problem.gbps(ports), strict=True)}


def accelerators_taken(problem: Problem, sizes: Sizes) -> tuple[int, ...]:
    """Accelerators that a fleet takes of every inventory."""
    pools = problem.pools
    return tuple(sum(sizes[i] * pools[i].n_accelerators for i in stock.pools) for stock in problem.inventories)
