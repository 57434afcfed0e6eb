"""Seconds of a pass, from the table."""

from planner.executor.compiled import compiled, compiled_apart
from planner.executor.kernel.records import Numbers, PassTable


@compiled
def cell(knots: Numbers, k: int, x: float) -> int:
    """The last knot but one that is not above x: where the piece begins that x is on, or is nearest to."""
    low, high = 0, knots.shape[1] - 2
    while low < high:
        middle = (low + high + 1) >> 1
        if knots[k, middle] <= x:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def position(knots: Numbers, k: int, low: int, x: float) -> float:
    """Place of x between a knot (0) and the next one (1); beyond these outside, and 0 where there is one knot."""
    if knots.shape[1] < 2:
        return 0.0
    width = knots[k, low + 1] - knots[k, low]
    return (x - knots[k, low]) / width if width > 0 else 0.0


@compiled
def decode_pass_s(table: PassTable, k: int, n: int, context: float) -> float:
    """Seconds of a step of so many sequences with a mean context."""
    low = cell(table.contexts, k, context)
    w = position(table.contexts, k, low, context)
    near: float = table.decode_s[k, n, low]
    return near if w == 0.0 else near + w * (table.decode_s[k, n, low + 1] - near)


@compiled_apart
def prompt_pass_s(
    table: PassTable, k: int, spread: float, tokens: float, keys: float, n: float, context: float
) -> float:
    """Seconds of a pass with prompts: linear in each of the five between knots."""
    i_0, i_1 = cell(table.spread, k, spread), cell(table.tokens, k, tokens)
    i_2, i_3, i_4 = cell(table.keys, k, keys), cell(table.sequences, k, n), cell(table.contexts, k, context)
    w_0, w_1 = position(table.spread, k, i_0, spread), position(table.tokens, k, i_1, tokens)
    w_2, w_3 = position(table.keys, k, i_2, keys), position(table.sequences, k, i_3, n)
    w_4 = position(table.contexts, k, i_4, context)
    total = 0.0
    for corner in range(32):
        a, b, c, d, e = corner & 1, corner >> 1 & 1, corner >> 2 & 1, corner >> 3 & 1, corner >> 4
        weight = (w_0 if a else 1.0 - w_0) * (w_1 if b else 1.0 - w_1) * (w_2 if c else 1.0 - w_2)
        weight *= (w_3 if d else 1.0 - w_3) * (w_4 if e else 1.0 - w_4)
        if weight != 0.0:
            total += weight * table.prompt_s[k, i_0 + a, i_1 + b, i_2 + c, i_3 + d, i_4 + e]
    return total
