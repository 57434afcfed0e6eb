"""Instances by pool and period, where pools are rented by the period, and what that saves."""

from planner.ranges import Counted, Name, PoolName, Quantity, Signed
from planner.schema import StrictModel


class Replicas(StrictModel):
    """A pool in a period."""

    period: Name
    begins_h: Quantity
    """From the beginning of the first period [h]."""
    hours: Quantity
    n_instances: Counted
    starts: Counted
    """Of these, those that the period before does not have."""


class PoolSchedule(StrictModel):
    """A pool that is rented by the period."""

    pool: PoolName
    least_time_up_h: Quantity
    start_up_s: Quantity
    """How long before a period its starts are rented."""
    replicas: tuple[Replicas, ...]
    """In every period, in order."""
    usd_per_hour: Quantity | None
    """Rent on average, start-ups included."""


class Schedule(StrictModel):
    """Pools that follow the periods, and what that saves."""

    pools: tuple[PoolSchedule, ...]
    peak_usd_per_hour: Quantity | None
    """The bill of the best fleet that is rented at all times; None where none was found."""
    saved_usd_per_hour: Signed | None
    """What following saves of it."""
    saved_fraction: Signed | None
