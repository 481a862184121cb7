"""Daphne, made patient: it waits for slow readers, survives an answer that breaks half-way, and ends in good order, see
`leaving`. It also refuses bodies that are too large, see `body_limit`.

Daphne hands every message to Twisted at once and `send()` never waits. Twisted buffers without limit, so that a client
which follows a long run and does not read would make the server hold all of it in memory. Here each streaming
connection gets a gate, which is a Twisted push producer: Twisted closes it when the connection's write buffer is over
its high-water mark (64 KiB) and opens it when the buffer is empty. `send()` waits at the gate, and so does the
generator or consumer behind it: a slow reader holds back its own stream and nobody else's.

A gate opens for good when the connection is lost, by any of the ways in which Twisted and Daphne tell: whoever waits
there must get to know.

Importing Twisted's reactor here is safe: the app `daphne`, first in INSTALLED_APPS, has put it on asyncio before.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from autobahn.exception import Disconnected
from daphne.http_protocol import HTTPFactory
from daphne.server import Server
from twisted.internet import defer, interfaces
from twisted.internet import reactor as installed_reactor
from twisted.python.failure import Failure
from zope.interface import implementer

from runs.body_limit import BoundedFactory
from runs.cancelling import end_tasks

logger = logging.getLogger(__name__)

# Its interfaces are written for zope, which a type checker does not read.
reactor: Any = installed_reactor

# Applications that ignore their cancellation are waited for this long when the server ends.
LEAVE_SECONDS = 1.0


@implementer(interfaces.IPushProducer)
class Gate:
    """Open while the connection takes more; `pauseProducing` and so on are the names that Twisted calls."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.is_lost = False

    def pauseProducing(self) -> None:  # noqa: N802
        if not self.is_lost:
            self.opened.clear()

    def resumeProducing(self) -> None:  # noqa: N802
        self.opened.set()

    def stopProducing(self) -> None:  # noqa: N802
        self.is_lost = True
        self.opened.set()


class PatientServer(Server):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.listen_failure: str | None = None
        self.ports: list[Any] = []
        self.is_leaving = False

    @property
    def http_factory(self) -> BoundedFactory:
        return self._http_factory

    @http_factory.setter
    def http_factory(self, factory: HTTPFactory) -> None:
        """Daphne makes one when it begins to run, and cannot be told which: ours takes its place."""
        self._http_factory = BoundedFactory(self)

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        self.ports.append(port)

    def listen_error(self, failure: Failure) -> None:
        self.listen_failure = failure.getErrorMessage()
        self.stop()

    # -- flow control ------------------------------------------------------------------------------------------------

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details:
            return
        gate: Gate | None = details.get("gate")
        kind = message["type"]
        if kind == "http.response.start" and _is_stream(message):
            details["is_stream"] = True
        if self.is_leaving and kind == "http.response.start" and protocol.channel is not None:
            # The next request of this client goes to another server.
            message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
            protocol.channel.persistent = False
        if gate is not None:
            if not gate.opened.is_set():
                await gate.opened.wait()
            if kind == "http.response.body" and not message.get("more_body"):
                del details["gate"]
                if protocol.producer is gate:
                    protocol.unregisterProducer()
        elif kind == "http.response.body" and message.get("more_body") and protocol.channel is not None:
            details["gate"] = gate = Gate()
            protocol.registerProducer(gate, True)
        try:
            await super().handle_reply(protocol, message)
        except Disconnected:
            return  # the websocket has closed in this moment, and Daphne is about to be told
        if kind == "websocket.accept":
            details["gate"] = gate = Gate()
            # The HTTP side of the connection, which did the upgrade, is still the transport's producer.
            protocol.unregisterProducer()
            protocol.registerProducer(gate, True)

    def protocol_disconnected(self, protocol: Any) -> None:
        if protocol not in self.connections:
            return
        super().protocol_disconnected(protocol)
        gate: Gate | None = self.connections[protocol].get("gate")
        if gate is not None:
            gate.stopProducing()

    # -- answers that break half-way ---------------------------------------------------------------------------------

    def application_checker(self) -> None:
        """An application that failed after its answer had begun: Daphne would try to begin another, fail at that, and
        never look after its connections again. The client is told by the connection's end instead. Daphne logs the
        error."""
        for protocol, details in list(self.connections.items()):
            application = details.get("application_instance")
            if application is None or not application.done() or application.cancelled() or "disconnected" in details:
                continue
            if application.exception() is not None and getattr(protocol, "_response_started", False):
                self.protocol_disconnected(protocol)
                if protocol.channel is not None:
                    protocol.channel.loseConnection()
        super().application_checker()

    # -- the end -----------------------------------------------------------------------------------------------------

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if protocol in self.connections:
            self.connections[protocol]["scope"] = scope
        return super().create_application(protocol, scope)

    def kill_all_applications(self) -> "defer.Deferred[object]":
        """Daphne's own version fails where a connection has no application yet, and waits only for the first to end."""
        applications = [details.get("application_instance") for details in self.connections.values()]
        open_ones = [application for application in applications if application is not None and not application.done()]
        for application in open_ones:
            application.cancel()
        if not open_ones:
            return defer.succeed(None)
        return defer.Deferred.fromFuture(asyncio.ensure_future(asyncio.wait(open_ones, timeout=LEAVE_SECONDS)))


def _is_stream(message: dict[str, Any]) -> bool:
    """Of events: an answer without an end of its own."""
    return any(
        name.lower() == b"content-type" and b"event-stream" in value for name, value in message.get("headers", [])
    )


def event_loop() -> asyncio.AbstractEventLoop:
    """The loop that Twisted's reactor, and with it everything in this process, runs on."""
    loop: asyncio.AbstractEventLoop = reactor._asyncioEventloop
    return loop


def before_shutdown(shut_down: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have this coroutine function awaited when the server ends, while everything still works."""
    reactor.addSystemEventTrigger(
        "before", "shutdown", lambda: defer.Deferred.fromFuture(asyncio.ensure_future(shut_down()))
    )


def close_event_loop() -> None:
    """Ends what Daphne's cancellations left behind. Without this, an open stream crashes the interpreter at exit."""
    loop = event_loop()

    async def end_everything() -> None:
        await end_tasks(*(task for task in asyncio.all_tasks() if task is not asyncio.current_task()))

    loop.run_until_complete(end_everything())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
