"""Words on a plan, which tables and Markdown share."""

from collections.abc import Mapping

from planner.report.formats import EXACT, SMALL, figure, listed, seconds, sentence, small_percent
from planner.results.case import BreakEvenResult, LengthProfile
from planner.results.fleet_merit import PERCENTILES
from planner.results.live import LiveMachine
from planner.results.plan import Baseline, ClassPlan, Fleet, LinkPlan, Plan, PoolPlan
from planner.results.slo_run import DecodeStepRun, SloRun
from planner.units import DASH, number, percent, usd

FULL = 1 - 1e-6
"""A utilisation from which on a pool counts as saturated."""
EPSILON = 1e-9
"""Fractions and rents nearer to zero than this are rounding of sums."""


def decision(decides: str, answer: bool | None) -> str:
    """Words for a decision.

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


def break_even_line(item: BreakEvenResult) -> str:
    """A break-even on one line: what was varied, what is decided as stated, and where that turns."""
    if not item.is_found:
        return f"{item.title}: {turns(item)}"
    return f"{item.title}: {decision(item.decides, item.decision)} at {number(item.stated)}, turns {turns(item)}"


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
    """Role of a pool, with the prompts that it takes."""
    return pool.role if pool.prompts is None else f"{pool.role}, {pool.prompts} prompts"


def instance_hardware(pool: PoolPlan) -> str:
    """Accelerators of one instance, such as `8 x h200-sxm`."""
    return f"{pool.n_accelerators // pool.n_instances} x {pool.hardware}" if pool.n_instances else pool.hardware


def how_run(pool: PoolPlan) -> str | None:
    """The layout of its instances, and the tokens of a pass where the plan says them."""
    passes = f"{pool.tokens_per_pass} tokens a pass" if pool.tokens_per_pass else None
    return ", ".join(filter(None, (pool.layout and layout(pool.layout), passes))) or None


def layout(text: str) -> str:
    """A parallel layout without what is not parallel.

    >>> layout("tp=4,ep=8,dp=2,pp=1"), layout("tp=1,ep=1,dp=1,pp=1")
    ('tp=4,ep=8,dp=2', 'tp=1')
    """
    return ",".join(size for size in text.split(",") if not size.endswith("=1")) or "tp=1"


def length_quantiles(profile: LengthProfile) -> list[tuple[str, float]]:
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


def has_colocated(plan: Plan) -> bool:
    """True if the plan or a fleet beside it prefills and decodes in one batch."""
    return any(pool.role == "colocated" for fleet in (plan, *plan.baselines) for pool in fleet.pools)


def verdict_text(plan: Plan) -> str:
    """The verdict as sentences; the reason of a refusal says itself that it is one."""
    return f"Worth it. {plan.verdict.because}" if plan.verdict.worth_it else plan.verdict.because


SERVING = {
    "separate-sites": "in separate sites",
    "separate": "in pools apart, in one site",
    "colocated": "in one batch (colocated)",
    None: "not decided",
}
"""Kinds of serving that may be recommended."""


def serving(plan: Plan) -> str:
    """The kind of serving to recommend, and what being apart is worth where the verdict does not say."""
    verdict, apart = plan.verdict, plan.verdict.disaggregation
    if apart is None or (apart.opponent is not None and apart.opponent == verdict.opponent):
        return SERVING[verdict.recommendation]
    return apart.because if not apart.decided else f"{SERVING[verdict.recommendation]}. {apart.because}"


def worth_it(plan: Plan) -> str:
    """The verdict in a word."""
    return "yes" if plan.verdict.worth_it else "no" if plan.verdict.decided else "open"


def other_fleet(other: Baseline) -> str:
    """Title of a baseline, with a mark if it takes more than can be had, or no run bore out its promise."""
    stock = " (more than the stated stock)" if other.beyond_stock else ""
    return f"{other.title}{stock}{' (no run bore out its promise)' if other.holds is False else ''}"


def threshold(plan: Plan) -> str:
    """Which prompts go where."""
    if not has_choice_of_place(plan):
        return f"{DASH} (one place takes every prompt)"
    split = [c for c in plan.classes if c.threshold_tokens is not None]
    where = takers(plan, "long") or ("other sites" if plan.links else "the other pool")
    if plan.offload_fraction <= EPSILON or plan.offload_fraction >= 1 - EPSILON:
        return f"{DASH} ({'no' if plan.offload_fraction <= EPSILON else 'every'} prompt goes to {where})"
    if plan.threshold_tokens is not None:
        longer = f"longer prompts, {percent(plan.offload_fraction)} of all, go to {where}"
        return f"{number(plan.threshold_tokens)} uncached tokens; {longer}"
    if split:
        each = ", ".join(class_threshold(c) for c in split)
        return f"{each}; {percent(plan.offload_fraction)} of all prompts go to {where}"
    return f"{DASH} ({percent(plan.offload_fraction)} of all prompts go to {where})"


def has_choice_of_place(plan: Plan) -> bool:
    """True if some prompts may be prefilled elsewhere than others."""
    return bool(plan.links) or plan.offload_fraction > EPSILON or any(pool.prompts == "long" for pool in plan.pools)


def class_threshold(part: ClassPlan) -> str:
    """A class and its threshold."""
    return f"{part.name} {number(part.threshold_tokens)}"


def throughput(plan: Plan) -> str:
    """The rate of the operating point against the highest."""
    rate, most = plan.throughput_req_per_s, plan.max_throughput_req_per_s
    is_kept = plan.slo_run.holds if plan.slo_run is not None and plan.slo_run.decided else None
    if is_kept is False:
        return f"{figure(rate)} req/s, but not as promised; {figure(most)} req/s at most without the promise"
    if plan.goodput_req_per_s is not None:
        holds = "holds" if is_kept else "is predicted to hold"
        if rate >= FULL * plan.goodput_req_per_s:
            return (
                f"{figure(rate)} req/s, the most at which the promise {holds}; {figure(most)} by this fleet without it"
            )
        more = f"up to {figure(plan.goodput_req_per_s)} predicted, {figure(most)} without it"  # nothing runs these
        return f"{figure(rate)} req/s, where the promise {holds}; by this fleet {more}"
    if rate >= FULL * most:
        return f"{figure(rate)} req/s, the most it serves"
    return f"{figure(rate)} req/s, {percent(rate / most)} of the {figure(most)} req/s it serves at most"


def link(item: LinkPlan) -> str:
    """A link with its ports and use."""
    if item.capacity_gbps <= 0:
        return f"{item.name}: none rented"
    return f"{item.name} {ports(item)}, {figure(item.mean_gbps)} Gbps in use on average ({percent(item.utilization)})"


def thresholds(name: str, sites: dict[str, float | None]) -> str:
    """A class and the lengths beyond which its prompts may leave the sites that decode them.

    >>> thresholds("chat", {"east": 19677.2, "west": None})
    'chat east 19,677, west –'
    """
    return f"{name} " + ", ".join(f"{site} {number(tokens)}" for site, tokens in sites.items())


def busiest_unit(use: Mapping[str, float]) -> str:
    """The busiest of pools and links.

    >>> busiest_unit({"near": 0.5, "wan": 0.75}), busiest_unit({})
    ('wan 75 %', '–')
    """
    name = max(use, key=lambda key: use[key], default="")
    return f"{name} {percent(use[name], 0)}" if use.get(name, 0.0) > 0 else DASH


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
        f"tokens, or {figure(plan.cost.usd_per_million_output_tokens)} per million output tokens, or "
        f"{figure(plan.cost.usd_per_thousand_requests)} per thousand requests{cost_band_text(plan)}"
    )


def cost_band_text(plan: Plan) -> str:
    """Range of the bill, and what that rests on; nothing where nothing is known of it."""
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


def traffic_charges_usd_per_hour(fleet: Fleet) -> float | None:
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
    return f"{seconds(latency.ttft_mean_s)} mean, {seconds(latency.ttft_p90_s)} P90 predicted under load; {alone}"


def quality(plan: Plan) -> list[str]:
    """Sentences on how good a plan is proven to be, and what of its figures was run."""
    found = plan.slo_run
    others = "the other fleets, and prices of constraints, are predicted, not run" if found and found.requests else ""
    return [sentence(text) for text in (status(plan), free_routing_text(plan), others) if text]


def slo_run(plan: Plan) -> str:
    """Words on what is promised of times, and what a run made of it."""
    found = plan.slo_run
    if found is None:
        return DASH
    said = [_promised_ttft(found)] if found.promised_s is not None else []
    said += [_promised_tpot(found.tpot, found.percentile)] if found.tpot is not None else []
    whose = ", ".join(filter(None, (found.request_class, found.period)))
    return f"{' and '.join(said)}{f' ({whose})' if whose else ''}: {_outcome(found)}"


def _promised_ttft(found: SloRun) -> str:
    return f"P{found.percentile:g} TTFT {_beside(found.promised_s, found.executed_s, found.predicted_s)}" + _interval(
        found.ci_low_s, found.ci_high_s
    )


def _promised_tpot(found: DecodeStepRun, percentile: float) -> str:
    return f"P{percentile:g} TPOT {_beside(found.promised_s, found.executed_s, found.predicted_s)}" + _interval(
        found.ci_low_s, found.ci_high_s
    )


def _beside(promised_s: float | None, executed_s: float | None, predicted_s: float | None) -> str:
    came = f"{seconds(predicted_s)} predicted" if executed_s is None else f"{seconds(executed_s)} executed"
    return f"of {seconds(promised_s)}: {came}"


def _interval(low_s: float | None, high_s: float | None) -> str:
    return "" if low_s is None else f" ({seconds(low_s)} to {seconds(high_s)})"


def _outcome(found: SloRun) -> str:
    """Outcome of a promise, by how long a run, or why that is not known."""
    if found.basis == "predicted":
        return f"not run ({found.because})"
    missing = f", {len(found.not_run)} periods not run" if found.not_run else ""
    said = found.outcome if found.holds else f"{found.outcome} ({found.because})"
    return f"{said}; {found.requests:,} requests{missing}"


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
    percentile = next((f"p{p}" for p in PERCENTILES if asked == {p}), "p90")
    loaded = [(f.latency.ttft_mean_s, getattr(f.latency, f"ttft_{percentile}_s")) for f in fleets]
    return f"under load, at {figure(rate)} req/s", percentile.upper(), loaded


def saturated(fleet: Fleet) -> list[str]:
    """Pools that are busy all the time."""
    return [pool.name for pool in fleet.pools if pool.n_instances and pool.utilization >= FULL]


def no_wait_reason(fleet: Fleet) -> str:
    """Why a time to first token under load is not stated."""
    full = saturated(fleet) or [link.name for link in fleet.links if link.utilization >= FULL]
    if not full:
        return "no model of waiting for this way to dispatch"
    return f"{listed(full)} {'is' if len(full) == 1 else 'are'} saturated"


def status(plan: Plan) -> str:
    """Proven quality of the plan."""
    bound = number(plan.bound, 4)
    goal = {"max-throughput": f"{bound} req/s", "min-cost": f"{usd(plan.bound)} USD/h", "min-ttft": f"{bound} s"}
    best = "optimal" if plan.status == "optimal" else "feasible, the best that was found"
    # Where other kinds and layouts stand beside the plan, the proof is of less than it seems to be.
    which = " for the kinds and layouts that the pools state" if any(other.changes for other in plan.baselines) else ""
    over = " over every threshold" if has_choice_of_place(plan) else ""
    return f"{best}{which}: {small_percent(plan.gap)} from a proven bound of {goal[plan.objective]}{over}"


def free_routing_text(plan: Plan) -> str | None:
    """Gain from giving up the threshold; None where it was not asked."""
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


def live_device(machine: LiveMachine) -> str:
    """Which torch computed on what, in a live run."""
    where = f"{machine.device}, shared by all workers" if machine.device else "the cores, one thread per worker"
    return f"torch {machine.torch} on {where}"
