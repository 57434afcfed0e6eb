"""What a plan says, in words that tables and Markdown share."""

from collections.abc import Iterator, Mapping, Sequence

from planner.results import (
    Baseline,
    Bottleneck,
    BreakEvenResult,
    ClassPlan,
    Fleet,
    LengthProfile,
    LinkPlan,
    LiveMachine,
    PeriodLink,
    PeriodPool,
    Plan,
    PlannedAgain,
    PoolPlan,
)
from planner.units import DASH, number, percent

FULL = 1 - 1e-6
"""A utilisation from which on a pool counts as saturated."""
SMALL = 1e-4
"""Below this fraction a figure says no more than that it is small."""
EXACT = 1e-6
"""A tolerance below this asks for equality."""
SAME = 0.02
"""Relative distance of two figures that are told as one."""
NOTHING_GAINED = 1e-3
"""USD per hour, requests per second or seconds that nobody would notice."""
KNOWN_PERCENTILES = (50, 90, 99)
"""Of TTFT, that a plan states."""
EPSILON = 1e-9
"""Fractions and rents nearer to zero than this are rounding of sums."""


def figure(value: float | None, digits: int = 3) -> str:
    """A measured quantity: significant digits with trailing zeros, so that columns compare.

    >>> figure(2.2), figure(0.98), figure(19677.4), figure(0.0), figure(None), figure(0.9996)
    ('2.20', '0.980', '19,677', '0', '–', '1.00')
    """
    text = number(value, digits)
    if value is None or text in (DASH, "0") or abs(value) >= 10 ** (digits - 1) or "e" in text:
        return text
    return f"{float(text):#.{digits}g}".rstrip(".")


def usd(value: float | None) -> str:
    """Money per hour to the cent.

    >>> usd(182.5), usd(1234567.891), usd(None)
    ('182.50', '1,234,567.89', '–')
    """
    return DASH if value is None else f"{value:,.2f}"


def signed_percent(fraction: float | None) -> str:
    """A difference with its sign.

    >>> signed_percent(0.0204), signed_percent(-0.00001), signed_percent(None)
    ('+2.0 %', '0.0 %', '–')
    """
    text = percent(fraction)
    if fraction is None or text == DASH:
        return DASH
    if text.strip("-") == "0.0 %":
        return "0.0 %"
    return text if fraction < 0 else f"+{text}"


def small_percent(fraction: float) -> str:
    """A fraction that may be next to nothing.

    >>> small_percent(1.5e-6), small_percent(0.0148)
    ('less than 0.01 %', '1.48 %')
    """
    return "less than 0.01 %" if abs(fraction) < SMALL else percent(fraction, 2)


def times(ratio: float | None) -> str:
    """A ratio to two decimals.

    >>> times(1.5619)
    '1.56 x'
    """
    return DASH if ratio is None else f"{ratio:.2f} x"


def seconds(value: float | None) -> str:
    """A duration with its unit; milliseconds below a tenth of a second.

    >>> seconds(2.1968), seconds(0.025), seconds(None)
    ('2.20 s', '25.0 ms', '–')
    """
    if value is None:
        return DASH
    return f"{figure(1000 * value)} ms" if value < 0.1 else f"{figure(value)} s"


def sentence(text: str) -> str:
    """A remark as a sentence of its own.

    >>> sentence("cost unknown; missing: wan")
    'Cost unknown; missing: wan.'
    """
    text = text.strip()
    return text if not text else text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def decision(decides: str, answer: bool | None) -> str:
    """What a decision says.

    >>> decision("verdict", True), decision("all-h20", False), decision("verdict", None)
    ('worth it', 'behind all-h20', 'no plan')
    """
    if answer is None:
        return "no plan"
    if decides == "verdict":
        return "worth it" if answer else "not worth it"
    return f"{'ahead of' if answer else 'behind'} {decides}"


