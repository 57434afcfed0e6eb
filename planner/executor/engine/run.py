"""Runs of engines alike: how they are run, what passes take and what is asked go in, times of requests come out."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError, Problem
from planner.executor.compilation import load_or_compile
from planner.executor.engine.records import (
    DROPPED,
    FAULT,
    FINISHED,
    INSTANCE,
    LOOP,
    NEVER,
    NONE,
    REPLICA,
    REQUEST,
    RULES,
    Engine,
    PassTable,
    Records,
    empty_lists,
)

FloatArray = NDArray[np.float64]
SLICE = 1_000_000
"""Passes between two looks at whether somebody interrupts."""
COMPILED_S = 10
"""Seconds that compiling takes on one core of 2024."""


def no_faults() -> Records:
    """Faults of instances that have none."""
    return np.zeros(0, FAULT)


@dataclass(frozen=True)
class EngineRules:
    """How an engine forms its passes; limits are those of one attention replica."""

    tokens_per_pass: int
    """Most tokens of a pass: of prompts alone where these come first, else of prompts and decoding sequences."""
    room_tokens: float
    """Memory of caches, in tokens of one sequence."""
    sequence_tokens: float = 0.0
    """What a sequence takes of it whatever its length: recurrent state, full windows [tokens]."""
    n_replicas: int = 1
    """Attention replicas, which step together."""
    most_running: int = 1024
    """Most requests admitted at once."""
    is_prefill_first: bool = False
    """Whether waiting prompts have passes of their own, before any decode step; else they share passes."""
    splits_prompts: bool = True
    """Whether a prompt longer than what a pass may take is computed in chunks; else only whole ones are taken."""
    reserves_output: bool = False
    """Whether a request is admitted with memory for its whole output; else the last admitted gives way."""
    polling_passes: int = 1
    """Decode steps between two looks at what has arrived; after a pass with prompts it always looks."""


@dataclass(frozen=True, eq=False)
class PassTimes:
    """Seconds of passes by what is in them, at knots; linear between them and beyond the last."""

    spread: FloatArray
    """Prompt tokens of all replicas over those of the fullest: 1 with one replica."""
    tokens: FloatArray
    """Prompt tokens of the fullest replica."""
    keys: FloatArray
    """Keys that each attends to, on average: (n + 1) / 2 for n tokens at the head of a prompt."""
    sequences: FloatArray
    """Sequences that decode, on all replicas together; the first is 0."""
    contexts: FloatArray
    """Their mean context, on the replica with most of it [tokens]."""
    prompt_s: FloatArray
    """Passes with prompts, by all five [s]."""
    decode_s: FloatArray
    """Passes without, by number of sequences, 0, 1, 2 and so on, and context [s]."""

    @property
    def table(self) -> PassTable:
        """The same as the loop reads it, for one kind of instance."""
        knots = (self.spread, self.tokens, self.keys, self.sequences, self.contexts)
        return PassTable(*(np.ascontiguousarray(a, float)[None] for a in (self.decode_s, self.prompt_s, *knots)))


@dataclass(frozen=True, eq=False)
class EngineLoad:
    """What an engine is asked; arrays of one length, in the order in which requests are sent."""

    prompt_tokens: NDArray[np.int_]
    output_tokens: NDArray[np.int_]
    delay_s: ArrayLike = 0.0
    """From a request's arrival until the engine can see it, beside other requests [s]."""
    host_s: ArrayLike = 0.0
    """The same, one request after another: what occupies the host [s]."""
    concurrency: int | None = None
    """Requests in flight: a successor arrives with the last token of another one; None: open."""
    arrivals_s: ArrayLike = 0.0
    """Arrivals in an open loop, rising; in a closed one, of the first requests [s]."""
    instances: NDArray[np.int_] | None = None
    """Instance, from 0, that each request is sent to; None: the one of the least load when it comes."""
    cached_tokens: ArrayLike = 0
    """Head of each prompt that is not computed whenever the request is admitted: a prefix that is cached [tokens]."""
    is_standing: ArrayLike = False
    """Whether the prompt was computed elsewhere, and the first token made: the cache arrives, and joins the batch."""
    looks_s: ArrayLike = ()
    """Moments, rising, at which the seconds spent in passes are wanted [s]."""
    faults: Records = field(default_factory=no_faults)
    """What happens to instances, in order of time."""
    max_retries: int = 3
    """How often a request whose cache was lost starts again before it is dropped."""


