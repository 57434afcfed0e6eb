"""Served by processes over loopback: right tokens, right bytes, events in order; nothing lost when workers die."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError, UndecidedError
from planner.hybrid import DecodeBatch, hybrid_model
from planner.hybrid.live import (
    LOOPBACK,
    Fleet,
    Link,
    LiveRequest,
    LiveRun,
    LiveSystem,
    ModelSetup,
    TokenBucket,
    WorkerSpec,
    cores,
    serve_with,
)
from planner.hybrid.live.frames import END, HEADER_BYTES, TOKEN_BYTES, Frame, receive_frame, send_frame
from planner.hybrid.live.process import ENVIRONMENT as WORKERS_ENVIRONMENT
from planner.profiles import model_profile
from planner.roofline import kv_bytes

TINY = model_profile(str(Path(__file__).with_name("hybrid-tiny.toml")))
SETUP = ModelSetup(TINY, seed=1, chunk_tokens=64, block_tokens=16, n_blocks=400, batch_limit=3)
WORKERS = (
    WorkerSpec("far", "prfaas", "prefill"),
    WorkerSpec("near", "pd-p", "prefill"),
    WorkerSpec("decoder", "pd-d", "decode"),
)
MODEL = hybrid_model(TINY, seed=1)
TOKEN = bytes(range(TOKEN_BYTES))
ENVIRONMENT = {name: os.environ.get(name) for name in WORKERS_ENVIRONMENT}


def system(**changes: Any) -> LiveSystem:
    return LiveSystem(SETUP, WORKERS, **({"link_bytes_per_s": 20e6, "threshold_tokens": 50} | changes))


def prompt(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 53, n)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet(SETUP, WORKERS) as started:
        started.wait_until_ready()
        yield started


@pytest.fixture(autouse=True)
def revived(request: pytest.FixtureRequest) -> None:
    """Workers that a test has killed are there again for the next."""
    if "fleet" in request.fixturenames:
        request.getfixturevalue("fleet").n_started.clear()
        request.getfixturevalue("fleet").wait_until_ready()


def follows_the_model(request: LiveRequest, tokens: tuple[int, ...]) -> bool:
    """Whether each token is the one that the same model chooses here after those before it, one request at a time.

    Sums of a batch are rounded in another order than those of one request, and what is cached in 16 bits may round the
    other way; so a token may also be one that scores as well as the best but for a hundredth of what scores span.
    """
    cache = MODEL.empty_cache()
    logits = MODEL.prefill(request.tokens, cache, chunk_tokens=64)
    batch = DecodeBatch(MODEL, 1)
    batch.join(cache)
    near = []
    for token in tokens:
        near.append(logits.max() - logits[token] <= 0.01 * np.ptp(logits))
        logits = MODEL.decode(np.array([token]), batch)[0]
    return len(tokens) == request.output_tokens and all(near)


def some_requests() -> list[LiveRequest]:
    """Short and long ones, one of a single token, two that share a beginning."""
    shared = prompt(80, seed=9)
    prompts = [prompt(20, 1), prompt(90, 2), prompt(50, 3), prompt(51, 4), shared]
    prompts += [np.concatenate([shared, prompt(20, 5)]), prompt(130, 6), prompt(1, 7)]
    outputs = [6, 5, 1, 9, 4, 5, 7, 3]
    return [LiveRequest(0.02 * i, p, n) for i, (p, n) in enumerate(zip(prompts, outputs, strict=True))]


@pytest.fixture(scope="module")
def run(fleet: Fleet) -> LiveRun:
    return serve_with(fleet, system(), some_requests(), time_limit_s=30)


def test_every_request_is_finished_with_the_tokens_of_the_model(run: LiveRun) -> None:
    """Greedy tokens of batched requests, prefilled elsewhere and with cached prefixes, are those of one alone."""
    assert [record.outcome for record in run.records] == ["finished"] * 8
    assert all(follows_the_model(some_requests()[record.index], record.tokens) for record in run.records)


def test_what_crossed_is_the_rooflines_kv_size_to_the_byte(run: LiveRun) -> None:
    assert [record.kv_bytes for record in run.records] == kv_bytes(
        TINY, [len(r.tokens) for r in some_requests()]
    ).tolist()


def test_the_link_carried_the_remote_pools_caches_and_nothing_else(run: LiveRun) -> None:
    remote = [record for record in run.records if record.pool == "prfaas"]
    n_layers, n_latent_layers = 6, 2
    # One frame per layer and one for the end; latents take one more for each further pass, of which there are three.
    least = sum(record.kv_bytes for record in remote) + HEADER_BYTES * (n_layers + 1) * len(remote)
    assert 0 <= run.link_bytes - least <= HEADER_BYTES * 3 * n_latent_layers * len(remote)


def test_what_other_programs_send_is_dropped_counted_and_told_and_no_worker_ends_of_it(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    before, deaths = fleet.n_foreign["decoder"], fleet.n_started["decoder"]
    port = fleet.workers["decoder"].port
    assert port is not None
    rng = np.random.default_rng(5)
    forged = Frame(0, END, 20, 1, 5).header(TOKEN)
    for sent in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3, rng.bytes(5000), forged, b"\0" * 48):
        with socket.create_connection((LOOPBACK, port)) as other:
            other.sendall(sent)
    with socket.create_connection((LOOPBACK, port)) as other:
        other.sendall(b"torn")
    found = serve_with(fleet, system(), some_requests(), time_limit_s=30)
    assert [record.outcome for record in found.records] == ["finished"] * 8
    assert found.n_deaths == 0
    assert fleet.n_started["decoder"] == deaths
    assert fleet.n_foreign["decoder"] - before == 4
    assert "connections to worker decoder: without the token of this run" in caplog.text


def test_the_threshold_divides_by_uncached_length(run: LiveRun) -> None:
    # What is cached when a prompt is routed may grow until its prefill: only prompts without a prefix are the same.
    fresh = [record for record in run.records if record.cached_tokens == 0]
    assert fresh
    for record in fresh:
        assert record.pool == ("pd-p" if record.uncached_tokens <= 50 else "prfaas")


def test_events_of_a_request_are_in_order(run: LiveRun) -> None:
    for r in run.records:
        times = [r.arrival_s, r.prefill_start_s, r.prefill_end_s, r.received_s, r.joined_s, r.finished_s]
        assert times == sorted(times), r
        assert r.ttft_s is not None
        assert r.ttft_s > 0
        assert (r.tpot_s is None) == (r.output_tokens == 1)


def test_batches_stay_within_the_limit_and_do_grow(run: LiveRun) -> None:
    assert {step.batch for step in run.steps} <= {1, 2, 3}
    assert sum(step.batch for step in run.steps) == sum(record.output_tokens - 1 for record in run.records)


def test_a_second_request_with_the_same_beginning_goes_on_from_its_state(fleet: Fleet) -> None:
    first = prompt(100, seed=20)
    second = np.concatenate([first, prompt(30, seed=21)])
    requests = [LiveRequest(0.0, first, 2), LiveRequest(0.8, second, 2)]
    found = serve_with(fleet, system(threshold_tokens=40), requests, time_limit_s=30).records
    # 96 of the first 100 tokens are whole blocks; what is left of the second is 34 tokens, computed where they lie.
    assert (found[0].pool, found[0].cached_tokens) == ("prfaas", 0)
    assert (found[1].pool, found[1].worker) == ("prfaas", "far")
    assert found[1].cached_tokens == 96
    assert found[1].uncached_tokens == 34
    assert follows_the_model(requests[1], found[1].tokens)


@pytest.mark.parametrize("victim", ["far", "decoder", "near"])
def test_a_worker_that_dies_is_replaced_and_its_requests_tried_again(fleet: Fleet, victim: str) -> None:
    requests = [LiveRequest(0.0, prompt(40 + 45 * (i % 2), seed=30 + i), 20) for i in range(24)]
    threading.Timer(0.05, os.kill, (fleet.workers[victim].pid, signal.SIGKILL)).start()
    found = serve_with(fleet, system(), requests, time_limit_s=60)
    assert found.n_deaths == 1
    assert [record.outcome for record in found.records] == ["finished"] * 24
    assert max(record.n_attempts for record in found.records) == 2
    tried_again = [record for record in found.records if record.n_attempts > 1]
    for record in tried_again[:4]:
        assert follows_the_model(requests[record.index], record.tokens)


def test_requests_of_a_pool_that_keeps_dying_are_dropped_and_counted(fleet: Fleet) -> None:
    requests = [LiveRequest(0.0, prompt(90, seed=i), 20) for i in range(20)]
    os.kill(fleet.workers["decoder"].pid, signal.SIGKILL)
    found = serve_with(fleet, system(most_restarts=-1), requests, time_limit_s=20)
    assert len(found.finished) + len(found.dropped) == 20
    assert {record.reason for record in found.dropped} == {"no decode worker is left"}
    fleet.start(WORKERS[2])


def test_the_time_limit_ends_a_run_and_every_request_has_an_outcome(fleet: Fleet) -> None:
    requests = [LiveRequest(0.0, prompt(90, seed=i), 50) for i in range(40)] + [LiveRequest(99.0, prompt(9, 1), 1)]
    found = serve_with(fleet, system(), requests, time_limit_s=0.3)
    assert found.duration_s < 5
    assert len(found.finished) + len(found.dropped) == 41
    assert {record.reason for record in found.dropped} == {"the time limit came first"}


def test_a_narrow_link_is_what_a_transfer_takes(fleet: Fleet) -> None:
    """Sent as it is computed; what is left when prefill ends takes its time at the link's rate."""
    rate = 50e3
    requests = [LiveRequest(0.0, prompt(120, seed=77), 1)]
    (record,) = serve_with(fleet, system(link_bytes_per_s=rate), requests, time_limit_s=30).records
    assert record.received_s is not None
    assert record.prefill_start_s is not None
    assert record.received_s - record.prefill_start_s >= 0.95 * record.kv_bytes / rate
    assert record.received_s - record.prefill_start_s <= 1.2 * record.kv_bytes / rate + 1.0


