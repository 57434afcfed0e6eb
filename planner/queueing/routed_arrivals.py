"""Requests that come to one instance of several, as a router sends them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.queueing.erlang import Floats

MOMENTS = (1 / 6, 1 / 2, 5 / 6)
"""Parts of a pass at which requests come."""
NEGLIGIBLE = 1e-9
"""Part of a rate that is left out."""


@dataclass(frozen=True)
class Arrivals:
    """Requests that come to an instance, independent of one another; a router may avoid one where requests wait."""

    fresh_req_per_s: float
    """While none waits for a pass [req/s]."""
    waiting_req_per_s: float
    """While one does [req/s]."""
    n_instances: int = 1
    """Among which a router keeps numbers of requests level."""

    def moments(self, seconds: Floats) -> Floats:
        """Share of the requests of passes that come at each of `MOMENTS`.

        Equation: requests end with passes, and whoever comes next takes the place: an age x of the pass has density
            a n / h e^(-a n x / h), over what of it is shorter than the pass, h instances that lack one being 1 to n
            alike. One instance: any moment.

        Args:
            seconds: of passes [s], shape (k,).
        """
        # Counted from the first of the moments: what is divided does not vanish where there are many instances.
        age = seconds[:, None, None] * (np.array(MOMENTS) - MOMENTS[0])[None, :, None]
        n = self.n_instances
        if n == 1:
            return np.full((len(seconds), len(MOMENTS)), 1 / len(MOMENTS))
        found = np.exp(-self.fresh_req_per_s * n / np.arange(1, n + 1) * age)
        return np.asarray((found / found.sum(axis=1, keepdims=True)).mean(axis=2))

    @classmethod
    def routed(cls, rate_req_per_s: float, waiting_fraction: float, n_instances: int) -> "Arrivals":
        """An instance among others, where each request goes to one at which none waits, if there is one.

        Equation: with w the share of time in which one waits, w^n of the requests find one everywhere: r w^(n - 1) come
            to an instance where one waits, r (1 - w^n) / (1 - w) to another.

        Args:
            rate_req_per_s: mean rate r of an instance [req/s].
            waiting_fraction: share of time w, below 1 [fraction].
            n_instances: instances n.

        Valid: instances independent of one another.

        Source: mean field of join-the-shortest-queue, as Mitzenmacher (2001), IEEE TPDS 12(10).

        >>> Arrivals.routed(2.0, 0.5, 1)
        Arrivals(fresh_req_per_s=2.0, waiting_req_per_s=2.0, n_instances=1)
        """
        w, n = waiting_fraction, n_instances
        return cls(rate_req_per_s * (1 - w**n) / (1 - w), rate_req_per_s * w ** (n - 1), n)

    def parts(
        self, seconds: Floats, waits: NDArray[np.bool_], spectrum: NDArray[np.complex128]
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128], NDArray[np.complex128]]:
        """Transforms of the tokens that come in times, apart by whether none comes, one, or more; as `spectra`.

        Equation: none e^(-a t), one a f (e^(-b t) - e^(-a t)) / (a - b).
        """
        a, b, t = self.fresh_req_per_s, self.waiting_req_per_s, seconds[:, None]
        first = np.where(waits[:, None], b, a)
        none = np.exp(-first * t)
        apart = first - b
        once = np.where(apart > NEGLIGIBLE * a, (np.exp(-b * t) - none) / np.maximum(apart, NEGLIGIBLE * a), t * none)
        one = first * once * spectrum[None, :]
        every = self.spectra(seconds, waits, spectrum)[0]
        return none + 0 * spectrum[None, :], one, every - none - one

    def spectra(
        self, seconds: Floats, waits: NDArray[np.bool_], spectrum: NDArray[np.complex128]
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Transforms of the tokens that come in times: of all that come, and, times the rate, before one at the end.

        Equation: with f the transform of a prompt, a and b the rates: where one waits already exp(b t (f - 1)); else
            e^(-a t) + a f (e^(b t (f - 1)) - e^(-a t)) / (a + b (f - 1)), none or a first and then others; before a
            request at the end a e^(-a t) + b times the rest of it.

        Args:
            seconds: times t [s], shape (k,).
            waits: whether one waits from the beginning, shape (k,).
            spectrum: transform f of a prompt's length, shape (n,).
        """
        a, b = self.fresh_req_per_s, self.waiting_req_per_s
        t, f = seconds[:, None], spectrum[None, :]
        after = np.exp(b * t * (f - 1.0))
        none = np.exp(-a * t)
        some = a * f * (after - none) / _not_zero(a + b * (f - 1.0))
        came = np.where(waits[:, None], after, none + some)
        return came, np.where(waits[:, None], b * after, a * none + b * some)


def _not_zero(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    return np.where(np.abs(values) < 1e-12, 1e-12, values)
