"""What the page of `planner explore` holds: a plan, and tables from which its figures follow when a knob is turned.

Every table is of one pool: instances by threshold by utilisation. The page adds, multiplies and interpolates; it knows
no queueing. Where all knobs stand on a node of `ExactNodes`, its figures are those of `planner optimize`.
"""

from typing import Any, Literal

from planner.results.case import BreakEvenResult, CaseFront, PriceRatios, SourceNote
from planner.results.executed import Executed
from planner.results.plan import Plan
from planner.results.studies import Hour, Sensitivity
from planner.schema import StrictModel

Row = tuple[float, ...]
Table = tuple[Row, ...]


class WaitTable(StrictModel):
    """Waits of a pool: by threshold node (one for decode, which no threshold changes), instances and utilisation."""

    n_instances: tuple[int, ...]
    """Ascending."""
    use: Row
    """Utilisations, ascending [-]."""
    log_waiting: tuple[Table, ...]
    """log P(W > 0)."""
    log_idle_wait: tuple[Table, ...]
    """log of E[W | W > 0] times 1 less the utilisation, which changes less than the wait itself; seconds."""
    log_survival: tuple[tuple[Table, ...], ...]
    """log P(W > x m | W > 0) at the multiples x of `Tables.wait_multiples`, m = E[W | W > 0]."""


class PoolTable(StrictModel):
    """A pool, and what a request asks of it."""

    name: str
    size_key: str
    """What `--set` calls its instances."""
    role: Literal["prefill", "decode"]
    n_planned: int
    accelerators_per_instance: int
    usd_per_instance_hour: float | None
    busy_usd_per_hour: float
    """What a busy instance costs on top [USD/h]."""
    taken_fraction: Row
    """Share of all requests that it takes, by fine threshold [-]."""
    work_s: Row
    """Instance-seconds per request of all, by fine threshold [s]."""
    kinds_s: Table = ()
    """Of a prefill pool: seconds after the wait, by threshold node and kind of request [s]."""
    step_s: Table = ()
    """Of a decode pool: seconds per output token, by instances and utilisation of the waits [s]."""
    waits: WaitTable | None
    """None where there is no queueing model."""


class StockTable(StrictModel):
    """Accelerators at a site that several pools share."""

    site: str
    hardware: str
    n_accelerators: int
    pools: tuple[str, ...]


class LinkTable(StrictModel):
    """A link with the ports of the plan."""

    name: str
    capacity_gbps: float
    gbps_per_req_per_s: Row
    """Traffic of one request per second, by fine threshold [Gbps]."""
    usd_per_hour: float | None
    """Of its ports."""
    usd_per_gb: float


class ExactNodes(StrictModel):
    """Latency of the plan's sizes as `planner optimize` finds it, by threshold node and rate; None: no steady state."""

    req_per_s: Row
    """Ascending."""
    figures: dict[str, tuple[tuple[float | None, ...], ...]]
    """`ttft_mean_s` to `tpot_mean_s`, by their names in a plan."""


class Tables(StrictModel):
    """One route of one class: what a threshold, sizes and a rate lead to."""

    fine_tokens: Row
    """Thresholds at which work is stated, ascending [tokens]."""
    node_tokens: Row
    """Those among them at which waits are stated too."""
    planned_tokens: float
    """Threshold of the plan; one of the nodes."""
    is_split: bool
    """Whether the threshold decides anything."""
    kind_weights: Row
    """Of the kinds of request of every prefill pool; sum 1."""
    wait_multiples: Row
    pools: tuple[PoolTable, ...]
    links: tuple[LinkTable, ...]
    stocks: tuple[StockTable, ...]
    promised_ttft_s: float | None
    """None: nothing is promised."""
    promised_percentile: float
    mean_total_tokens: float
    mean_output_tokens: float
    exact: ExactNodes | None
    fixed: tuple[str, ...]
    """What `--set` must say beside sizes, threshold and rate so that `planner optimize` keeps the plan's links."""


class Place(StrictModel):
    """A site on the map of the page."""

    name: str
    title: str


class Explorer(StrictModel):
    """Everything that the page shows."""

    planner: str
    """Version of the planner."""
    title: str
    question: str
    """The scenario as it stands in its file."""
    command: str
    """What `planner optimize` is called with for this plan, without its knobs."""
    places: tuple[Place, ...]
    plan: Plan
    tables: Tables | None
    """None where there is more than one route, model, rate or period: then the page shows the plan, unturned."""
    fronts: tuple[CaseFront, ...] = ()
    sensitivity: Sensitivity | None = None
    price_ratios: PriceRatios | None = None
    break_even: tuple[BreakEvenResult, ...] = ()
    executed: Executed | None = None
    hours: tuple[Hour, ...] = ()
    inputs: tuple[SourceNote, ...] = ()
    sources: tuple[str, ...] = ()
    notes: str = ""

    def answer(self) -> dict[str, Any]:
        """The data of the page, as its JSON download has them."""
        found = self.model_dump(mode="json", by_alias=True, exclude={"plan"})
        return {"schema": "planner.explorer/1", **found, "plan": self.plan.answer()}
