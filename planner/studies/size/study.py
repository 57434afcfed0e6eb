"""Colocated and disaggregated serving of one demand, side by side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from planner.errors import InfeasibleError, InputError
from planner.notes import Note, note
from planner.optimizer.colocated.doubted import by_run_alone
from planner.results import Size, SizedFleet, SizedSloRun, SizeVerdict
from planner.roofline.formats import checkpoint_cache_notes
from planner.studies.size import colocated, disaggregated
from planner.studies.size.colocated import Chosen
from planner.studies.size.disaggregated import Apart
from planner.studies.size.fleets import colocated_fleet, disaggregated_fleet
from planner.studies.size.question import COMMAND, SizeQuestion
from planner.studies.size.ways import Ways, ways
from planner.units import MILLI, number

N_CONSIDERED = 5
"""Ways of each kind that an answer lists."""

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
    if problems := tuple(question.problems()):
        raise InputError(problems)
    every = ways(question)
    say("comparing layouts")
    together = colocated.cheapest(question, every.colocated)
    apart = disaggregated.cheapest(question, every, time_limit_s)
    if together is None and apart is None:
        raise InfeasibleError(_why_not(question, every))
    if n_requests is not None:
        together, apart = _executed(question, together, apart, (n_requests, seed), time_limit_s, say)
    size = _answer(question, every, together, apart)
    return Sized(size, None if apart is None else apart.text)


def _executed(
    question: SizeQuestion,
    together: Chosen | None,
    apart: Apart | None,
    asked: tuple[int, int],
    time_limit_s: float,
    say: Say,
) -> tuple[Chosen | None, Apart | None]:
    """Both fleets with their runs."""
    from planner.executor import RunQuestion  # compiles, or loads what was compiled
    from planner.studies.size import runs

    n_requests, seed = asked
    if together is not None:
        own = runs.Runs(question, together.way, n_requests // runs.N_REPLICATIONS, seed)
        together = runs.executed(question, together, own, say)
    if apart is not None:
        most = max(n_requests, disaggregated.MOST_REQUESTS)
        asked_apart = RunQuestion(n_requests, seed, None, runs.N_REPLICATIONS, most_requests=most)
        apart = disaggregated.executed(question, apart, asked_apart, time_limit_s, say)
    return together, apart


def _answer(question: SizeQuestion, every: Ways, together: Chosen | None, apart: Apart | None) -> Size:
    one = None if together is None else colocated_fleet(question, together)
    two = None if apart is None else disaggregated_fleet(question, apart)
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
        disaggregation=verdict(one, two) if question.speculation is None else NOT_COMPARED,
        considered=tuple(way.considered(rate) for way in listed),
        notes=tuple(_notes(question, every, together, one, two)),
    )


NOT_COMPARED = SizeVerdict(
    worth_it=False,
    decided=False,
    because="colocated pools with drafted tokens are not modelled, so there is nothing to compare with",
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
        said = "is broken in its run" if undecided.decided else _undecided(undecided)
        what = "to the first token" if undecided.metric == "ttft" else "per output token"
        because = f"{gain}; but the promise on the time {what} {said}"
        return SizeVerdict(worth_it=False, decided=False, because=because)
    return SizeVerdict(worth_it=b < a, decided=True, because=gain)


def _undecided(run: SizedSloRun) -> str:
    if run.basis == "predicted":
        return "was not run"
    return f"is undecided: its run was too short to tell ({number(run.ci_low_s, 4)} to {number(run.ci_high_s, 4)} s)"


def _why_not(question: SizeQuestion, every: Ways) -> str:
    model, chips = question.profile.name, ", ".join(chip.name for chip in question.chips)
    if every.n_instances == 0:
        return (
            f"{COMMAND}: {model} with its longest request fits no instance of {chips} that was looked at; what would "
            "do: accelerators with more memory, a narrower --precision or --kv-precision, or shorter requests"
        )
    lacks = [name for name, kind in (("first token", every.prefill), ("output token", every.decode)) if not kind]
    limits = {"first token": question.ttft_s, "output token": question.tpot_s}
    if lacks:
        what = " and ".join(f"a time per {name} of {number((limits[name] or 0) / MILLI)} ms" for name in lacks)
        return f"{COMMAND}: no layout of {model} on {chips} reaches {what}, even alone; what would do: a longer one"
    return f"{COMMAND}: no fleet of {chips} keeps these promises under load; what would do: longer times"


def _notes(
    question: SizeQuestion, every: Ways, together: Chosen | None, one: SizedFleet | None, two: SizedFleet | None
) -> Iterator[Note]:
    kinds = f"{every.n_instances} kinds of instances hold the model and its requests"
    yield note("size-considered", f"{kinds}; times are those of {question.software.name}")
    yield from question.profile_notes()
    yield from question.unusual_values()
    yield from question.arrival_notes()
    limit = question.profile.architecture.context_limit_tokens
    if limit is not None and question.longest_tokens > limit:
        beyond = f"prompts of up to {question.longest_tokens:,.0f} tokens, beyond the context of {limit:,}"
        made = f"that {question.profile.name} is made for: engines refuse them unless RoPE scaling extends it"
        yield note("context-exceeded", f"there are {beyond} {made}")
    yield from checkpoint_cache_notes(question.profile, question.kv_precision, "--kv-precision")
    if question.speculation is not None:
        yield note(
            "colocated-without-drafts", "colocated pools are left out: with drafted tokens they are not modelled"
        )
    elif one is None:
        yield note("no-colocated-fleet", "no colocated layout keeps the promises, alone or under load")
    if two is None:
        yield note("no-disaggregated-fleet", "no plan of prefill and decode pools keeps the promises")
    if question.tpot_s is not None and one is not None and two is not None:
        p = number(question.percentile)
        yield note(
            "tpot-meanings",
            f"time per output token: {p} % of colocated requests stay within it on average over their tokens; with "
            "decode pools no step exceeds it, which is stricter",
        )
    if together is not None:
        yield from _of_colocated(together)
    yield from _open(one, two)
    if two is not None:
        yield note(
            "hand-off-not-counted", "the hand-off of caches between pools is not counted: the site states no fabric"
        )


def _of_colocated(chosen: Chosen) -> Iterator[Note]:
    """What the model of a colocated pool leaves to its run."""
    yield from by_run_alone(chosen.predicted.queue, str(chosen.way.layout), "the colocated pool")
    if chosen.undecided:
        n = f"{chosen.undecided[0]} colocated instances"
        yield note(
            "cheaper-undecided", f"{n} may keep the promises too: they lie within the interval of the longest run"
        )


def _open(one: SizedFleet | None, two: SizedFleet | None) -> Iterator[Note]:
    """Promises that runs left undecided."""
    for name, fleet in (("the colocated pool", one), ("prefill and decode pools", two)):
        for run in () if fleet is None else (fleet.slo_run, fleet.tpot_run):
            if run is not None and run.basis == "executed" and not run.decided:
                what = "time to first token" if run.metric == "ttft" else "time per output token"
                yield note("promise-undecided", f"{name}: the promise on the {what} {_undecided(run)}")
