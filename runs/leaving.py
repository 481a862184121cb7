"""How a web server leaves: it takes no more connections, answers what it was asked, and hangs up on the rest.

Streams of events and websockets are cut at once: their clients come back elsewhere, and get what they missed. A
completion is the only answer that somebody gets, so it is waited for, where the run that it waits for goes on.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from runs.api.requests import MUST_FINISH
from runs.polite_channel import PoliteChannel

if TYPE_CHECKING:
    from runs.server import PatientServer

# So often it is looked what is left. The first look comes after such a pause, in which is read what the kernel has let
# in, and what was asked over connections that are kept.
LOOK_SECONDS = 0.1
# A request whose body is still on its way is waited for no longer than this.
ARRIVAL_SECONDS = 5.0
# Of connections that wait to be accepted, all; left to itself Twisted takes as many as there were the last time.
ACCEPTED_AT_ONCE = 10_000
# With which a websocket is closed: the service restarts.
RESTART = 1012


async def leave(server: "PatientServer", patience: float, *, waits_for_runs: bool) -> None:
    """For so many seconds at most. `waits_for_runs`: whether completions are waited for."""
    server.is_leaving = True
    for port in server.ports:
        port.numberAccepts = ACCEPTED_AT_ONCE
        port.doRead()  # those that the kernel has let in already would be reset
        port.stopListening()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    is_patient = True
    await asyncio.sleep(LOOK_SECONDS)
    while is_patient:
        passed = loop.time() - begun
        is_patient = passed < patience
        left = [
            (protocol, details)
            for protocol, details in server.connections.items()
            if _is_under_way(details) or (_is_arriving(protocol, details) and passed < ARRIVAL_SECONDS)
        ]
        if not left:
            break
        for protocol, details in left:
            if _can_be_cut(details, waits_for_runs=waits_for_runs):
                details["is_cut"] = True
                _hang_up(protocol, details)
        await asyncio.sleep(LOOK_SECONDS)
    # Time has run out for these. They are told first: a connection that ends by itself would be their client's wish.
    for details in server.connections.values():
        if _is_under_way(details):
            details["application_instance"].cancel()
    # What is written may not be sent yet.
    for channel in _open_channels(server):
        channel.loseConnection()
    while _open_channels(server) and loop.time() - begun < patience:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)


def _open_channels(server: "PatientServer") -> list[PoliteChannel]:
    """Without those whose connection has become a websocket's, and may have ended as such."""
    return [
        channel for channel in server.http_factory.channels if getattr(channel.transport, "protocol", None) is channel
    ]


def _is_under_way(details: dict[str, Any]) -> bool:
    application = details.get("application_instance")
    return application is not None and not application.done()


def _is_arriving(protocol: Any, details: dict[str, Any]) -> bool:
    """Daphne makes an application when the whole body is there."""
    is_request = hasattr(protocol, "requestHeaders") and not protocol.is_refused
    return is_request and "application_instance" not in details and "disconnected" not in details


def _can_be_cut(details: dict[str, Any], *, waits_for_runs: bool) -> bool:
    """Once: who was cut may have something to tidy up."""
    if "scope" not in details or "is_cut" in details:
        return False
    if details["scope"].get(MUST_FINISH):
        return not waits_for_runs
    return details["scope"]["type"] == "websocket" or "is_stream" in details


def _hang_up(protocol: Any, details: dict[str, Any]) -> None:
    details["application_instance"].cancel()
    if details["scope"]["type"] == "http":
        if (channel := protocol.channel) is not None:
            channel.loseConnection()
            # Its client may never read what is left, and can ask for it elsewhere.
            channel.factory.channels.discard(channel)
    elif protocol.state == protocol.STATE_CONNECTING:
        protocol.serverReject()
    else:
        protocol.sendCloseFrame(code=RESTART)