def test_workers_have_one_blas_thread_and_nothing_of_it_stays_behind(fleet: Fleet) -> None:
    found = fleet.answers({name: (environment, ()) for name in fleet.workers}, 10)
    assert set(found.values()) == {"1"}
    assert {name: os.environ.get(name) for name in WORKERS_ENVIRONMENT} == ENVIRONMENT


def environment(_model: Any) -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


def test_workers_that_say_nothing_in_time_have_not_started() -> None:
    with Fleet(SETUP, WORKERS) as own, pytest.raises(UndecidedError, match="workers did not start: "):
        own.wait_until_ready(0.0)


def test_prefill_workers_of_one_core_take_turns() -> None:
    core = cores()[0]
    specs = tuple(replace(spec, core=core) for spec in WORKERS)
    requests = [LiveRequest(0.0, prompt(40 + 60 * (i % 2), seed=i), 1) for i in range(16)]
    with Fleet(SETUP, specs) as shared:
        shared.wait_until_ready()
        found = serve_with(shared, replace(system(), workers=specs), requests, time_limit_s=30).records
    assert {record.pool for record in found} == {"prfaas", "pd-p"}
    spans = sorted((r.prefill_start_s or 0.0, r.prefill_end_s or 0.0) for r in found)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"remote_pool": "elsewhere"}, "prefill pools"),
        ({"workers": WORKERS[:2]}, "no decode worker"),
    ],
)
def test_a_system_without_its_pools_is_refused(fleet: Fleet, change: dict[str, Any], message: str) -> None:
    wrong = LiveSystem(**(vars(system()) | change))
    with pytest.raises(InputError, match=message):
        serve_with(fleet, wrong, [], time_limit_s=1)


