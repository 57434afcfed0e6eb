"""The first screen of a plan: its decision, the fleet, its times, other fleets, what binds, and decisive notes."""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from planner.notes import code_of
from planner.report import bottleneck_text, formats, phrases
from planner.report.decision import (
    comparable_fleets,
    decision_rows,
    doubtful_lengths,
    fleet_to_buy,
    monthly,
    promise_text,
    rank,
    recommendation_text,
    shortened,
)
from planner.report.table import Table
from planner.report.terminal import compact, labelled
from planner.results.plan import Baseline, Fleet, LinkPlan, Plan, PoolPlan
from planner.results.plan_parts import Latency
from planner.units import DASH, percent, usd

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = 100
"""Columns from which on a screen has fewer lines."""
LINES, NARROW_LINES = 30, 40
"""Most lines on so many columns, and on fewer."""
ROWS, ALTERNATIVES, BINDING = 8, 3, 2
"""Most pools and links, other fleets, and constraints."""
NARROWER = ((), ("layout",), ("layout", "does"), ("layout", "does", ">USD/h each"))
"""Columns of the fleet that are left out, as few as keep its rows on a line each."""
WIDE_GAP = 0.05
"""Gap of another fleet that is said beside it."""
DECISIVE = (
    "value-beyond-usual",
    "cheaper-fleet",
    "not-settled",
    "stricter-promise",
    "price-missing",
    "price-unknown",
    "own-profile-used",
    "own-points",
    "queue-saturated",
    "lengths-extrapolated",
    "beyond-calibration",
    "nearly-full",
    "times-not-measured",
)
"""Codes of the notes that may change what is bought, the gravest first; others follow in their own order."""


def plan_screen(plan: Plan, columns: int, count: "Callable[[Iterable[RenderableType]], int]") -> "list[RenderableType]":
    """A plan on one screen.

    Args:
        plan: the answer of `planner optimize`.
        columns: width of the terminal.
        count: lines that parts take there.

    Returns:
        What to print, in order: notes last, as many as the screen has lines for.
    """
    left = _most_lines(columns)
    parts = [
        labelled(f"{plan.scenario}: {recommendation_text(plan)}", decision_rows(plan, shortened)),
        min(
            (compact(fleet_table(plan, without)) for without in NARROWER),
            key=lambda table: count([table] if table else []),
        ),
        compact(latency_table(plan)),
    ]
    found = [part for part in parts if part is not None]
    binds = [labelled("", [("binds", line)]) for line in _binding(plan)]
    tables = (compact(alternatives_table(plan, n)) for n in range(ALTERNATIVES, 0, -1))
    found += next(([t] for t in tables if t is not None and count([*found, t, *binds]) <= left), [])
    found += _fitting(binds, left - count(found), count)
    doubt = doubtful_lengths(plan)
    others = (note for note in plan.notes if note.rpartition(" (note:")[0] not in doubt)
    return fitted_to_screen(found, others, "everything else: --details, or --section NAME", columns, count)


def fitted_to_screen(
    parts: "list[RenderableType]",
    notes: Iterable[str],
    rest: str,
    columns: int,
    count: "Callable[[Iterable[RenderableType]], int]",
) -> "list[RenderableType]":
    """Parts, as many notes as the screen has lines for, those that may change a decision first; where the rest is."""
    known = {code: place for place, code in enumerate(DECISIVE)}
    ordered = sorted(notes, key=lambda note: known.get(code_of(note) or "", len(known)))
    lines = [labelled("", [("note", formats.sentence(note))]) for note in ordered]
    shown = _fitting(lines, _most_lines(columns) - count(parts), count)
    hidden = len(lines) - len(shown)
    more = f"{hidden} more note{'s' * (hidden != 1)} and " if hidden else ""
    return [*parts, *shown, labelled("", [("more", f"{more}{rest}")])]


def _most_lines(columns: int) -> int:
    """Lines of a screen but for the last, which says where the rest is."""
    return (LINES if columns >= WIDE else NARROW_LINES) - 1


def _fitting(
    parts: "list[RenderableType]", lines: int, count: "Callable[[Iterable[RenderableType]], int]"
) -> "list[RenderableType]":
    """As many of the first parts as so many lines hold."""
    n = len(parts)
    while n and count(parts[:n]) > lines:
        n -= 1
    return parts[:n]


def fleet_table(plan: Plan, without: Collection[str] = ()) -> Table:
    """Every pool and link in use: where, how many, how it runs, how busy it is, and what it and each of it cost.

    Args:
        without: headings of columns to leave out; a layout that nobody stated is left out in any case.
    """
    stated = "pool" if fleet_to_buy(plan) is plan else "stated pool"
    headings = (stated, "at", "instances", "layout", "does", ">busy", ">USD/h", ">USD/h each")
    rows = [_pool_row(pool) for pool in plan.pools if pool.n_instances]
    rows += [_link_row(link) for link in plan.links if link.capacity_gbps > 0]
    more = len(rows) - ROWS
    if more > 1:
        rows = [*rows[: ROWS - 1], (f"{more + 1} more", *[""] * (len(headings) - 1))]
    apart = {"traffic": phrases.traffic_charges_usd_per_hour(plan), "total": plan.cost.usd_per_hour}
    if plan.cost.electricity_usd_per_hour:
        apart = {"electricity": plan.cost.electricity_usd_per_hour, **apart}
    within = {"electricity": "of it"}
    rows += [(what, within.get(what, ""), *[""] * 4, usd(value), "") for what, value in apart.items() if value]
    unstated = {"layout"} if all(pool.layout is None for pool in plan.pools) else set()
    kept = [i for i, heading in enumerate(headings) if heading not in {*without, *unstated}]
    caption = f"{phrases.cost_band_text(plan).removeprefix('. ')}." if plan.cost_band else ""
    return Table.of("", [headings[i] for i in kept], ([row[i] for i in kept] for row in rows), caption)


