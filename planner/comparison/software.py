"""Notes on the software and number formats that the pools of a plan run in, and on their prices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.errors import InfeasibleError, InputError
from planner.notes import Note, note
from planner.optimizer.problem import Problem
from planner.optimizer.service_times import Decoded, service_times
from planner.profiles import Speculation
from planner.results.plan import Fleet
from planner.roofline import InstanceRates, emulation, tokens_per_step
from planner.scenario import Pool, Scenario
from planner.units import MILLI, number
from planner.workload.mix import RequestMix

MOST_NAMES = 4
"""Pools that a note names; of more it gives the number."""
MOST_COMPARED = 3
"""Pools of which a note says how long they take with other software."""


@dataclass(frozen=True, eq=False)
class PoolCandidate:
    """A pool that a plan may use."""

    name: str
    pool: Pool
    """As the scenario has it, with the layout that was chosen."""
    rates: InstanceRates
    classes: tuple[tuple[float, RequestMix], ...]
    """Share and requests of every class that it serves."""


def setup_notes(scenario: Scenario, pools: Sequence[PoolCandidate]) -> Iterator[Note]:
    """Where pools of one model differ in software or number formats, and where a format is emulated.

    Args:
        pools: the pools that were to choose from, also those that the plan leaves empty.

    Returns:
        Notes; none where all pools of every model run alike, in formats that their accelerators have units for.
    """
    for model in dict.fromkeys(candidate.pool.model for candidate in pools):
        mine = [candidate for candidate in pools if candidate.pool.model == model]
        name, drafts = scenario.profile_of(model).name, scenario.speculation_of(model)
        if drafts is not None:
            yield note("tokens-drafted", _drafted(name, drafts))
        yield from _different_software(scenario, name, mine)
        if formats := _by(mine, "precision"):
            yield note("weights-differ", f"pools of {name} hold its weights in different formats: {formats}")
        if formats := _by(mine, "kv_precision"):
            yield note(
                "caches-differ",
                f"pools of {name} keep caches in different formats ({formats}); converting them is not counted",
            )
    setups = ((candidate, candidate.rates.setup) for candidate in pools)
    yield from dict.fromkeys(
        note(
            "format-emulated",
            emulation(scenario.hardware_of(candidate.pool), setup.precision, setup.product_precision),
        )
        for candidate, setup in setups
        if setup.precision is not None and setup.product_precision is not None
    )


def price_notes(problem: Problem, fleet: Fleet) -> Iterator[Note]:
    """Prices that are missing, and those that are assumed without a source."""
    if fleet.cost.missing_prices:
        yield note("price-missing", "cost unknown; missing: " + ", ".join(fleet.cost.missing_prices))
    if unsourced := problem.unsourced_prices():
        yield note("price-assumed", f"assumed without a source: the price of {', '.join(unsourced)}")


def _drafted(model: str, used: Speculation) -> str:
    """Assumptions of a plan about drafted tokens, in words."""
    by = "its MTP layers" if used.draft is None else used.draft.name
    accepted = ", ".join(f"{value:g}" for value in dict.fromkeys(used.acceptance))
    yields = number(tokens_per_step(used.acceptance), 3)
    return (
        f"{model} decodes with {used.n_draft_tokens} tokens drafted per step by {by}: {yields} tokens per step at an "
        f"acceptance of {accepted}, which depends on what is asked"
    )


def _by(pools: Sequence[PoolCandidate], field: str) -> str:
    """Pools by what is known of their setup; empty where they agree.

    >>> from planner.curves import Curve
    >>> from planner.roofline import Setup
    >>> flat = Curve.affine(1.0, 0.0)
    >>> def pool(name, precision):
    ...     rates = InstanceRates(None, flat, None, 1, "inferred", setup=Setup(precision=precision))
    ...     return PoolCandidate(name, Pool(site="here", hardware="h200-sxm", role="prefill"), rates, ())
    >>> _by([pool("a", "fp8"), pool("b", "bf16"), pool("c", "fp8"), pool("d", None)], "precision")
    'fp8 in a, c; bf16 in b'
    """
    found: dict[str, list[str]] = {}
    for candidate in pools:
        value = getattr(candidate.rates.setup, field)
        if value is not None:
            found.setdefault(value, []).append(candidate.name)
    if len(found) < 2:
        return ""
    return "; ".join(f"{value} in {_named(names)}" for value, names in found.items())


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} pools such as {names[0]}"


def _different_software(scenario: Scenario, model: str, pools: Sequence[PoolCandidate]) -> Iterator[Note]:
    stacks = _by(pools, "stack")
    if not stacks:
        return
    sizes = [size for candidate in pools if (size := _with_other_stack(scenario, candidate, pools))]
    told = "; ".join(sizes[:MOST_COMPARED])
    yield note(
        "software-differs",
        f"pools of {model} run on different software ({stacks}), so what sets them apart is not hardware alone"
        + (f": {told}" if told else ""),
    )


def _with_other_stack(scenario: Scenario, candidate: PoolCandidate, pools: Sequence[PoolCandidate]) -> str:
    """Times of a pool with its own stack, and with one that others run on; empty where that cannot be told."""
    own = candidate.rates.stack
    other = next((p for p in pools if p.rates.setup.stack not in (None, own)), None)
    if own is None or other is None:
        return ""
    stack = scenario.stack_of(other.pool).stated or other.rates.setup.stack
    pool = candidate.pool.model_copy(update={"stack": stack})
    try:
        decoded = Decoded.of(candidate.classes)
        rates = service_times(scenario, candidate.name, pool, scenario.hardware_of(pool), decoded)
    except (InputError, InfeasibleError):
        return ""
    ours, theirs = (_seconds(candidate, found) for found in (candidate.rates, rates))
    what = "a mean prompt" if candidate.rates.prefill else "a step of a full batch"
    return f"{what} takes {candidate.name} {ours}, and with {rates.stack} {theirs}"


def _seconds(candidate: PoolCandidate, rates: InstanceRates) -> str:
    """Seconds of a prompt of mean uncached length, or of a step of a full batch."""
    if rates.prefill is not None:
        whole = sum(share for share, _ in candidate.classes)
        tokens = sum(share * mix.mean_uncached_tokens for share, mix in candidate.classes) / whole
        return f"{number(float(rates.prefill.curve(tokens)), 3)} s"
    point = rates.decode
    return "an unknown time" if point is None else f"{number(point.step_s / MILLI, 3)} ms for {point.batch} sequences"