def turns(item: BreakEvenResult) -> str:
    """Where a decision turns to its opposite, or to no plan at all."""
    if not item.is_found:
        return "not found in the time"
    ends = (("below", item.below), ("above", item.above))
    found = [
        f"{side} {figure(turn.value)}" + (" (no plan)" if turn.decision is None else "")
        for side, turn in ends
        if turn is not None
    ]
    about = f"; plans are within {small_percent(item.gap)} of the best" if item.gap >= SMALL else ""
    return (listed(found) or "nowhere in that span") + about


def listed(names: list[str]) -> str:
    """Names as one would say them.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', '')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def sizes(fleet: Fleet) -> str:
    """Instances per pool, such as `4 / 3 / 5`."""
    return " / ".join(str(pool.n_instances) for pool in fleet.pools)


def pool_names(fleet: Fleet) -> str:
    """Names to `sizes`, in the same order."""
    return " / ".join(pool.name for pool in fleet.pools)


def named_sizes(fleet: Fleet) -> str:
    """Instances with the pool they belong to, where pools differ between fleets."""
    return ", ".join(f"{pool.n_instances} {pool.name}" for pool in fleet.pools)


def accelerators(fleet: Fleet) -> str:
    """Accelerators by kind, in the order of the pools.

    Returns:
        For example `32 h200-sxm and 64 h20-141gb`.
    """
    counts: dict[str, int] = {}
    for pool in fleet.pools:
        counts[pool.hardware] = counts.get(pool.hardware, 0) + pool.n_accelerators
    return listed([f"{n} {hardware}" for hardware, n in counts.items() if n])


def pool_kind(pool: PoolPlan) -> str:
    """What a pool does."""
    return pool.role if pool.prompts is None else f"{pool.role}, {pool.prompts} prompts"


def instance_hardware(pool: PoolPlan) -> str:
    """Accelerators of one instance, such as `8 x h200-sxm`."""
    return f"{pool.n_accelerators // pool.n_instances} x {pool.hardware}" if pool.n_instances else pool.hardware


SETUP_HEADINGS = ("pool", "instance of", "layout", "stack", "weights", "KV cache", ">batch", "times")


def setup_rows(fleet: Fleet) -> Iterator[tuple[str, ...]]:
    """How the instances of every pool are run, under SETUP_HEADINGS; a dash where nobody said."""
    for pool in fleet.pools:
        known = (pool.layout and layout(pool.layout), pool.stack, pool.precision, pool.kv_precision)
        n = pool.accelerators_per_instance
        hardware = instance_hardware(pool) if n is None else f"{n} x {pool.hardware}"
        yield (pool.name, hardware, *(text or DASH for text in known), number(pool.batch_limit), pool.basis)


def layout(text: str) -> str:
    """A parallel layout without what is not parallel.

    >>> layout("tp=4,ep=8,dp=2,pp=1"), layout("tp=1,ep=1,dp=1,pp=1")
    ('tp=4,ep=8,dp=2', 'tp=1')
    """
    return ",".join(size for size in text.split(",") if not size.endswith("=1")) or "tp=1"


def quantiles(profile: LengthProfile) -> list[tuple[str, float]]:
    """Quantiles of the uncached length; those of the same length under one name."""
    names: dict[float, list[str]] = {}
    for name, tokens in profile.quantiles_tokens.items():
        names.setdefault(tokens, []).append(name.upper())
    return [(" to ".join(dict.fromkeys((same[0], same[-1]))), tokens) for tokens, same in names.items()]


def takers(fleet: Fleet, prompts: str) -> str:
    """Pools in use that take long, or short, prompts; nothing where some take both."""
    if any(pool.role == "prefill" and pool.prompts is None and pool.n_instances for pool in fleet.pools):
        return ""
    return listed([pool.name for pool in fleet.pools if pool.prompts == prompts and pool.n_instances])


def prefill_to_decode(plan: Plan) -> str:
    """The ratio with what it counts; a dash where no pool takes short prompts."""
    if plan.prefill_to_decode is None:
        return DASH
    decode = listed([pool.name for pool in plan.pools if pool.role == "decode"])
    return f"{plan.prefill_to_decode} ({takers(plan, 'short') or 'prefill'} to {decode})"


def verdict(plan: Plan) -> str:
    """The verdict as sentences; the reason of a refusal says itself that it is one."""
    return f"Worth it. {plan.verdict.because}" if plan.verdict.worth_it else plan.verdict.because


def worth_it(plan: Plan) -> str:
    """The verdict in a word."""
    return "yes" if plan.verdict.worth_it else "no" if plan.verdict.decided else "open"


def other_fleet(other: Baseline) -> str:
    """What a baseline is, and whether it takes more than can be had."""
    return f"{other.title}{' (more than the stated stock)' if other.beyond_stock else ''}"


def threshold(plan: Plan) -> str:
    """Which prompts go where."""
    split = [c for c in plan.classes if c.threshold_tokens is not None]
    if plan.threshold_tokens is not None:
        return (
            f"{number(plan.threshold_tokens)} uncached tokens; longer prompts, {percent(plan.offload_fraction)} of "
            f"all, go to {takers(plan, 'long') or 'the other pool'}"
        )
    if split:
        each = ", ".join(class_threshold(c) for c in split)
        return f"{each}; {percent(plan.offload_fraction)} of all prompts go to {takers(plan, 'long') or 'other sites'}"
    if not has_choice_of_place(plan):
        return f"{DASH} (one place takes every prompt)"
    return f"{DASH} ({percent(plan.offload_fraction)} of all prompts go to {takers(plan, 'long') or 'other sites'})"


def has_choice_of_place(plan: Plan) -> bool:
    """Whether some prompts may be prefilled elsewhere than others."""
    is_split = plan.threshold_tokens is not None or plan.offload_fraction > 0
    return bool(plan.links) or is_split or any(pool.prompts == "long" for pool in plan.pools)


def class_threshold(part: ClassPlan) -> str:
    """A class and its threshold."""
    return f"{part.name} {number(part.threshold_tokens)}"


def throughput(plan: Plan) -> str:
    """The rate of the operating point against the highest."""
    rate, most = plan.throughput_req_per_s, plan.max_throughput_req_per_s
    if plan.goodput_req_per_s is not None:
        kept = "the most at which" if rate >= FULL * plan.goodput_req_per_s else "where"
        return (
            f"{figure(rate)} req/s, {kept} the promise holds (up to {figure(plan.goodput_req_per_s)}); "
            f"{figure(most)} req/s at most without it"
        )
    if rate >= FULL * most:
        return f"{figure(rate)} req/s, the most it serves"
    return f"{figure(rate)} req/s, {percent(rate / most)} of the {figure(most)} req/s it serves at most"


def link(item: LinkPlan) -> str:
    """A link with its ports and use."""
    if item.capacity_gbps <= 0:
        return f"{item.name}: none rented"
    return f"{item.name} {ports(item)}, {figure(item.mean_gbps)} Gbps in use on average ({percent(item.utilization)})"


LINK_HEADINGS = ("link", "from", "to", "rented", ">mean Gbps", ">busy", ">USD/h")


def link_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Every link at the operating point, under LINK_HEADINGS."""
    for link in plan.links:
        yield (
            link.name,
            link.from_site,
            link.to_site,
            ports(link),
            figure(link.mean_gbps),
            percent(link.utilization),
            usd(link.usd_per_hour),
        )


