"""The router: open-loop arrivals, a threshold on uncached length, hand-offs over the link, retries; nothing is lost."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from planner.errors import InputError, InputProblem
from planner.hybrid.live.fleet import Fleet, Worker
from planner.hybrid.live.link import Link
from planner.hybrid.live.messages import Finished, FromWorker, Gone, Joined, Lost, Prefill, Prefilled, Ready, Role
from planner.hybrid.live.system import LiveRecord, LiveRequest, LiveRun, LiveSystem
from planner.hybrid.model import Tokens
from planner.hybrid.prefix_cache import prefix_digests

LONGEST_WAIT_S = 0.5
"""How long the router sleeps at most; any word of a worker wakes it."""


def serve(system: LiveSystem, requests: Sequence[LiveRequest], *, time_limit_s: float) -> LiveRun:
    """Serve requests at their times with processes of this machine.

    Args:
        time_limit_s: seconds after which whatever is unfinished is dropped; models are built before [s].

    Returns:
        A record for every request: finished, or dropped with a reason.

    Raises:
        InputError: a pool has no worker.
        UndecidedError: workers did not start.
    """
    with Fleet(system.model, system.workers) as fleet:
        fleet.wait_until_ready()
        return serve_with(fleet, system, requests, time_limit_s=time_limit_s)


def serve_with(fleet: Fleet, system: LiveSystem, requests: Sequence[LiveRequest], *, time_limit_s: float) -> LiveRun:
    """Serve requests with workers that are ready; see `serve`. Ctrl-C ends the run, and its records say so."""
    _check(system, requests)
    link = Link(system.link_bytes_per_s)
    router = _Router(fleet, system, requests, link)
    try:
        return router.run(time_limit_s)
    finally:
        link.close()


def _check(system: LiveSystem, requests: Sequence[LiveRequest]) -> None:
    pools = {spec.pool for spec in system.workers if spec.role == "prefill"}
    needed = {system.remote_pool, system.local_pool}
    if not pools or pools - needed:
        allowed = f"{system.remote_pool} and {system.local_pool}"
        raise InputError(InputProblem("live", "workers", f"have prefill pools {sorted(pools)}", allowed))
    if not any(spec.role == "decode" for spec in system.workers):
        raise InputError(InputProblem("live", "workers", "have no decode worker", "one at least"))
    arrivals = [request.arrival_s for request in requests]
    if arrivals != sorted(arrivals):
        raise InputError(InputProblem("live", "requests", "are out of order", "by arrival_s"))
    if any(request.output_tokens < 1 for request in requests):
        raise InputError(InputProblem("live", "requests", "want no token", "output_tokens of 1 or more"))


@dataclass(eq=False)
class _Attempt:
    """One try at a request."""

    record: LiveRecord
    prefill_worker: str
    decode_worker: str
    is_prefilled: bool = False
    is_finished: bool = False
    """Two workers speak of an attempt, and the last word of one may be heard before the other's."""


@dataclass
class _Prefixes:
    """Which prefixes each prefill worker has said it keeps: the global view of the prefix caches."""

    block_tokens: int
    kept: dict[str, set[bytes]] = field(default_factory=dict)

    def digests(self, tokens: Tokens, limit: int) -> list[bytes]:
        """Digests of all prefixes of whole blocks up to a limit."""
        return [digest for _, digest in prefix_digests(tokens, self.block_tokens, limit)]

    def longest(self, worker: str, digests: Sequence[bytes]) -> int:
        """Tokens of the longest prefix whose state a worker keeps."""
        kept = self.kept.get(worker, set())
        return max((i + 1 for i, digest in enumerate(digests) if digest in kept), default=0) * self.block_tokens


