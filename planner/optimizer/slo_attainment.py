"""Share of the requests of a fleet of given sizes within an SLO on TTFT: fractions, percentiles, and idle limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import first_intervals
from planner.optimizer.delays import DecodeDemand, link_bytes_per_s, places_waits, stretched
from planner.optimizer.fleet_streams import FleetStreams, PrefillStream
from planner.optimizer.known_late import Late, Queue
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import Part
from planner.optimizer.routes import Route
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.sized import Sizing
from planner.queueing.processor_sharing import ALONE, TransferSlowdown, link_stretch
from planner.queueing.streams import split_scv
from planner.queueing.ttft import Path, Ttft
from planner.queueing.wait import NO_WAIT, Wait
from planner.queueing.waits import gigc_wait
from planner.roots import last_kept
from planner.work_clock import spend
from planner.workload.distributions import weighted_quantile

Array = NDArray[np.float64]
SATURATED = 1 - 1e-9
SHARE_TOLERANCE = 1e-12
ROUNDING = 1e-12
LEAST_LATE = 1e-15
PATH_S = 1e-3
"""What a wait and the path behind it take to be found [s]."""
"""A fraction that is none: its logarithm is looked at."""


class _Journeys(NamedTuple):
    """Waits and paths of the requests of a fleet at one rate."""

    admission: Wait | None
    """Wait for a place in a decode batch; None where there is none for all in the long run."""
    paths: tuple[tuple[float, Path | None], ...]
    """Shares of all requests, and their prefill and transfer; None without steady state."""

    def late_fraction(self, slo_s: float) -> float:
        if self.admission is None:
            return 1.0
        return _late(slo_s, [(share, path and path.then_waiting(self.admission)) for share, path in self.paths])


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
            `link_stretch`; places in decode batches as in `place_waits`.

        Source:
            A queue with fewer arrivals has no longer waits (coupling); waits as in `planner.queueing.gigc_wait`.
        """
        if self._shares_a_link:
            return self._journeys(low_tokens, high_tokens, req_per_s).late_fraction(self.slo_ttft_s)
        if self.admission_wait(req_per_s) is None:
            return 1.0
        return sum(self._late_in(part, end, req_per_s) for part, end in self._ends(low_tokens, high_tokens))

    def may_meet_slo(self, low_tokens: float, high_tokens: float, req_per_s: float) -> bool:
        """True if some threshold of an interval may be within the SLO.

        Equation:
            L <= what may be late, L = `late_fraction`; L is the sum of what is late of long and of short prompts, which
            other thresholds and rates may bound from below, as in `KnownLate`

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            req_per_s: rate of the whole fleet [req/s].
        """
        allowed, ends = self.late_allowed + ROUNDING, self._ends(low_tokens, high_tokens)
        if self._shares_a_link:
            return self.late_fraction(low_tokens, high_tokens, req_per_s) <= allowed
        if self.admission_wait(req_per_s) is None:
            return False
        late = {part: self.problem.known_late.least(self._queue(part), end, req_per_s) for part, end in ends}
        for part, end in ends:
            if sum(late.values()) > allowed:
                return False
            late[part] = self._late_in(part, end, req_per_s)
        return sum(late.values()) <= allowed

    def _late_in(self, part: Part, end_tokens: float, req_per_s: float) -> float:
        """Fraction of all requests that are late beyond a threshold, or up to it, with a link of their own."""
        key, stream = (part, end_tokens, req_per_s), self.streams.stream(part, end_tokens)
        admission = self.admission_wait(req_per_s)
        if stream is None or admission is None:
            return 0.0 if stream is None else stream.share_fraction
        if key not in self._lates:
            path = self._path(stream, req_per_s, self._stretch(stream.link, [stream], req_per_s))
            late = _late(self.slo_ttft_s, [(stream.share_fraction, path and path.then_waiting(admission))])
            self._lates[key] = late
            self.problem.known_late.add(self._queue(part), Late(end_tokens, req_per_s, late))
        return self._lates[key]

    def _queue(self, part: Part) -> Queue:
        """The queue that requests of a part load alone."""
        route = self._route
        pool, link = (route.long, route.long_link) if part == "long" else (route.short, route.short_link)
        speed = 0.0 if link is None or self.is_roomy else link_bytes_per_s(self.problem, self.sizing, link)
        n = 0 if pool is None else self.streams.n_places(pool)
        return Queue(part == "long", pool, n, speed, self.sizing.n_instances[route.decode], self.slo_ttft_s)

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
        route, is_long = self._route, self.streams.uncached > threshold_tokens
        seconds = np.zeros_like(self.streams.weights)
        for pool, link, chosen in ((route.long, route.long_link, is_long), (route.short, route.short_link, ~is_long)):
            if pool is not None:
                seconds[chosen] = (self.streams.service_s(pool) + self.streams.transfer_s(pool, link))[chosen]
        return float(weighted_quantile(seconds, self.streams.weights, np.array(1 - self.late_allowed)))

    def may_fill_a_link(self) -> bool:
        """True if the instances that send over a link, all busy with whatever requests, could ask for more than it has.

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
        sending_s, sent = self.streams.sending_s(pool, link), self.streams.sent_bytes(pool, link)
        is_sent = sending_s > 0
        speeds = sent[is_sent] / sending_s[is_sent]
        return self.streams.n_places(pool) * float(speeds.max(initial=0.0))

    def _journeys(self, low_tokens: float, high_tokens: float, req_per_s: float) -> _Journeys:
        """Waits and paths of requests that surely load the queues."""
        found = [self.streams.stream(part, end) for part, end in self._ends(low_tokens, high_tokens)]
        streams = [stream for stream in found if stream is not None]
        stretches = {link: self._stretch(link, streams, req_per_s) for link in {stream.link for stream in streams}}
        paths = tuple((s.share_fraction, self._path(s, req_per_s, stretches[s.link])) for s in streams)
        return _Journeys(self.admission_wait(req_per_s), paths)

    def _stretch(self, link: int | None, streams: Sequence[PrefillStream], req_per_s: float) -> TransferSlowdown:
        """The factor by which sharing stretches the transfers of some streams, alone on a link."""
        mine = [stream for stream in streams if stream.link == link]
        if link is None or self.is_roomy:
            return ALONE
        senders = [replace(s.sender, req_per_s=req_per_s * s.share_fraction) for s in mine if s.sender]
        n_layers = [self.problem.pools[stream.pool].rates.n_layers or 1 for stream in mine]
        share = sum(stream.share_fraction for stream in mine)
        return link_stretch(senders, n_layers, split_scv(self.problem.classes[0].arrival_scv, min(share, 1.0)))

    def admission_wait(self, req_per_s: float) -> Wait | None:
        """The wait for a place in the decode batches; None without steady state."""
        if req_per_s not in self._known_admissions:
            asked, decode = [DecodeDemand.of(self.problem.classes[0], 1.0)], self._route.decode
            point, n = self.problem.pools[decode].rates.decode, self.sizing.n_instances[decode]
            self._known_admissions[req_per_s] = places_waits(point, asked, n, np.array([req_per_s]))[0]
        return self._known_admissions[req_per_s]

    def _path(self, stream: PrefillStream, req_per_s: float, stretch: TransferSlowdown) -> Path | None:
        """Path of requests but for decode places, as if they were all; None without steady state."""
        n, service, rate = stream.n_places, stream.service, req_per_s * stream.share_fraction
        if n == 0 or rate * service.mean_s >= n * SATURATED or not isfinite(stretch.mean):
            return None
        spend(PATH_S)
        wait = gigc_wait(n, rate, service, split_scv(self.problem.classes[0].arrival_scv, stream.share_fraction))
        path = stream.unhindered
        if stream.link is not None and not stretch.is_alone:
            path = self._stretched(stream.pool, stream.link, stream.chosen, stretch)
        return replace(path, wait=wait)

    def _stretched(self, pool: int, link: int, chosen: NDArray[np.bool_], stretch: TransferSlowdown) -> Path:
        """Path of requests whose transfers share a link, but for waits."""
        service_s, left_s = self.streams.service_s(pool)[chosen], self.streams.transfer_s(pool, link)[chosen]
        round_trip_s, sending = self.problem.links[link].round_trip_s, self.streams.sending_s(pool, link)[chosen]
        kind, after_s, levels = stretched(stretch, round_trip_s, service_s, left_s, sending)
        return Path.of(1.0, service_s[kind], self.streams.weights[chosen][kind] * levels, NO_WAIT, after_s)

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

    @property
    def _shares_a_link(self) -> bool:
        """True if long and short prompts stretch each other's transfers."""
        return self._route.long_link is not None and self._route.long_link == self._route.short_link

    def _ends(self, low_tokens: float, high_tokens: float) -> tuple[tuple[Part, float], tuple[Part, float]]:
        """Of long and of short prompts the threshold that leaves fewest to load their queue."""
        return ("long", high_tokens), ("short", low_tokens)

    @cached_property
    def streams(self) -> FleetStreams:
        """Load of requests on pools and links."""
        return FleetStreams(self.problem, self.sizing)

    @property
    def _route(self) -> Route:
        return self.problem.route

    @cached_property
    def _lates(self) -> dict[tuple[Part, float, float], float]:
        return {}

    @cached_property
    def _known_admissions(self) -> dict[float, Wait | None]:
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
    return min(fleet.unloaded_percentile_s(float(t)) for t in first_intervals(problem, problem.route)[1])


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
    route, decode = problem.route, problem.route.decode
    fleet = FleetUnderSlo(problem, Sizing((0,) * len(problem.pools), tuple((0,) * len(k.tiers) for k in problem.links)))
    pools = [pool for pool in (route.long, route.short) if pool is not None]
    least_s = np.min([fleet.streams.service_s(pool) for pool in pools], axis=0)
    low, high = 0, most
    while high - low > 1:
        n = (low + high) // 2
        sizing = Sizing(tuple(n if i == decode else 0 for i in range(len(problem.pools))), fleet.sizing.n_ports)
        admission = FleetUnderSlo(problem, sizing).admission_wait(req_per_s)
        meets_slo = False
        if admission is not None:
            path = Path.of(1.0, least_s, fleet.streams.weights, NO_WAIT, 0.0, admission)
            meets_slo = float(Ttft.of([path]).survival(fleet.slo_ttft_s)) <= fleet.late_allowed + 1e-9
        low, high = (low, n) if meets_slo else (n, high)
    return high
