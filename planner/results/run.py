"""The run: what the executor saw when it ran a plan, field for field what `planner simulate --format json` prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from planner.notes import Note
from planner.ranges import Counted
from planner.schema import StrictModel

SELDOM = ("scheduler", "rebalance", "period", "periods")
"""Fields that are not printed where they say nothing."""


class Interval(StrictModel):
    """A 95 % confidence interval of a mean over independent replications."""

    low: float
    high: float


class LinkRun(StrictModel):
    """One link between sites, while it was watched."""

    mean_gbps: float
    peak_gbps: float
    """The most in any second of the whole run."""
    mean_transfers: float
    """Transfers in progress, at arrivals."""


class PoolRun(StrictModel):
    """One pool, while it was watched."""

    role: Literal["prefill", "decode", "colocated"]
    n_instances: int
    mean_waiting: float
    """Requests that wait for it, at arrivals."""
    mean_batch: float | None
    """Sequences per decode or colocated instance; None for prefill."""
    busy_fraction: float | None = None
    """Time in passes, of a colocated instance; its utilisation is over what it does when it is kept full."""


class WaitRun(StrictModel):
    """Where the time to first token goes, in the mean over requests; together they are its mean."""

    prefill_wait_s: float
    """Until prefill begins."""
    prefill_s: float
    transfer_s: float
    """From the end of prefill until the last byte is where decode is."""
    decode_wait_s: float
    """Until a decode instance has room."""


class SiteRun(StrictModel):
    """Requests of a class that one site decoded."""

    name: str
    n_counted: int
    ttft_mean_s: float | None
    ttft_p90_s: float | None
    ttft_p99_s: float | None


class ClassRun(StrictModel):
    """One class of requests, wherever they were decoded."""

    name: str
    n_counted: int
    ttft_mean_s: float | None
    ttft_p90_s: float | None
    ttft_p99_s: float | None
    ttft_promised_s: float | None = None
    """That of the percentage of its requests that its promise is about; None without a promise on TTFT."""
    tpot_mean_s: float | None = None
    tpot_promised_s: float | None = None
    """That of the percentage of its requests that its promise is about; None without a promise on TPOT."""
    intervals: dict[str, Interval] = {}
    """By metric; empty with a single replication, or where all ran the same."""
    sites: tuple[SiteRun, ...] = ()
    """By the site that decodes, where these are several."""


class SchedulerRun(StrictModel):
    """Changes that the system made by itself."""

    n_conversions: int
    """Instances that changed their role, all replications together."""
    factor_low: float
    """Lowest threshold that any replication set, over the planned one."""
    factor_mean: float
    """Mean over time and replications, of thresholds over the planned ones."""
    factor_high: float
    mean_instances: dict[str, float]
    """Instances in the role of each pool, while it was watched; those that change it count for neither."""


class RebalanceRun(StrictModel):
    """Rebalancing between the cache pools of sites, all replications together."""

    n_offered: int
    """Copies that seemed worth it; those whose turn did not come are offered again, and counted again."""
    n_moved: int
    """Copies that arrived."""
    n_dropped: int
    """Copies that were begun in vain: their link was lost, or what they copied was dropped before it was sent."""
    n_entries: int
    """Blocks and states that arrived and were not there."""
    moved_bytes: float
    """On the links, within `cross_site_bytes`."""
    n_hits: int
    """Prefills that began from what had been moved."""
    hit_tokens: float
    """Prompt tokens of these that were found by the move alone."""


class RunFigures(StrictModel):
    """Outcome of a run: means over replications, each without its warm-up and cool-down."""

    load: float | None
    """Offered rate over the rate that the plan is for; None where requests came as others left."""
    offered_req_per_s: float | None
    """Mean rate of arrivals; None where requests came as others left."""
    concurrency: int | None = None
    """Requests inside at any time of a closed loop; None: they arrived by themselves, or kept the system full."""
    users: int | None = None
    """Of a closed population, each of whom thinks between answer and next request; None: of none."""
    n_replications: int
    n_requests: int
    """Of all replications, warm-up and cool-down included."""
    n_asked: int
    """Of all replications, of several periods in each; what only fills a system that is kept full is not counted."""
    is_transient: bool
    """Whether the warm-up was so short that the figures are those of a system that still fills;"""
    is_decode_transient: bool = False
    """and whether its batches still fill, whatever the queues before them do."""
    settling_requests: Counted | None = None
    """About how many, warm-up and cool-down included, make it long enough; None where it is."""
    n_counted: int
    """Of these, those that the figures below are over."""
    n_completed: int
    n_dropped: int
    dropped: dict[str, int]
    """Dropped requests by reason."""
    n_retried: int
    """Requests that were started again, whatever became of them."""
    simulated_s: float
    """Seconds of the system's time, all replications together."""
    throughput_req_per_s: float
    offload_fraction: float
    cross_site_bytes: float
    """On all links between sites, all replications together."""
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    ttft_promised_s: float | None = None
    """That of the percentage of requests that the scenario's promise is about; None without a promise."""
    tpot_mean_s: float | None
    tpot_p90_s: float | None
    utilization: dict[str, float]
    """Of a prefill pool the busy part of its time, of a decode pool its tokens over those of full batches."""
    links: dict[str, LinkRun]
    prefix_hit_fraction: float | None
    """Prompt tokens found in a cache; None where nothing is ever cached."""
    waits: WaitRun
    pools: dict[str, PoolRun]
    classes: tuple[ClassRun, ...]
    mean_inside: float
    """Requests in the system, by the integral over time."""
    intervals: dict[str, Interval]
    """By metric; empty with a single one, or where all ran the same."""
    notes: tuple[Note, ...] = ()
    """What the reader must know to use the figures."""
    scheduler: SchedulerRun | None = None
    """None, and not printed, where the system keeps to its plan."""
    rebalance: RebalanceRun | None = None
    """None, and not printed, where prefixes stay in their pools."""


