"""What to know of a size: what was looked at, what its figures leave out, and what runs left open."""

from collections.abc import Iterator, Sequence

from planner.comparison.batch_doubts import by_run_alone
from planner.notes import Note, note
from planner.results import SizedFleet
from planner.roofline.formats import checkpoint_cache_notes
from planner.studies.size.choice import is_undecided
from planner.studies.size.colocated import Chosen
from planner.studies.size.disaggregated import Apart
from planner.studies.size.question import SizeQuestion
from planner.studies.size.verdict import undecided_text
from planner.studies.size.ways import Ways
from planner.units import number


def size_notes(
    question: SizeQuestion,
    every: Ways,
    together: Sequence[Chosen],
    apart: Sequence[Apart],
    fleets: tuple[SizedFleet | None, SizedFleet | None],
) -> Iterator[Note]:
    """Notes on a size.

    Args:
        question: what is asked.
        every: what was looked at.
        together: colocated fleets, the one that is answered first.
        apart: those of prefill and decode pools, in the same order.
        fleets: the two that are answered.

    Raises:
        InputError: something in the question is not known.
    """
    one, two = fleets
    kinds = f"{every.n_instances} kinds of instances hold the model and its requests"
    yield note("size-considered", f"{kinds}; times are those of {', '.join(every.stacks)}")
    if len(every.stacks) > 1:
        yield note(
            "software-by-accelerator",
            "each fleet is planned with the software calibrated best for its accelerators: part of what sets fleets "
            "apart may be the software's; --stack NAME plans all with one",
        )
    yield from question.profile_notes()
    yield from question.unusual_values()
    yield from question.price_notes()
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
    if together:
        yield from by_run_alone(together[0].predicted.queue, str(together[0].way.layout), "the colocated pool")
    yield from _cheaper_undecided(together, apart)
    yield from _open(one, two)
    if two is not None:
        yield note(
            "hand-off-not-counted", "the hand-off of caches between pools is not counted: the site states no fabric"
        )


def _cheaper_undecided(together: Sequence[Chosen], apart: Sequence[Apart]) -> Iterator[Note]:
    """Fleets that cost less than those that are answered, and whose runs do not tell whether they keep the promises."""
    if together and together[0].undecided:
        yield _may_keep(f"{together[0].undecided[0]} colocated instances")
    for fleets in (together, apart):
        for other in fleets[1:]:
            if other.promises and is_undecided(other) and other.usd_per_hour < fleets[0].usd_per_hour:
                yield _may_keep(f"{other.text}, for {number(other.usd_per_hour, 4)} USD/h,")


def _may_keep(what: str) -> Note:
    return note(
        "cheaper-undecided", f"{what} may keep the promises too: they lie within the interval of the longest run"
    )


def _open(one: SizedFleet | None, two: SizedFleet | None) -> Iterator[Note]:
    """Promises that runs left undecided."""
    for name, fleet in (("the colocated pool", one), ("prefill and decode pools", two)):
        for run in () if fleet is None else (fleet.slo_run, fleet.tpot_run):
            if run is not None and run.basis == "executed" and not run.decided:
                what = "time to first token" if run.metric == "ttft" else "time per output token"
                yield note("promise-undecided", f"{name}: the promise on the {what} {undecided_text(run)}")
