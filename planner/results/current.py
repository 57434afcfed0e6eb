"""The fleet that stands beside the plan: what staying costs, what to change, and in which order."""

from planner.notes import Note
from planner.ranges import Counted, Quantity, Signed
from planner.results.plan_parts import Bottleneck, PoolSchedule
from planner.schema import StrictModel


class StepRun(StrictModel):
    """A fleet on the way, run request by request at the demand, beside one promise on TTFT."""

    promised_s: Quantity
    percentile: Quantity
    executed_s: Quantity
    ci_low_s: Signed | None
    """95 % confidence interval over replications; None with a single one."""
    ci_high_s: Signed | None
    n_requests: Counted
    holds: bool | None
    """Whether the promise was kept; None: the interval holds both answers."""
    period: str | None = None
    """The period that was run, of a plan for several: the one with the highest demand."""
    request_class: str | None = None
    """The class whose promise comes nearest to being broken, of several."""


class Step(StrictModel):
    """One pool, or the ports of one link, changed; and what the fleet serves after it."""

    changes: str
    """Key of the scenario, such as `pools.pd-p.n_instances` or `links.wan.capacity_gbps`."""
    before: Quantity
    after: Quantity
    n_instances: dict[str, Counted]
    """Of every pool after it."""
    links_gbps: dict[str, Quantity]
    """Bandwidth of every link after it."""
    threshold_tokens: Signed | None
    """Threshold to set after an addition, or before a removal; None where there is not one for all."""
    serves_req_per_s: Quantity
    """Most that is served then, as promised."""
    holds: bool
    """Whether that is all that is asked for."""
    usd_per_hour: Quantity | None
    run: StepRun | None = None
    """None where no latency is promised, or nothing was run."""


class BrokenStep(StrictModel):
    """An obstacle to every order: an addition without room, and the removal that would make some."""

    changes: str
    """Pool that has to grow first, as a key of the scenario."""
    lacks_accelerators: Counted
    """What is missing to add one instance of it, with everything in place."""
    hardware: str
    site: str
    removal: str | None
    """Pool of which one instance less would make room; None where none would."""
    serves_req_per_s: Quantity | None
    """Most that is served with one less of it."""


class Order(StrictModel):
    """Steps from one fleet to another in which nothing that is asked for and served is lost on the way."""

    steps: tuple[Step, ...]
    """Where there is no such order: those with spare instances."""
    exists: bool | None
    """Whether there is one without spare instances; None: not found out in the time."""
    least_req_per_s: Quantity
    """What every fleet on the way serves at least: what is asked for, or what stands serves if that is less."""
    broken: BrokenStep | None = None
    spare_instances: dict[str, Counted] = {}
    """Instances beyond the stock, by pool, with which for a while there is the order that `steps` states."""


class TargetFleet(StrictModel):
    """A fleet to go on with: the one that stands, or another."""

    n_instances: dict[str, Counted]
    links_gbps: dict[str, Quantity]
    added: dict[str, Counted]
    """Instances, by pool."""
    removed: dict[str, Counted]
    threshold_tokens: Signed | None
    usd_per_hour: Quantity | None
    difference_usd_per_hour: Signed | None
    """Beyond the bill of the fleet that stands."""
    serves_req_per_s: Quantity
    """Most that it serves as promised."""
    holds: bool
    """Whether that is all that is asked for."""
    utilization: dict[str, Quantity]
    """Of pools and links at the demand, or at the most it serves."""
    schedule: tuple[PoolSchedule, ...] = ()
    """Of pools that are rented by the period, instances in each; `n_instances` has the most of them."""
    breaks_in_months: Quantity | None = None
    """Months until a growing demand is more than it serves; None where it never is, or no growth is stated."""
    breaks_on: str | None = None
    """The day, from the one that was given."""
    order: Order | None = None


class Current(StrictModel):
    """The fleet that stands, and the ways on from it."""

    demand_req_per_s: Quantity | None
    """What is asked for; None: as much as can be."""
    growth_fraction_per_month: Signed | None
    stay: TargetFleet
    stays_at_threshold: bool | None
    """Whether the threshold that stands serves what is asked for; None where the file states none."""
    binds: tuple[Bottleneck, ...]
    """What holds down what the fleet that stands serves, most valuable first."""
    change: TargetFleet | None
    """The cheapest fleet that keeps every instance that stands, where staying does not do; the cheapest part of it,
    where it does. None where neither is known."""
    optimum: TargetFleet
    """The plan."""
    notes: tuple[Note, ...] = ()
