"""A decode worker: takes caches from the network, and decodes all of its requests together, token by token.

Where a decode worker takes caches from the network: frames of its run, and nothing else.

What has no token of the run is dropped with its connection and counted. A worker never ends of what it is sent: bytes
that are no frame cost a connection, a frame that does not fit the model costs its request.
"""

import queue
import socket
import threading
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import monotonic, sleep

import numpy as np

from planner.errors import InputError, InputProblem
from planner.hybrid.arrays import to_host
from planner.hybrid.cache import RequestCache
from planner.hybrid.live.frames import END, ForeignFrameError, Frame, receive_frame
from planner.hybrid.live.link import LOOPBACK
from planner.hybrid.live.messages import Answer, Finished, Foreign, Joined, Lost, Ready, Step, Stop, Task, WorkerSetup
from planner.hybrid.live.process import Outbox, pin
from planner.hybrid.model import DecodeBatch, HybridModel, hybrid_model
from planner.hybrid.timing import Stopwatch
from planner.hybrid.wire import take_payload

MOST_CONNECTIONS = 64
"""Open at a time; a run has one for each prefill worker."""
FIRST_FRAME_S = 30.0
"""How long a new connection may say nothing."""
PAUSE_S = 0.05
"""Before another connection is taken where the system has just refused one."""


@dataclass
class Arrived:
    """A request whose cache is here."""

    attempt: int
    cache: RequestCache
    tokens: list[int]
    """Output so far: the token that prefill chose."""
    output_tokens: int
    payload_bytes: int
    received_s: float


@dataclass
class _Begun:
    """A request of which some frames are here."""

    attempt: int
    cache: RequestCache
    payload_bytes: int = 0


class Intake:
    """A port, and a thread for each connection to it; all end with the process."""

    def __init__(self, model: HybridModel, token: bytes, outbox: Outbox) -> None:
        self.arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        self._model, self._token, self._outbox = model, token, outbox
        self._listener = socket.create_server((LOOPBACK, 0))
        self._lock = threading.Lock()
        self._n_open, self._n_foreign, self._reason = 0, 0, ""

    def listen(self) -> int:
        """Take connections from now on, at the port that this returns."""
        threading.Thread(target=self._accept, daemon=True).start()
        return int(self._listener.getsockname()[1])

    def tell_of_foreign(self) -> None:
        """Tell the router what was dropped since it was last told: once for many, so that a flood is no news."""
        with self._lock:
            n_connections, self._n_foreign = self._n_foreign, 0
        if n_connections:
            self._outbox.send(Foreign(n_connections, self._reason))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                sleep(PAUSE_S)
                continue
            with self._lock:
                has_room = self._n_open < MOST_CONNECTIONS
                self._n_open += has_room
            if has_room:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            else:
                self._count(f"{MOST_CONNECTIONS} connections are open already")
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._receive(connection)
            except ForeignFrameError as error:
                self._count(str(error))
            except OSError:
                pass  # the other side has gone
            finally:
                with self._lock:
                    self._n_open -= 1

    def _count(self, reason: str) -> None:
        with self._lock:
            self._n_foreign, self._reason = self._n_foreign + 1, reason

    def _receive(self, connection: socket.socket) -> None:
        """Put caches together from the frames of a connection; what was sent in part is dropped when it ends."""
        connection.settimeout(FIRST_FRAME_S)
        begun: _Begun | None = None
        while frame := receive_frame(connection, self._token):
            connection.settimeout(None)
            try:
                # A sender finishes with one request, or gives it up, before it begins the next.
                begun = begun if begun and begun.attempt == frame.attempt else self._first(frame)
                if frame.layer == END:
                    self.arrived.put(self._whole(frame, begun))
                    begun = None
                else:
                    self._take(frame, begun)
            except InputError as error:
                self._outbox.send(Lost(frame.attempt, str(error)))

    def _first(self, frame: Frame) -> _Begun:
        return _Begun(frame.attempt, self._model.empty_cache())

    def _take(self, frame: Frame, begun: _Begun) -> None:
        """Put one layer's bytes into its cache. Raises InputError where they do not fit the model."""
        n_layers = len(begun.cache.layers)
        if not 0 <= frame.layer < n_layers:
            raise InputError(InputProblem("frame", "layer", f"is {frame.layer}", f"0 to {n_layers - 1}"))
        take_payload(begun.cache.layers[frame.layer], frame.payload)
        begun.payload_bytes += len(frame.payload)

    def _whole(self, frame: Frame, begun: _Begun) -> Arrived:
        """The request after its last frame. Raises InputError where something is missing or cannot be."""
        cache, n_words = begun.cache, int(self._model.embedding.shape[0])
        wrong = [latents.n_tokens for latents in cache.latents if latents.n_tokens != frame.n_tokens]
        if wrong:
            raise InputError(
                InputProblem("frame", "n_tokens", f"is {frame.n_tokens}, but {wrong[0]} came", "all of them")
            )
        if frame.first_token >= n_words:
            raise InputError(InputProblem("frame", "first_token", f"is {frame.first_token}", f"0 to {n_words - 1}"))
        cache.n_tokens = frame.n_tokens
        tokens = [frame.first_token]
        return Arrived(frame.attempt, cache, tokens, frame.output_tokens, begun.payload_bytes, monotonic())


