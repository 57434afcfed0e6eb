"""The live system as a scenario, and the request-level executor's run of it on the requests that are served live."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.systems import system
from planner.files import write_text
from planner.hybrid.live import WorkerSpec
from planner.hybrid.timing import DecodePoint, Point
from planner.profiles.toml_text import toml_assignments, toml_table
from planner.results.plan import Fleet, LinkPlan, PoolPlan
from planner.results.plan_parts import Cost, Latency
from planner.scenario import Scenario, load_scenario
from planner.studies.live.forecast import Forecast
from planner.studies.live.question import BATCH_LIMIT, LINK_BYTES_PER_S, Drawn
from planner.units import gbps

FAR, NEAR = "far", "near"
"""Sites: the remote prefill pool's, and that of the others."""
PROMPTS: Mapping[str, Literal["long", "short"]] = {"prfaas": "long", "pd-p": "short"}
FAR_POOL, NEAR_POOL, DECODE_POOL, LINK = "prfaas", "pd-p", "pd-d", "wan"
REQUESTS, SCENARIO = "requests.csv", "scenario.toml"
FIRST_ARRIVAL = datetime(2000, 1, 1, tzinfo=UTC)
"""Any day does: only differences count."""
UNKNOWN = Latency(**dict.fromkeys(Latency.model_fields))
UNPRICED = Cost(
    usd_per_hour=None,
    usd_per_million_input_tokens=None,
    usd_per_million_output_tokens=None,
    accelerators_usd_per_hour=None,
)


@dataclass(frozen=True, eq=False)
class LivePlan:
    """Plan that is about to be served, and all that another judge needs to execute it."""

    forecast: Forecast
    drawn: Drawn
    """Lengths and gaps; gaps are in units of 1 / forecast.offered_req_per_s."""
    model: str
    """Name of the served model's profile, in the folder of profiles."""
    hardware: str
    """Name of the profile of a core."""
    stack: Path
    """File of the stack profile."""
    stretch: float
    """Seconds on the wall over those of a core that belongs to the worker alone, as other programs leave it."""
    workers: tuple[WorkerSpec, ...]
    loopback_bytes_per_s: float
    folder: Path
    """Where profiles are and the scenario goes."""
    points: tuple[Point, ...]
    """Lengths and batches whose service times are asked for."""


@dataclass(frozen=True, eq=False)
class LiveExecution:
    """Results of the executor's run of a live plan."""

    points: Mapping[Point, float]
    """Service times, those of a core of one's own [s]."""
    metrics: Mapping[str, float]
    """Of the run, by the names of the checks."""
    ttft_s: NDArray[np.float64]
    """Of every request, in order of arrival; shape (n,) [s]."""


def execute_live(plan: LivePlan) -> LiveExecution:
    """Run the requests of a live plan through the executor, at their own times.

    Args:
        plan: what is about to be served. Its folder gets `scenario.toml` and `requests.csv`, with which
            `planner simulate` runs it again.

    Returns:
        Service times and figures of the run. TTFT and TPOT are those of the live system: TTFT ends when the cache is
        whole at the decode worker, and what a request waits there for a place in the batch counts in its TPOT.

    Raises:
        InputError: the folder cannot be written, or the roofline cannot time the model.

    Valid:
        A cache is taken to grow evenly over the layers of its prefill; a decode worker is chosen when the cache
        arrives, the live router chooses when prefill begins.
    """
    write_text(plan.folder / REQUESTS, requests_csv(plan.drawn, plan.forecast.offered_req_per_s))
    text = scenario_toml(plan)
    write_text(plan.folder / SCENARIO, text)
    scenario = load_scenario(text, str(plan.folder / SCENARIO), plan.folder.resolve())
    fleet = live_fleet(plan)
    n = len(plan.drawn.gaps)
    _, records = simulate(scenario, fleet, RunQuestion(n, 0, 1.0, 1), keep=True)
    assert records is not None, "records were asked for"
    return LiveExecution(
        _service_times(scenario, fleet, plan), _metrics(records.columns, plan), _ttft_s(records.columns)
    )


def _ttft_s(columns: Mapping[str, Any]) -> NDArray[np.float64]:
    return np.asarray(columns["kv_end_s"] - columns["arrival_s"], float)


def _metrics(columns: Mapping[str, Any], plan: LivePlan) -> dict[str, float]:
    """Figures of all requests: the live run counts them all too."""
    ttft, outputs = _ttft_s(columns), columns["output_tokens"]
    many = outputs > 1
    tpot = (columns["finish_s"] - columns["kv_end_s"])[many] / (outputs - 1)[many]
    # A trace begins with its first request, the live run one gap before it.
    span_s = float(plan.drawn.gaps[0]) / plan.forecast.offered_req_per_s + float(columns["finish_s"].max())
    crossed = float(columns["wire_bytes"][columns["is_long"]].sum())
    return {
        "kv_bytes": float(columns["wire_bytes"].sum()),
        "ttft_mean_s": float(ttft.mean()),
        "ttft_p90_s": float(np.quantile(ttft, 0.9)),
        "tpot_mean_s": float(tpot.mean()),
        "throughput_req_per_s": len(ttft) / span_s,
        "link_fraction": crossed / span_s / LINK_BYTES_PER_S,
    }