def test_a_bucket_lets_bytes_through_at_its_rate_whoever_asks() -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    bucket = TokenBucket(1000.0, lambda: now[0], wait)
    for n in (100, 300, 600):
        bucket.take(n)
    assert now[0] == pytest.approx(1.0)
    now[0] = 5.0
    bucket.take(100)
    # Time that passed unused is gone: no burst after a pause.
    assert now[0] == pytest.approx(5.1)
    assert bucket.sent_bytes == 1100


def test_connections_share_the_link() -> None:
    """Two senders of 100 kB each over 1 MB/s take 0.2 s together."""
    link, ended = Link(1e6), []

    def read(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, listener:
            got = 0
            while got < 100_000:
                got += len(connection.recv(65536))
            ended.append(time.monotonic())

    threads, senders = [], []
    began = time.monotonic()
    for _ in range(2):
        listener = socket.create_server((LOOPBACK, 0))
        threads.append(threading.Thread(target=read, args=(listener,)))
        threads[-1].start()
        senders.append(socket.create_connection((LOOPBACK, link.port_to(listener.getsockname()[1]))))
        threading.Thread(target=senders[-1].sendall, args=(bytes(100_000),), daemon=True).start()
    for thread in threads:
        thread.join(10)
    link.close()
    for sender in senders:
        sender.close()
    assert max(ended) - began >= 0.19
    assert min(ended) - began >= 0.095, "alone it would take 0.1 s"
    assert link.bucket.sent_bytes == 200_000


def test_frames_of_any_size_cross_at_the_rate_of_the_link() -> None:
    """As layers of a small model come: header and payload apart, small ones, then a large one, with pauses."""
    rate = 3e6
    received: list[int] = []
    link, listener = Link(rate), socket.create_server((LOOPBACK, 0))

    def read() -> None:
        connection, _ = listener.accept()
        with connection:
            while len(received) < 48:
                frame = receive_frame(connection, TOKEN)
                received.append(len(frame.payload) if frame else 0)

    reader = threading.Thread(target=read)
    reader.start()
    sender = socket.create_connection((LOOPBACK, link.port_to(listener.getsockname()[1])))
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began, sizes = time.monotonic(), [8300, 8300, 8300, 35_000] * 12
    for index, size in enumerate(sizes):
        send_frame(sender, TOKEN, Frame(index, 0, payload=bytes(size)))
        time.sleep(0.002)
    reader.join(10)
    took_s = time.monotonic() - began
    link.close()
    sender.close()
    listener.close()
    assert received == sizes
    at_best_s = sum(sizes) / rate
    assert at_best_s <= took_s <= 1.4 * at_best_s + 0.1


def test_frames_arrive_as_they_were_sent_and_a_torn_one_is_none() -> None:
    near, far = socket.socketpair()
    frames = [Frame(3, 1, payload=b"abc"), Frame(2**40, END, 1000, 52, 7), Frame(4, 0)]
    for frame in frames:
        send_frame(near, TOKEN, frame)
    assert [receive_frame(far, TOKEN) for _ in frames] == frames
    near.sendall(frames[0].header(TOKEN) + b"a")
    near.close()
    assert receive_frame(far, TOKEN) is None
    far.close()


SCRIPT = """
    import sys, numpy as np
    from planner.hybrid.live import *
    from planner.profiles import model_profile
    if __name__ == "__main__":
        setup = ModelSetup(model_profile(sys.argv[1]), n_blocks=0)
        workers = (WorkerSpec("far", "prfaas", "prefill"), WorkerSpec("decoder", "pd-d", "decode"))
        with Fleet(setup, workers) as fleet:
            fleet.wait_until_ready()
            print(*(worker.pid for worker in fleet.workers.values()), flush=True)
            requests = [LiveRequest(0.0, np.zeros(400, int), 2000) for _ in range(50)]
            run = serve_with(fleet, LiveSystem(setup, workers, 1e6), requests, time_limit_s=60)
        print("interrupted" if run.interrupted else "ended", len(run.finished) + len(run.dropped))
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or ") Z " not in state.read_text(encoding="utf-8")


def gone(pids: list[int], within_s: float) -> bool:
    until = time.monotonic() + within_s
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A server in a process group of its own, in the midst of serving, and its workers' processes."""
    script = tmp_path / "serve.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    command = [sys.executable, str(script), str(Path(__file__).with_name("hybrid-tiny.toml"))]
    # Tests may run with interrupts ignored, as in the background of a shell; the server must hear them.
    reset: Callable[[], Any] = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=reset)
    assert server.stdout
    pids = [int(pid) for pid in server.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.2)
    yield server, pids
    server.kill()
    server.communicate()


def test_ctrl_c_ends_the_run_with_its_records_and_leaves_no_process(
    started: tuple[subprocess.Popen[str], list[int]],
) -> None:
    server, pids = started
    os.killpg(server.pid, signal.SIGINT)
    out, _ = server.communicate(timeout=10)
    assert out == "interrupted 50\n"
    assert server.returncode == 0
    assert gone(pids, 0.5)


def test_workers_end_by_themselves_when_the_router_is_killed(
    started: tuple[subprocess.Popen[str], list[int]],
) -> None:
    server, pids = started
    server.kill()
    server.wait()
    assert gone(pids, 5)
