"""What travels between workers: frames of one layer of one request, over TCP."""

import socket
from dataclasses import dataclass
from struct import Struct

_HEADER = Struct("<QiIIIQ")
HEADER_BYTES = _HEADER.size
END = -1
"""In place of a layer: everything of the request has been sent."""


@dataclass(frozen=True)
class Frame:
    """One layer's bytes, or the end of a request."""

    attempt: int
    """Attempt at a request, by which router and workers know it."""
    layer: int
    """Layer, or END."""
    n_tokens: int = 0
    """Tokens that the request's cache holds; of the end only."""
    first_token: int = 0
    """Token that prefill chose; of the end only."""
    output_tokens: int = 0
    """Tokens wanted, the first one included; of the end only."""
    payload: bytes = b""

    def header(self) -> bytes:
        """What precedes the payload, little-endian."""
        values = (self.attempt, self.layer, self.n_tokens, self.first_token, self.output_tokens)
        return _HEADER.pack(*values, len(self.payload))


def send_frame(connection: socket.socket, frame: Frame) -> None:
    """Send one frame whole.

    Raises:
        OSError: the other side has gone.
    """
    connection.sendall(frame.header())
    if frame.payload:
        connection.sendall(frame.payload)


def receive_frame(connection: socket.socket) -> Frame | None:
    """The next frame; None where the other side has hung up, in the midst of a frame or between two.

    Raises:
        OSError: the connection broke.
    """
    header = _exactly(connection, HEADER_BYTES)
    if header is None:
        return None
    attempt, layer, n_tokens, first_token, output_tokens, size = _HEADER.unpack(header)
    payload = _exactly(connection, size)
    return None if payload is None else Frame(attempt, layer, n_tokens, first_token, output_tokens, bytes(payload))


def _exactly(connection: socket.socket, n_bytes: int) -> bytearray | None:
    content = bytearray(n_bytes)
    view, got = memoryview(content), 0
    while got < n_bytes:
        received = connection.recv_into(view[got:])
        if not received:
            return None
        got += received
    return content
