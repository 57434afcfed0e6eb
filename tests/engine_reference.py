"""An engine's pass loop written a second time, slowly: lists of sequences, everything counted anew in each pass."""

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

import numpy as np

from planner.executor.engine import EngineLoad
from planner.executor.passes import EngineRules
from planner.roofline import PassTimes


@dataclass
class Sequence:
    """One request."""

    prompt: int
    output: int
    arrival_s: float = inf
    ready_s: float = inf
    cached: int = 0
    """Head of the prompt that others hold."""
    standing: bool = False
    """Whether its cache and first token come from elsewhere."""
    begun_s: float = float("nan")
    computed: int = 0
    """Tokens whose cache exists."""
    made: int = 0
    first_s: float = float("nan")
    done_s: float = float("nan")
    n_preempted: int = 0


@dataclass
class Replica:
    waiting: list[Sequence] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    chunks: list[tuple[Sequence, int]] = field(default_factory=list)
    steps: list[Sequence] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    """Ids of those whose first token of this attempt was made, and which decode."""


def interpolated(times: PassTimes, tokens: float, spread: float, keys: float, n: int, context: float) -> float:
    """Seconds by repeated linear interpolation, one axis after another."""
    if tokens == 0:
        return line(times.contexts, list(times.decode_s[n]), context)
    values = times.prompt_s
    for knots, x in zip(
        (times.spread, times.tokens, times.keys, times.sequences, times.contexts),
        (spread, tokens, keys, n, context),
        strict=True,
    ):
        values = np.apply_along_axis(lambda column, a=knots, at=x: line(a, column, at), 0, values)
    return float(values)


def line(knots: np.ndarray, values: list[float], x: float) -> float:
    """Through the two knots around x, or the two nearest."""
    if len(knots) == 1:
        return float(values[0])
    pieces = [k for k, (low, _) in enumerate(pairwise(knots)) if low <= x] or [0]
    k = pieces[-1]
    return float(values[k] + (x - knots[k]) / (knots[k + 1] - knots[k]) * (values[k + 1] - values[k]))