IDLE_WAIT_S = 0.02
"""How long an idle worker waits for a cache before it looks whether it should stop."""


def decode_worker(setup: WorkerSetup, control: Connection) -> None:
    """Serve until told to stop, or until the router has gone."""
    pin(setup)
    model = hybrid_model(setup.model.profile, setup.model.seed, backend=setup.model.backend)
    outbox = Outbox(control)
    intake = Intake(model, setup.token, outbox)
    decoder = _Decoder(model, setup.model.batch_limit, outbox)
    outbox.send(Ready(intake.listen()))
    while _obeys(control, model, outbox):
        intake.tell_of_foreign()
        decoder.admit(intake.arrived)
        decoder.step()


def _obeys(control: Connection, model: HybridModel, outbox: Outbox) -> bool:
    """Do what the router asks; whether to go on."""
    try:
        while control.poll():
            match control.recv():
                case Stop():
                    return False
                case Task(function, arguments):
                    outbox.send(Answer(function(model, *arguments)))
    except (EOFError, OSError):
        return False
    return True


@dataclass
class _Decoder:
    """Continuous batching: whoever has arrived joins before the next step, whoever is done leaves after it."""

    model: HybridModel
    batch_limit: int
    outbox: Outbox
    batch: DecodeBatch = field(init=False)
    running: list[Arrived] = field(default_factory=list)
    """In the order of the batch."""
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.batch = DecodeBatch(self.model, self.batch_limit)

    def admit(self, inbox: "queue.SimpleQueue[Arrived]") -> None:
        """Take in what has arrived, as far as there is room; wait a little where there is nothing to do."""
        while len(self.running) < self.batch_limit:
            try:
                arrived = inbox.get(timeout=0.0 if self.running else IDLE_WAIT_S)
            except queue.Empty:
                return
            self.outbox.send(Joined(arrived.attempt, arrived.received_s, monotonic(), arrived.payload_bytes))
            if arrived.output_tokens <= len(arrived.tokens):
                self._finish(arrived)
                continue
            self.batch.join(arrived.cache)
            self.running.append(arrived)

    def step(self) -> None:
        """One token for every running request."""
        if not self.running:
            return
        context = float(np.mean(self.batch.n_tokens)) + 1
        watch = Stopwatch(self.model)
        logits = self.model.decode(np.array([request.tokens[-1] for request in self.running]), self.batch)
        for request, token in zip(self.running, to_host(logits).argmax(axis=-1), strict=True):
            request.tokens.append(int(token))
        self.steps.append(Step(len(self.running), context, *watch.read()))
        # From the back: the last one takes the place of who leaves.
        for place in reversed(range(len(self.running))):
            if len(self.running[place].tokens) >= self.running[place].output_tokens:
                self._leave(place)

    def _leave(self, place: int) -> None:
        self._finish(self.running[place])
        self.batch.leave(place)
        self.running[place] = self.running[-1]
        self.running.pop()

    def _finish(self, request: Arrived) -> None:
        self.outbox.send(Finished(request.attempt, tuple(request.tokens), monotonic(), tuple(self.steps)))
        self.steps.clear()
