"""Number of steps of an answer where tokens are drafted: chance decides how many of them are accepted."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.executor.draws import Draws
from planner.executor.kernel.records import Records
from planner.scenario import Scenario

Integers = NDArray[np.int64]


def draw_extra_steps(requests: Records, scenario: Scenario, draws: Draws) -> None:
    """Draw the steps of every answer whose model has drafts, and write down what that is in tokens.

    Decode instances pass through tokens at the pace of a step over the tokens that it yields on average. An answer
    whose drafts are accepted less often than that passes through more tokens than it has.

    Args:
        requests: as drawn, their classes those of the scenario, in its order; changed.
        scenario: its models.
        draws: where randomness comes from.
    """
    for index, name in enumerate(scenario.workloads):
        used = scenario.speculation_of(scenario.model_of(name))
        if used is None:
            continue
        mine = np.flatnonzero(requests["request_class"] == index)
        if not len(mine):
            continue
        tokens = requests["output_tokens"][mine].astype(np.int64) - 1
        chances = yield_chances(used.acceptance)
        mean = float(chances @ np.arange(1, len(chances) + 1))
        steps = drawn_steps(tokens, chances, draws.generator(f"class {name}: drafts"))
        requests["extra_steps"][mine] = np.rint(steps * mean).astype(np.int64) - tokens


def yield_chances(acceptance: Sequence[float]) -> NDArray[np.float64]:
    """Probability that a step yields 1, 2 and so on tokens: drafts are accepted up to the first that is not.

    >>> yield_chances([0.5, 0.5]).tolist()
    [0.5, 0.25, 0.25]
    """
    before = np.cumprod([1.0, *acceptance])
    return np.asarray(before * (1 - np.array([*acceptance, 0.0])))


def drawn_steps(tokens: Integers, chances: NDArray[np.float64], generator: np.random.Generator) -> Integers:
    """Steps until so many tokens are there, each step yielding 1, 2 and so on with the chances given.

    As many steps are drawn at once as cannot yield more than what is missing, so that none is drawn in vain.

    Args:
        tokens: tokens to make, shape (n,); 0 needs no step.
        chances: probability of each yield, sum 1.
        generator: where randomness comes from.
    """
    left, steps, yields = tokens.astype(np.int64), np.zeros(len(tokens), dtype=np.int64), np.arange(1, len(chances) + 1)
    while (unfinished := np.flatnonzero(left > 0)).size:
        n = np.maximum(left[unfinished] // len(chances), 1)
        left[unfinished] -= generator.multinomial(n, chances) @ yields
        steps[unfinished] += n
    return steps