@dataclass(frozen=True, eq=False)
class EngineRun:
    """What came of it: one value per request, NaN for what did not happen."""

    arrival_s: FloatArray
    begun_s: FloatArray
    """Moment at which the request was first admitted [s]."""
    first_s: FloatArray
    """Moment of the first token [s]; where it came with the cache, that at which the batch took it in."""
    done_s: FloatArray
    """Moment of the last token [s]."""
    output_tokens: NDArray[np.int_]
    instances: NDArray[np.int_]
    """Instance that each was sent to."""
    n_preempted: NDArray[np.int_]
    """How often each gave way."""
    n_retries: NDArray[np.int_]
    """How often each lost its cache to a crash."""
    dropped_s: FloatArray
    """When each was dropped, as that was too often [s]."""
    n_passes: int
    n_prompt_passes: int
    """Passes with prompts among them."""
    busy_s: float
    """Seconds in passes, of all instances."""
    looks_busy_s: FloatArray
    """The same up to the moments asked for."""

    @property
    def ttft_s(self) -> FloatArray:
        """Arrival to first token [s]."""
        return self.first_s - self.arrival_s

    @property
    def tpot_s(self) -> FloatArray:
        """Time per token after the first; NaN for one token [s]."""
        n = np.where(self.output_tokens > 1, self.output_tokens - 1.0, np.nan)
        return (self.done_s - self.first_s) / n


def engine_run(rules: EngineRules, times: PassTimes, load: EngineLoad, n_instances: int = 1) -> EngineRun:
    """Instances alike through a load, pass by pass.

    Args:
        rules: how each is run.
        times: what its passes take.
        load: requests, of all of them together.
        n_instances: how many.

    Raises:
        InputError: a rule, a table or a load that no engine can have.
    """
    from planner.executor.engine.loop import advance, start  # compiles, or loads what was compiled

    _check(rules, times, load, n_instances)
    e = _engine(rules, times, load, n_instances)
    loop = np.zeros(1, LOOP)
    loop["is_open"], loop["max_retries"] = load.concurrency is None, load.max_retries
    empty_lists(loop, "adrift")
    load_or_compile({start: (e, loop, 0), advance: (e, loop, SLICE)}, COMPILED_S)
    start(e, loop, min(load.concurrency or 0, len(e.requests)))
    while advance(e, loop, SLICE):
        pass
    return _found(e)


def _check(rules: EngineRules, times: PassTimes, load: EngineLoad, n_instances: int) -> None:
    problems = [
        Problem("engine", name, f"is {value}", "1 at least")
        for name in ("tokens_per_pass", "n_replicas", "most_running", "polling_passes")
        if (value := getattr(rules, name)) < 1
    ]
    problems += _problems_of_lengths(load)
    if load.concurrency is not None and load.concurrency < 1:
        problems.append(Problem("engine", "concurrency", f"is {load.concurrency}", "1 at least"))
    if load.concurrency is None and (np.diff(np.broadcast_to(load.arrivals_s, len(load.prompt_tokens))) < 0).any():
        problems.append(Problem("engine", "arrivals_s", "goes back in time", "rising arrivals"))
    if n_instances < 1:
        problems.append(Problem("engine", "n_instances", f"is {n_instances}", "1 at least"))
    sent = np.zeros(0, int) if load.instances is None else load.instances
    if sent.size and (sent.min() < 0 or sent.max() >= n_instances):
        problems.append(Problem("engine", "instances", "names one that is not there", f"0 to {n_instances - 1}"))
    most = min(len(load.prompt_tokens), rules.most_running * rules.n_replicas, load.concurrency or 2**62)
    if most >= len(times.decode_s):
        rows = f"seconds of steps up to {most}"
        problems.append(Problem("engine", "decode_s", f"ends at {len(times.decode_s) - 1} sequences", rows))
    if problems:
        raise InputError(problems)


