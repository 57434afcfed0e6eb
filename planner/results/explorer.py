"""Contents of the page of `planner explore`: a plan, and tables from which its figures follow when a knob is turned.

Every table is of one pool: instances by threshold by utilisation. The page adds, multiplies and interpolates; it knows
no queueing. Where all knobs stand on a node of `ExactNodes`, its figures are those of `planner optimize`.
"""

import json
from typing import Any, Literal

from planner.results.case import BreakEvenResult, CaseFront, PriceRatios, SourceNote
from planner.results.executed import Executed
from planner.results.plan import Plan
from planner.results.studies import Hour, Sensitivity
from planner.schema import StrictModel

LONG = 120
"""Characters from which on a part of the tables is written once."""
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
    step_s: Table = ()
    """Of a decode pool: seconds per output token, by instances and utilisation of the waits [s]."""
    waits: WaitTable | None
    """None where there is no queueing model, or nothing to wait for."""


class PathTable(StrictModel):
    """Requests that one pool prefills and one decodes."""

    prefill: int
    decode: int
    """Places of the two among the pools."""
    share: Row
    """Of all requests, by fine threshold [-]."""
    kinds_s: Table
    """Seconds after the wait for prefill, by threshold node and kind of request [s]."""


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
    """A plan in one of its periods: what a threshold, sizes and a rate lead to.

    Of a network, where requests go is fixed as planned, and all thresholds are turned by the same factor.
    """

    fine_tokens: Row
    """Thresholds at which work is stated, ascending [tokens]."""
    node_tokens: Row
    """Those among them at which waits are stated too."""
    planned_tokens: float
    """Threshold of the plan, of several their mean; one of the nodes."""
    planned_req_per_s: float
    """Rate of the plan."""
    is_split: bool
    """Whether the threshold decides anything."""
    by_factor: bool
    """Whether it stands for several, which are all multiplied by the same factor; then ways are fixed, too."""
    kind_weights: Row
    """Of the kinds of request of every prefill pool; sum 1."""
    wait_multiples: Row
    pools: tuple[PoolTable, ...]
    offload_fraction: Row
    """Share of the requests that leave their site or go to a pool for long prompts alone, by fine threshold [-]."""
    paths: tuple[PathTable, ...]
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


class MapSite(StrictModel):
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
    places: tuple[MapSite, ...]
    plan: Plan
    tables: tuple[Tables, ...]
    """One for every period; none where sizes change from period to period: then the page shows the plan, unturned."""
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
        tables, shared = shared_once(found.pop("tables"))
        return {"schema": "planner.explorer/1", **found, "tables": tables, "shared": shared, "plan": self.plan.answer()}


def shared_once(value: Any) -> tuple[Any, list[Any]]:
    """A value in which a long part that it has several times is `{"shared": i}`, and these parts.

    >>> shared_once([["x" * 200], ["x" * 200]]) == ([{"shared": 0}, {"shared": 0}], [["x" * 200]])
    True
    """
    found: dict[str, int] = {}
    _count(value, found)
    shared: list[Any] = []
    return _referred(value, found, {}, shared), shared


def _count(value: Any, found: dict[str, int]) -> None:
    """Count the occurrences of every long part; parts of what occurs again are not counted again."""
    if not isinstance(value, (dict, list)):
        return
    text = json.dumps(value, separators=(",", ":"))
    if len(text) < LONG:
        return
    found[text] = found.get(text, 0) + 1
    if found[text] == 1:
        for part in value.values() if isinstance(value, dict) else value:
            _count(part, found)


def _referred(value: Any, found: dict[str, int], known: dict[str, int], shared: list[Any]) -> Any:
    if not isinstance(value, (dict, list)):
        return value
    text = json.dumps(value, separators=(",", ":"))
    if found.get(text, 0) > 1:
        if text not in known:
            known[text] = len(shared)
            shared.append(value)
        return {"shared": known[text]}
    if isinstance(value, dict):
        return {key: _referred(part, found, known, shared) for key, part in value.items()}
    return [_referred(part, found, known, shared) for part in value]
