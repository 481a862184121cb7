"""What is no HTTP, or has more headers than are read, is told so.

Twisted answers the one with an empty 400 and closes the connection on the other without a word. Here both get the
envelope: no path is known yet, and whoever sends such things is a program. As with bodies that are too large, what
still comes is dropped for a while, because a connection that is closed with unread data loses the answer.
"""

from http import HTTPStatus
from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel

from runs.actions import Refused
from runs.api.errors import answer_refused

LINGER_SECONDS = 5.0


class PoliteChannel(HTTPChannel):
    """The methods have the names that Twisted calls."""

    factory: Any
    transport: Any  # its interfaces are written for zope, which a type checker does not read
    is_refused = False

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.factory.channels.add(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        self.factory.channels.discard(self)
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if not self.is_refused:
            super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        """One of those that came together, after the first that was refused."""
        if not self.is_refused:
            super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802
        most = f"The request line and the headers may have {self.totalHeadersSize} bytes."
        self._refuse(Refused(431, "headers_too_large", most))

    def _respondToBadRequestAndDisconnect(self) -> None:  # noqa: N802
        if self._receivedHeaderSize > self.totalHeadersSize:
            self.lineLengthExceeded(b"")
        else:
            self._refuse(Refused(400, "invalid_request", "The request is not well-formed HTTP."))

    def _refuse(self, refused: Refused) -> None:
        if self.is_refused:
            return
        self.is_refused = True
        self.transport.write(answer_and_close(refused))
        self.transport.loseWriteConnection()
        self.setTimeout(LINGER_SECONDS)


def answer_and_close(refused: Refused) -> bytes:
    """The whole answer, for a connection on which no other follows."""
    answer = answer_refused(refused)
    headers = (
        f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(answer.content)}",
        "Connection: close",
    )
    return "\r\n".join((*headers, "", "")).encode() + answer.content
