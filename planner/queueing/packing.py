"""Number of requests of random size that fit a room in their order, and the part of it that they fill."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.queueing.erlang import Floats

N_CELLS = 4096
"""Cells of the room; sizes are rounded to whole ones at random, which keeps their mean."""
RARE = 1e-12
"""A share below this is none."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Requests that are inside a room which never lacks requests, from `packing`."""

    fractions: Floats
    """Share of departures that leave n inside once others have been let in, n = 1 to the most [fraction]."""
    mean_filled: Floats
    """Mean sum of the n sizes inside, in the unit of the room, shape of `fractions`; n mean sizes where n is rare."""


def packing(sizes: Floats, weights: Floats, room: float, most: int) -> Packing:
    """Requests let in one after another while the next one fits, by how many then are inside.

    Equation:
        S_n = X_1 + ... + X_n, sizes independent; P(N = n) = P(S_n <= R < S_(n+1)) for n below the most,
        P(N = most) = P(S_most <= R); a request larger than the room is inside alone

    Args:
        sizes: sizes that requests have [any unit], shape (m,), at least 0.
        weights: their shares [fraction], shape (m,), sum 1.
        room: room R for all [that unit], above 0; infinite where only their number is limited.
        most: requests inside at the most [count].

    Returns:
        Shares by n and the room then filled.

    Raises:
        ValueError: an argument is out of range.

    Valid:
        Who departs tells nothing of sizes, and times inside are exponential: then these shares are those of the
        saturated system, exactly. With equal times inside it serves more (`tests/test_queueing_packing.py`): a tenth
        where 5 very unequal requests fit, 4 % where 14 do, 0.1 % where 60 do.

    Source:
        Rumyantsev and Morozov (2017), Annals of Operations Research 252: stability of a multiserver model with
        simultaneous service. P(N = n) is that of a renewal process, Feller (1971), vol. II, XI.

    >>> found = packing(np.array([1.0]), np.array([1.0]), 3.5, 10)
    >>> int(np.argmax(found.fractions)) + 1, round(float(found.mean_filled[2]), 6)
    (3, 3.0)
    """
    if sizes.shape != weights.shape or sizes.ndim != 1 or not (np.isfinite(sizes) & (sizes >= 0)).all():
        raise ValueError(f"sizes of at least 0 and weights need one length, got {sizes.shape}, {weights.shape}")
    if most < 1 or not room > 0 or abs(float(weights.sum()) - 1) > 1e-9:
        raise ValueError(f"packing needs room > 0, most >= 1 and weights of sum 1, got {room}, {most}")
    mean = float(sizes @ weights)
    filled, fractions = mean * np.arange(1.0, most + 1), np.zeros(most)
    if float(sizes.max()) * most <= room:
        fractions[-1] = 1.0
        return Packing(fractions, filled)
    cell = room / N_CELLS
    one = _in_cells(sizes / cell, weights)
    # P(X > R - s) for every sum s in cells.
    beyond = (1.0 - np.cumsum(one))[::-1].clip(0.0)
    cells, spectrum = cell * np.arange(N_CELLS + 1), _spectrum(one)
    fractions[0] = 1.0 - float(one.sum())  # larger than the room: alone
    filled[0] = room
    surely = _surely_inside(sizes, weights, room, most)
    total = _sum_in_cells(one, surely)
    for n in range(surely, most + 1):
        last = total if n == most else total * beyond
        share = float(last.sum())
        if share > RARE:
            known = fractions[n - 1]
            fractions[n - 1] = known + share
            filled[n - 1] = (known * room + float(last @ cells)) / fractions[n - 1]
        if n < most:
            total = _in_room(_spectrum(total) * spectrum)
            if float(total.sum()) <= RARE:
                break
    return Packing(fractions / fractions.sum(), filled)


def _surely_inside(sizes: Floats, weights: Floats, room: float, most: int) -> int:
    """A number of requests, 1 at least, of which n or fewer do not fit with a probability below RARE.

    Equation:
        P(S_n > R) <= exp(-t^2 / (2 n var X + 2 b t / 3)), t = R - n E[X], b the largest size less E[X]

    Source:
        Bernstein (1924); Boucheron, Lugosi and Massart, Concentration Inequalities (2013), theorem 2.10.
    """
    mean, n = float(sizes @ weights), np.arange(1.0, most + 1)
    variance, above = float((sizes - mean) ** 2 @ weights), float(sizes[weights > 0].max()) - mean
    spare = np.maximum(room - n * mean, 0.0)
    surely = spare**2 > -np.log(RARE) * (2 * n * variance + 2 * above * spare / 3)
    return max(int(surely.cumprod().sum()), 1)


def _sum_in_cells(one: Floats, n: int) -> Floats:
    """Shares of the sums of n sizes in cells, those beyond the room left out: by squaring."""
    found: Floats | None = None
    while n:
        if n % 2:
            found = one if found is None else _in_room(_spectrum(found) * _spectrum(one))
        n //= 2
        one = _in_room(_spectrum(one) ** 2) if n else one
    assert found is not None, "n is at least 1"
    return found


def _spectrum(shares: Floats) -> NDArray[np.complex128]:
    """Of shares in cells: that of a sum of two independent sizes is the product of theirs."""
    return np.fft.rfft(shares, _n_points())


def _in_room(spectrum: NDArray[np.complex128]) -> Floats:
    """Shares in cells up to the room, rounding below 0 left out."""
    return np.asarray(np.fft.irfft(spectrum, _n_points())[: N_CELLS + 1].clip(0.0))


def _n_points() -> int:
    """Points of a spectrum: enough for the sum of two sizes within the room, and a product of small primes."""
    from scipy.fft import next_fast_len

    return int(next_fast_len(2 * N_CELLS + 1, real=True))


def _in_cells(sizes: Floats, weights: Floats) -> Floats:
    """Shares of sizes in whole cells up to the room, each size split between its neighbours; larger ones left out."""
    low = np.floor(sizes)
    part = sizes - low
    whole = np.zeros(N_CELLS + 2)
    inside = sizes <= N_CELLS
    places = low[inside].astype(np.intp)
    np.add.at(whole, places, (weights * (1 - part))[inside])
    np.add.at(whole, places + 1, (weights * part)[inside])
    return whole[: N_CELLS + 1]
