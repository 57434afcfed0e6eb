"""A decode worker: takes caches from the network, and decodes all of its requests together, token by token."""

import queue
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import monotonic

import numpy as np

from planner.hybrid.arrays import to_host
from planner.hybrid.live.intake import Arrived, Intake
from planner.hybrid.live.messages import Answer, Finished, Joined, Ready, Step, Stop, Task, WorkerSetup
from planner.hybrid.live.process import Outbox, pin
from planner.hybrid.model import DecodeBatch, HybridModel, hybrid_model
from planner.hybrid.timing import Stopwatch

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
