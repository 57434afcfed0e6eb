"""Colocated and disaggregated serving of one demand, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.errors import InfeasibleError, InputError
from planner.results import Size
from planner.studies.size import colocated, disaggregated
from planner.studies.size.choice import best_first, run_best
from planner.studies.size.colocated import Chosen
from planner.studies.size.disaggregated import Apart
from planner.studies.size.fleets import colocated_fleet, disaggregated_fleet
from planner.studies.size.notes import size_notes
from planner.studies.size.question import COMMAND, SizeQuestion
from planner.studies.size.verdict import NOT_COMPARED, verdict
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
    together = best_first(filter(None, (colocated.cheapest(question, found) for found in every.colocated)))
    apart = best_first(filter(None, (disaggregated.cheapest(question, *pair, time_limit_s) for pair in every.pairs)))
    if not together and not apart:
        raise InfeasibleError(_why_not(question, every))
    if n_requests is not None and question.promises_something:
        together, apart = _executed(question, together, apart, (n_requests, seed), time_limit_s, say)
    size = _answer(question, every, together, apart)
    return Sized(size, apart[0].toml if apart else None)


def _executed(
    question: SizeQuestion,
    together: Sequence[Chosen],
    apart: Sequence[Apart],
    asked: tuple[int, int],
    time_limit_s: float,
    say: Say,
) -> tuple[list[Chosen], list[Apart]]:
    """Fleets of both kinds with their runs, best first."""
    from planner.executor import RunQuestion  # compiles, or loads what was compiled
    from planner.studies.size import runs

    n_requests, seed = asked
    most = max(n_requests, disaggregated.MOST_REQUESTS)
    asked_apart = RunQuestion(n_requests, seed, None, runs.N_REPLICATIONS, most_requests=most)

    def run_together(one: Chosen, usd: float) -> Chosen:
        own = runs.Runs(question, one.way, n_requests // runs.N_REPLICATIONS, seed)
        return runs.executed(question, one, own, say, usd)

    def run_apart(one: Apart, _: float) -> Apart:
        return disaggregated.executed(question, one, asked_apart, time_limit_s, say)

    return run_best(together, run_together), run_best(apart, run_apart)


def _answer(question: SizeQuestion, every: Ways, together: Sequence[Chosen], apart: Sequence[Apart]) -> Size:
    one = colocated_fleet(question, together[0]) if together else None
    two = disaggregated_fleet(question, apart[0]) if apart else None
    rate, r = question.rate_req_per_s, question.requests
    listed = [way for kind in every.by_role(question) for way in kind[:N_CONSIDERED]]
    stacks = {pool.stack for fleet in (one, two) if fleet is not None for pool in fleet.pools}
    return Size(
        model=question.profile.name,
        hardware=tuple(chip.name for chip in question.chips),
        precision=listed[0].served.weights_precision,
        stack=stacks.pop() if len(stacks) == 1 else None,
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
        notes=tuple(size_notes(question, every, together, apart, (one, two))),
    )


def _why_not(question: SizeQuestion, every: Ways) -> str:
    model, chips = question.profile.name, ", ".join(chip.name for chip in question.chips)
    if every.n_instances == 0:
        return (
            f"{COMMAND}: {model} with its longest request fits no instance of {chips} that was looked at; what would "
            "do: accelerators with more memory, a narrower --precision or --kv-precision, or shorter requests"
        )
    _, prefill, decode = every.by_role(question)
    lacks = [name for name, kind in (("first token", prefill), ("output token", decode)) if not kind]
    limits = {"first token": question.ttft_s, "output token": question.tpot_s}
    if lacks:
        what = " and ".join(f"a time per {name} of {number((limits[name] or 0) / MILLI)} ms" for name in lacks)
        return f"{COMMAND}: no layout of {model} on {chips} reaches {what}, even alone; what would do: a longer one"
    return f"{COMMAND}: no fleet of {chips} keeps these promises under load; what would do: longer times"
