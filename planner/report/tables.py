"""A plan as tables for a terminal of a hundred columns."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from planner.report import bottleneck_text, formats, phrases
from planner.report.certified_tables import certified_tables
from planner.report.decision import monthly
from planner.report.schedule_tables import schedule_table
from planner.report.table import Table
from planner.report.terminal import frame, printed, remarks
from planner.results.plan import Fleet, Plan, PoolPlan
from planner.results.plan_parts import Latency
from planner.units import DASH, number, percent, usd

if TYPE_CHECKING:
    from rich.console import RenderableType


SECTIONS: dict[str, Callable[[Plan], "Iterable[RenderableType | None]"]] = {
    "answer": lambda plan: [frame(plan.scenario, answer_rows(plan))],
    "pools": lambda plan: [_pools(plan)],
    "instances": lambda plan: [printed(setup_table(plan))],
    "links": lambda plan: [printed(link_table(plan))],
    "periods": lambda plan: [printed(period_table(plan)), printed(schedule_table(plan))],
    "latency": lambda plan: [printed(latencies_table(plan)), printed(classes_table(plan))],
    "cost": lambda plan: [printed(bill_table(plan))],
    "fleets": lambda plan: [_baselines(plan)],
    "binding": lambda plan: [remarks("what binds", _binding(plan))],
    "proof": lambda plan: [remarks("how good it is", phrases.quality(plan))],
    "certified": certified_tables,
    "notes": lambda plan: [remarks("notes", map(formats.sentence, plan.notes))],
}
"""Parts of a plan for people by the names that `--section` has for them, in their order."""


def plan_tables(plan: Plan, sections: Collection[str] = tuple(SECTIONS)) -> list["RenderableType"]:
    """A plan for people: the answer first, then what it rests on.

    Args:
        plan: the answer of `planner optimize`.
        sections: names of the parts to print.

    Returns:
        What to print, in order; nothing in it depends on the terminal.
    """
    chosen = (part for name, parts in SECTIONS.items() if name in sections for part in parts(plan))
    return [part for part in chosen if part is not None]


def answer_rows(plan: Plan) -> list[tuple[str, str]]:
    """The decision in one screen: what is asked for most, and the answer."""
    found = plan.slo_run
    promise = [] if found is None else [("promise", phrases.slo_run(plan))]
    is_first = found is not None and found.holds is False
    rows = [
        *(promise if is_first else ()),
        ("verdict", phrases.verdict_text(plan)),
        ("best served", phrases.serving(plan)),
        ("instances", f"{phrases.sizes(plan)}  ({phrases.pool_names(plan)}; {phrases.accelerators(plan)})"),
        ("prefill:decode", phrases.prefill_to_decode(plan)),
        ("threshold", phrases.threshold(plan)),
        ("throughput", phrases.throughput(plan)),
        ("link", phrases.links(plan)),
        ("cost", phrases.cost(plan)),
        ("TTFT", phrases.ttft(plan)),
    ]
    rows += () if is_first else promise
    idle = () if phrases.has_choice_of_place(plan) else ("threshold", "link")
    return [(label, text) for label, text in rows if label not in idle]


def _pools(plan: Plan) -> "RenderableType | None":
    headings = ("pool", "site", "instance of", "does", ">instances", ">req/s", ">capacity", ">busy")
    rows = (
        (
            pool.name,
            pool.site,
            phrases.instance_hardware(pool),
            phrases.pool_kind(pool).replace(" prompts", ""),
            str(pool.n_instances),
            formats.figure(pool.offered_req_per_s),
            formats.figure(pool.capacity_req_per_s),
            percent(pool.utilization),
        )
        for pool in plan.pools
    )
    return printed(Table.of("pools", headings, rows))


def setup_table(plan: Plan) -> Table:
    """Table of how the instances of every pool are run, and where their times come from."""
    headings = ("pool", "instance of", "layout", "stack", "weights", "KV cache", ">batch", "times")
    return Table.of("how an instance runs", headings, map(_setup_row, plan.pools))


def _setup_row(pool: PoolPlan) -> tuple[str, ...]:
    """Settings of the instances of a pool; a dash where nobody said."""
    known = (phrases.how_run(pool), pool.stack, pool.precision, pool.kv_precision)
    n = pool.accelerators_per_instance
    hardware = phrases.instance_hardware(pool) if n is None else f"{n} x {pool.hardware}"
    return (pool.name, hardware, *(text or DASH for text in known), number(pool.batch_limit), pool.basis)


def link_table(plan: Plan) -> Table:
    """Every link at the operating point."""
    headings = ("link", "from", "to", "rented", ">mean Gbps", ">busy", ">USD/h")
    rows = (
        (
            link.name,
            link.from_site,
            link.to_site,
            phrases.ports(link),
            formats.figure(link.mean_gbps),
            percent(link.utilization),
            usd(link.usd_per_hour),
        )
        for link in plan.links
    )
    return Table.of("links", headings, rows)


def period_table(plan: Plan) -> Table:
    """Every period of the day."""
    headings = ("period", ">req/s", "thresholds", "busiest pool", "busiest link", ">TTFT P90", ">use, USD/h")
    rows = (
        (
            period.name,
            formats.figure(period.demand_req_per_s),
            "; ".join(phrases.thresholds(name, sites) for name, sites in period.thresholds.items()),
            phrases.busiest_unit({pool.name: pool.utilization for pool in period.pools}),
            phrases.busiest_unit({link.name: link.utilization for link in period.links}),
            formats.seconds(period.latency.ttft_p90_s),
            usd(period.use_usd_per_hour),
        )
        for period in plan.periods
    )
    return Table.of("periods", headings, rows)


def latencies_table(plan: Plan) -> Table:
    """Time to first token and per output token, by class where there are several."""
    headings = ("", ">TTFT mean", ">P50", ">P90", ">P99", ">without waiting: mean", ">P90", ">per output token")
    rows = [("all requests", plan.latency)]
    if len(plan.classes) > 1:
        rows += [(c.name, c.latency) for c in plan.classes]
    return Table.of("latency", headings, ((name, *latency_cells(figures)) for name, figures in rows))


def classes_table(plan: Plan) -> Table:
    """Every class with its share and threshold; nothing for a single one."""
    headings = ("class", "model", ">share", ">threshold, tokens", ">mean prompt", ">of it cached", ">mean output")
    rows = (
        (
            c.name,
            c.model,
            percent(c.share),
            number(c.threshold_tokens),
            number(c.mean_total_tokens),
            percent(c.cached_fraction),
            number(c.mean_output_tokens),
        )
        for c in plan.classes
        if len(plan.classes) > 1
    )
    return Table.of("classes", headings, rows)


def latency_cells(latency: Latency) -> list[str]:
    """Every figure of a latency with its unit."""
    figures = (
        latency.ttft_mean_s,
        latency.ttft_p50_s,
        latency.ttft_p90_s,
        latency.ttft_p99_s,
        latency.ttft_unloaded_mean_s,
        latency.ttft_unloaded_p90_s,
        latency.tpot_mean_s,
    )
    return [formats.seconds(value) for value in figures]


def bill_table(plan: Plan) -> Table:
    """The bill per hour and month, item by item, and what is bought for it."""
    rows = ((what, usd(value), monthly(value)) for what, value in _cost_rows(plan))
    bought = plan.cost.purchase_usd
    caption = "" if bought is None else f"Accelerators are bought for {bought:,.0f} USD; rows have their share by hour."
    return Table.of("cost", ("what", ">USD/h", ">USD a month"), rows, caption)


def _cost_rows(fleet: Fleet) -> Iterator[tuple[str, float | None]]:
    """The bill, item by item, with its sum [USD/h]."""
    for pool in fleet.pools:
        yield f"{pool.name}, {pool.n_accelerators} {pool.hardware}", pool.usd_per_hour
    for link in fleet.links:
        yield f"{link.name}, {phrases.ports(link)}", link.usd_per_hour
    if traffic := phrases.traffic_charges_usd_per_hour(fleet):
        yield "traffic by volume", traffic
    if fleet.cost.electricity_usd_per_hour:
        yield "electricity, of it", fleet.cost.electricity_usd_per_hour
    yield "total", fleet.cost.usd_per_hour


def _baselines(plan: Plan) -> "RenderableType | None":
    if not plan.baselines:
        return None
    waits, percentile, ttft = phrases.compared_ttft(plan)
    headings = ("fleet", "instances", ">req/s", ">plan is", ">USD/h", ">USD/M", ">TTFT", f">{percentile}")
    explained = [
        f"req/s at most, and those of the plan over the fleet's; USD/M per million input tokens; TTFT mean and "
        f"{percentile} in s, {waits}"
    ]
    text = "\n".join(explained + [f"{b.name}: {phrases.other_fleet(b)}" for b in plan.baselines])
    fleets: list[tuple[str, Fleet, str]] = [("plan", plan, "")]
    fleets += [(b.name, b, formats.times(b.ratio)) for b in plan.baselines]
    each = zip(fleets, ttft, strict=True)
    rows = ((name, *fleet_cells(fleet, ratio), *map(formats.figure, t)) for (name, fleet, ratio), t in each)
    return printed(Table.of("against other fleets", headings, rows, text))


def fleet_cells(fleet: Fleet, ratio: str) -> list[str]:
    """Cells of a fleet: what it has and serves beside the plan, and what it costs."""
    return [
        phrases.named_sizes(fleet),
        formats.figure(fleet.most_req_per_s),
        ratio,
        usd(fleet.cost.usd_per_hour),
        formats.figure(fleet.cost.usd_per_million_input_tokens),
    ]


def _binding(plan: Plan) -> list[str]:
    return [formats.sentence(bottleneck_text.bottleneck(item)) for item in plan.bottlenecks] or [
        formats.sentence(bottleneck_text.nothing_binds(plan))
    ]
