"""Which pools hold which prompts: a cache must fit beside the weights of the instance that makes it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from planner.errors import InfeasibleError, InputError
from planner.notes import Note, note
from planner.optimizer.service_times import pool_model
from planner.roofline import InstanceModel, InstanceRates
from planner.scenario import Scenario
from planner.workload.mix import RequestMix

MOST_TIMES = 64
"""An instance this many times as large is not looked for."""
NARROW_CACHE = "fp8"
"""Narrowest format of the attention cache that every engine has."""
Limits = tuple[float, float]
"""Least and greatest threshold under which every prompt is routed to a pool that holds it [tokens]."""


def is_held(mix: RequestMix, threshold_tokens: float, limits: Limits) -> bool:
    """True if a threshold routes prompts as one within the limits does."""
    low, high = limits
    nearest = min(max(threshold_tokens, low), high)
    if low > high or nearest == threshold_tokens:
        return low <= high
    return float(mix.long_fraction(nearest)) == float(mix.long_fraction(threshold_tokens))


def too_long(
    scenario: Scenario, name: str, rooms: Iterable[tuple[str, float, float]], others: Iterable[str] = ()
) -> InfeasibleError:
    """The error for prompts that no pool on their way holds.

    Args:
        rooms: name of each pool, longest prompt that it holds, and longest that would have to go there [tokens].

    Returns:
        Every pool's room beside the weights, and the smallest changes of it that would do.
    """
    lines = [f"  - {line}" for room in dict.fromkeys(rooms) for line in _pool_lines(scenario, *room)]
    lines += [f"  - what would do: {other}" for other in dict.fromkeys(others)]
    what = f"{scenario.name}: infeasible: prompts of '{name}' fit no pool that they could be routed to:\n"
    return InfeasibleError(what + "\n".join(lines))


def oversized_notes(name: str, rates: InstanceRates, mixes: Iterable[RequestMix]) -> Iterator[Note]:
    """Notes on a decode pool on the roofline whose longest requests do not fit one of its instances."""
    room = rates.longest_tokens
    longest = max((mix.longest_tokens() + mix.mean_output_tokens for mix in mixes), default=0.0)
    if rates.decode is not None and rates.stack is not None and longest > room:
        yield note(
            "request-too-large",
            f"an instance of {name} holds requests of up to {room:,.0f} tokens beside the weights; the longest have "
            f"{longest:,.0f} with a mean answer: they are counted as if they decoded alone, and no engine takes them",
        )


def _pool_lines(scenario: Scenario, name: str, longest_tokens: float, asked_tokens: float) -> Iterator[str]:
    pool = scenario.pools[name]
    instance = f"{pool.accelerators_per_instance} x {scenario.hardware_of(pool).name}"
    yield (
        f"pools.{name}: {instance} hold prompts of up to {longest_tokens:,.0f} tokens beside the weights of "
        f"{scenario.profile_of(pool.model).name}; the longest that would go there has {asked_tokens:,.0f}; "
        f"what would do: {', or '.join(changes(scenario, name, asked_tokens))}"
    )


def changes(scenario: Scenario, name: str, tokens: float) -> list[str]:
    """The smallest changes, each by itself, that let a pool hold a prompt of so many tokens."""
    pool, found = scenario.pools[name], ["another pool for long prompts, which holds them"]
    try:
        served = pool_model(scenario, pool, scenario.hardware_of(pool))
    except InputError:
        return found
    if served.kv_precision == "bf16" and replace(served, kv_precision=NARROW_CACHE).longest_request >= tokens:
        found.insert(0, f'kv_precision = "{NARROW_CACHE}" of the model')
    if (wider := _wider(served, tokens)) is not None:
        found.insert(0, wider)
    return found


def _wider(served: InstanceModel, tokens: float) -> str | None:
    """The smallest power of two times the tensor parallelism that would do."""
    times = 2
    while times <= MOST_TIMES:
        layout = replace(served.layout, tp_size=times * served.layout.tp_size)
        if replace(served, layout=layout).longest_request >= tokens:
            return f'accelerators_per_instance = {layout.n_accelerators} with layout = "{layout}"'
        times *= 2
    return None