class _Router:
    def __init__(self, fleet: Fleet, system: LiveSystem, requests: Sequence[LiveRequest], link: Link) -> None:
        self.fleet, self.system, self.requests, self.link = fleet, system, requests, link
        self.run_ = LiveRun(
            [LiveRecord(i, r.arrival_s, len(r.tokens), r.output_tokens) for i, r in enumerate(requests)]
        )
        self.queues: dict[str, deque[int]] = {spec.pool: deque() for spec in system.workers if spec.role == "prefill"}
        self.attempts: dict[int, _Attempt] = {}
        self.prefixes = _Prefixes(system.model.block_tokens)
        self.link_ports: dict[int, int] = {}
        self.next_arrival = 0
        self.origin_s = monotonic()

    def run(self, time_limit_s: float) -> LiveRun:
        """Until every request has an outcome."""
        self.origin_s = monotonic()
        try:
            while self._is_open():
                now = self._now()
                if now >= time_limit_s:
                    self._drop_all("the time limit came first")
                    break
                self._admit(now)
                self._dispatch()
                for name, message in self.fleet.messages(self._next_event_s(time_limit_s) - self._now()):
                    self._hear(name, message)
        except KeyboardInterrupt:
            self.run_.interrupted = True
            self._drop_all("interrupted")
        self.run_.duration_s = self._now()
        self.run_.link_bytes = self.link.bucket.sent_bytes
        return self.run_

    def _now(self) -> float:
        return monotonic() - self.origin_s

    def _is_open(self) -> bool:
        return any(record.outcome is None for record in self.run_.records)

    def _next_event_s(self, time_limit_s: float) -> float:
        due = [self._now() + LONGEST_WAIT_S, time_limit_s]
        if self.next_arrival < len(self.requests):
            due.append(self.requests[self.next_arrival].arrival_s)
        return min(due)

    def _admit(self, now: float) -> None:
        """Put whoever has arrived in line at a pool."""
        while self.next_arrival < len(self.requests) and self.requests[self.next_arrival].arrival_s <= now:
            self._line_up(self.next_arrival)
            self.next_arrival += 1

    def _line_up(self, index: int) -> None:
        """Choose the pool by uncached length: short with what the local pool has cached, else the remote one."""
        tokens, record = self.requests[index].tokens, self.run_.records[index]
        digests = self.prefixes.digests(tokens, len(tokens) - 1)
        local, remote = self.system.local_pool, self.system.remote_pool
        uncached = {pool: len(tokens) - self._cached(pool, digests) for pool in (local, remote) if pool in self.queues}
        is_short = local in uncached and uncached[local] <= self.system.threshold_tokens
        pool = local if is_short or remote not in uncached else remote
        record.pool, record.uncached_tokens = pool, uncached[pool]
        self.queues[pool].append(index)

    def _cached(self, pool: str, digests: Sequence[bytes]) -> int:
        return max((self.prefixes.longest(name, digests) for name in self._names("prefill", pool)), default=0)

    def _names(self, role: Role, pool: str | None = None) -> list[str]:
        specs = self.system.workers
        return [spec.name for spec in specs if spec.role == role and pool in (None, spec.pool)]

    def _dispatch(self) -> None:
        """Give waiting requests to idle prefill workers, first come first served, over pools that share a core too."""
        while decoders := self._ready(self._names("decode")):
            open_ = [(line[0], pool) for pool, line in self.queues.items() if line and self._idle(pool)]
            if not open_:
                break
            _, pool = min(open_)
            self._begin(self.queues[pool].popleft(), self._idle(pool), decoders)
        for pool, waiting in self.queues.items():
            if waiting and not self._can_recover(self._names("prefill", pool)):
                self._drop(waiting, f"no worker of {pool} is left")
                waiting.clear()
        if not self._can_recover(self._names("decode")):
            self._drop_all("no decode worker is left")

    def _ready(self, names: Iterable[str]) -> list[Worker]:
        found = (self.fleet.workers.get(name) for name in names)
        return [worker for worker in found if worker and worker.is_ready]

    def _idle(self, pool: str) -> list[Worker]:
        """Workers of a pool that compute nothing, nor does another on their core: it serves one request at a time."""
        busy = {attempt.prefill_worker for attempt in self.attempts.values() if not attempt.is_prefilled}
        cores = {spec.core for spec in self.system.workers if spec.name in busy and spec.core is not None}
        ready = self._ready(self._names("prefill", pool))
        return [worker for worker in ready if worker.spec.name not in busy and worker.spec.core not in cores]

    def _can_recover(self, names: Iterable[str]) -> bool:
        return any(name in self.fleet.workers for name in names)

    def _begin(self, index: int, idle: Sequence[Worker], decoders: Sequence[Worker]) -> None:
        """The worker with the longest prefix prefills, the decoder with the fewest requests gets the cache."""
        request, record = self.requests[index], self.run_.records[index]
        digests = self.prefixes.digests(request.tokens, len(request.tokens) - 1)
        worker = max(idle, key=lambda w: self.prefixes.longest(w.spec.name, digests))
        load = [attempt.decode_worker for attempt in self.attempts.values()]
        decoder = min(decoders, key=lambda w: load.count(w.spec.name))
        number = self.fleet.next_attempt()
        self.attempts[number] = _Attempt(record, worker.spec.name, decoder.spec.name)
        record.worker, record.decode_worker = worker.spec.name, decoder.spec.name
        record.n_attempts += 1
        port = self._port(worker, decoder)
        self.fleet.send(worker.spec.name, Prefill(number, request.tokens, request.output_tokens, port))

    def _port(self, worker: Worker, decoder: Worker) -> int:
        """Where a cache is sent: straight to the decoder inside the site, through the link from the other one."""
        port = decoder.port or 0
        if worker.spec.pool != self.system.remote_pool:
            return port
        if port not in self.link_ports:
            self.link_ports[port] = self.link.port_to(port)
        return self.link_ports[port]

    def _hear(self, name: str, message: FromWorker) -> None:
        match message:
            case Gone():
                self._bury(name)
            case Ready():
                pass
            case Prefilled() | Joined() | Finished() | Lost():
                if isinstance(message, Finished):
                    self.run_.steps.extend(message.steps)
                # Attempts that were given up may still speak; nobody waits for them.
                attempt = self.attempts.get(message.attempt)
                if attempt:
                    self._note(message.attempt, attempt, message)

    def _note(self, number: int, attempt: _Attempt, message: Prefilled | Joined | Finished | Lost) -> None:
        record = attempt.record
        match message:
            case Prefilled():
                attempt.is_prefilled = True
                record.prefill_start_s = message.started_s - self.origin_s
                record.prefill_end_s = message.finished_s - self.origin_s
                record.prefill_busy_s = message.busy_s
                record.cached_tokens = message.cached_tokens
                tokens = self.requests[record.index].tokens
                if message.kept_tokens:
                    digests = self.prefixes.digests(tokens, message.kept_tokens)
                    self.prefixes.kept.setdefault(attempt.prefill_worker, set()).add(digests[-1])
            case Joined():
                record.kv_bytes = message.payload_bytes
                record.received_s = message.received_s - self.origin_s
                record.joined_s = message.joined_s - self.origin_s
            case Finished():
                record.finished_s = message.finished_s - self.origin_s
                record.tokens, attempt.is_finished = message.tokens, True
            case Lost():
                del self.attempts[number]
                self._again(record, message.reason)
        if attempt.is_prefilled and attempt.is_finished:
            self._complete(number, record)

    def _complete(self, number: int, record: LiveRecord) -> None:
        record.outcome = "finished"
        self.attempts.pop(number, None)

    def _bury(self, name: str) -> None:
        """Replace a dead worker as long as it may be, and try its requests again."""
        self.run_.n_deaths += 1
        self.prefixes.kept.pop(name, None)
        if self.fleet.n_started[name] <= self.system.most_restarts:
            self.fleet.start(next(spec for spec in self.system.workers if spec.name == name))
        for number, attempt in list(self.attempts.items()):
            if attempt.is_finished:
                self._complete(number, attempt.record)
            elif name == attempt.prefill_worker and attempt.record.received_s is not None:
                # It had done its part; its own word on when is lost.
                attempt.is_prefilled = True
            elif name in (attempt.prefill_worker, attempt.decode_worker):
                del self.attempts[number]
                self._again(attempt.record, f"worker {name} died")

    def _again(self, record: LiveRecord, reason: str) -> None:
        """Put a request first in its line again, or drop it where it has been tried often enough."""
        record.prefill_start_s = record.prefill_end_s = record.received_s = record.joined_s = None
        record.reason = reason
        if record.n_attempts >= self.system.most_attempts:
            record.outcome, record.reason = "dropped", f"{reason}, at attempt {record.n_attempts}"
        else:
            self.queues[record.pool].appendleft(record.index)

    def _drop(self, indices: Iterable[int], reason: str) -> None:
        for index in indices:
            record = self.run_.records[index]
            record.outcome, record.reason = "dropped", reason

    def _drop_all(self, reason: str) -> None:
        self._drop([record.index for record in self.run_.records if record.outcome is None], reason)
        self.attempts.clear()