class Reference:
    """One run."""

    def __init__(self, rules: EngineRules, times: PassTimes, load: EngineLoad) -> None:
        self.rules, self.times = rules, times
        shape = len(load.prompt_tokens)
        self.delay, self.host = (np.broadcast_to(a, shape).tolist() for a in (load.delay_s, load.host_s))
        self.host_free_s = 0.0
        self.all = [Sequence(int(p), int(o)) for p, o in zip(load.prompt_tokens, load.output_tokens, strict=True)]
        given = (np.broadcast_to(a, shape).tolist() for a in (load.cached_tokens, load.is_standing))
        for s, cached, standing in zip(self.all, *given, strict=True):
            s.cached, s.standing, s.computed = cached, standing, s.prompt if standing else cached
            s.made = 1 if standing else 0
        self.replicas = [Replica() for _ in range(rules.n_replicas)]
        self.inbox: list[Sequence] = []
        self.refused: list[Sequence] = []
        self.to_come = list(range(shape))
        self.now_s, self.n_passes, self.unseen, self.passes = 0.0, 0, 0, []
        arrivals = np.broadcast_to(load.arrivals_s, shape)
        self.closed = load.concurrency is not None
        for _ in range(shape if load.concurrency is None else min(load.concurrency, shape)):
            while self.to_come and not self.send(float(arrivals[self.to_come[0]])) and self.closed:
                pass

    def send(self, at_s: float) -> bool:
        index = self.to_come.pop(0)
        new = self.all[index]
        new.arrival_s = at_s
        if self.rules.sequence_tokens + new.prompt + new.output > self.rules.room_tokens:
            self.refused.append(new)
            return False
        self.host_free_s = max(at_s, self.host_free_s) + self.host[index]
        new.ready_s = self.host_free_s + self.delay[index]
        self.inbox.append(new)
        self.inbox.sort(key=lambda s: s.ready_s)
        return True

    def run(self) -> "Reference":
        while self.inbox or self.inside():
            if not self.inside():
                self.now_s = max(self.now_s, self.inbox[0].ready_s)
            self.look()
            had_prompts = self.one_pass()
            if had_prompts:
                self.unseen = self.rules.polling_passes
        return self

    def inside(self) -> int:
        return sum(len(r.waiting) + len(r.admitted) for r in self.replicas)

    def look(self) -> None:
        self.unseen += 1
        idle = not self.inside()
        if not idle and self.unseen < self.rules.polling_passes:
            return
        self.unseen = 0
        seen = [s for s in self.inbox if s.ready_s < self.now_s or (idle and s.ready_s == self.now_s)]
        for s in seen:
            self.inbox.remove(s)
            fewest = min(self.replicas, key=lambda r: len(r.waiting) + len(r.admitted))
            fewest.waiting.append(s)

    def one_pass(self) -> bool:
        for replica in self.replicas:
            self.choose(replica)
        self.passes.append((self.now_s, seconds := self.seconds()))
        self.now_s += seconds
        self.n_passes += 1
        had_prompts = any(r.chunks for r in self.replicas)
        n_done = sum(self.end(replica) for replica in self.replicas)
        for _ in range(n_done if self.closed else 0):
            while self.to_come and not self.send(self.now_s):
                pass
        return had_prompts

    def held(self, replica: Replica, stepping: bool) -> float:
        """Memory of all that are admitted, with what one more step of those that decode would add."""
        total = 0.0
        for s in replica.admitted:
            if self.rules.reserves_output:
                total += self.rules.sequence_tokens + s.prompt + s.output
            elif id(s) in replica.begun:
                total += self.rules.sequence_tokens + s.prompt + s.made - 1 + stepping
            else:
                total += self.rules.sequence_tokens + s.prompt + s.made
        return total

    def choose(self, replica: Replica) -> None:
        replica.chunks, replica.steps = [], []
        if self.rules.is_prefill_first:
            self.take(replica, self.rules.tokens_per_pass)
            if not replica.chunks:
                self.shed(replica)
                replica.steps = [s for s in replica.admitted if id(s) in replica.begun]
            return
        gave_way = self.shed(replica)
        if not gave_way:
            self.take(replica, self.rules.tokens_per_pass - len(replica.begun))
        replica.steps = [s for s in replica.admitted if id(s) in replica.begun]

    def shed(self, replica: Replica) -> bool:
        shed = False
        while not self.rules.reserves_output and replica.begun and self.held(replica, True) > self.rules.room_tokens:
            last = replica.admitted.pop()
            replica.begun.discard(id(last))
            last.computed, last.n_preempted = last.cached, last.n_preempted + 1
            replica.waiting.insert(0, last)
            shed = True
        return shed

    def take(self, replica: Replica, budget: int) -> None:
        for s in replica.admitted:
            if id(s) not in replica.begun and budget > 0:
                budget -= self.chunk(replica, s, budget)
        while budget > 0 and replica.waiting and len(replica.admitted) < self.rules.most_running:
            s = replica.waiting[0]
            joins = s.standing and s.n_preempted == 0
            left = 0 if joins else s.prompt + s.made - s.computed
            if not self.rules.splits_prompts and left > budget and replica.chunks:
                return
            more = s.prompt + (s.output if self.rules.reserves_output else s.made)
            if self.held(replica, True) + self.rules.sequence_tokens + more > self.rules.room_tokens:
                return
            replica.admitted.append(replica.waiting.pop(0))
            s.begun_s = self.now_s if np.isnan(s.begun_s) else s.begun_s
            if joins:
                s.first_s = self.now_s
                replica.begun.add(id(s))
                budget -= 1
            else:
                budget -= self.chunk(replica, s, budget)

    def chunk(self, replica: Replica, s: Sequence, budget: int) -> int:
        n = s.prompt + s.made - s.computed
        n = min(n, budget) if self.rules.splits_prompts else n
        replica.chunks.append((s, n))
        return n

    def seconds(self) -> float:
        tokens = [sum(n for _, n in r.chunks) for r in self.replicas]
        fullest = self.replicas[tokens.index(max(tokens))]
        keys = sum(s.computed + j + 1 for s, n in fullest.chunks for j in range(n))
        n = sum(len(r.steps) for r in self.replicas)
        context = max(sum(s.prompt + s.made for s in r.steps) for r in self.replicas)
        mean = context / max(n / len(self.replicas), 1) if n else 0.0
        most = max(tokens)
        return interpolated(self.times, most, sum(tokens) / max(most, 1), keys / max(most, 1), n, mean)

    def end(self, replica: Replica) -> int:
        for s in replica.steps:
            s.made += 1
            s.computed += 1
        for s, n in replica.chunks:
            s.computed += n
            if s.computed == s.prompt + s.made:
                s.made += 1
                s.first_s = self.now_s if s.made == 1 else s.first_s
                replica.begun.add(id(s))
        over = [s for s in replica.admitted if s.made == s.output]
        for s in over:
            s.done_s = self.now_s
            replica.admitted.remove(s)
            replica.begun.discard(id(s))
        return len(over)
