"""The link between sites: TCP connections over loopback, all through one token bucket."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

LOOPBACK = "127.0.0.1"
PIECE_BYTES = 16 * 1024
"""What one connection sends before another has its turn."""


class TokenBucket:
    """Lets bytes through at a rate; whoever asks waits for its turn.

    Equation:
        a piece of n bytes leaves at max(now, last + n_last / rate): no burst beyond one piece
    """

    def __init__(
        self,
        bytes_per_s: float,
        clock: Callable[[], float] = monotonic,
        wait: Callable[[float], None] = sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.sent_bytes = 0
        self._clock, self._wait = clock, wait
        self._free_at = 0.0
        self._lock = threading.Lock()

    def take(self, n_bytes: int) -> None:
        """Wait until that many more bytes may have left.

        The wait ends when the last of them would have: a piece is not there before it has been sent.
        """
        with self._lock:
            self._free_at = max(self._clock(), self._free_at) + n_bytes / self.bytes_per_s
            self.sent_bytes += n_bytes
            until = self._free_at
        delay = until - self._clock()
        if delay > 0:
            self._wait(delay)


class Link:
    """Ports that stand for others behind the bucket. Threads, which end with the process or with `close`."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bucket = TokenBucket(bytes_per_s)
        self._listeners: list[socket.socket] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def port_to(self, port: int) -> int:
        """A port of this link whose connections go on to another port of this machine."""
        listener = socket.create_server((LOOPBACK, 0))
        self._listeners.append(listener)
        _start(self._accept, listener, port)
        return int(listener.getsockname()[1])

    def close(self) -> None:
        """Hang up everywhere."""
        with self._lock:
            ends = [*self._listeners, *self._open]
        for end in ends:
            _shut(end)

    def _accept(self, listener: socket.socket, port: int) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((LOOPBACK, port))
            except OSError:
                _shut(near)
                continue
            _start(self._carry, near, far)

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """One direction only: caches go one way."""
        with self._lock:
            self._open |= {near, far}
        # What waits in front of the bucket has not crossed. A small buffer there would make TCP wait for its window to
        # open by more than a segment, which on loopback is 64 KiB: a fifth of a second, again and again.
        try:
            while piece := near.recv(PIECE_BYTES):
                self.bucket.take(len(piece))
                far.sendall(piece)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open -= {near, far}
            _shut(near)
            _shut(far)


def _start(target: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, daemon=True).start()


def _shut(end: socket.socket) -> None:
    """Close for good; shutdown wakes threads that wait on it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