def _pool_row(pool: PoolPlan) -> tuple[str, ...]:
    n, bill = pool.n_instances, pool.usd_per_hour
    return (
        pool.name,
        pool.site,
        f"{n} x {pool.n_accelerators // n} {pool.hardware}",
        phrases.how_run(pool) or DASH,
        phrases.pool_kind(pool).replace(" prompts", ""),
        percent(pool.utilization),
        usd(bill),
        usd(None if bill is None else bill / n),
    )


def _link_row(link: LinkPlan) -> tuple[str, ...]:
    bill = link.usd_per_hour
    each = None if bill is None or not link.n_ports else bill / link.n_ports
    where = f"{link.from_site} to {link.to_site}"
    return link.name, where, phrases.ports(link), DASH, "link", percent(link.utilization), usd(bill), usd(each)


def latency_table(plan: Plan) -> Table:
    """Times, each in the column of what it is: promised, executed, predicted under load, or without waiting."""
    run, latency = plan.slo_run, plan.latency
    rows: list[tuple[str, tuple[float | None, ...]]] = []
    if run is not None and run.promised_s is not None:
        asked = f"TTFT P{run.percentile:g}"
        rows.append((asked, (run.promised_s, run.executed_s, run.predicted_s, _alone(latency, run.percentile))))
    else:
        rows.append(("TTFT P90", (None, None, latency.ttft_p90_s, latency.ttft_unloaded_p90_s)))
    if run is not None and run.tpot is not None:
        tpot = run.tpot
        rows.append((f"TPOT P{run.percentile:g}", (tpot.promised_s, tpot.executed_s, tpot.predicted_s, None)))
    else:
        rows.append(("TPOT mean", (None, None, latency.tpot_mean_s, None)))
    used = [row for row in rows if any(value is not None for value in row[1])]
    columns = ["promised", "executed", "predicted under load", "without waiting"]
    kept = [i for i in range(4) if any(values[i] is not None for _, values in used)]
    headings = ["latency", *(f">{columns[i]}" for i in kept)]
    return Table.of("", headings, ((name, *(formats.seconds(values[i]) for i in kept)) for name, values in used))


def _alone(latency: Latency, percentile: float) -> float | None:
    return latency.ttft_unloaded_p90_s if percentile == 90 else None


def alternatives_table(plan: Plan, n: int) -> Table:
    """The best of the other fleets, those that can be had first."""
    others = sorted(comparable_fleets(plan), key=lambda other: (bool(other.beyond_stock), rank(plan, other)))
    rows = (
        (
            f"{phrases.other_fleet(other)}{_open_bill(plan, other)}",
            formats.figure(other.most_req_per_s),
            usd(other.cost.usd_per_hour),
            formats.times(other.ratio),
        )
        for other in others[:n]
    )
    return Table.of("", ("other fleets", ">req/s at most", ">USD/h", ">plan serves"), rows)


def _open_bill(plan: Plan, other: Baseline) -> str:
    """Bill down to which a fleet is not excluded, where that leaves the recommendation open."""
    bill = other.cost.usd_per_hour
    if plan.verdict.recommendation is not None or plan.objective != "min-cost" or bill is None or other.gap <= WIDE_GAP:
        return ""
    return f"; one for {usd(bill * (1 - other.gap))} USD/h is not excluded"


def other_fleets_table(plan: Plan) -> Table:
    """Every other fleet: its accelerators and layouts, what it serves and costs, and its TPOT."""
    rows = (
        (
            phrases.other_fleet(other),
            _instances(other),
            formats.figure(other.most_req_per_s),
            usd(other.cost.usd_per_hour),
            formats.seconds(other.latency.tpot_mean_s),
            formats.times(other.ratio),
        )
        for other in plan.baselines
    )
    headings = ("other fleets", "instances", ">req/s at most", ">USD/h", ">TPOT", ">plan serves")
    return Table.of("", headings, rows)


def _instances(fleet: Fleet) -> str:
    """Instances of every pool in use, and how they run."""
    return ", ".join(_runs(pool) for pool in fleet.pools if pool.n_instances)


def _runs(pool: PoolPlan) -> str:
    """Instances of a pool with their accelerators, layout and role."""
    n = pool.n_instances
    how = f" {how}" if (how := phrases.how_run(pool)) else ""
    return f"{n} x {pool.n_accelerators // n} {pool.hardware}{how} ({phrases.pool_kind(pool).replace(' prompts', '')})"


def growth_table(plan: Plan, grown: Plan, fraction: float) -> Table:
    """The plan beside that of a grown demand, and what it costs more; with how instances run, where that differs."""
    now_run, then_run = ([(pool.name, phrases.how_run(pool)) for pool in one.pools] for one in (plan, grown))

    def row(name: str, one: Plan) -> tuple[str, ...]:
        bill = one.cost.usd_per_hour
        now = plan.cost.usd_per_hour
        more = DASH if bill is None or not now else formats.signed_percent(bill / now - 1)
        rate = formats.figure(one.throughput_req_per_s)
        sizes = phrases.named_sizes(one) if now_run == then_run else _instances(one)
        return name, rate, sizes, usd(bill), monthly(bill), more

    rows = [row("now", plan), row(f"{formats.signed_percent(fraction)}", grown)]
    headings = ("demand", ">req/s", "instances", ">USD/h", ">USD a month", ">more")
    return Table.of("", headings, rows, f"promise then: {promise_text(grown, grown)}")


def _binding(plan: Plan) -> list[str]:
    return [formats.sentence(bottleneck_text.bottleneck(item)) for item in plan.bottlenecks[:BINDING]]