def _problems_of_lengths(load: EngineLoad) -> list[Problem]:
    lengths = np.concatenate([np.ravel(load.prompt_tokens), np.ravel(load.output_tokens)])
    found = []
    if lengths.size and lengths.min() < 1:
        found.append(Problem("engine", "tokens", f"is {lengths.min()}", "1 at least, of prompts and of outputs"))
    cached = np.asarray(load.cached_tokens, dtype=int)
    if (cached < 0).any() or (cached >= load.prompt_tokens).any():
        what = "is none of some prompt, or all of it"
        found.append(Problem("engine", "cached_tokens", what, "0 at least, and a token left to compute"))
    if (np.asarray(load.is_standing) & (load.output_tokens < 2)).any():
        what = "has requests of one token, which came with the prompt"
        found.append(Problem("engine", "is_standing", what, "outputs of 2 tokens at least"))
    return found


def _engine(rules: EngineRules, times: PassTimes, load: EngineLoad, n_instances: int) -> Engine:
    longest = int(np.max(load.output_tokens, initial=1))
    return Engine(
        requests=_requests(load),
        replicas=_replicas(rules.n_replicas * n_instances),
        instances=_instances(rules, n_instances),
        rules=_rules(rules),
        due=np.full((rules.n_replicas * n_instances, longest + 1), NONE, np.int32),
        done=np.zeros(max(len(load.prompt_tokens), 1), np.int32),
        table=times.table,
        looks=np.column_stack([np.asarray(load.looks_s, float), np.full(np.size(load.looks_s), np.nan)]),
        faults=load.faults,
        extras=0 if len(load.faults) else None,
    )


def _requests(load: EngineLoad) -> Records:
    requests = np.zeros(len(load.prompt_tokens), REQUEST)
    requests["prompt_tokens"], requests["output_tokens"] = load.prompt_tokens, load.output_tokens
    requests["delay_s"], requests["host_s"] = load.delay_s, load.host_s
    requests["arrival_s"] = load.arrivals_s
    requests["cached_tokens"], requests["is_standing"] = load.cached_tokens, load.is_standing
    requests["begun_s"] = requests["first_s"] = requests["done_s"] = np.nan
    for name in ("next", "before", "after", "before_due", "after_due", "replica"):
        requests[name] = NONE
    requests["instance"] = NONE if load.instances is None else load.instances
    return requests


def _replicas(n: int) -> Records:
    replicas = empty_lists(np.zeros(n, REPLICA), "waiting", "admitted", "prompts")
    replicas["partial"] = NONE
    return replicas


def _instances(rules: EngineRules, n: int) -> Records:
    instances = empty_lists(np.zeros(n, INSTANCE), "inbox")
    instances["first"] = np.arange(n) * rules.n_replicas
    instances["n"], instances["next_s"], instances["slowdown"] = rules.n_replicas, NEVER, 1.0
    return instances


def _rules(rules: EngineRules) -> Records:
    records = np.zeros(1, RULES)
    for name in RULES.names or ():
        records[name] = getattr(rules, name)
    return records


def _found(e: Engine) -> EngineRun:
    requests, instances = e.requests, e.instances
    is_done, is_dropped = requests["state"] == FINISHED, requests["state"] == DROPPED
    return EngineRun(
        arrival_s=requests["arrival_s"].copy(),
        begun_s=requests["begun_s"].copy(),
        first_s=np.where(is_done, requests["first_s"], np.nan),
        done_s=np.where(is_done, requests["done_s"], np.nan),
        output_tokens=requests["output_tokens"].astype(int),
        instances=requests["instance"].astype(int),
        n_preempted=requests["n_preempted"].astype(int),
        n_retries=requests["n_retries"].astype(int),
        dropped_s=np.where(is_dropped, requests["done_s"], np.nan),
        n_passes=int(instances["n_passes"].sum()),
        n_prompt_passes=int(instances["n_prompt_passes"].sum()),
        busy_s=float(instances["busy_s"].sum()),
        looks_busy_s=np.where(np.isnan(e.looks[:, 1]), instances["busy_s"].sum(), e.looks[:, 1]),
    )
