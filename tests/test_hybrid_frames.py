"""Frames from anywhere: what is not of the run costs its sender the connection, and the worker nothing."""

import queue
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.hybrid import hybrid_model
from planner.hybrid.live import LOOPBACK
from planner.hybrid.live.decode_worker import MOST_CONNECTIONS, Intake
from planner.hybrid.live.frames import (
    END,
    HEADER_BYTES,
    MOST_PAYLOAD_BYTES,
    PIECE_BYTES,
    TOKEN_BYTES,
    ForeignFrameError,
    Frame,
    receive_frame,
)
from planner.hybrid.live.messages import Foreign, FromWorker, Lost
from planner.profiles import model_profile
from tests.hybrid_requests import request_payload

MODEL = hybrid_model(model_profile(str(Path(__file__).with_name("hybrid-tiny.toml"))), seed=1)
TOKEN = bytes(range(100, 100 + TOKEN_BYTES))
HALF = 2**32 - 1
FRAMES = st.builds(
    Frame,
    attempt=st.integers(0, 2**64 - 1),
    layer=st.integers(-5, 10) | st.integers(-(2**31), 2**31 - 1),
    n_tokens=st.integers(0, HALF),
    first_token=st.integers(0, HALF),
    output_tokens=st.integers(0, HALF),
    payload=st.binary(max_size=300),
)
TOKENS = st.just(TOKEN) | st.binary(min_size=TOKEN_BYTES, max_size=TOKEN_BYTES)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[Frame], bool]:
    """Bytes of a connection, the frames that are of the run and whole, and whether the rest is foreign."""
    sent, good = b"", []
    for frame in draw(st.lists(FRAMES, max_size=3)):
        sent += frame.header(TOKEN) + frame.payload
        good.append(frame)
    rest = draw(st.sampled_from(["nothing", "garbage", "torn", "forged", "long"]))
    frame = draw(FRAMES)
    if rest == "garbage":
        sent += draw(st.binary(min_size=HEADER_BYTES, max_size=200).filter(lambda b: b[:TOKEN_BYTES] != TOKEN))
    elif rest == "torn":
        whole = frame.header(TOKEN) + frame.payload
        sent += whole[: draw(st.integers(0, len(whole) - 1))]
    elif rest == "forged":
        token = draw(TOKENS.filter(lambda token: token != TOKEN))
        sent += frame.header(token) + frame.payload
    elif rest == "long":
        size = draw(st.integers(MOST_PAYLOAD_BYTES + 1, 2**64 - 1))
        sent += frame.header(TOKEN)[:-8] + size.to_bytes(8, "little")
    return sent, good, rest in ("garbage", "forged", "long")


@given(streams())
def test_whole_frames_of_the_run_are_read_and_nothing_after_what_is_foreign(
    stream: tuple[bytes, list[Frame], bool],
) -> None:
    sent, good, is_foreign = stream
    near, far = socket.socketpair()
    with near, far:
        near.sendall(sent)
        near.shutdown(socket.SHUT_WR)
        assert [receive_frame(far, TOKEN) for _ in good] == good
        if is_foreign:
            with pytest.raises(ForeignFrameError):
                receive_frame(far, TOKEN)
        else:
            assert receive_frame(far, TOKEN) is None


@pytest.mark.parametrize("announced", [MOST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES // 2, 2**40, 2**64 - 1])
def test_a_header_takes_no_more_memory_than_what_follows_it(announced: int) -> None:
    near, far = socket.socketpair()
    with near, far:
        near.sendall(Frame(0, 0).header(TOKEN)[:-8] + announced.to_bytes(8, "little") + b"x" * 1000)
        near.shutdown(socket.SHUT_WR)
        tracemalloc.start()
        try:
            assert receive_frame(far, TOKEN) is None
        except ForeignFrameError:
            assert announced > MOST_PAYLOAD_BYTES
        finally:
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    assert most < 3 * PIECE_BYTES


class Words:
    """An outbox that keeps what a worker says."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[FromWorker] = queue.SimpleQueue()

    def send(self, message: FromWorker) -> None:
        self.said.put(message)


@pytest.fixture(scope="module")
def intake() -> Iterator[tuple[Intake, int, Words]]:
    words = Words()
    found = Intake(MODEL, TOKEN, words)  # type: ignore[arg-type]
    yield found, found.listen(), words
    found._listener.close()


def threads_fail(args: threading.ExceptHookArgs) -> None:
    FAILED.append(args.exc_value)


FAILED: list[BaseException | None] = []


@pytest.fixture(autouse=True)
def no_thread_fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    FAILED.clear()
    monkeypatch.setattr(threading, "excepthook", threads_fail)
    yield
    assert FAILED == []


def send(port: int, sent: bytes) -> None:
    """Send bytes and wait until the other side has done with them."""
    with socket.create_connection((LOOPBACK, port)) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1000):
                pass
        except OSError:
            pass  # hung up on


def whole_request(attempt: int) -> bytes:
    cache = MODEL.empty_cache()
    MODEL.prefill(MODEL_PROMPT, cache, chunk_tokens=64)
    frames = [Frame(attempt, i, payload=payload) for i, payload in enumerate(request_payload(cache))]
    frames.append(Frame(attempt, END, len(MODEL_PROMPT), 3, 5))
    return b"".join(frame.header(TOKEN) + frame.payload for frame in frames)


MODEL_PROMPT = np.arange(20) % 53


@given(st.lists(streams(), max_size=3))
def test_an_intake_takes_the_next_request_whatever_came_before(
    intake: tuple[Intake, int, Words], sent: list[tuple[bytes, list[Frame], bool]]
) -> None:
    taker, port, words = intake
    for stream, _, _ in sent:
        send(port, stream)
    taker.tell_of_foreign()
    n_foreign = 0
    while not words.said.empty():
        word = words.said.get()
        assert isinstance(word, Foreign | Lost)
        n_foreign += word.n_connections if isinstance(word, Foreign) else 0
    assert n_foreign == sum(is_foreign for *_, is_foreign in sent)
    while not taker.arrived.empty():
        taker.arrived.get()
    send(port, whole_request(7))
    arrived = taker.arrived.get(timeout=30)
    assert (arrived.attempt, arrived.tokens, arrived.cache.n_tokens) == (7, [3], 20)


@pytest.mark.parametrize("first_token", [53, 2**31, HALF])
def test_a_first_token_that_is_no_word_of_the_model_costs_the_request(
    first_token: int, intake: tuple[Intake, int, Words]
) -> None:
    taker, port, words = intake
    request = whole_request(8)[:-HEADER_BYTES] + Frame(8, END, 20, first_token, 5).header(TOKEN)
    send(port, request)
    lost = words.said.get(timeout=30)
    assert isinstance(lost, Lost)
    assert "first_token" in lost.reason
    assert taker.arrived.empty()


def test_more_connections_than_a_run_has_are_dropped_and_leave_room_again(intake: tuple[Intake, int, Words]) -> None:
    taker, port, words = intake
    held = [socket.create_connection((LOOPBACK, port)) for _ in range(MOST_CONNECTIONS)]
    for connection in held:
        connection.sendall(TOKEN[:3])
    send(port, b"one too many")
    taker.tell_of_foreign()
    told = words.said.get(timeout=30)
    assert isinstance(told, Foreign)
    assert "open already" in told.reason
    for connection in held:
        connection.close()
    for _ in range(1000):
        send(port, whole_request(9))
        if not taker.arrived.empty():
            break
    assert taker.arrived.get(timeout=30).attempt == 9
