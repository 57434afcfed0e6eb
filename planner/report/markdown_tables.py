"""The tables that only a report has."""

from collections.abc import Sequence
from dataclasses import replace

from planner.report import formats, phrases
from planner.report.decision import decision_rows, fleet_to_buy
from planner.report.table import Table
from planner.report.tables import answer_rows, bill_table, fleet_cells
from planner.results.case import BreakEvenResult, Case, ClaimResult, PriceRatios
from planner.results.plan import Fleet, Plan
from planner.units import DASH, number, percent, usd

N_RATIOS = 7
"""Price ratios a reader wants to see."""
N_BASELINES = 3
"""Baselines that variants are compared with."""


ALSO = ("instances", "prefill:decode", "TTFT")
"""Of the whole answer, what the first page has beside what a person who decides asks first."""


def answer_table(plan: Plan) -> Table:
    """The decision, one line each, and what the bill rests on; the verdict in full stands below it."""
    whose = "" if fleet_to_buy(plan) is plan else ", as stated"
    more = [(f"{label}{whose}", text) for label, text in answer_rows(plan) if label in ALSO]
    band = phrases.cost_band_text(plan).removeprefix(". ")
    rests = [("cost band", band)] if band else []
    return Table.untitled(["", ""], [(f"**{label}**", text) for label, text in (*decision_rows(plan), *rests, *more)])


def pools_table(plan: Plan) -> Table:
    """Every pool at the operating point."""
    return Table.untitled(
        [
            "pool",
            "site",
            "hardware",
            "does",
            ">instances",
            ">accelerators",
            ">req/s",
            ">capacity",
            ">busy",
        ],
        (
            (
                pool.name,
                pool.site,
                pool.hardware,
                phrases.pool_kind(pool),
                str(pool.n_instances),
                str(pool.n_accelerators),
                formats.figure(pool.offered_req_per_s),
                formats.figure(pool.capacity_req_per_s),
                percent(pool.utilization),
            )
            for pool in plan.pools
        ),
    )


def day_table(case: Case) -> Table:
    """The planned fleet hour by hour."""
    headings = [
        "hour",
        ">req/s",
        "busiest",
        ">TTFT mean",
        ">P90",
        ">USD/h",
        ">USD per M input",
        ">per M output",
    ]
    return Table.untitled(
        headings,
        (
            (
                f"{i:02}",
                formats.figure(hour.demand_req_per_s),
                phrases.busiest_unit(hour.utilization),
                formats.seconds(hour.ttft_mean_s),
                formats.seconds(hour.ttft_p90_s),
                usd(hour.usd_per_hour),
                formats.figure(hour.usd_per_million_input_tokens),
                formats.figure(hour.usd_per_million_output_tokens),
            )
            for i, hour in enumerate(case.hours)
        ),
    )


def known_bill_table(plan: Plan) -> Table:
    """The cost per hour, item by item; nothing where no price is known."""
    found = bill_table(plan)
    return found if any(cells[-1] != DASH for cells in found.rows) else replace(found, rows=())


def baselines_table(plan: Plan) -> Table:
    """The plan beside other fleets."""
    _, percentile, ttft = phrases.compared_ttft(plan)
    headings = [
        "fleet",
        "instances",
        ">req/s at most",
        ">plan serves",
        ">USD/h",
        ">USD per M input",
        ">TTFT mean",
        f">TTFT {percentile}",
    ]
    rows: list[tuple[str, Fleet, str]] = [("**plan**", plan, "")]
    rows += [(f"**{b.name}**: {phrases.other_fleet(b)}", b, formats.times(b.ratio)) for b in plan.baselines]
    each = zip(rows, ttft, strict=True)
    return Table.untitled(
        headings, ((name, *fleet_cells(f, ratio), *map(formats.seconds, t)) for (name, f, ratio), t in each)
    )


