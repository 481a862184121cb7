"""Bodies that are too large are refused while they arrive.

Daphne calls the application only when a request's whole body is there, in memory or in a temporary file. So whoever
sends gigabytes would fill the disk before the application could say no. Here the answer is given as soon as the
headers declare too much, or a body in chunks turns out to be too much, and nothing of the rest is kept.

The connection is not closed at once: with unread data on its way, that would be a reset, by which most clients lose
the answer. What still comes is dropped for a while.
"""

from typing import Any
from weakref import WeakSet

from daphne.http_protocol import HTTPFactory
from daphne.server import Server
from django.conf import settings
from twisted.python.failure import Failure

from runs.api.bodies import too_large
from runs.plain_request import PlainRequest
from runs.polite_channel import LINGER_SECONDS, PoliteChannel, answer_and_close


class BoundedRequest(PlainRequest):
    """The methods have the names that Twisted calls."""

    received = 0
    is_refused = False
    farewell: Any = None

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        # None is a body in chunks, which declares nothing.
        is_too_large = length is not None and length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        super().gotLength(0 if is_too_large else length)
        if is_too_large:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        if self.is_refused:
            return
        self.received += len(data)
        if self.received > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            self.content.truncate(0)
            self._refuse()
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

    def _refuse(self) -> None:
        self.is_refused = True
        # Whoever asks before sending gets this answer, and not a "go on" behind it.
        self.requestHeaders.removeHeader(b"Expect")
        self.channel.transport.write(answer_and_close(too_large()))
        self.farewell = self.channel.callLater(LINGER_SECONDS, self.channel.loseConnection)


class BoundedFactory(HTTPFactory):
    protocol = PoliteChannel

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        # Those that are open, and some that have become websockets and that nobody needs any more.
        self.channels: WeakSet[PoliteChannel] = WeakSet()

    def buildProtocol(self, addr: object) -> Any:  # noqa: N802
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = BoundedRequest
        return protocol
