"""How many requests of a fleet of given sizes are within an SLO on TTFT: fractions, percentiles, and idle limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import first_intervals
from planner.optimizer.delays import (
    admission_wait,
    arrival_scvs,
    link_bytes_per_s,
    sending_s,
    sent_bytes,
    stretched,
)
from planner.optimizer.formulation import Sizing
from planner.optimizer.problem import Problem
from planner.optimizer.routes import Route
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.queueing import (
    ALONE,
    NO_WAIT,
    Path,
    Senders,
    Service,
    Stretch,
    Ttft,
    Wait,
    gigc_wait,
    link_stretch,
    split_scv,
)
from planner.roofline import exposed_transfer_s
from planner.units import bytes_per_s
from planner.workload import weighted_quantile

Array = NDArray[np.float64]
Stream = tuple[int, int | None, NDArray[np.bool_]]
"""Prefill pool, link and which of the requests go there."""
N_ATOMS = 4096
"""Requests that stand for a length distribution, as for the latencies of the answer."""
SATURATED = 1 - 1e-9
SHARE_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class FleetUnderSlo:
    """A problem with one route at given sizes, to be judged by its SLO on TTFT."""

    problem: Problem
    sizing: Sizing

    @property
    def slo_ttft_s(self) -> float:
        """TTFT of the SLO [s]; inf without one."""
        slo = self.problem.slo
        return inf if slo is None or slo.ttft_s is None else slo.ttft_s

    @property
    def late_allowed(self) -> float:
        """Fraction of requests that may take longer."""
        return 1 - self.problem.ttft_percentile / 100

    def late_fraction(self, low_tokens: float, high_tokens: float, req_per_s: float) -> float:
        """Fraction of requests later than the SLO, at the least, with any threshold of an interval.

        Equation:
            P(L > high) P(W_long + T + X > x | L > high) + P(L <= low) P(W_short + T > x | L <= low): requests between
            low and high load no queue and are never late; exact where both ends are one threshold

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            req_per_s: rate of the whole fleet [req/s].

        Returns:
            Fraction of all requests; a queue without a steady state makes all of its requests late.

        Valid:
            One shared queue per pool, renewal arrivals; transfers stretched by the load of these requests alone, as in
            `planner.queueing.link_stretch`; places in decode batches as in `planner.optimizer.delays.admission_wait`.

        Source:
            A queue with fewer arrivals has no longer waits (coupling); waits as in `planner.queueing.gigc_wait`.
        """
        paths = self._paths(low_tokens, high_tokens, req_per_s)
        if paths is None:
            return 1.0
        return sum(
            share if path is None else share * float(Ttft.of([path]).survival(self.slo_ttft_s)) for share, path in paths
        )

    def goodput_within(self, low_tokens: float, high_tokens: float, most: float, least: float = 0.0) -> float:
        """Highest rate up to `most` at which some threshold of an interval may be within the SLO [req/s].

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            most: rate that capacity allows [req/s].
            least: rate below which the answer does not matter [req/s].

        Returns:
            The rate; 0 where not even `least` is within the SLO.
        """
        is_exact = low_tokens == high_tokens
        steps = ROUTE_SETTINGS.exact_steps if is_exact else ROUTE_SETTINGS.bound_steps
        if most <= 0 or not self._meets_slo(
            low_tokens, high_tokens, max(least, most * 2.0**-ROUTE_SETTINGS.exact_steps)
        ):
            return 0.0
        if self._meets_slo(low_tokens, high_tokens, most):
            return most
        low, high = least, most
        for _ in range(steps):
            middle = (low + high) / 2
            low, high = (middle, high) if self._meets_slo(low_tokens, high_tokens, middle) else (low, middle)
        return low if is_exact else high

    def unloaded_percentile_s(self, threshold_tokens: float) -> float:
        """The percentile of the SLO of TTFT without waiting, at one threshold [s].

        Args:
            threshold_tokens: the threshold [tokens].
        """
        route, is_long = self._route, self._uncached > threshold_tokens
        seconds = np.zeros_like(self._weights)
        for pool, link, chosen in ((route.long, route.long_link, is_long), (route.short, route.short_link, ~is_long)):
            if pool is not None:
                seconds[chosen] = (self._service_s(pool) + self._transfer_s(pool, link))[chosen]
        return float(weighted_quantile(seconds, self._weights, np.array(1 - self.late_allowed)))

    def may_fill_a_link(self) -> bool:
        """Whether the instances that send over a link, all busy with whatever requests, could ask for more than it has.

        Equation:
            sum over pools of n max over requests of min(B, S / (T (n_layers - 1) / n_layers)) > B: where it does not
            hold, nothing is stretched at any threshold and rate but what is left of others' last layers
        """
        return any(
            sum(self._most_sent_per_s(pool, link) for pool in senders)
            > link_bytes_per_s(self.problem, self.sizing, link)
            for link, senders in self.senders.items()
        )

    @property
    def senders(self) -> dict[int, list[int]]:
        """Prefill pools that send over each link that the route uses."""
        route, found = self._route, dict[int, list[int]]()
        for pool, link in ((route.long, route.long_link), (route.short, route.short_link)):
            if pool is not None and link is not None:
                found.setdefault(link, []).append(pool)
        return found

    def _most_sent_per_s(self, pool: int, link: int) -> float:
        sending_s, sent = self._sending_s(pool, link), self._sent_bytes(pool, link)
        is_sent = sending_s > 0
        speeds = sent[is_sent] / sending_s[is_sent]
        return self._n_places(pool) * float(speeds.max(initial=0.0))

    def _n_places(self, pool: int) -> int:
        """Prompts that a pool prefills at once."""
        return self.sizing.n_instances[pool] * self.problem.pools[pool].rates.places

    def _meets_slo(self, low: float, high: float, rate: float) -> bool:
        return self.late_fraction(low, high, rate) <= self.late_allowed + 1e-12

    def _stretch(self, link: int | None, streams: Sequence[Stream], req_per_s: float) -> Stretch:
        """Factor by which sharing stretches the transfers of some streams on a link, on which they are alone."""
        mine = [(pool, chosen) for pool, used, chosen in streams if used == link and chosen.any()]
        if link is None or not mine:
            return ALONE
        bandwidth = link_bytes_per_s(self.problem, self.sizing, link)
        senders, share = [], 0.0
        for pool, chosen in mine:
            weights = self._weights[chosen]
            part = float(weights.sum())
            link_s = self._sent_bytes(pool, link)[chosen] / bandwidth if bandwidth > 0 else np.full(len(weights), inf)
            n, service_s = self._n_places(pool), self._service_s(pool)[chosen]
            senders.append(Senders(n, req_per_s * part, service_s, link_s, weights / part))
            share += part
        n_layers = [self.problem.pools[pool].rates.n_layers or 1 for pool, _ in mine]
        return link_stretch(senders, n_layers, split_scv(arrival_scvs(self.problem)[0], min(share, 1.0)))

    def _paths(self, low_tokens: float, high_tokens: float, req_per_s: float) -> list[tuple[float, Path | None]] | None:
        """Shares of all requests and what they go through; None where decode has no place for them in the long run."""
        admission = admission_wait(self.problem, self.sizing, self._route.decode, (req_per_s,))
        if admission is None:
            return None
        streams = self._streams(low_tokens, high_tokens)
        stretch = {link: self._stretch(link, streams, req_per_s) for _, link, _ in streams}
        return [
            (share, self._path(*stream, req_per_s, stretch[stream[1]], admission))
            for stream in streams
            if (share := float(self._weights[stream[2]].sum())) > 0
        ]

    def _path(
        self,
        pool: int,
        link: int | None,
        chosen: NDArray[np.bool_],
        req_per_s: float,
        stretch: Stretch,
        admission: Wait,
    ) -> Path | None:
        """What the chosen requests go through, as if they were all; None where their queue has no steady state."""
        share = float(self._weights[chosen].sum())
        n, service_s = self._n_places(pool), self._service_s(pool)[chosen]
        weights = self._weights[chosen] / share
        service = Service.of(service_s, weights)
        rate = req_per_s * share
        if n == 0 or rate * service.mean_s >= n * SATURATED or stretch.mean == inf:
            return None
        wait = gigc_wait(n, rate, service, split_scv(arrival_scvs(self.problem)[0], share))
        left_s = self._transfer_s(pool, link)[chosen]
        if link is None:
            return Path.of(1.0, service_s, weights, wait, left_s, admission)
        round_trip_s, sending = self.problem.links[link].round_trip_s, self._sending_s(pool, link)[chosen]
        kind, after_s, levels = stretched(stretch, round_trip_s, service_s, left_s, sending)
        return Path.of(1.0, service_s[kind], weights[kind] * levels, wait, after_s, admission)

    def percentile_s(self, low_tokens: float, high_tokens: float, req_per_s: float) -> float:
        """The percentile of TTFT that the SLO is about, at a rate, at the least, with any threshold of an interval.

        Equation:
            inf x with late_fraction(low, high, rate) <= 1 - percentile / 100 for an SLO of x

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            req_per_s: rate of the whole fleet [req/s].

        Returns:
            Seconds; inf where a queue has no steady state. Exact where both ends are one threshold.

        Valid:
            As for `late_fraction`; whether decode and links carry the rate is not looked at.
        """
        found = self._paths(low_tokens, high_tokens, req_per_s)
        if found is None or any(path is None for _, path in found):
            return inf
        paths = [replace(path, share_fraction=share) for share, path in found if path is not None]
        rest = 1.0 - sum(share for share, _ in found)
        if rest > SHARE_TOLERANCE:
            paths.append(Path.of(rest, [0.0], [1.0], NO_WAIT))  # between the ends: never late
        total = sum(path.share_fraction for path in paths)
        whole = [replace(path, share_fraction=path.share_fraction / total) for path in paths]
        return Ttft.of(whole).quantile_s(1 - self.late_allowed)

    def _streams(self, low_tokens: float, high_tokens: float) -> list[Stream]:
        """Pool, link and requests that surely take them with any threshold of an interval: long ones, short ones."""
        return [
            (pool, link, chosen)
            for pool, link, chosen in (
                (self._route.long, self._route.long_link, self._uncached > high_tokens),
                (self._route.short, self._route.short_link, self._uncached <= low_tokens),
            )
            if pool is not None
        ]

    @property
    def _route(self) -> Route:
        return self.problem.routes[0]

    @cached_property
    def _atoms(self) -> tuple[Array, Array, Array]:
        total, cached, weights = self.problem.classes[0].mix.atoms(N_ATOMS)
        return total, cached, weights

    @property
    def _uncached(self) -> Array:
        return self._atoms[0] - self._atoms[1]

    @property
    def _weights(self) -> Array:
        return self._atoms[2]

    def _service_s(self, pool: int) -> Array:
        if pool not in self._services:
            service = self.problem.pools[pool].rates.prefill
            if service is None:
                raise ValueError("a prefill pool has no prefill times")
            self._services[pool] = np.asarray(service.seconds(*self._atoms[:2]))
        return self._services[pool]

    def _transfer_s(self, pool: int, link: int | None) -> Array:
        if (pool, link) not in self._transfers:
            self._transfers[pool, link] = transfer_s(
                self.problem, self.sizing, pool, link, *self._atoms[:2], self._service_s(pool)
            )
        return self._transfers[pool, link]

    def _sent_bytes(self, pool: int, link: int | None) -> Array:
        if (pool, link) not in self._sent:
            self._sent[pool, link] = sent_bytes(self.problem, pool, link, *self._atoms[:2])
        return self._sent[pool, link]

    def _sending_s(self, pool: int, link: int | None) -> Array:
        if (pool, link) not in self._sending:
            self._sending[pool, link] = sending_s(
                self.problem, self.sizing, pool, link, self._sent_bytes(pool, link), self._service_s(pool)
            )
        return self._sending[pool, link]

    @cached_property
    def _sent(self) -> dict[tuple[int, int | None], Array]:
        return {}

    @cached_property
    def _sending(self) -> dict[tuple[int, int | None], Array]:
        return {}

    @cached_property
    def _services(self) -> dict[int, Array]:
        return {}

    @cached_property
    def _transfers(self) -> dict[tuple[int, int | None], Array]:
        return {}


def least_slo_ttft_s(problem: Problem, sizing: Sizing) -> float:
    """Shortest TTFT that fixed sizes attain without any waiting, over the thresholds of the first grid [s].

    Equation:
        min over t of the stated percentile of T + X, each request in the pool that t sends it to

    Args:
        problem: a problem with one route and an SLO on TTFT.
        sizing: instances and ports; only the ports matter.

    Returns:
        Seconds.
    """
    fleet = FleetUnderSlo(problem, sizing)
    return min(fleet.unloaded_percentile_s(float(t)) for t in first_intervals(problem, problem.routes[0])[1])


def least_decode_instances(problem: Problem, req_per_s: float, most: int) -> int:
    """Decode instances below which no size of anything else is within the SLO.

    Equation:
        the least n with P(A_n + min over pools of T > x) <= the fraction that may be late, A_n the wait for a place in
        the batches of n instances

    Args:
        problem: a problem with one route and an SLO on TTFT.
        req_per_s: rate of the whole fleet [req/s].
        most: instances beyond which not to look.

    Returns:
        Instances; `most` where even those are too few.
    """
    route, decode = problem.routes[0], problem.routes[0].decode
    fleet = FleetUnderSlo(problem, Sizing((0,) * len(problem.pools), tuple((0,) * len(k.tiers) for k in problem.links)))
    pools = [pool for pool in (route.long, route.short) if pool is not None]
    least_s = np.min([fleet._service_s(pool) for pool in pools], axis=0)
    low, high = 0, most
    while high - low > 1:
        n = (low + high) // 2
        sizing = Sizing(tuple(n if i == decode else 0 for i in range(len(problem.pools))), fleet.sizing.n_ports)
        admission = admission_wait(problem, sizing, decode, (req_per_s,))
        meets_slo = (
            admission is not None
            and Ttft.of([Path.of(1.0, least_s, fleet._weights, NO_WAIT, 0.0, admission)]).survival(fleet.slo_ttft_s)
            <= fleet.late_allowed + 1e-9
        )
        low, high = (low, n) if meets_slo else (n, high)
    return high


def transfer_s(
    problem: Problem,
    sizing: Sizing,
    pool: int,
    link: int | None,
    total: Array,
    cached: Array,
    service_s: Array,
) -> Array:
    """What is left of the KV transfer of each request when its prefill ends, on an idle link [s]."""
    rates = problem.pools[pool].rates
    sent = sent_bytes(problem, pool, link, total, cached)
    if link is None:
        fabric = problem.scenario.sites[problem.pools[pool].site].fabric_gbps
        if fabric is None:
            return np.zeros_like(service_s)
        return exposed_transfer_s(service_s, sent, bytes_per_s(fabric), 0.0, rates.n_layers)
    spec = problem.links[link]
    bandwidth = bytes_per_s(spec.gbps(sizing.n_ports[link]))
    if bandwidth <= 0:
        return np.full_like(service_s, inf)
    return exposed_transfer_s(service_s, sent, bandwidth, spec.round_trip_s, rates.n_layers)
