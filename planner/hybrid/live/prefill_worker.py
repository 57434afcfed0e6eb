"""A prefill worker: one request at a time, each layer on its way as soon as it is done."""

import queue
import socket
import threading
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import monotonic

from planner.hybrid.arrays import to_host
from planner.hybrid.block_pool import BlockPool, block_layout
from planner.hybrid.cache import LatentCache, RequestCache
from planner.hybrid.live.frames import END, Frame, send_frame
from planner.hybrid.live.link import LOOPBACK
from planner.hybrid.live.messages import Answer, Lost, Prefill, Prefilled, Ready, Stop, Task, WorkerSetup
from planner.hybrid.live.process import Outbox, core_held, pin
from planner.hybrid.model import HybridModel, hybrid_model
from planner.hybrid.prefix_cache import PrefixCache
from planner.hybrid.timing import Stopwatch
from planner.hybrid.wire import layer_payload


def prefill_worker(setup: WorkerSetup, control: Connection) -> None:
    """Serve until told to stop, or until the router has gone."""
    pin(setup)
    model = hybrid_model(setup.model.profile, setup.model.seed, backend=setup.model.backend)
    outbox = Outbox(control)
    kept = None
    if setup.model.n_blocks:
        kept = PrefixCache(model.mixers, BlockPool(block_layout(model, setup.model.block_tokens), setup.model.n_blocks))
    sender = Sender(outbox, setup.token)
    outbox.send(Ready())
    while True:
        try:
            message = control.recv()
        except (EOFError, OSError):
            return
        match message:
            case Stop():
                return
            case Task(function, arguments):
                outbox.send(Answer(function(model, *arguments)))
            case Prefill():
                with core_held(setup):
                    _prefill(model, kept, setup, message, sender, outbox)


def _prefill(
    model: HybridModel, kept: PrefixCache | None, setup: WorkerSetup, request: Prefill, sender: "Sender", outbox: Outbox
) -> None:
    """One request: what is cached, up to the last block boundary, whose state is kept, and the rest."""
    started, watch, tokens, cache = monotonic(), Stopwatch(model), request.tokens, model.empty_cache()
    n_cached = kept.resume(tokens, cache) if kept else 0
    # The last token is always computed; what comes before the boundary can serve others.
    boundary = max(kept.aligned(len(tokens) - 1), n_cached) if kept else n_cached
    stream = _Stream(request, cache, sender)
    chunk = setup.model.chunk_tokens
    was_kept = False
    if kept and boundary > n_cached:
        model.prefill(tokens[n_cached:boundary], cache, chunk_tokens=chunk, on_layer=stream.layer_done)
        was_kept = kept.keep(tokens[:boundary], cache)
    logits = model.prefill(tokens[boundary:], cache, chunk_tokens=chunk, on_layer=stream.layer_done)
    (busy_s, _), finished = watch.read(), monotonic()
    chosen = int(to_host(logits).argmax())
    sender.put(request.port, Frame(request.attempt, END, len(tokens), chosen, request.output_tokens))
    outbox.send(Prefilled(request.attempt, started, finished, busy_s, n_cached, boundary if was_kept else 0))


@dataclass
class _Stream:
    """Hands a request's layers to the sender: latents pass by pass, states when the last token has gone through."""

    request: Prefill
    cache: RequestCache
    sender: "Sender"
    sent_tokens: Counter[int] = field(default_factory=Counter)

    def layer_done(self, index: int, _before: int, after: int) -> None:
        """Called between layers of a pass."""
        layer = self.cache.layers[index]
        if isinstance(layer, LatentCache):
            payload = layer_payload(layer, self.sent_tokens[index])
            self.sent_tokens[index] = after
        elif after == len(self.request.tokens):
            payload = layer_payload(layer)
        else:
            return
        self.sender.put(self.request.port, Frame(self.request.attempt, index, payload=payload))


class Sender:
    """A thread that sends frames while the next layer is computed; one connection per port."""

    def __init__(self, outbox: Outbox, token: bytes) -> None:
        self._outbox, self._token = outbox, token
        self._frames: queue.SimpleQueue[tuple[int, Frame]] = queue.SimpleQueue()
        self._connections: dict[int, socket.socket] = {}
        self._failed = -1
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, port: int, frame: Frame) -> None:
        """Send a frame after those before it."""
        self._frames.put((port, frame))

    def _run(self) -> None:
        while True:
            port, frame = self._frames.get()
            # What is left of a request that could not be sent is dropped; the router decides what becomes of it.
            if frame.attempt != self._failed:
                self._send(port, frame)

    def _send(self, port: int, frame: Frame) -> None:
        try:
            if port not in self._connections:
                self._connections[port] = socket.create_connection((LOOPBACK, port))
                self._connections[port].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send_frame(self._connections[port], self._token, frame)
        except OSError as error:
            self._failed = frame.attempt
            if port in self._connections:
                self._connections.pop(port).close()
            self._outbox.send(Lost(frame.attempt, f"its cache could not be sent: {error}"))
