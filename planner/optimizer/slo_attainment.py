"""How many requests of a fleet of given sizes are within an SLO on TTFT: fractions, percentiles, and idle limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import first_intervals
from planner.optimizer.delays import (
    Asked,
    admission_wait,
    arrival_scvs,
    link_bytes_per_s,
    places_waits,
    sending_s,
    sent_bytes,
    stretched,
    transfer_s,
)
from planner.optimizer.formulation import Sizing
from planner.optimizer.problem import Problem
from planner.optimizer.roots import last_kept
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
from planner.workload import weighted_quantile

Array = NDArray[np.float64]
N_ATOMS = 4096
"""Requests that stand for a length distribution, as for the latencies of the answer."""
SATURATED = 1 - 1e-9
SHARE_TOLERANCE = 1e-12
ROUNDING = 1e-12
LEAST_LATE = 1e-15
"""A fraction that is none: its logarithm is looked at."""


class _Journeys(NamedTuple):
    """What the requests of a fleet go through at one rate."""

    admission: Wait | None
    """Wait for a place in a decode batch; None where there is none for all in the long run."""
    paths: tuple[tuple[float, Path | None], ...]
    """Shares of all requests, and their prefill and transfer; None without steady state."""

    def late_fraction(self, slo_s: float) -> float:
        if self.admission is None:
            return 1.0
        return _late(slo_s, [(share, path and path.then_waiting(self.admission)) for share, path in self.paths])

    def is_late_at_most(self, fraction: float, slo_s: float) -> bool:
        if self.admission is None:
            return fraction >= 1
        least = _late(slo_s, self.paths)
        if least > fraction or least + self.admission.waiting_fraction <= fraction:
            return least <= fraction
        return self.late_fraction(slo_s) <= fraction


class _Stream(NamedTuple):
    """Requests that load a prefill pool, and a link after it."""

    pool: int
    link: int | None
    chosen: NDArray[np.bool_]
    """Which of the requests they are."""
    n_places: int
    """Prompts that the pool prefills at once."""
    share_fraction: float
    """Of all requests."""
    service: Service
    unhindered: Path
    """What they go through without waiting, alone on the link."""
    sender: Senders | None
    """The same as the link has it, at one request per second of all."""


def _late(slo_s: float, paths: Iterable[tuple[float, Path | None]]) -> float:
    """Fraction of all requests that take longer."""
    return sum(share if path is None else share * float(Ttft.of([path]).survival(slo_s)) for share, path in paths)


@dataclass(frozen=True, eq=False)
class FleetUnderSlo:
    """A problem with one route at given sizes, to be judged by its SLO on TTFT."""

    problem: Problem
    sizing: Sizing
    is_roomy: bool = False
    """Whether links are taken for wide enough that no transfer is stretched: what bounds all smaller sizes too."""

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
        return self._journeys(low_tokens, high_tokens, req_per_s).late_fraction(self.slo_ttft_s)

    def may_meet_slo(self, low_tokens: float, high_tokens: float, req_per_s: float) -> bool:
        """Whether some threshold of an interval may be within the SLO.

        Equation:
            L <= what may be late, L = `late_fraction`. L0 <= L <= L0 + P(A > 0) decides most, L0 without the wait A for
            a place in a decode batch

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            req_per_s: rate of the whole fleet [req/s].
        """
        journeys = self._journeys(low_tokens, high_tokens, req_per_s)
        return journeys.is_late_at_most(self.late_allowed + ROUNDING, self.slo_ttft_s)

    def goodput_at(
        self,
        threshold_tokens: float,
        most: float,
        least: float = 0.0,
        tolerance_fraction: float = ROUTE_SETTINGS.rate_tolerance,
    ) -> float:
        """Highest rate up to `most` at which a threshold is within the SLO [req/s].

        Equation:
            log(L / what may be late) = 0 over the rate, L = `late_fraction`

        Args:
            threshold_tokens: the threshold [tokens].
            most: rate that capacity allows [req/s].
            least: rate below which the answer does not matter [req/s].
            tolerance_fraction: part of the rate within which it is found.

        Returns:
            The rate, from below; 0 where not even `least` is within the SLO.
        """
        low, t = max(least, most * ROUTE_SETTINGS.least_part), threshold_tokens
        if most <= 0 or most < least or not self.may_meet_slo(t, t, low):
            return 0.0
        allowed = self.late_allowed + ROUNDING

        def excess(rate: float) -> float:
            return log(max(self.late_fraction(t, t, rate), LEAST_LATE) / allowed)

        return last_kept(excess, low, most, tolerance_fraction)[0]

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

    def _journeys(self, low_tokens: float, high_tokens: float, req_per_s: float) -> _Journeys:
        """What requests that surely load the queues go through."""
        streams = self._streams(low_tokens, high_tokens)
        stretches = {link: self._stretch(link, streams, req_per_s) for link in {stream.link for stream in streams}}
        paths = tuple((s.share_fraction, self._path(s, req_per_s, stretches[s.link])) for s in streams)
        return _Journeys(self._admission(req_per_s), paths)

    def _stretch(self, link: int | None, streams: Sequence[_Stream], req_per_s: float) -> Stretch:
        """The factor by which sharing stretches the transfers of some streams, alone on a link."""
        mine = [stream for stream in streams if stream.link == link]
        if link is None or self.is_roomy:
            return ALONE
        senders = [replace(s.sender, req_per_s=req_per_s * s.share_fraction) for s in mine if s.sender]
        n_layers = [self.problem.pools[stream.pool].rates.n_layers or 1 for stream in mine]
        share = sum(stream.share_fraction for stream in mine)
        return link_stretch(senders, n_layers, split_scv(arrival_scvs(self.problem)[0], min(share, 1.0)))

    def _admission(self, req_per_s: float) -> Wait | None:
        """The wait for a place in the decode batches; None without steady state."""
        if req_per_s not in self._known_admissions:
            asked, decode = [Asked.of(self.problem.classes[0], 1.0)], self._route.decode
            point, n = self.problem.pools[decode].rates.decode, self.sizing.n_instances[decode]
            self._known_admissions[req_per_s] = places_waits(point, asked, n, np.array([req_per_s]))[0]
        return self._known_admissions[req_per_s]

    def _path(self, stream: _Stream, req_per_s: float, stretch: Stretch) -> Path | None:
        """What requests go through but for decode places, as if they were all; None without steady state."""
        n, service, rate = stream.n_places, stream.service, req_per_s * stream.share_fraction
        if n == 0 or rate * service.mean_s >= n * SATURATED or not isfinite(stretch.mean):
            return None
        wait = gigc_wait(n, rate, service, split_scv(arrival_scvs(self.problem)[0], stream.share_fraction))
        path = stream.unhindered
        if stream.link is not None and not stretch.is_alone:
            path = self._stretched(stream.pool, stream.link, stream.chosen, stretch)
        return replace(path, wait=wait)

    def _stretched(self, pool: int, link: int, chosen: NDArray[np.bool_], stretch: Stretch) -> Path:
        """What requests whose transfers share a link go through, but for waits."""
        service_s, left_s = self._service_s(pool)[chosen], self._transfer_s(pool, link)[chosen]
        round_trip_s, sending = self.problem.links[link].round_trip_s, self._sending_s(pool, link)[chosen]
        kind, after_s, levels = stretched(stretch, round_trip_s, service_s, left_s, sending)
        return Path.of(1.0, service_s[kind], self._weights[chosen][kind] * levels, NO_WAIT, after_s)

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
        admission, found = self._journeys(low_tokens, high_tokens, req_per_s)
        if admission is None or any(path is None for _, path in found):
            return inf
        paths = [
            replace(path, share_fraction=share).then_waiting(admission) for share, path in found if path is not None
        ]
        rest = 1.0 - sum(share for share, _ in found)
        if rest > SHARE_TOLERANCE:
            paths.append(Path.of(rest, [0.0], [1.0], NO_WAIT))  # between the ends: never late
        total = sum(path.share_fraction for path in paths)
        whole = [replace(path, share_fraction=path.share_fraction / total) for path in paths]
        return Ttft.of(whole).quantile_s(1 - self.late_allowed)

    def _streams(self, low_tokens: float, high_tokens: float) -> Sequence[_Stream]:
        """Requests that surely load a queue with any threshold of an interval: long ones, short ones."""
        ends = low_tokens, high_tokens
        if ends not in self._known_streams:
            route = self._route
            found = (
                (route.long, route.long_link, self._uncached > high_tokens),
                (route.short, route.short_link, self._uncached <= low_tokens),
            )
            self._known_streams.clear()  # thresholds come one after another, each with many rates
            self._known_streams[ends] = [self._stream(*s) for s in found if s[0] is not None and s[2].any()]
        return self._known_streams[ends]

    def _stream(self, pool: int | None, link: int | None, chosen: NDArray[np.bool_]) -> _Stream:
        assert pool is not None
        service_s, weights = self._service_s(pool)[chosen], self._weights[chosen]
        n, share, sender = self._n_places(pool), float(weights.sum()), None
        unhindered = Path.of(1.0, service_s, weights, NO_WAIT, self._transfer_s(pool, link)[chosen])
        if link is not None:
            bandwidth = link_bytes_per_s(self.problem, self.sizing, link)
            link_s = self._sent_bytes(pool, link)[chosen] / bandwidth if bandwidth > 0 else np.full(len(weights), inf)
            sender = Senders(n, share, service_s, link_s, weights / share)
        return _Stream(pool, link, chosen, n, share, Service.of(service_s, weights), unhindered, sender)

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
    def _known_streams(self) -> dict[tuple[float, float], Sequence[_Stream]]:
        return {}

    @cached_property
    def _known_admissions(self) -> dict[float, Wait | None]:
        return {}

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
