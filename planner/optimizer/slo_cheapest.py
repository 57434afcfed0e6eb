"""The cheapest fleet whose goodput reaches a demand, found in the order of cost.

Rent orders sizes. Those that break the promise are made larger until they keep it: all that do not are settled
together, and those that do are plans, though dearer ones, which are made smaller again. So there is a plan early, and a
search that ends before its proof says how much cheaper another could be.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from planner.errors import UndecidedError
from planner.optimizer.capacity import first_intervals
from planner.optimizer.goodput import MOST_BUSY, Goodput, best_goodput_up_to
from planner.optimizer.network.proposals import Proposal, Proposals
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import SLO_GAP, RoutedSolution
from planner.optimizer.sized import Sizing, is_within_limits
from planner.optimizer.slo_attainment import FleetUnderSlo, least_decode_instances
from planner.optimizer.slo_plans import solution
from planner.optimizer.time_limit import nothing_found
from planner.ties import exceeds, largest, largest_first
from planner.work_clock import work_s

LEAST_TIME_S = 0.1
LAST_LOOK_S = 1.0
"""For the goodput of the plan that is answered, where time is up."""


def cheapest(problem: Problem, deadline: float, most_sizings: int) -> RoutedSolution | None:
    """The cheapest sizes whose goodput reaches the demand.

    Rent is what orders sizes; where use is charged too, the thresholds that the promise leaves may cost more, and the
    search goes on until no other sizes can cost less.

    Args:
        problem: a problem with one route, least cost as its objective and an SLO on TTFT.
        deadline: `work_s()` time to stop at.

    Returns:
        The plan and what no plan costs less than; None where none reaches the demand.

    Raises:
        UndecidedError: time is up, or so many sizes are looked at, without a plan.
    """
    search = _CostOrder(problem, problem.demand_req_per_s or 0.0, deadline)
    for sizing in _too_few_decode(problem, search.demand):
        search.proposals.settle(sizing)
    for n_settled in range(most_sizings):
        if search.is_over and (search.best or n_settled):
            break
        answer = search.proposed()
        if answer is None and search.is_over:
            break
        if answer is None:
            return search.answered(inf)
        search.least_usd = answer.bound
        if search.best and answer.bound >= search.best.objective / (1 + SLO_GAP):
            return search.answered(answer.bound)
        search.settle(answer.sizing)
        if search.is_first_found and not problem.charges_use:
            return search.answered(inf)
    if search.best:
        return search.answered(search.least_usd)
    raise nothing_found(is_time_up=search.is_over, looked_at=f"{most_sizings} sizes in the order of cost")


@dataclass(eq=False)
class _CostOrder:
    """A search through sizes in the order of what they cost at the least."""

    problem: Problem
    demand: float
    deadline: float
    best: RoutedSolution | None = None
    least_usd: float = 0.0
    """What the sizes that are not settled cost at the least [USD/h]."""
    open_usd: float = inf
    """The same of sizes that reach the demand within the tolerance of a proof, and were not found to."""
    is_first_found: bool = False
    """Whether the cheapest sizes by rent that reach the demand are found."""

    @property
    def is_over(self) -> bool:
        """True if time is up."""
        return work_s() > self.deadline

    @cached_property
    def proposals(self) -> Proposals:
        """The cheapest sizes by capacity that are not settled."""
        return Proposals.of(self.problem)

    def proposed(self) -> Proposal | None:
        """The cheapest sizes that are not settled; None when all are, or time is up with a plan at hand."""
        try:
            return self.proposals.best(max(self.deadline - work_s(), LEAST_TIME_S))
        except UndecidedError:
            if self.best is None:
                raise
            return None

    def settle(self, sizing: Sizing) -> None:
        """Find out whether sizes reach the demand; where they do not, which larger ones do not either."""
        if not self.is_first_found:
            found = self.reaching(sizing)
            self.is_first_found = found.rate >= self.demand
            if found.bound < self.demand:
                sizing = self.grown(sizing)
            elif not self.is_first_found:
                self.open_usd = min(self.open_usd, self.least_usd)
        if self.is_first_found and self.best and self.problem.charges_use:
            self.best = _of_less_use(self.problem, sizing, self.best)
        self.proposals.settle(sizing)

    def reaching(self, sizing: Sizing) -> Goodput:
        """The goodput of sizes, or of smaller ones, up to the demand; it is a plan where it reaches it."""
        at, found = best_goodput_up_to(
            self.problem, sizing, self.deadline, self.demand / (1 + 2 * SLO_GAP), self.demand
        )
        if found.rate >= self.demand:
            self.offer(solution(self.problem, at, found, self.demand))
        return found

    def offer(self, plan: RoutedSolution) -> None:
        """A plan that is the best, if it is; sizes that were made larger may be more than the limits allow."""
        budget = self.problem.scenario.budget_usd_per_hour
        if not is_within_limits(self.problem, plan.sizing.n_instances) or plan.objective > (budget or inf):
            return
        if self.best is None or exceeds(self.best.objective, plan.objective):
            self.best = plan

    def grown(self, sizing: Sizing) -> Sizing:
        """Sizes that do not reach the demand, with as many more instances of each pool as do not help."""
        decode = self.problem.route.decode
        for pool in sorted(range(len(self.problem.pools)), key=lambda i: i != decode):
            most = self.problem.pools[pool].max_instances
            tried, step = most, 1
            while sizing.n_instances[pool] < tried and not self.is_over:
                larger, is_new = _with(sizing, pool, tried), self.best is None
                found = self.reaching(larger)
                if found.bound < self.demand:
                    sizing = larger
                elif is_new and self.best:
                    self.shrink(self.best.sizing)
                if found.bound >= self.demand and (tried < most or pool == decode):
                    break
                tried, step = min(sizing.n_instances[pool] + step, most - 1), 2 * step
        return sizing

    def shrink(self, sizing: Sizing) -> None:
        """Offer plans of fewer instances of each pool by turns, the dearest first."""
        pools = self.problem.pools
        for pool in sorted(range(len(pools)), key=lambda i: -sizing.n_instances[i] * (pools[i].usd_per_hour or 0.0)):
            low, high = pools[pool].min_instances, sizing.n_instances[pool]
            while low < high:
                fewer = _with(sizing, pool, (low + high) // 2)
                does = self.reaching(fewer).rate >= self.demand
                low, high = (low, fewer.n_instances[pool]) if does else (fewer.n_instances[pool] + 1, high)
            sizing = _with(sizing, pool, high)

    def answered(self, bound: float) -> RoutedSolution | None:
        """The best plan, at the threshold of its highest goodput, and what no plan costs less than."""
        best = self.best
        if best is None:
            return None
        until = max(self.deadline, work_s() + LAST_LOOK_S)
        at, found = best_goodput_up_to(self.problem, best.sizing, until, self.demand / (1 + 2 * SLO_GAP))
        if found.rate >= self.demand:
            most = solution(self.problem, at, found, self.demand)
            if self.problem.charges_use:
                most = _of_less_use(self.problem, at, most)
            best = largest((most, best), lambda plan: -plan.objective)
        return replace(best, bound=min(self.open_usd, bound, best.objective))


def _with(sizing: Sizing, pool: int, n: int) -> Sizing:
    return replace(sizing, n_instances=tuple(n if i == pool else m for i, m in enumerate(sizing.n_instances)))


def _too_few_decode(problem: Problem, demand: float) -> Iterator[Sizing]:
    """The largest sizes that are settled because their decode pool alone breaks the promise."""
    limits = [pool.max_instances for pool in problem.pools]
    decode = problem.route.decode
    least = least_decode_instances(problem, demand, limits[decode])
    if least > 1:
        n = (least - 1 if i == decode else most for i, most in enumerate(limits))
        yield Sizing(tuple(n), tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links))


def _of_less_use(problem: Problem, sizing: Sizing, best: RoutedSolution) -> RoutedSolution:
    """The cheapest plan of some sizes, over a grid of thresholds that keep the promise; or the best so far."""
    fleet, rate = FleetUnderSlo(problem, sizing), best.req_per_s
    plans = [
        solution(problem, sizing, Goodput(rate, float(t), rate), rate)
        for t in first_intervals(problem, problem.route)[1]
    ]
    for plan in largest_first((p for p in plans if exceeds(best.objective, p.objective)), lambda p: -p.objective):
        t, most = plan.threshold_tokens, plan.highest_req_per_s * MOST_BUSY
        if most >= rate and fleet.late_fraction(t, t, rate) <= fleet.late_allowed:
            return replace(plan, goodput=max(fleet.goodput_at(t, most, rate), rate))
    return best
