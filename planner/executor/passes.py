"""Colocated instances as the event loop knows them: how they form passes, what these take, and what they begin with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.executor.kernel.records import COLOCATED, COLOCATED_POOL, NONE, REPLICA, SEQUENCE, PassTable
from planner.roofline import PassTimes

FloatArray = NDArray[np.float64]
AXES = ("spread", "tokens", "keys", "sequences", "contexts")
RULES = (
    "tokens_per_pass",
    "room_tokens",
    "sequence_tokens",
    "most_running",
    "is_prefill_first",
    "splits_prompts",
    "reserves_output",
    "polling_passes",
)


@dataclass(frozen=True)
class EngineRules:
    """Rules by which an engine forms its passes; limits are those of one attention replica."""

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
class BatchingPool:
    """A colocated pool of the event loop."""

    rules: EngineRules
    times: PassTimes
    n_instances: int
    door: int
    """Prefill pool that stands for it."""
    host_token_s: float = 0.0
    """That the host works on a token of a prompt, one request after another [s]."""
    delay_s: float = 0.0
    """From then until an instance can see a request, beside others [s]."""


def colocated_fields(pools: Sequence[BatchingPool], n_requests: int, longest_output: int) -> dict[str, Any]:
    """The fields of a state that are about colocated pools, of which nothing has happened."""
    records, n_replicas = np.zeros(len(pools), COLOCATED_POOL), [one.rules.n_replicas for one in pools]
    for record, one in zip(records, pools, strict=True):
        record["n"], record["door"] = one.n_instances, one.door
        record["host_token_s"], record["delay_s"] = one.host_token_s, one.delay_s
        record["displaced"] = (NONE, NONE, 0)
        for name in RULES:
            record[name] = getattr(one.rules, name)
    records["first"] = np.cumsum(records["n"]) - records["n"]
    of = np.repeat(np.arange(len(pools)), records["n"])
    instances = np.zeros(len(of), COLOCATED)
    instances["pool"], instances["n"], instances["slowdown"] = of, np.array(n_replicas, dtype=int)[of], 1.0
    instances["first"] = np.cumsum(instances["n"]) - instances["n"]
    instances["inbox"] = (NONE, NONE, 0)
    replicas = np.zeros(int(instances["n"].sum()), REPLICA)
    for name in ("waiting", "admitted", "prompts"):
        replicas[name] = (NONE, NONE, 0)
    replicas["partial"] = NONE
    sequences = np.zeros(n_requests if len(pools) else 0, SEQUENCE)
    for name in ("stated_instance", "instance", "replica", "before", "after", "before_due", "after_due"):
        sequences[name] = NONE
    return {
        "colocated_pools": records,
        "colocated": instances,
        "replicas": replicas,
        "sequences": sequences,
        "due": np.full((len(replicas), longest_output + 1 if len(pools) else 1), NONE, np.int32),
        "pass_table": pass_table([one.times for one in pools]),
    }


def pass_table(times: Sequence[PassTimes]) -> PassTable:
    """Seconds of passes of several pools in one table; the lines of those with fewer knots go on beyond their last.

    >>> line = PassTimes(*(np.array([1.0, 2.0]),) * 5, np.ones((2,) * 5), np.array([[0.0, 0.0], [1.0, 3.0]]))
    >>> wide = PassTimes(*(np.array([1.0, 2.0, 4.0]),) * 5, np.ones((3,) * 5), np.zeros((2, 3)))
    >>> found = pass_table([line, wide])
    >>> found.contexts.tolist(), found.decode_s[0].tolist()
    ([[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]], [[0.0, 0.0, 0.0], [1.0, 3.0, 5.0]])
    """
    most = [max((len(getattr(one, axis)) for one in times), default=1) for axis in AXES]
    n_rows = max((len(one.decode_s) for one in times), default=1)
    found = PassTable(
        np.zeros((len(times), n_rows, most[-1])),
        np.zeros((len(times), *most)),
        *(np.zeros((len(times), n)) for n in most),
    )
    for k, one in enumerate(times):
        steps, prompts = one.decode_s, one.prompt_s
        for axis, (name, n) in enumerate(zip(AXES, most, strict=True)):
            getattr(found, name)[k] = _lengthened(getattr(one, name), n)
            prompts = np.apply_along_axis(_lengthened, axis, prompts, n) if prompts.shape[axis] < n else prompts
        steps = np.apply_along_axis(_lengthened, 1, steps, most[-1]) if steps.shape[1] < most[-1] else steps
        found.decode_s[k, : len(steps)], found.prompt_s[k] = steps, prompts
    return found


def _lengthened(values: FloatArray, n: int) -> FloatArray:
    """Values at more knots, as far apart as the last two; one alone stays where it is."""
    step = values[-1] - values[-2] if len(values) > 1 else 0.0
    return np.append(values, values[-1] + step * np.arange(1, n - len(values) + 1))