def price_ratios_table(prices: PriceRatios) -> Table:
    """Table of what the same money buys, for a handful of price ratios."""
    every = max(1, (len(prices.ratios) - 1) // (N_RATIOS - 1)) if len(prices.ratios) > 1 else 1
    shown = [
        i for i, ratio in enumerate(prices.ratios) if i % every == 0 or abs(ratio - prices.stated_ratio) < formats.EXACT
    ]
    bills = prices.equal_bill_gain
    headings = [">price ratio", f">{prices.home_hardware} for the same rent", ">plan serves more"]
    headings += [">and for the same bill"] if bills else []
    rows = [
        [
            f"{prices.ratios[i]:.2f}",
            str(prices.equal_cost_accelerators[i]),
            formats.signed_percent(prices.equal_cost_gain[i]),
            *([formats.signed_percent(bills[i])] if bills else []),
        ]
        for i in shown
    ]
    return Table.untitled(headings, rows)


def break_even_table(results: Sequence[BreakEvenResult]) -> Table:
    """Where the decision turns along every uncertain input."""
    return Table.untitled(
        ["input", ">stated", ">looked at", "decision", "turns"],
        (
            (
                item.title,
                number(item.stated),
                f"{number(item.low)} to {number(item.high)}",
                phrases.decision(item.decides, item.decision) if item.is_found else DASH,
                phrases.turns(item),
            )
            for item in results
        ),
    )


def rules_table(case: Case) -> Table:
    """The plan under both capacity rules; nothing where the other one has none."""
    both = () if case.other_rule is None else (case.plan, case.other_rule)
    return Table.untitled(
        ["capacity from", "instances", ">threshold", ">offloaded", ">capacity, req/s", ">USD per M input"],
        (
            (
                f"{phrases.rule(plan.capacity_rule)} (`{plan.capacity_rule}`)"
                + (", this plan" if plan is case.plan else ""),
                phrases.sizes(plan),
                number(plan.threshold_tokens),
                percent(plan.offload_fraction),
                formats.figure(plan.max_throughput_req_per_s, 4),
                formats.figure(plan.cost.usd_per_million_input_tokens),
            )
            for plan in sorted(both, key=lambda plan: plan.capacity_rule, reverse=True)
        ),
    )


def claims_table(results: Sequence[ClaimResult]) -> Table:
    """Published figures beside the model's."""
    return Table.untitled(
        ["figure", ">published", ">this model", ">difference", ">allowed", "input or result"],
        (
            (
                claim.what,
                f"{formats.as_published(claim.published)} {claim.unit}".strip(),
                DASH
                if claim.planned is None
                else f"{formats.beside_published(claim.planned, claim.published)} {claim.unit}".strip(),
                formats.signed_percent(claim.difference),
                formats.tolerance(claim.tolerance),
                _claim_kind(claim),
            )
            for claim in results
        ),
    )


def _claim_kind(claim: ClaimResult) -> str:
    if claim.kind == "input":
        return "input" + (f": {claim.note}" if claim.note else "")
    return {True: "result, holds", False: "**result, differs**", None: "result"}[claim.holds]


def comparisons_table(case: Case) -> Table:
    """The plan beside variants of the scenario."""
    variants = [variant.plan for variant in case.comparisons if variant.plan is not None]
    shared = {baseline.name for plan in variants for baseline in plan.baselines}
    against = [name for name in (b.name for b in case.plan.baselines) if name in shared][:N_BASELINES]
    headings = ["variant", "rule", "instances", ">req/s at most", ">threshold", ">offloaded", ">egress Gbps", ">USD/h"]
    plans = [case.plan, *variants]
    loaded = any(plan.latency.ttft_mean_s is not None for plan in plans)
    headings += [">planned req/s", ">its TTFT mean", ">P90"] if loaded else []
    headings += [f">over {name}" for name in against]
    rows = [
        ("**this plan**", case.plan),
        *((variant.title or variant.name, variant.plan) for variant in case.comparisons),
    ]
    return Table.untitled(headings, ([name, *_variant_cells(plan, against, loaded)] for name, plan in rows))


def _variant_cells(plan: Plan | None, against: Sequence[str], loaded: bool) -> list[str]:
    if plan is None:
        return [DASH, "no plan", *[DASH] * (5 + 3 * loaded + len(against))]
    under_load = (
        formats.figure(plan.throughput_req_per_s),
        formats.seconds(plan.latency.ttft_mean_s),
        formats.seconds(plan.latency.ttft_p90_s),
    )
    ratios = {baseline.name: baseline.ratio for baseline in plan.baselines}
    return [
        plan.capacity_rule,
        phrases.sizes(plan),
        formats.figure(plan.max_throughput_req_per_s),
        number(plan.threshold_tokens),
        percent(plan.offload_fraction),
        formats.figure(phrases.egress_gbps(plan)),
        usd(plan.cost.usd_per_hour),
        *(under_load if loaded else ()),
        *(formats.times(ratios.get(name)) for name in against),
    ]


def requests_table(case: Case) -> Table:
    """The workload in figures."""
    profile = case.requests
    quantiles = ", ".join(f"{name} {number(tokens)}" for name, tokens in phrases.length_quantiles(profile))
    return Table.untitled(
        ["per request", ">tokens"],
        [
            ("prompt, mean", number(profile.mean_total_tokens)),
            ("found in the prefix cache", percent(profile.cached_fraction)),
            ("uncached, mean", number(profile.mean_uncached_tokens)),
            ("uncached, quantiles", quantiles),
            ("output, mean", number(profile.mean_output_tokens)),
        ],
    )


def service_table(case: Case) -> Table:
    """Prefill seconds and KV throughput of every pool at lengths that occur."""
    headings = ["uncached length", ">tokens"]
    for curve in case.curves:
        headings += [f">{curve.pool}: prefill s", f">{curve.pool}: KV Gbps"]
    rows = []
    for name, tokens in phrases.length_quantiles(case.requests) if case.curves else ():
        cells = [name, number(tokens)]
        for curve in case.curves:
            cells += [
                formats.figure(formats.interpolated(tokens, curve.tokens, curve.prefill_s)),
                formats.figure(formats.interpolated(tokens, curve.tokens, curve.kv_gbps)),
            ]
        rows.append(cells)
    return Table.untitled(headings, rows)
