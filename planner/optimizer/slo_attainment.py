"""How many requests of a fleet of given sizes are within an SLO on TTFT: fractions, percentiles, and idle limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
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
    gigc_waits,
    link_stretch,
    split_scv,
)
from planner.workload import weighted_quantile

Array = NDArray[np.float64]
Stream = tuple[int, int | None, NDArray[np.bool_]]
"""Prefill pool, link and which of the requests go there."""
N_ATOMS = 4096
"""Requests that stand for a length distribution, as for the latencies of the answer."""
SATURATED = 1 - 1e-9
SHARE_TOLERANCE = 1e-12
ROUNDING = 1e-12


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


def _late(slo_s: float, paths: Iterable[tuple[float, Path | None]]) -> float:
    """Fraction of all requests that take longer."""
    return sum(share if path is None else share * float(Ttft.of([path]).survival(slo_s)) for share, path in paths)


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
        (journeys,) = self._journeys(low_tokens, high_tokens, np.array([req_per_s]))
        return journeys.late_fraction(self.slo_ttft_s)

    def meets_slo(self, low_tokens: float, high_tokens: float, req_per_s: Array) -> NDArray[np.bool_]:
        """Whether some threshold of an interval may be within the SLO, at each of several rates.

        Equation:
            L <= what may be late, L = `late_fraction`. L0 <= L <= L0 + P(A > 0) decides most, L0 without the wait A for
            a place in a decode batch

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            req_per_s: rates of the whole fleet [req/s], shape (n,).
        """
        allowed, slo_s = self.late_allowed + ROUNDING, self.slo_ttft_s
        return np.array([j.is_late_at_most(allowed, slo_s) for j in self._journeys(low_tokens, high_tokens, req_per_s)])

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
        low, high, parts = max(least, most * ROUTE_SETTINGS.least_part), most, ROUTE_SETTINGS.rate_parts
        if most <= 0 or most < least or not self.meets_slo(low_tokens, high_tokens, np.array([low]))[0]:
            return 0.0
        is_exact = low_tokens == high_tokens
        for _ in range(ROUTE_SETTINGS.exact_rounds if is_exact else ROUTE_SETTINGS.bound_rounds):
            rates = np.linspace(low, high, parts + 1)
            n_met = int(np.logical_and.accumulate(self.meets_slo(low_tokens, high_tokens, rates[1:])).sum())
            if n_met == parts:
                return float(high)
            low, high = rates[n_met : n_met + 2]
        return float(low if is_exact else high)

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

    def _stretches(self, link: int | None, streams: Sequence[Stream], req_per_s: Array) -> list[Stretch]:
        """Factors by which sharing stretches the transfers of some streams, alone on a link, at each rate."""
        mine = [(pool, chosen) for pool, used, chosen in streams if used == link and chosen.any()]
        if link is None or not mine:
            return [ALONE] * len(req_per_s)
        bandwidth = link_bytes_per_s(self.problem, self.sizing, link)
        senders, share = [], 0.0
        for pool, chosen in mine:
            weights = self._weights[chosen]
            part = float(weights.sum())
            link_s = self._sent_bytes(pool, link)[chosen] / bandwidth if bandwidth > 0 else np.full(len(weights), inf)
            n, service_s = self._n_places(pool), self._service_s(pool)[chosen]
            senders.append(Senders(n, part, service_s, link_s, weights / part))
            share += part
        n_layers = [self.problem.pools[pool].rates.n_layers or 1 for pool, _ in mine]
        scv = split_scv(arrival_scvs(self.problem)[0], min(share, 1.0))
        return [
            link_stretch([replace(of, req_per_s=float(rate) * of.req_per_s) for of in senders], n_layers, scv)
            for rate in req_per_s
        ]

    def _journeys(self, low_tokens: float, high_tokens: float, req_per_s: Array) -> list["_Journeys"]:
        """What requests that surely load the queues go through, at each of several rates."""
        streams = [s for s in self._streams(low_tokens, high_tokens) if s[2].any()]
        stretches = {link: self._stretches(link, streams, req_per_s) for _, link, _ in streams}
        shares = [float(self._weights[chosen].sum()) for _, _, chosen in streams]
        paths = [self._paths(*s, req_per_s, stretches[s[1]]) for s in streams]
        return [
            _Journeys(admission, tuple(zip(shares, (of[k] for of in paths), strict=True)))
            for k, admission in enumerate(self._admissions(req_per_s))
        ]

    def _admissions(self, req_per_s: Array) -> list[Wait | None]:
        """Waits for a place in the decode batches at each of several rates; None without steady state."""
        rates = req_per_s.tolist()
        new = [rate for rate in dict.fromkeys(rates) if rate not in self._known_admissions]
        if new:
            asked, decode = [Asked.of(self.problem.classes[0], 1.0)], self._route.decode
            point, n = self.problem.pools[decode].rates.decode, self.sizing.n_instances[decode]
            self._known_admissions.update(zip(new, places_waits(point, asked, n, np.array(new)), strict=True))
        return [self._known_admissions[rate] for rate in rates]

    def _paths(
        self,
        pool: int,
        link: int | None,
        chosen: NDArray[np.bool_],
        req_per_s: Array,
        stretches: Sequence[Stretch],
    ) -> list[Path | None]:
        """What the chosen requests go through but for decode places, as if they were all; None without steady state."""
        service_s, weights = self._service_s(pool)[chosen], self._weights[chosen]
        n, service, share = self._n_places(pool), Service.of(service_s, weights), float(weights.sum())
        found: list[Path | None] = [None] * len(req_per_s)
        rates = req_per_s * share
        stable = np.flatnonzero((rates * service.mean_s < n * SATURATED) & np.isfinite([s.mean for s in stretches]))
        if n == 0 or not stable.size:
            return found
        waits = gigc_waits(n, rates[stable], service, split_scv(arrival_scvs(self.problem)[0], share))
        unhindered = Path.of(1.0, service_s, weights, NO_WAIT, self._transfer_s(pool, link)[chosen])
        for place, k in enumerate(stable.tolist()):
            path = unhindered
            if link is not None and not stretches[k].is_alone:
                path = self._stretched(pool, link, chosen, stretches[k])
            found[k] = replace(path, wait=waits.wait(place))
        return found

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
        ((admission, found),) = self._journeys(low_tokens, high_tokens, np.array([req_per_s]))
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
