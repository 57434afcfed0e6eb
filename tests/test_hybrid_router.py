"""The router alone, with workers that say what a test wants: words that cross, deaths at awkward moments, giving up."""

from collections import Counter
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.hybrid.live import LiveRequest, LiveSystem, ModelSetup, WorkerSpec, serve_with
from planner.hybrid.live.messages import Finished, FromWorker, Gone, Joined, Lost, Prefill, Prefilled
from planner.profiles import model_profile

SETUP = ModelSetup(model_profile(str(Path(__file__).with_name("hybrid-tiny.toml"))), block_tokens=16)
FAR, NEAR, DECODER = (
    WorkerSpec("far", "prfaas", "prefill"),
    WorkerSpec("near", "pd-p", "prefill"),
    WorkerSpec("decoder", "pd-d", "decode"),
)


class Script:
    """A fleet whose workers say one list of words after another, whatever they are asked."""

    def __init__(self, *words: list[tuple[str, FromWorker]]) -> None:
        self.words = list(words)
        self.workers = {spec.name: worker(spec) for spec in (FAR, NEAR, DECODER)}
        self.n_started = Counter(list(self.workers))
        self.sent: list[tuple[str, Any]] = []
        self._attempts = count()

    def next_attempt(self) -> int:
        return next(self._attempts)

    def send(self, name: str, message: Any) -> None:
        self.sent.append((name, message))

    def start(self, spec: WorkerSpec) -> None:
        self.workers[spec.name] = worker(spec)
        self.n_started[spec.name] += 1

    def messages(self, timeout_s: float) -> list[tuple[str, FromWorker]]:
        del timeout_s
        heard = self.words.pop(0) if self.words else []
        for name, message in heard:
            if isinstance(message, Gone):
                del self.workers[name]
        return heard


def worker(spec: WorkerSpec) -> Any:
    return SimpleNamespace(spec=spec, port=4000, is_ready=True)


def served(script: Script, n_requests: int = 1, time_limit_s: float = 0.3, **changes: Any) -> Any:
    system = LiveSystem(SETUP, (FAR, NEAR, DECODER), **({"link_bytes_per_s": 1e6, "threshold_tokens": 50} | changes))
    requests = [LiveRequest(0.0, np.arange(90) % 53, 2) for _ in range(n_requests)]
    return serve_with(script, system, requests, time_limit_s=time_limit_s)  # type: ignore[arg-type]


def prefilled(attempt: int, kept: int = 0) -> tuple[str, FromWorker]:
    return "far", Prefilled(attempt, 1.0, 2.0, 0.9, 0, kept)


def joined(attempt: int) -> tuple[str, FromWorker]:
    return "decoder", Joined(attempt, 2.1, 2.2, 1000)


def finished(attempt: int) -> tuple[str, FromWorker]:
    return "decoder", Finished(attempt, (1, 2), 3.0, ())


def test_the_last_word_of_decode_may_come_before_that_of_prefill() -> None:
    (record,) = served(Script([joined(0), finished(0)], [prefilled(0)])).records
    assert record.outcome == "finished"
    assert record.prefill_busy_s == 0.9
    assert record.tokens == (1, 2)


def test_a_prefill_worker_that_dies_after_its_cache_has_arrived_takes_nothing_with_it() -> None:
    script = Script([joined(0)], [("far", Gone())], [finished(0)])
    run = served(script)
    assert run.n_deaths == 1
    assert run.records[0].outcome == "finished"
    assert run.records[0].n_attempts == 1
    assert run.records[0].prefill_start_s is None


def test_a_prefill_worker_that_dies_before_has_its_request_tried_again() -> None:
    script = Script([prefilled(0)], [("far", Gone())], [prefilled(1), joined(1)], [finished(1)])
    run = served(script)
    assert run.records[0].outcome == "finished"
    assert run.records[0].n_attempts == 2
    assert [name for name, message in script.sent if isinstance(message, Prefill)] == ["far", "far"]


def test_words_of_an_attempt_that_was_given_up_are_not_those_of_the_next() -> None:
    script = Script([("far", Lost(0, "no way"))], [joined(0), finished(0)], [prefilled(1), joined(1)])
    run = served(script)
    assert run.records[0].outcome == "dropped"
    assert run.records[0].reason == "the time limit came first"


def test_a_request_that_is_lost_too_often_is_dropped_with_its_reason() -> None:
    run = served(Script(*[[("far", Lost(n, "refused"))] for n in range(3)]))
    assert [record.reason for record in run.dropped] == ["refused, at attempt 3"]


def test_a_pool_whose_worker_may_not_be_replaced_drops_what_waits_for_it() -> None:
    run = served(Script([("far", Gone())]), n_requests=3, most_restarts=0)
    assert [record.outcome for record in run.records] == ["dropped"] * 3
    assert {record.reason for record in run.records} == {"no worker of prfaas is left"}


def test_one_request_at_a_time_goes_to_a_prefill_worker() -> None:
    script = Script([], [prefilled(0)], [])
    served(script, n_requests=3)
    assert [message.attempt for _, message in script.sent] == [0, 1]


def test_the_router_knows_what_a_worker_said_it_kept() -> None:
    """80 of 90 tokens at the remote worker: the second request has 10 to compute there, and its pool is still remote,
    since nothing of it is cached in the local one."""
    script = Script([prefilled(0, kept=80)], [joined(0), finished(0)])
    requests = [LiveRequest(0.0, np.arange(90) % 53, 2), LiveRequest(0.1, np.arange(90) % 53, 2)]
    system = LiveSystem(SETUP, (FAR, NEAR, DECODER), link_bytes_per_s=1e6, threshold_tokens=50)
    run = serve_with(script, system, requests, time_limit_s=0.3)  # type: ignore[arg-type]
    assert [record.uncached_tokens for record in run.records] == [90, 10]
    assert [record.pool for record in run.records] == ["prfaas", "prfaas"]


@pytest.mark.parametrize("arrivals", [[1.0, 0.0], [2.0, 1.0, 3.0]])
def test_requests_out_of_order_are_refused(arrivals: list[float]) -> None:
    from planner.errors import InputError

    system = LiveSystem(SETUP, (FAR, NEAR, DECODER), link_bytes_per_s=1e6)
    with pytest.raises(InputError, match="out of order"):
        serve_with(
            Script(),  # type: ignore[arg-type]
            system,
            [LiveRequest(at, np.arange(3), 1) for at in arrivals],
            time_limit_s=1,
        )
