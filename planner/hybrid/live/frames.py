"""Traffic between workers: frames of one layer of one request, over TCP.

Every program of this machine can reach a worker's port. A frame therefore begins with the token of its run, which only
the run's own processes know; whatever does not is not read any further.
"""

import socket
from dataclasses import dataclass
from hmac import compare_digest
from struct import Struct

TOKEN_BYTES = 16
_HEADER = Struct(f"<{TOKEN_BYTES}sQiIIIQ")
HEADER_BYTES = _HEADER.size
MOST_PAYLOAD_BYTES = 2**28
"""Payload beyond which a header cannot be right: no layer of a model that runs here is as large."""
PIECE_BYTES = 2**20
"""Memory that is taken at a time, as bytes arrive, whatever a header announces."""
END = -1
"""In place of a layer: everything of the request has been sent."""


class ForeignFrameError(Exception):
    """Bytes that are no frame of this run."""


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

    def header(self, token: bytes) -> bytes:
        """Bytes that precede the payload, little-endian."""
        values = (self.attempt, self.layer, self.n_tokens, self.first_token, self.output_tokens)
        return _HEADER.pack(token, *values, len(self.payload))


def send_frame(connection: socket.socket, token: bytes, frame: Frame) -> None:
    """Send one frame whole.

    Raises:
        OSError: the other side has gone.
    """
    connection.sendall(frame.header(token))
    if frame.payload:
        connection.sendall(frame.payload)


def receive_frame(connection: socket.socket, token: bytes) -> Frame | None:
    """The next frame; None where the other side has hung up, in the midst of a frame or between two.

    Raises:
        ForeignFrameError: the bytes do not begin with the run's token, or announce more than any frame has.
        OSError: the connection broke.
    """
    header = _exactly(connection, HEADER_BYTES)
    if header is None:
        return None
    theirs, attempt, layer, n_tokens, first_token, output_tokens, size = _HEADER.unpack(header)
    if not compare_digest(theirs, token):
        raise ForeignFrameError("without the token of this run")
    if size > MOST_PAYLOAD_BYTES:
        raise ForeignFrameError(f"announces {size} bytes, and {MOST_PAYLOAD_BYTES} are most")
    payload = _exactly(connection, size)
    return None if payload is None else Frame(attempt, layer, n_tokens, first_token, output_tokens, bytes(payload))


def _exactly(connection: socket.socket, n_bytes: int) -> bytearray | None:
    content, got = bytearray(), 0
    while got < n_bytes:
        if got == len(content):
            content.extend(bytes(min(n_bytes - got, PIECE_BYTES)))
        with memoryview(content)[got:] as room:
            received = connection.recv_into(room)
        if not received:
            return None
        got += received
    return content
