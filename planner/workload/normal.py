"""The normal distribution in logarithms, from the standard library: scipy.special takes as long to load as a plan."""

from functools import reduce
from math import erfc

import numpy as np
from numpy.typing import ArrayLike

from planner.curves import FloatArray

FAR = -20.0
"""Below it the tail is a series: its tenth term is less than a rounding error there."""
TERMS = 10
TINY = 1e-300
"""Less than any tail that is not such a series."""
CENTRE = (
    (
        3.3871328727963665,
        133.14166789178438,
        1971.5909503065513,
        13731.69376550946,
        45921.95393154987,
        67265.7709270087,
        33430.57558358813,
        2509.0809287301227,
    ),
    (
        1.0,
        42.31333070160091,
        687.1870074920579,
        5394.196021424751,
        21213.794301586597,
        39307.89580009271,
        28729.085735721943,
        5226.495278852854,
    ),
)
"""Within 0.425 of one half, in 0.425^2 less the square of the distance."""
TAIL = (
    (
        1.4234371107496835,
        4.630337846156546,
        5.769497221460691,
        3.6478483247632045,
        1.2704582524523684,
        0.2417807251774506,
        0.022723844989269184,
        0.0007745450142783414,
    ),
    (
        1.0,
        2.053191626637759,
        1.6763848301838038,
        0.6897673349851,
        0.14810397642748008,
        0.015198666563616457,
        0.0005475938084995345,
        1.0507500716444169e-09,
    ),
)
"""Beyond, in the root of -ln of the tail's probability, less 1.6: up to a root of 5."""
FAR_TAIL = (
    (
        6.657904643501103,
        5.463784911164114,
        1.7848265399172913,
        0.29656057182850487,
        0.026532189526576124,
        0.0012426609473880784,
        2.7115555687434876e-05,
        2.0103343992922881e-07,
    ),
    (
        1.0,
        0.599832206555888,
        0.1369298809227358,
        0.014875361290850615,
        0.0007868691311456133,
        1.8463183175100548e-05,
        1.421511758316446e-07,
        2.0442631033899397e-15,
    ),
)
"""The same less 5: up to a root of 27."""
SPLIT, NEAR_TAIL, LAST_TAIL = 0.425, 5.0, 27.0
"""Where one of these ends and the next begins; beyond the last the tail's series is turned round."""
ROUNDS = 6


def log_ndtr(z: ArrayLike) -> FloatArray:
    """ln Phi(z), Phi the standard normal's cumulative probability; same shape as `z`.

    Equation: Phi(z) = erfc(-z / sqrt 2) / 2; far below 0, with t = 1 / z^2,
    ln Phi(z) = -z^2 / 2 - ln(-z) - ln(2 pi) / 2 + ln(1 - t + 3 t^2 - 15 t^3 + ...)

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 7.1.2 and 26.2.12.

    >>> log_ndtr([0.0, -40.0]).round(6).tolist()
    [-0.693147, -804.608442]
    """
    at = np.asarray(z, dtype=np.float64)
    tail = np.asarray(_erfc(np.abs(at) / np.sqrt(2)), dtype=np.float64) / 2
    near = np.where(at > 0, np.log1p(-tail), np.log(np.maximum(tail, TINY)))
    return np.where(at > FAR, near, _far_log_ndtr(np.minimum(at, FAR))) if (at <= FAR).any() else near


def _far_log_ndtr(z: FloatArray) -> FloatArray:
    series, term = np.ones_like(z), np.ones_like(z)
    with np.errstate(over="ignore"):
        square = z * z
    for k in range(1, TERMS + 1):
        term = -term * (2 * k - 1) / square
        series += term
    return np.asarray(-square / 2 - np.log(-z) - np.log(2 * np.pi) / 2 + np.log(series))


def ndtri_exp(log_probability: ArrayLike) -> FloatArray:
    """The z of which ln Phi(z) is this; -inf at -inf, inf at 0. The same shape.

    Source: Wichura, Applied Statistics 37 (1988) 477, algorithm AS 241 (PPND16), relative error 1e-16; below
    exp(-729) z^2 = -2 ln p - ln(2 pi z^2) + 2 ln(1 - 1/z^2 + 3/z^4 - ...), repeated.

    >>> ndtri_exp([-np.inf, -804.608442, np.log(0.5), np.log(0.975)]).round(6).tolist()
    [-inf, -40.0, 0.0, 1.959964]
    """
    log_p = np.atleast_1d(np.asarray(log_probability, dtype=np.float64))
    off_centre = np.where(log_p < -1, np.exp(log_p) - 0.5, 0.5 + np.expm1(log_p))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.sqrt(-np.where(off_centre < 0, log_p, np.log(-np.expm1(log_p))))
    z = off_centre * _ratio(CENTRE, SPLIT**2 - off_centre**2)
    is_tail = np.abs(off_centre) > SPLIT
    z[is_tail] = np.copysign(_tail_z(tail[is_tail]), off_centre[is_tail])
    return z.reshape(np.shape(log_probability))


def _tail_z(root: FloatArray) -> FloatArray:
    """Distance from 0 of the tail whose probability is exp(-root^2)."""
    within = np.minimum(root, LAST_TAIL)
    z, is_far = _ratio(TAIL, within - 1.6), root > NEAR_TAIL
    z[is_far] = _ratio(FAR_TAIL, within[is_far] - NEAR_TAIL)
    far = root > LAST_TAIL
    with np.errstate(over="ignore", invalid="ignore"):
        twice = 2 * root[far] ** 2
        square = twice.copy()
        for _ in range(ROUNDS):
            square = (
                twice
                - np.log(2 * np.pi * square)
                + 2 * np.log1p(-1 / square + 3 / square**2 - 15 / square**3 + 105 / square**4)
            )
    z[far] = np.where(np.isinf(twice), np.inf, np.sqrt(square))
    return z


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], x: FloatArray) -> FloatArray:
    above, below = (reduce(lambda value, c: value * x + c, p[-2::-1], p[-1] + 0.0 * x) for p in polynomials)
    return above / below


_erfc = np.frompyfunc(erfc, 1, 1)