def _service_times(scenario: Scenario, fleet: Fleet, plan: LivePlan) -> dict[Point, float]:
    """The executor's own seconds of a prompt and of a step, without what other programs take."""
    run = system(scenario, fleet)
    prefill, decode = run.prefill_times[0].service, run.decode_times[0].step_s
    found: dict[Point, float] = {}
    for point in plan.points:
        if isinstance(point, DecodePoint):
            base, per_token = decode[point.batch].tolist()
            seconds = base + per_token * point.batch * point.context_tokens
        else:
            seconds = float(prefill.seconds(point.new_tokens + point.cached_tokens, point.cached_tokens))
        found[point] = seconds / plan.stretch
    return found


def requests_csv(drawn: Drawn, offered_req_per_s: float) -> str:
    """The requests as a trace in the columns of the Azure traces."""
    times = np.cumsum(drawn.gaps) / offered_req_per_s
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    each = zip(times.tolist(), drawn.input_tokens.tolist(), drawn.output_tokens.tolist(), strict=True)
    for at, tokens, output in each:
        moment = FIRST_ARRIVAL + timedelta(seconds=at)
        lines.append(f"{moment:%Y-%m-%d %H:%M:%S.%f},{tokens},{output}")
    return "\n".join(lines) + "\n"


def scenario_toml(plan: LivePlan) -> str:
    """The live system as a scenario that `planner simulate` and `planner optimize` take."""
    is_shared = shares_a_core(plan.workers)
    pool = {
        "hardware": f"profiles/{plan.hardware}.toml",
        "accelerators_per_instance": 1,
        "service_times": "roofline",
        "stack": str(plan.stack.resolve()),
        "time_factor": plan.stretch,
    }
    link = {"from": FAR, "to": NEAR, "capacity_gbps": gbps(LINK_BYTES_PER_S), "destination_holds_prefix": False}
    tables: dict[str, dict[str, Any]] = {
        "model": {"profile": f"profiles/{plan.model}.toml"},
        "workload": {"trace": {"path": REQUESTS, "format": "azure"}, "prefix_hits": "none"},
        "routing": {"threshold_tokens": plan.forecast.threshold_tokens},
        f"sites.{FAR}": {"title": "prefill behind the link"},
        f"sites.{NEAR}": {"title": "decode", "fabric_gbps": gbps(plan.loopback_bytes_per_s)},
        f"pools.{FAR_POOL}": {"site": FAR, "role": "prefill", **_size(plan, FAR_POOL), **pool},
        f"pools.{NEAR_POOL}": {"site": NEAR, "role": "prefill", **_size(plan, NEAR_POOL), **pool},
        f"pools.{DECODE_POOL}": {"site": NEAR, "role": "decode", **_size(plan, DECODE_POOL), **pool},
        f"links.{LINK}": link,
        "execution": {"warm_up_fraction": 0.0, "cool_down_fraction": 0.0, "max_transfers": 1_000_000},
        "execution.arrivals": {"kind": "recorded", "at_own_rate": True},
        f"execution.pools.{DECODE_POOL}": {"batch_limit": BATCH_LIMIT},
        **({f"execution.pools.{FAR_POOL}": {"instances_of": NEAR_POOL}} if is_shared else {}),
    }
    head = {"schema": "planner.scenario/1", "name": "live", "title": "The live system of this machine"}
    return "\n".join([toml_assignments(head), *(toml_table(name, table) for name, table in tables.items())])


def live_fleet(plan: LivePlan) -> Fleet:
    """Workers, threshold and link of the live system as a plan; costs and promises are unknown."""
    far = plan.drawn.input_tokens > plan.forecast.threshold_tokens
    rate, share = plan.forecast.offered_req_per_s, float(far.mean())
    offered = {FAR_POOL: share * rate, NEAR_POOL: (1 - share) * rate, DECODE_POOL: rate}
    return Fleet(
        threshold_tokens=plan.forecast.threshold_tokens,
        offload_fraction=share,
        throughput_req_per_s=rate,
        max_throughput_req_per_s=plan.forecast.capacity_req_per_s,
        pools=tuple(_pool(plan, name, offered[name]) for name in offered),
        links=(_link(plan.forecast),),
        latency=UNKNOWN,
        cost=UNPRICED,
    )


def _pool(plan: LivePlan, name: str, offered_req_per_s: float) -> PoolPlan:
    n = _size(plan, name)["n_instances"]
    return PoolPlan(
        name=name,
        site=FAR if name == FAR_POOL else NEAR,
        hardware=plan.hardware,
        role="decode" if name == DECODE_POOL else "prefill",
        prompts=PROMPTS.get(name),
        n_instances=n,
        n_accelerators=n,
        capacity_req_per_s=plan.forecast.capacity_req_per_s,
        offered_req_per_s=offered_req_per_s,
        utilization=plan.forecast.offered_req_per_s / plan.forecast.capacity_req_per_s,
        usd_per_hour=None,
        basis="calibrated",
    )


def _link(forecast: Forecast) -> LinkPlan:
    rate = gbps(LINK_BYTES_PER_S)
    return LinkPlan(
        name=LINK,
        from_site=FAR,
        to_site=NEAR,
        capacity_gbps=rate,
        n_ports=1,
        port_gbps=rate,
        mean_gbps=forecast.link_fraction * rate,
        utilization=forecast.link_fraction,
        usd_per_hour=None,
    )


def shares_a_core(workers: Sequence[WorkerSpec]) -> bool:
    """True if the two prefill pools share a core."""
    cores = {pool: {spec.core for spec in workers if spec.pool == pool} for pool in (FAR_POOL, NEAR_POOL)}
    return bool(cores[FAR_POOL] & cores[NEAR_POOL])


def _size(plan: LivePlan, pool: str) -> dict[str, int]:
    """Instances: workers of the pool."""
    return {"n_instances": sum(spec.pool == pool for spec in plan.workers)}
