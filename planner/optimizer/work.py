"""Load of one request of a class on a pool and a link, by threshold and capacity rule.

Two rules. `expected-work` is exact: the mean of T(L) over the requests that are routed to the pool. `mean-length` is
the paper's: T at their mean length. T is convex, so by Jensen's inequality the second promises more than can be kept.

Of an interval of thresholds [low, high] the figures are those that no threshold inside can undercut: W_long falls and
W_short grows with the threshold. For `mean-length`, p(high) T(E[L | L > low]) does, because p falls and T of the mean
grows with it. They are exact where both ends are one threshold.

Source: utilisation law (Denning and Buzen 1978); mean-length: Prefill-as-a-Service (arXiv 2604.15039v2), section 3.
"""

import numpy as np
from numpy.typing import NDArray

from planner.curves import Curve, PrefillService
from planner.scenario import CapacityRule
from planner.workload.mix import ALL_LONG, RequestMix

Array = NDArray[np.float64]
ROUNDING_OF_SUMS = 1e-12
"""Fractions of the requests below are nothing but the rounding of weights that add up to 1."""


def long_work_s(rule: CapacityRule, service: PrefillService | None, mix: RequestMix, low: Array, high: Array) -> Array:
    """Instance-seconds for the long prompts, per request of the class [s].

    Equation:
        E[T(L); L > high]; mean-length: p(high) T(E[L | L > low]), p(t) = P(L > t)

    Args:
        rule: the capacity rule.
        service: prefill times of an instance.
        mix: requests of the class.
        low: least thresholds [tokens], shape (n,).
        high: greatest thresholds [tokens], shape (n,).
    """
    if rule == "expected-work":
        return mix.long_work(_known(service), high)
    return np.asarray(mix.long_fraction(high) * _known(service).curve(np.nan_to_num(mix.mean_long_length(low))))


def short_work_s(rule: CapacityRule, service: PrefillService | None, mix: RequestMix, low: Array) -> Array:
    """Instance-seconds for the short prompts, per request of the class [s]; arguments as `long_work_s`.

    Equation:
        E[T(L); L <= low]; mean-length: (1 - p(low)) T(E[L | L <= low])
    """
    if rule == "expected-work":
        return mix.short_work(_known(service), low)
    length = mix.mean_short_length(low)
    # Without a short request 1 - P(U > t) may still be a rounding error, which no empty pool could serve.
    fraction = np.where(np.isnan(length), 0.0, 1.0 - mix.long_fraction(low))
    return np.asarray(fraction * _known(service).curve(np.nan_to_num(length)))


def long_bytes(rule: CapacityRule, kv_bytes: Curve, mix: RequestMix, ends: tuple[Array, Array], holds: bool) -> Array:
    """Bytes of the long prompts' caches on a link, per request of the class [B].

    Equation:
        E[S(L); L > high]; mean-length: p(high) S(E[L | L > low])

    Args:
        rule: the capacity rule.
        kv_bytes: cache by length.
        mix: requests of the class.
        ends: least and greatest thresholds [tokens], shape (n,) each.
        holds: whether the destination holds prefixes, which then are not sent.
    """
    low, high = ends
    if rule == "expected-work":
        return mix.long_wire_bytes(kv_bytes, high, holds)
    return np.asarray(mix.long_fraction(high) * kv_bytes(np.nan_to_num(mix.mean_long_length(low))))


def short_bytes(kv_bytes: Curve, mix: RequestMix, low: Array, holds: bool) -> Array:
    """Bytes of the short prompts' caches on a link, per request of the class: E[S(L); L <= low] [B]."""
    whole = mix.long_wire_bytes(kv_bytes, np.full_like(low, ALL_LONG), holds)
    return np.asarray(whole - mix.long_wire_bytes(kv_bytes, low, holds))


def _known(service: PrefillService | None) -> PrefillService:
    """Occupancy of an instance by a prompt: its share, where several are prefilled at once."""
    if service is None:
        raise ValueError("a prefill pool has no prefill times")
    return service.occupancy