PERIOD_HEADINGS = ("period", ">req/s", "thresholds", "busiest pool", "busiest link", ">TTFT P90", ">use, USD/h")


def period_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Every period, under PERIOD_HEADINGS."""
    for period in plan.periods:
        yield (
            period.name,
            figure(period.demand_req_per_s),
            "; ".join(thresholds(name, sites) for name, sites in period.thresholds.items()),
            _busiest(period.pools),
            _busiest(period.links),
            seconds(period.latency.ttft_p90_s),
            usd(period.use_usd_per_hour),
        )


def thresholds(name: str, sites: dict[str, float | None]) -> str:
    """A class and the lengths beyond which its prompts may leave the sites that decode them.

    >>> thresholds("chat", {"east": 19677.2, "west": None})
    'chat east 19,677, west –'
    """
    return f"{name} " + ", ".join(f"{site} {number(tokens)}" for site, tokens in sites.items())


def busiest(use: Mapping[str, float]) -> str:
    """The busiest of pools and links.

    >>> busiest({"near": 0.5, "wan": 0.75}), busiest({})
    ('wan 75 %', '–')
    """
    name = max(use, key=lambda key: use[key], default="")
    return f"{name} {percent(use[name], 0)}" if name else DASH


def _busiest(items: Sequence[PeriodPool] | Sequence[PeriodLink]) -> str:
    most = max(items, key=lambda item: item.utilization, default=None)
    return DASH if most is None or most.utilization <= 0 else f"{most.name} {percent(most.utilization, 0)}"


def ports(item: LinkPlan) -> str:
    """Bandwidth of a link as it is rented."""
    total = f"{number(item.capacity_gbps)} Gbps"
    if item.n_ports <= 1:
        return total
    size = "mixed ports" if item.port_gbps is None else f"x {number(item.port_gbps)}"
    return f"{total} ({item.n_ports} {size})"


def links(fleet: Fleet) -> str:
    """Every link; a dash without any."""
    return "; ".join(map(link, fleet.links)) or DASH


def egress_gbps(fleet: Fleet) -> float | None:
    """Mean traffic between sites [Gbps]; None without a link."""
    return sum(item.mean_gbps for item in fleet.links) if fleet.links else None


def cost(plan: Plan) -> str:
    """The bill per hour and per million tokens."""
    if plan.cost.usd_per_hour is None:
        missing = ", ".join(plan.cost.missing_prices)
        return DASH + (f" (not stated: {missing})" if missing else "")
    return (
        f"{usd(plan.cost.usd_per_hour)} USD/h: {figure(plan.cost.usd_per_million_input_tokens)} USD per million input "
        f"tokens, or {figure(plan.cost.usd_per_million_output_tokens)} per million output tokens{cost_band(plan)}"
    )


def cost_band(plan: Plan) -> str:
    """What the bill may be, and what that rests on; nothing where nothing is known of it."""
    band = plan.cost_band
    if band is None:
        return ""
    ends: tuple[float | None, ...] = (band.low_usd_per_hour, band.high_usd_per_hour)
    what = "USD/h"
    if plan.objective == "max-throughput":  # the fleet is given or bought for a budget: its rate is what is uncertain
        ends = (band.low_usd_per_million_input_tokens, band.high_usd_per_million_input_tokens)
        what = "USD per million input tokens"
    shown = figure if plan.objective == "max-throughput" else usd
    where, (low, high) = f"{band.rests_on} ({listed(list(band.pools))})", ends
    if low is not None and high is not None:
        return f". {shown(low)} to {shown(high)} {what} over the {where}"
    none = band.no_plan or "there is no plan"
    if low is not None:
        return f". {shown(low)} {what} at the fast end of the {where}. At its slow end {none}"
    return f". {shown(high)} {what} at the slow end of the {where}. At its fast end {none}"


def traffic_usd_per_hour(fleet: Fleet) -> float | None:
    """Charges by volume: the bill less every rent [USD/h]; None where a price is missing."""
    rents = [pool.usd_per_hour for pool in fleet.pools] + [item.usd_per_hour for item in fleet.links]
    total = fleet.cost.usd_per_hour
    known = [rent for rent in rents if rent is not None]
    if total is None or len(known) < len(rents):
        return None
    rest = total - sum(known)
    return rest if rest > EPSILON * total else 0.0


def ttft(plan: Plan) -> str:
    """Time to first token with and without waiting."""
    latency = plan.latency
    alone = f"{seconds(latency.ttft_unloaded_mean_s)} mean, {seconds(latency.ttft_unloaded_p90_s)} P90 without waiting"
    if latency.ttft_mean_s is None:
        return f"{alone}; {DASH} under load ({no_wait_reason(plan)})"
    return f"{seconds(latency.ttft_mean_s)} mean, {seconds(latency.ttft_p90_s)} P90 under load; {alone}"


def compared_ttft(plan: Plan) -> tuple[str, str, list[tuple[float | None, float | None]]]:
    """TTFT of the plan and of the fleets beside it, with their waits where all are known at one rate.

    Returns:
        How it is counted, the percentile, and mean and percentile of every fleet, the plan first [s].
    """
    fleets: list[Fleet] = [plan, *plan.baselines]
    rate = plan.throughput_req_per_s
    at_one_rate = all(abs(fleet.throughput_req_per_s - rate) <= EXACT * rate for fleet in fleets)
    if not at_one_rate or any(fleet.latency.ttft_mean_s is None for fleet in fleets):
        alone = [(f.latency.ttft_unloaded_mean_s, f.latency.ttft_unloaded_p90_s) for f in fleets]
        return "without waiting", "P90", alone
    asked = {c.slo.get("ttft_percentile") for c in plan.classes if c.slo and "ttft_s" in c.slo}
    percentile = next((f"p{p}" for p in KNOWN_PERCENTILES if asked == {p}), "p90")
    loaded = [(f.latency.ttft_mean_s, getattr(f.latency, f"ttft_{percentile}_s")) for f in fleets]
    return f"under load, at {figure(rate)} req/s", percentile.upper(), loaded


def saturated(fleet: Fleet) -> list[str]:
    """Pools that are busy all the time."""
    return [pool.name for pool in fleet.pools if pool.n_instances and pool.utilization >= FULL]


def no_wait_reason(fleet: Fleet) -> str:
    """Why a time to first token under load is not stated."""
    full = saturated(fleet)
    if not full:
        return "no model of waiting for this way to dispatch"
    return f"{listed(full)} {'is' if len(full) == 1 else 'are'} saturated"


def bottleneck(item: Bottleneck) -> str:
    """What one more unit of a constraint would add, save, cost or shorten, and what planning again says of it."""
    gained, _, what = item.unit.partition(" per ")
    text = f"one more {what}{_whose(item.constraint)} would {gain(gained, item.shadow_price)}"
    if item.shadow_price == 0:
        text = (
            f"one more {what}{_whose(item.constraint)} would {gain(gained, 1.0).split()[0]} nothing at these thresholds"
        )
    again = item.planned_again
    if again is None:
        return text + ("; planning again was not done in the time" if item.basis == "linear-program" else "")
    if again.n_more == 1 and item.basis != "linear-program":
        return text
    how = "planned again in whole instances, " if item.basis == "linear-program" else ""
    more = "it" if again.n_more == 1 else f"{number(again.n_more)} more"
    return f"{text}; {how}{more} would {_gains(gained, again)}"


def _whose(constraint: str) -> str:
    """What there is one more of.

    >>> _whose("pools.near.n_instances"), _whose("links.wan.capacity_gbps"), _whose("sites.east.accelerators.h20-96gb")
    (' of near', ' on wan', ' of h20-96gb at east')
    """
    table, name, *rest = constraint.split(".") if "." in constraint else (constraint, "")
    if table in ("pools", "links"):
        return f" {'of' if table == 'pools' else 'on'} {name}"
    if table == "sites":
        return f" of {'.'.join(rest[1:])} at {name}"
    return {"demand_req_per_s": "", "budget_usd_per_hour": " of budget"}.get(constraint, f" of {constraint}")


def gain(unit: str, value: float) -> str:
    """A gain as a verb with its figure.

    >>> gain("USD/h", -3.0), gain("req/s", 0.25), gain("s", 0.32)
    ('cost 3.00 USD/h', 'add 0.250 req/s', 'take 0.320 s off the TTFT')
    """
    if unit == "s":
        return f"take {seconds(value)} off the TTFT"
    if unit == "USD/h":
        return f"{'save' if value > 0 else 'cost'} {figure(abs(value))} USD/h"
    return f"add {figure(value)} {unit}"


def _gains(unit: str, again: PlannedAgain) -> str:
    """A gain that is known between two figures."""
    low, high = sorted((again.least, again.most), key=abs)
    if abs(high) < NOTHING_GAINED:
        return f"{gain(unit, 1.0).split()[0]} nothing"
    if abs(high - low) <= SAME * abs(high):
        return gain(unit, high)
    least = gain(unit, low).split(" ", 1)[1] if abs(low) >= NOTHING_GAINED else "0"
    verb, most = gain(unit, high).split(" ", 1)
    return f"{verb} {least.removesuffix(f' {unit}').removesuffix(' off the TTFT')} to {most}"


def nothing_binds(plan: Plan) -> str:
    """Said in place of an empty list of bottlenecks."""
    if plan.objective == "min-ttft":
        return "no single instance or Gbps more is known to bring the first token sooner"
    return "no single instance or Gbps more would raise the rate: several limits bind at once"


def status(plan: Plan) -> str:
    """How good the plan is, proven."""
    unit = {"max-throughput": "req/s", "min-cost": "USD/h", "min-ttft": "s"}[plan.objective]
    goal = f"{number(plan.bound, 4)} {unit}"
    best = "optimal" if plan.status == "optimal" else "feasible, the best found in the time"
    # Where other kinds and layouts stand beside the plan, the proof is of less than it seems to be.
    which = " for the kinds and layouts that the pools state" if any(other.changes for other in plan.baselines) else ""
    over = " over every threshold" if has_choice_of_place(plan) else ""
    return f"{best}{which}: {small_percent(plan.gap)} from a proven bound of {goal}{over}"


def free_routing(plan: Plan) -> str | None:
    """What giving up the threshold would gain; None where it was not asked."""
    free = plan.free_routing
    if free is None:
        return None
    return (
        f"sending each of {free.n_bins} length bins wherever it fits best would gain {small_percent(free.gain)} "
        f"({figure(free.max_throughput_req_per_s)} req/s)"
    )


def rule(name: str) -> str:
    """A capacity rule in words."""
    return {"mean-length": "work of the mean length", "expected-work": "mean work over all lengths"}.get(name, name)


def tolerance(fraction: float | None) -> str:
    """How far a figure may be off.

    >>> tolerance(0.03), tolerance(1e-9), tolerance(None)
    ('3.0 %', 'exact', '–')
    """
    return "exact" if fraction is not None and fraction < EXACT else percent(fraction)


def as_published(value: float) -> str:
    """A published figure with the digits it was given.

    >>> as_published(19400.0), as_published(0.496), as_published(3.0)
    ('19,400', '0.496', '3')
    """
    return f"{value:,.10g}"


def beside_published(value: float, published: float) -> str:
    """A figure with as many digits as the published one has, and at least three.

    >>> beside_published(3.22589, 3.24), beside_published(0.493313, 0.4957), beside_published(4.0, 4.0)
    ('3.23', '0.4933', '4')
    """
    if value == published:
        return as_published(value)
    digits = len(as_published(published).replace(",", "").replace(".", "").strip("0-"))
    return figure(value, max(3, min(digits, 6)))


def between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Linear interpolation in ascending points; None outside them.

    >>> between(1.5, [1.0, 2.0], [10.0, 20.0]), between(3.0, [1.0, 2.0], [10.0, 20.0])
    (15.0, None)
    """
    after = next((i for i, value in enumerate(xs) if value >= x), None)
    if after is None or x < xs[0]:
        return None
    if after == 0:
        return ys[0]
    part = (x - xs[after - 1]) / (xs[after] - xs[after - 1])
    return ys[after - 1] + part * (ys[after] - ys[after - 1])


def live_device(machine: LiveMachine) -> str:
    """Which torch computed on what, in a live run."""
    where = f"{machine.device}, shared by all workers" if machine.device else "the cores, one thread per worker"
    return f"torch {machine.torch} on {where}"
