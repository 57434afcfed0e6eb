"""Runs of one colocated pool by itself: how it is run, what passes take and what is asked go in, times come out."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError, InputProblem
from planner.executor.draws import blank_requests
from planner.executor.initial_state import colocated_state, run_to_end
from planner.executor.kernel.records import FAULT_RECORD, FINISHED, Records
from planner.executor.kernel.state import SimulationState
from planner.executor.passes import BatchingPool, EngineRules, FloatArray
from planner.roofline import PassTimes


def no_faults() -> Records:
    """Faults of instances that have none."""
    return np.zeros(0, FAULT_RECORD)


@dataclass(frozen=True, eq=False)
class EngineLoad:
    """Requests to an engine; arrays of one length, in the order in which requests are sent."""

    prompt_tokens: NDArray[np.int_]
    output_tokens: NDArray[np.int_]
    delay_s: ArrayLike = 0.0
    """From a request's arrival until the engine can see it, beside other requests [s]."""
    host_s: ArrayLike = 0.0
    """The same, one request after another: what occupies the host [s]."""
    concurrency: int | None = None
    """Requests in flight: a successor arrives with the last token of another one; None: open."""
    arrivals_s: ArrayLike = 0.0
    """Arrivals in an open loop, rising; in a closed one, how long a user thinks before each [s]."""
    instances: NDArray[np.int_] | None = None
    """Instance, from 0, that each request is sent to; None: the one of the least load when it comes."""
    cached_tokens: ArrayLike = 0
    """Head of each prompt that is not computed whenever the request is admitted: a prefix that is cached [tokens]."""
    is_standing: ArrayLike = False
    """Whether the prompt was computed elsewhere, and the first token made: the cache arrives, and joins the batch."""
    faults: Records = field(default_factory=no_faults)
    """What happens to instances, in order of time."""
    max_retries: int = 3
    """How often a request whose cache was lost starts again before it is dropped."""


@dataclass(frozen=True, eq=False)
class EngineRun:
    """Outcome of an engine's run: one value per request, NaN for what did not happen."""

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
    n_passes: int
    n_prompt_passes: int
    """Passes with prompts among them."""
    busy_s: float
    """Seconds in passes, of all instances."""

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
    _check(rules, times, load, n_instances)
    n = len(load.prompt_tokens)
    requests = blank_requests(
        n,
        total_tokens=load.prompt_tokens,
        output_tokens=load.output_tokens,
        cached_tokens=np.broadcast_to(load.cached_tokens, n),
        arrival_s=np.broadcast_to(load.arrivals_s, n),
    )
    pool = BatchingPool(rules, times, n_instances, door=0)
    w = colocated_state(requests, pool, load.concurrency or 0, load.faults, load.max_retries)
    _state(w, load)
    run_to_end(w)
    return _results(w)


def _check(rules: EngineRules, times: PassTimes, load: EngineLoad, n_instances: int) -> None:
    problems = [
        InputProblem("engine", name, f"is {value}", "1 at least")
        for name in ("tokens_per_pass", "n_replicas", "most_running", "polling_passes")
        if (value := getattr(rules, name)) < 1
    ]
    problems += _problems_of_lengths(load)
    if load.concurrency is not None and load.concurrency < 1:
        problems.append(InputProblem("engine", "concurrency", f"is {load.concurrency}", "1 at least"))
    if load.concurrency is None and (np.diff(np.broadcast_to(load.arrivals_s, len(load.prompt_tokens))) < 0).any():
        problems.append(InputProblem("engine", "arrivals_s", "goes back in time", "rising arrivals"))
    if n_instances < 1:
        problems.append(InputProblem("engine", "n_instances", f"is {n_instances}", "1 at least"))
    sent = np.zeros(0, int) if load.instances is None else load.instances
    if sent.size and (sent.min() < 0 or sent.max() >= n_instances):
        problems.append(InputProblem("engine", "instances", "names one that is not there", f"0 to {n_instances - 1}"))
    most = min(len(load.prompt_tokens), rules.most_running * rules.n_replicas, load.concurrency or 2**62)
    if most >= len(times.decode_s):
        rows = f"seconds of steps up to {most}"
        problems.append(InputProblem("engine", "decode_s", f"ends at {len(times.decode_s) - 1} sequences", rows))
    if problems:
        raise InputError(problems)


def _problems_of_lengths(load: EngineLoad) -> list[InputProblem]:
    lengths = np.concatenate([np.ravel(load.prompt_tokens), np.ravel(load.output_tokens)])
    found = []
    if lengths.size and lengths.min() < 1:
        found.append(InputProblem("engine", "tokens", f"is {lengths.min()}", "1 at least, of prompts and of outputs"))
    cached = np.asarray(load.cached_tokens, dtype=int)
    if (cached < 0).any() or (cached >= load.prompt_tokens).any():
        what = "is none of some prompt, or all of it"
        found.append(InputProblem("engine", "cached_tokens", what, "0 at least, and a token left to compute"))
    if (np.asarray(load.is_standing) & (load.output_tokens < 2)).any():
        what = "has requests of one token, which came with the prompt"
        found.append(InputProblem("engine", "is_standing", what, "outputs of 2 tokens at least"))
    return found


def _state(w: SimulationState, load: EngineLoad) -> None:
    """Write what requests bring beside their lengths."""
    w.sequences["delay_s"], w.sequences["host_s"] = load.delay_s, load.host_s
    w.sequences["is_standing"] = load.is_standing
    if load.instances is not None:
        w.sequences["stated_instance"] = load.instances


def _results(w: SimulationState) -> EngineRun:
    requests, instances = w.requests, w.colocated
    is_done = requests["state"] == FINISHED
    begun_s = np.fmin(requests["prefill_start_s"], requests["first_token_s"])  # what stands has no prefill
    return EngineRun(
        arrival_s=requests["arrival_s"].copy(),
        begun_s=begun_s,
        first_s=np.where(is_done, requests["first_token_s"], np.nan),
        done_s=requests["finish_s"].copy(),
        output_tokens=requests["output_tokens"].astype(int),
        instances=w.sequences["instance"].astype(int),
        n_preempted=w.sequences["n_preempted"].astype(int),
        n_retries=requests["n_retries"].astype(int),
        n_passes=int(instances["n_passes"].sum()),
        n_prompt_passes=int(instances["n_prompt_passes"].sum()),
        busy_s=float(instances["busy_s"].sum()),
    )
