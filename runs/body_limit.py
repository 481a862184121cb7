"""Bodies that are too large are refused while they arrive.

Daphne calls the application only when a request's whole body is there, in memory or in a temporary file. So whoever
sends gigabytes would fill the disk before the application could say no. Here the answer is given as soon as the
headers declare too much, or a body in chunks turns out to be too much, and nothing of the rest is kept.

The connection is not closed at once: with unread data on its way, that would be a reset, by which most clients lose
the answer. What still comes is dropped for a while.
"""

from dataclasses import dataclass
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from twisted.python.failure import Failure

LINGER_SECONDS = 5.0


@dataclass(frozen=True)
class BodyLimit:
    """`answer` is the body, in JSON, that a request with more than `most` bytes is refused with."""

    most: int
    answer: bytes

    @property
    def response(self) -> bytes:
        headers = (
            b"HTTP/1.1 413 Content Too Large",
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(self.answer),
            b"Connection: close",
        )
        return b"\r\n".join((*headers, b"", self.answer))


class BoundedRequest(WebRequest):
    """The methods have the names that Twisted calls."""

    received = 0
    is_refused = False
    farewell: Any = None

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        limit: BodyLimit = self.server.body_limit
        # None is a body in chunks, which declares nothing.
        is_too_large = length is not None and length > limit.most
        super().gotLength(0 if is_too_large else length)
        if is_too_large:
            self._refuse(limit)

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        if self.is_refused:
            return
        limit: BodyLimit = self.server.body_limit
        self.received += len(data)
        if self.received > limit.most:
            self.content.truncate(0)
            self._refuse(limit)
        else:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        if self.is_refused:
            self.channel.loseConnection()  # the rest has come, so nothing is lost by it
        else:
            super().requestReceived(command, path, version)

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        if self.farewell is not None and self.farewell.active():
            self.farewell.cancel()
        super().connectionLost(reason)

    def _refuse(self, limit: BodyLimit) -> None:
        self.is_refused = True
        # Whoever asks before sending gets this answer, and not a "go on" behind it.
        self.requestHeaders.removeHeader(b"Expect")
        self.channel.transport.write(limit.response)
        self.farewell = self.channel.callLater(LINGER_SECONDS, self.channel.loseConnection)


class BoundedFactory(HTTPFactory):
    def buildProtocol(self, addr: object) -> Any:  # noqa: N802
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = BoundedRequest
        return protocol