class PeriodRun(RunFigures):
    """One period of a plan for several."""

    name: str
    hours: float


class Run(RunFigures):
    """The executor's answer. Of several periods, figures are those of the whole time: rates and use by the hours of
    each period, times by its requests."""

    schema_version: Literal["planner.run/1"] = Field(default="planner.run/1", serialization_alias="schema")
    scenario: str
    seed: int
    period: str | None = None
    """The period that was run; None, and not printed, of a plan of one demand or of all its periods."""
    periods: tuple[PeriodRun, ...] = ()
    """Every period by itself, where several were run; else none, and not printed."""

    def answer(self) -> dict[str, Any]:
        """The run as JSON prints it, what identifies it first."""
        fields = self.model_dump(mode="json", by_alias=True)
        fields["periods"] = [_figures(one, ("name", "hours")) for one in fields["periods"]]
        return _figures(fields, ("schema", "scenario", "seed"))


def _figures(figures: dict[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    """Figures without what does not apply, some of them first."""
    rest = {key: value for key, value in figures.items() if key not in first and (key not in SELDOM or value)}
    return {key: figures[key] for key in first} | rest


@dataclass(frozen=True)
class TtftCurve:
    """The distribution of TTFT that is predicted at a run's load."""

    seconds: tuple[float, ...]
    """Ascending times [s]."""
    fractions: tuple[float, ...]
    """Share of requests whose first token takes no longer, shape of `seconds`."""
    mean_s: float


@dataclass(frozen=True, eq=False)
class RunRecords:
    """Records of every request of one replication, as columns, and of the state now and then."""

    columns: Mapping[str, Any]
    """Arrays by name, one entry per request; words are indexes into `words`."""
    words: Mapping[str, tuple[str, ...]]
    """What the indexes of a column mean."""
    n_warm_up: int
    """First requests, which are not counted."""
    n_counted: int
    """Requests after them that are."""
    samples: Mapping[str, Any]
    """Arrays by name, one entry per moment; the first is `time_s`."""
