"""Colocated and disaggregated serving of one demand, side by side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, isfinite

from planner.errors import InfeasibleError
from planner.executor import RunQuestion
from planner.results import (
    Size,
    SizedCost,
    SizedFleet,
    SizedLatency,
    SizedPool,
    SizeVerdict,
    SloRun,
)
from planner.studies.size import colocated, disaggregated
from planner.studies.size.colocated import Chosen, Figure, Runs
from planner.studies.size.disaggregated import Apart
from planner.studies.size.question import COMMAND, SizeQuestion
from planner.studies.size.ways import Ways, ways
from planner.units import MILLI, number

MILLION, HOUR_S = 1e6, 3600.0
N_CONSIDERED = 5
"""Ways of each kind that an answer lists."""
N_REPLICATIONS = 4
ALL = 100.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sized:
    """The answer, and the scenario that stands for the disaggregated pools."""

    size: Size
    scenario_text: str | None


def sized(
    question: SizeQuestion,
    n_requests: int | None,
    seed: int = 0,
    time_limit_s: float = 60.0,
    say: Say = lambda _: None,
) -> Sized:
    """Both ways to serve a demand, each at the least cost that keeps the promises.

    Args:
        question: what is asked.
        n_requests: of each run, all replications together; None: nothing is run.
        seed: of the runs.
        time_limit_s: seconds that the search of one plan may take.
        say: is told what is going on.

    Returns:
        The answer.

    Raises:
        InputError: something in the question cannot be, or is not known.
        InfeasibleError: neither way can serve the demand as promised.
    """
    from planner.errors import InputError

    if problems := tuple(question.problems()):
        raise InputError(problems)
    every = ways(question)
    say("comparing layouts")
    together = colocated.cheapest(question, every.colocated)
    apart = disaggregated.cheapest(question, every, time_limit_s)
    if together is None and apart is None:
        raise InfeasibleError(_why_not(question, every))
    if n_requests is not None:
        if together is not None:
            runs = Runs(question, together.way, n_requests // N_REPLICATIONS, seed)
            together = colocated.executed(question, together, runs, N_REPLICATIONS, say)
        if apart is not None:
            apart = disaggregated.executed(question, apart, RunQuestion(n_requests, seed, 1.0, N_REPLICATIONS), say)
    size = _answer(question, every, together, apart)
    return Sized(size, None if apart is None else apart.text)


def _answer(question: SizeQuestion, every: Ways, together: Chosen | None, apart: Apart | None) -> Size:
    one = None if together is None else _colocated(question, together)
    two = None if apart is None else _disaggregated(question, apart)
    rate, r = question.rate_req_per_s, question.requests
    some = next(iter((*every.colocated, *every.prefill, *every.decode)))
    listed = (way for kind in (every.colocated, every.prefill, every.decode) for way in kind[:N_CONSIDERED])
    return Size(
        model=question.profile.name,
        hardware=tuple(chip.name for chip in question.chips),
        precision=some.served.weights_precision,
        stack=question.software.name,
        rate_req_per_s=rate,
        input_tokens_mean=r.mean_tokens,
        output_tokens_mean=r.output_tokens,
        ttft_s=question.ttft_s,
        tpot_s=question.tpot_s,
        percentile=question.percentile,
        colocated=one,
        disaggregated=two,
        disaggregation=verdict(one, two),
        considered=tuple(way.considered(rate) for way in listed),
        notes=tuple(_notes(question, every, one, two)),
    )


def _colocated(question: SizeQuestion, chosen: Chosen) -> SizedFleet:
    way, n, queue = chosen.way, chosen.predicted.n_instances, chosen.predicted.queue
    rate, before_s = question.rate_req_per_s, chosen.predicted.before_s
    pool = SizedPool(
        name="colocated",
        role="colocated",
        hardware=way.chip.name,
        layout=str(way.layout),
        accelerators_per_instance=way.layout.n_accelerators,
        n_instances=n,
        n_accelerators=n * way.layout.n_accelerators,
        capacity_req_per_s=n * way.capacity_req_per_s,
        utilization=rate / (n * way.capacity_req_per_s),
        batch=way.loop.most_running,
    )
    ttft = None if queue is None else queue.ttft
    latency = SizedLatency(
        ttft_mean_s=ttft and ttft.mean_s + before_s,
        ttft_p50_s=ttft and ttft.quantile_s(0.5) + before_s,
        ttft_p90_s=ttft and ttft.quantile_s(0.9) + before_s,
        ttft_p99_s=ttft and ttft.quantile_s(0.99) + before_s,
        tpot_mean_s=queue and queue.tpot_mean_s,
    )
    figures = chosen.executed
    counted, p = figures.n_counted if figures else 0, question.percentile
    slo = _promise(
        "ttft", question.ttft_s, chosen.predicted.ttft_s(p), p, figures and figures.ttft, counted, chosen.seed
    )
    tpot = _promise(
        "tpot", question.tpot_s, chosen.predicted.tpot_s(p), p, figures and figures.tpot, counted, chosen.seed
    )
    return SizedFleet(
        pools=(pool,),
        n_accelerators=pool.n_accelerators,
        cost=_cost(question, n * way.usd_per_hour),
        latency=latency,
        binds=_colocated_binds(question, chosen),
        slo_run=first,
        tpot_run=token,
    )


def _promise(
    metric: str,
    promised_s: float | None,
    predicted_s: float | None,
    percentile: float,
    seen: Figure | None,
    counted: int,
    seed: int | None,
) -> SloRun | None:
    """A promise with what is known of it."""
    if promised_s is None:
        return None
    is_run = seen is not None and isfinite(seen.mean)
    low, high = (seen.mean - seen.half, seen.mean + seen.half) if is_run and seen is not None else (None, None)
    holds = None if high is None else high <= promised_s
    return SloRun(
        metric=metric,  # type: ignore[arg-type]
        basis="executed" if is_run else "predicted",
        holds=holds,
        decided=bool(holds) or (low is not None and low > promised_s),
        requests=counted,
        seed=seed,
        percentile=percentile,
        promised_s=promised_s,
        predicted_s=predicted_s if predicted_s is not None and isfinite(predicted_s) else None,
        executed_s=seen.mean if is_run and seen is not None else None,
        ci_low_s=low if low is not None and isfinite(low) else None,
        ci_high_s=high if high is not None and isfinite(high) else None,
    )


def _colocated_binds(question: SizeQuestion, chosen: Chosen) -> str:
    """What holds the number of instances up."""
    way, found, p = chosen.way, chosen.predicted, question.percentile
    least = way.least_instances(question.rate_req_per_s)
    if found.n_instances > least:
        late = question.ttft_s is not None and found.ttft_s(p) / question.ttft_s
        slow = question.tpot_s is not None and found.tpot_s(p) / question.tpot_s
        return "the time to first token under load" if (late or 0) > (slow or 0) else "the time per output token"
    if question.tpot_s is not None:
        from planner.queueing import colocated_capacity_req_per_s

        if colocated_capacity_req_per_s(way.loop, way.prompts) > 1.001 * way.capacity_req_per_s:
            return "the time per output token"
    full = way.loop.most_running >= way.most_by_memory
    return f"memory for {way.most_by_memory} sequences, or the work itself" if full else "the work itself"


def _disaggregated(question: SizeQuestion, apart: Apart) -> SizedFleet:
    fleet = apart.found.fleet
    batches = {"prefill": None, "decode": apart.decode.batch}
    by_role = {"prefill": apart.prefill, "decode": apart.decode}
    pools = tuple(
        SizedPool(
            name=pool.name,
            role=pool.role,
            hardware=by_role[pool.role].chip.name,
            layout=str(by_role[pool.role].layout),
            accelerators_per_instance=pool.accelerators_per_instance,
            n_instances=pool.n_instances,
            n_accelerators=pool.n_accelerators,
            capacity_req_per_s=pool.capacity_req_per_s,
            utilization=pool.utilization,
            batch=batches[pool.role],
        )
        for pool in fleet.pools
    )
    t = fleet.latency
    return SizedFleet(
        pools=pools,
        n_accelerators=sum(pool.n_accelerators for pool in pools),
        cost=_cost(question, apart.usd_per_hour),
        latency=SizedLatency(
            ttft_mean_s=t.ttft_mean_s,
            ttft_p50_s=t.ttft_p50_s,
            ttft_p90_s=t.ttft_p90_s,
            ttft_p99_s=t.ttft_p99_s,
            tpot_mean_s=t.tpot_mean_s,
        ),
        binds=max(pools, key=lambda pool: pool.utilization).name + ", the busier of the two",
        slo_run=_apart_promise(question, apart, "ttft"),
        tpot_run=_apart_promise(question, apart, "tpot"),
    )


def _apart_promise(question: SizeQuestion, apart: Apart, metric: str) -> SloRun | None:
    is_first = metric == "ttft"
    seen, run = None, apart.run
    if run is not None:
        value, sure = disaggregated.promised(run, "ttft_promised_s" if is_first else "tpot_mean_s")
        half = inf if sure is None else (sure.high - sure.low) / 2
        seen = None if value is None else Figure(value, half)
    counted = 0 if run is None else run.n_counted
    if is_first:
        p = question.percentile
        predicted_s = disaggregated.predicted_ttft_s(apart, p) if question.ttft_s is not None else None
        return _promise("ttft", question.ttft_s, predicted_s, p, seen, counted, apart.seed)
    return _promise("tpot", question.tpot_s, apart.found.fleet.latency.tpot_mean_s, ALL, seen, counted, apart.seed)


def _cost(question: SizeQuestion, usd_per_hour: float) -> SizedCost:
    r, each = question.requests, usd_per_hour / HOUR_S / question.rate_req_per_s * MILLION
    return SizedCost(
        usd_per_hour=usd_per_hour,
        usd_per_million_input_tokens=each / r.mean_tokens,
        usd_per_million_output_tokens=each / r.output_tokens,
    )


def verdict(one: SizedFleet | None, two: SizedFleet | None) -> SizeVerdict:
    """Whether prefill and decode pools are worth it against a colocated one."""
    if one is None or two is None:
        which = "prefill and decode pools" if one is None else "a colocated pool"
        return SizeVerdict(worth_it=one is None, decided=True, because=f"only {which} can keep the promises")
    a, b = one.cost.usd_per_hour or 0.0, two.cost.usd_per_hour or 0.0
    runs = [run for fleet in (one, two) for run in (fleet.slo_run, fleet.tpot_run) if run is not None]
    undecided = next((run for run in runs if not run.holds), None)
    gain = f"{number(b, 4)} USD/h for prefill and decode pools, {number(a, 4)} for a colocated pool"
    if undecided is not None:
        said = "was not run" if undecided.basis == "predicted" else "is not shown to be kept by its run"
        what = "first token" if undecided.metric == "ttft" else "output token"
        return SizeVerdict(
            worth_it=False, decided=False, because=f"{gain}; but a promise on the time per {what} {said}"
        )
    return SizeVerdict(worth_it=b < a, decided=True, because=gain)


def _why_not(question: SizeQuestion, every: Ways) -> str:
    model, chips = question.profile.name, ", ".join(chip.name for chip in question.chips)
    if every.n_instances == 0:
        return f"{COMMAND}: {model} with its longest request fits no instance of {chips} that was looked at"
    lacks = [name for name, kind in (("first token", every.prefill), ("output token", every.decode)) if not kind]
    limits = {"first token": question.ttft_s, "output token": question.tpot_s}
    if lacks:
        what = " and ".join(f"a time per {name} of {number((limits[name] or 0) / MILLI)} ms" for name in lacks)
        return f"{COMMAND}: no layout of {model} on {chips} reaches {what}, even alone; what would do: a longer one"
    return f"{COMMAND}: no fleet of {chips} keeps these promises under load; what would do: longer times"


def _notes(question: SizeQuestion, every: Ways, one: SizedFleet | None, two: SizedFleet | None) -> Iterator[str]:
    kinds = f"{every.n_instances} kinds of instances hold the model and its requests"
    yield f"{kinds}; times are those of {question.software.name}"
    if one is None:
        yield "no colocated layout keeps the promises, alone or under load"
    if two is None:
        yield "no plan of prefill and decode pools keeps the promises"
    if question.tpot_s is not None and one is not None and two is not None:
        p = number(question.percentile)
        yield (
            f"time per output token: {p} % of colocated requests stay within it on average over their tokens; with "
            "decode pools no step exceeds it, which is stricter"
        )
    if two is not None:
        yield "the hand-off of caches between pools is not counted: the site states no fabric"
