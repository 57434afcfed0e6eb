"""A decode worker: takes caches from the network, and decodes all of its requests together, token by token."""

import queue
import socket
import threading
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import monotonic

import numpy as np

from planner.errors import InputError, Problem
from planner.hybrid.arrays import to_host
from planner.hybrid.cache import RequestCache
from planner.hybrid.live.frames import END, Frame, receive_frame
from planner.hybrid.live.link import LOOPBACK
from planner.hybrid.live.messages import Answer, Finished, Joined, Lost, Ready, Step, Stop, Task, WorkerSetup
from planner.hybrid.live.process import Outbox, pin
from planner.hybrid.model import DecodeBatch, HybridModel, hybrid_model
from planner.hybrid.timing import Stopwatch
from planner.hybrid.wire import take_payload

IDLE_WAIT_S = 0.02
"""How long an idle worker waits for a cache before it looks whether it should stop."""


@dataclass
class _Arrived:
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

    cache: RequestCache
    payload_bytes: int = 0


def decode_worker(setup: WorkerSetup, control: Connection) -> None:
    """Serve until told to stop, or until the router has gone."""
    pin(setup)
    model = hybrid_model(setup.model.profile, setup.model.seed, backend=setup.model.backend)
    outbox = Outbox(control)
    inbox: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
    listener = socket.create_server((LOOPBACK, 0))
    threading.Thread(target=_accept, args=(listener, model, inbox, outbox), daemon=True).start()
    decoder = _Decoder(model, setup.model.batch_limit, outbox)
    outbox.send(Ready(int(listener.getsockname()[1])))
    while _obeys(control, model, outbox):
        decoder.admit(inbox)
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
    running: list[_Arrived] = field(default_factory=list)
    """In the order of the batch."""
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.batch = DecodeBatch(self.model, self.batch_limit)

    def admit(self, inbox: "queue.SimpleQueue[_Arrived]") -> None:
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

    def _finish(self, request: _Arrived) -> None:
        self.outbox.send(Finished(request.attempt, tuple(request.tokens), monotonic(), tuple(self.steps)))
        self.steps.clear()


def _accept(listener: socket.socket, model: HybridModel, inbox: "queue.SimpleQueue[_Arrived]", outbox: Outbox) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_receive, args=(connection, model, inbox, outbox), daemon=True).start()


def _receive(
    connection: socket.socket, model: HybridModel, inbox: "queue.SimpleQueue[_Arrived]", outbox: Outbox
) -> None:
    """Put caches together from the frames of one connection; what was sent in part is dropped when it ends."""
    begun: dict[int, _Begun] = {}
    while True:
        try:
            frame = receive_frame(connection)
        except OSError:
            return
        if frame is None:
            return
        try:
            arrived = _taken(frame, model, begun)
        except InputError as error:
            outbox.send(Lost(frame.attempt, str(error)))
            continue
        if arrived:
            inbox.put(arrived)


def _taken(frame: Frame, model: HybridModel, begun: dict[int, _Begun]) -> _Arrived | None:
    """Put one frame into its cache; the request where that was the last of it.

    Raises:
        InputError: the frame does not fit the model, or something is missing at the end.
    """
    if frame.attempt not in begun:
        begun[frame.attempt] = _Begun(model.empty_cache())
    so_far = begun[frame.attempt]
    cache = so_far.cache
    if frame.layer != END:
        if not 0 <= frame.layer < len(cache.layers):
            raise InputError(Problem("frame", "layer", f"is {frame.layer}", f"0 to {len(cache.layers) - 1}"))
        take_payload(cache.layers[frame.layer], frame.payload)
        so_far.payload_bytes += len(frame.payload)
        return None
    del begun[frame.attempt]
    wrong = [latents.n_tokens for latents in cache.latents if latents.n_tokens != frame.n_tokens]
    if wrong:
        raise InputError(Problem("frame", "n_tokens", f"is {frame.n_tokens}, but {wrong[0]} came", "all of them"))
    cache.n_tokens = frame.n_tokens
    return _Arrived(frame.attempt, cache, [frame.first_token], frame.output_tokens, so_far.payload_bytes, monotonic())
