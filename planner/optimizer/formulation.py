"""The mixed-integer model: one function per constraint, on PuLP.

Sets: pools i, links l with port tiers j, classes c, routes r (a class with a pool for its long and one for its short
prompts), threshold candidates k of a route. Variables: n_i instances and m_lj ports (integer), y_rk = 1 when route r
uses candidate k (binary), w_rk = rate of class c(r) on route r under candidate k [req/s], and the rate R [req/s]. The
loads per request of a candidate are constants, so w_rk <= U_rk y_rk makes the product of rate and choice linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from planner.optimizer.capacity import Loads, decode_s
from planner.optimizer.problem import Problem
from planner.optimizer.routes import Route
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, GB, SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pulp

ProgramObjective = Literal["rate", "spend", "accelerators"]
GBIT_PER_BYTE = BITS_PER_BYTE / BITS_PER_GBIT


@dataclass(frozen=True)
class Sizing:
    """Integers of a plan: instances per pool, and ports per link and tier."""

    n_instances: tuple[int, ...]
    n_ports: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ProgramGoal:
    """What to ask of the model: the goal and what is held fixed while it is pursued."""

    objective: ProgramObjective
    sizing: Sizing | None = None
    """Integers held at these values."""
    least_rate: float = 0.0
    """Lower limit of the rate [req/s]."""
    most_rate: float = inf
    """Upper limit of the rate [req/s]."""
    counted: tuple[int, ...] = ()
    """Pools whose accelerators the goal `accelerators` keeps few."""
    excluded: tuple[Sizing, ...] = ()
    """Sizes that are done with: an answer has more of something than each of them."""


@dataclass(frozen=True)
class RoutedProgram:
    """A PuLP problem and its variables by index."""

    problem: Problem
    loads: Sequence[Loads]
    lp: pulp.LpProblem
    most_instances: tuple[int | None, ...]
    """Largest size of every pool; None where nothing limits it."""
    most_rate: float
    """No more than this is ever asked of the fleet [req/s]."""
    rate: pulp.LpVariable
    instances: list[pulp.LpVariable]
    ports: list[list[pulp.LpVariable]]
    choices: list[list[pulp.LpVariable]]
    rates: list[list[pulp.LpVariable]]
    excluded: tuple[Sizing, ...] = ()
    """Sizes that an answer must exceed somewhere, each of them."""


CONSTRAINTS: list[Any] = []
"""Every constraint of the formulation, in the order they are added."""


def constraint(function: Any) -> Any:
    """Register a function that adds one family of constraints."""
    CONSTRAINTS.append(function)
    return function


def build(problem: Problem, loads: Sequence[Loads], goal: ProgramGoal) -> RoutedProgram:
    """The whole model.

    Args:
        problem: the resolved scenario.
        loads: candidates of each route.
        goal: goal and fixed values.

    Returns:
        The model, ready to solve.
    """
    program = variables(problem, loads, goal)
    for add in CONSTRAINTS:
        add(program)
    return program


def variables(problem: Problem, loads: Sequence[Loads], goal: ProgramGoal) -> RoutedProgram:
    """The model with variables and objective, without constraints."""
    import pulp

    maximise = goal.objective == "rate"
    lp = pulp.LpProblem("plan", pulp.LpMaximize if maximise else pulp.LpMinimize)
    limits = goal.sizing.n_instances if goal.sizing else problem.size_limits
    top = min(goal.most_rate, 2 * most_rate(problem, limits))
    rate = lp.add_variable("rate", goal.least_rate, top if top < inf else None)
    program = RoutedProgram(
        problem,
        loads,
        lp,
        limits,
        top,
        rate,
        [_integer(lp, f"n_{pool.name}", *_size_bounds(problem, goal, i)) for i, pool in enumerate(problem.pools)],
        [
            [
                _integer(lp, f"ports_{link.name}_{j}", *_port_bounds(goal, index, j, tier.max_ports))
                for j, tier in enumerate(link.tiers)
            ]
            for index, link in enumerate(problem.links)
        ],
        [
            [lp.add_variable(f"y_{r}_{k}", cat=pulp.LpBinary) for k in range(candidates.n_candidates)]
            for r, candidates in enumerate(loads)
        ],
        [
            [lp.add_variable(f"w_{r}_{k}", 0) for k in range(candidates.n_candidates)]
            for r, candidates in enumerate(loads)
        ],
    )
    program = replace(program, excluded=goal.excluded)
    lp += rate if maximise else spend(program) if goal.objective == "spend" else accelerators(program, goal.counted)
    return program


def _integer(lp: pulp.LpProblem, name: str, low: int, high: int | None) -> pulp.LpVariable:
    import pulp

    return lp.add_variable(name.replace("-", "_"), low, high, cat=pulp.LpInteger)


def _size_bounds(problem: Problem, goal: ProgramGoal, index: int) -> tuple[int, int | None]:
    if goal.sizing:
        return (goal.sizing.n_instances[index],) * 2
    pool = problem.pools[index]
    return pool.min_instances, problem.size_limits[
        index
    ] if pool.stated_max_instances is None else pool.stated_max_instances


def _port_bounds(goal: ProgramGoal, link: int, tier: int, most: int) -> tuple[int, int]:
    return (goal.sizing.n_ports[link][tier],) * 2 if goal.sizing else (0, most)


@constraint
def split_class_rate(program: RoutedProgram) -> None:
    """sum of w_rk over the routes of class c = share_c R: every request is routed."""
    import pulp

    for c, request_class in enumerate(program.problem.classes):
        rates = [
            w for r, route in enumerate(program.problem.routes) if route.request_class == c for w in program.rates[r]
        ]
        program.lp.addConstraint(pulp.lpSum(rates) == request_class.share * program.rate, f"split_class_rate_{c}")


@constraint
def choose_one_threshold(program: RoutedProgram) -> None:
    """sum of y_rk over k <= 1: a route has one threshold."""
    import pulp

    for r, choices in enumerate(program.choices):
        program.lp.addConstraint(pulp.lpSum(choices) <= 1, f"choose_one_threshold_{r}")


@constraint
def link_rate_to_choice(program: RoutedProgram) -> None:
    """w_rk <= U_rk y_rk: no rate under a threshold that was not chosen; U_rk is what the largest fleet could serve."""
    for r, route in enumerate(program.problem.routes):
        for k, (w, y) in enumerate(zip(program.rates[r], program.choices[r], strict=True)):
            program.lp.addConstraint(
                w <= _most_rate_of(program, route, program.loads[r], k) * y, f"link_rate_to_choice_{r}_{k}"
            )


@constraint
def bound_prefill_work(program: RoutedProgram) -> None:
    """sum of w_rk W_irk <= n_i: the work that arrives per second fits the instances of a prefill pool."""
    import pulp

    for i, pool in enumerate(program.problem.pools):
        if pool.role == "prefill":
            work = [w * seconds for r, k, w in _rates(program) if (seconds := _work_s(program, r, k, i)) > 0]
            program.lp.addConstraint(pulp.lpSum(work) <= program.instances[i], f"bound_prefill_work_{i}")


@constraint
def bound_decode_slots(program: RoutedProgram) -> None:
    """sum of w_rk T_decode L_out / BS_max <= n_i: every request finds a slot in the decode pool."""
    import pulp

    for i, pool in enumerate(program.problem.pools):
        if pool.role == "decode":
            routes = [(r, route) for r, route in enumerate(program.problem.routes) if route.decode == i]
            work = [w * decode_s(program.problem, route) for r, route in routes for w in program.rates[r]]
            program.lp.addConstraint(pulp.lpSum(work) <= program.instances[i], f"bound_decode_slots_{i}")


@constraint
def bound_link_bytes(program: RoutedProgram) -> None:
    """sum of w_rk S_lrk <= sum of m_lj B_lj: the mean bytes per second fit the ports of a link."""
    import pulp

    for index, link in enumerate(program.problem.links):
        sent = [
            w * gbit for r, k, w in _rates(program) if (gbit := GBIT_PER_BYTE * _sent_bytes(program, r, k, index)) > 0
        ]
        ports = [m * tier.capacity_gbps for m, tier in zip(program.ports[index], link.tiers, strict=True)]
        program.lp.addConstraint(pulp.lpSum(sent) <= pulp.lpSum(ports), f"bound_link_bytes_{index}")


@constraint
def staff_used_pools(program: RoutedProgram) -> None:
    """sum of y_rk over the k that send work to pool i <= n_i: little work needs an instance too, tolerance or not."""
    import pulp

    for r, route in enumerate(program.problem.routes):
        for i in range(len(program.problem.pools)):
            used = [y for k, y in enumerate(program.choices[r]) if i == route.decode or _work_s(program, r, k, i) > 0]
            if used:
                program.lp.addConstraint(pulp.lpSum(used) <= program.instances[i], f"staff_used_pools_{r}_{i}")


@constraint
def open_used_links(program: RoutedProgram) -> None:
    """sum of y_rk over the k that send bytes over link l <= sum of m_lj: few bytes need a port too."""
    import pulp

    for r in range(len(program.problem.routes)):
        for i, ports in enumerate(program.ports):
            used = [y for k, y in enumerate(program.choices[r]) if _sent_bytes(program, r, k, i) > 0]
            if used:
                program.lp.addConstraint(pulp.lpSum(used) <= pulp.lpSum(ports), f"open_used_links_{r}_{i}")


@constraint
def bound_accelerators(program: RoutedProgram) -> None:
    """sum of a_i n_i over the pools of an inventory <= its accelerators."""
    import pulp

    for v, inventory in enumerate(program.problem.inventories):
        used = [program.problem.pools[i].n_accelerators * program.instances[i] for i in inventory.pools]
        program.lp.addConstraint(pulp.lpSum(used) <= inventory.n_accelerators, f"bound_accelerators_{v}")


@constraint
def bound_budget(program: RoutedProgram) -> None:
    """Rent of instances and ports plus charges for traffic and work <= budget."""
    budget = program.problem.scenario.budget_usd_per_hour
    if budget is not None:
        program.lp.addConstraint(usd_per_hour(program) <= budget, "bound_budget")


@constraint
def exceed_settled_sizes(program: RoutedProgram) -> None:
    """n_i >= (s_i + 1) b_si and the like for ports, sum of b_s >= 1: more of something than every settled sizing s."""
    import pulp

    for index, sizing in enumerate(program.excluded):
        pairs = [*zip(program.instances, sizing.n_instances, strict=True)]
        for row, excluded_ports in zip(program.ports, sizing.n_ports, strict=True):
            pairs += zip(row, excluded_ports, strict=True)
        exceeds = []
        for position, (variable, excluded_size) in enumerate(pairs):
            if variable.upBound is not None and variable.upBound <= excluded_size:
                continue
            more = program.lp.add_variable(f"more_{index}_{position}", cat=pulp.LpBinary)
            name = f"exceed_settled_sizes_{index}_{position}"
            program.lp.addConstraint(variable >= (excluded_size + 1) * more, name)
            exceeds.append(more)
        program.lp.addConstraint(pulp.lpSum(exceeds) >= 1, f"exceed_settled_sizes_{index}")


@constraint
def keep_prefill_to_decode(program: RoutedProgram) -> None:
    """b N_p = a N_d for a ratio a : b of prefill for short prompts to decode instances."""
    import pulp

    if program.problem.ratio is not None:
        a, b = program.problem.ratio
        prefill = [
            n for n, pool in zip(program.instances, program.problem.pools, strict=True) if pool.prompts == "short"
        ]
        decode = [n for n, pool in zip(program.instances, program.problem.pools, strict=True) if pool.role == "decode"]
        program.lp.addConstraint(b * pulp.lpSum(prefill) == a * pulp.lpSum(decode), "keep_prefill_to_decode")


def usd_per_hour(program: RoutedProgram) -> pulp.LpAffineExpression:
    """Rent of instances and ports plus charges for traffic and work [USD/h]; needs every price."""
    import pulp

    problem = program.problem
    instances = [n * (pool.usd_per_hour or 0.0) for n, pool in zip(program.instances, problem.pools, strict=True)]
    ports = [
        m * (tier.usd_per_hour or 0.0)
        for link, row in zip(problem.links, program.ports, strict=True)
        for m, tier in zip(row, link.tiers, strict=True)
    ]
    use = [w * usd for r, k, w in _rates(program) if (usd := _use_usd_per_hour(program, r, k)) > 0]
    return pulp.lpSum(instances) + pulp.lpSum(ports) + pulp.lpSum(use)


def spend(program: RoutedProgram) -> pulp.LpAffineExpression:
    """What a plan uses up: its cost, or without prices its accelerators, and bandwidth only to break ties."""
    import pulp

    if program.problem.is_priced:
        return usd_per_hour(program)
    used = [n * pool.n_accelerators for n, pool in zip(program.instances, program.problem.pools, strict=True)]
    bandwidth = [
        m * tier.capacity_gbps * 1e-6
        for link, row in zip(program.problem.links, program.ports, strict=True)
        for m, tier in zip(row, link.tiers, strict=True)
    ]
    return pulp.lpSum(used) + pulp.lpSum(bandwidth)


def accelerators(program: RoutedProgram, pools: Sequence[int]) -> pulp.LpAffineExpression:
    """Accelerators in some of the pools."""
    import pulp

    return pulp.lpSum(program.instances[i] * program.problem.pools[i].n_accelerators for i in pools)


def _rates(program: RoutedProgram) -> list[tuple[int, int, pulp.LpVariable]]:
    return [(r, k, w) for r, row in enumerate(program.rates) for k, w in enumerate(row)]


def _work_s(program: RoutedProgram, r: int, k: int, pool: int) -> float:
    route, loads = program.problem.routes[r], program.loads[r]
    return float(loads.long_s[k]) * (route.long == pool) + float(loads.short_s[k]) * (route.short == pool)


def _sent_bytes(program: RoutedProgram, r: int, k: int, link: int) -> float:
    route, loads = program.problem.routes[r], program.loads[r]
    long, short = route.long_link == link, route.short_link == link
    return float(loads.long_bytes[k]) * long + float(loads.short_bytes[k]) * short


def _use_usd_per_hour(program: RoutedProgram, r: int, k: int) -> float:
    """Charges per hour for the traffic and the work of one request a second of a route under a candidate."""
    problem, route = program.problem, program.problem.routes[r]
    sent = (_sent_bytes(program, r, k, i) / GB * link.usd_per_gb for i, link in enumerate(problem.links))
    work = (_work_s(program, r, k, i) * pool.busy_usd_per_hour for i, pool in enumerate(problem.pools))
    decode = decode_s(problem, route) * problem.pools[route.decode].busy_usd_per_hour
    return SECONDS_PER_HOUR * sum(sent) + sum(work) + decode


def most_rate(problem: Problem, limits: Sequence[int | None]) -> float:
    """A rate no fleet exceeds: what the largest decode pools serve [req/s]."""
    total = 0.0
    for i in {route.decode for route in problem.routes}:
        total += _at_most(limits[i], min(decode_s(problem, r) for r in problem.routes if r.decode == i))
    return total


def _most_rate_of(program: RoutedProgram, route: Route, loads: Loads, k: int) -> float:
    """U_rk: rate of a route under a candidate with every pool and link at its largest [req/s]."""
    limits = [program.most_rate, _at_most(program.most_instances[route.decode], decode_s(program.problem, route))]
    for pool, seconds in ((route.long, loads.long_s[k]), (route.short, loads.short_s[k])):
        if pool is not None:
            limits.append(_at_most(program.most_instances[pool], float(seconds)))
    for link, sent in ((route.long_link, loads.long_bytes[k]), (route.short_link, loads.short_bytes[k])):
        if link is not None:
            limits.append(_at_most(program.problem.links[link].max_gbps(), float(sent) * GBIT_PER_BYTE))
    return min(limits)


def _at_most(limit: float | None, per_request: float) -> float:
    return inf if limit is None or per_request <= 0 else limit / per_request
