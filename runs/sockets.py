"""Who may open a websocket, and how one is served: the same for the raw events and for the console.

Nobody valid, or a browser that comes from another site: refused before it opens (HTTP 403). Then, so that a client can
tell what was wrong, opened and closed with 4400 (a bad parameter), 4404 (it does not exist, or is not yours) or 4429
(too many calls), or with 1013 while the database does not answer. Whoever is signed out, switched off or has a key that
was revoked is closed with 4401 a while later, and what was deleted with 4404. Clients have nothing to say: what they
send is ignored, and a message over 64 KiB closes with 4413.

Plain ASGI applications: a Channels consumer would subscribe to a channel of its own and answer one message at a time,
and neither is needed. One message is handed over at a time, so a client that reads slowly holds back its own stream and
nothing piles up here.
"""

import asyncio
import io
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from rest_framework.exceptions import APIException, Throttled

from runs.actions import Refused
from runs.api import admission
from runs.api.authentication import Caller, find_caller
from runs.api.queries import read_number
from runs.api.sse import MAX_SEQ
from runs.api.throttles import count_call
from runs.cancelling import end_tasks
from runs.database import Unavailable, in_reader

logger = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Texts = AsyncGenerator[str, None]
OpenTexts = Callable[[Caller, HttpRequest], Texts]

MAX_MESSAGE = 64 * 1024
MAX_NAMED_RUNS = 200

ENDED = 1000
TRY_AGAIN = 1013
TOO_BIG = 4413
BROKEN = 4500
BAD_PARAMETER = 4400
NOT_ADMITTED = 4401
NOT_FOUND = 4404
TOO_MANY_CALLS = 4429


def read_places(text: str) -> dict[str, int]:
    """`run_a:12,run_b:3`: the last number that the client has of each run."""
    places = {}
    pairs = text.split(",") if text else []
    if len(pairs) > MAX_NAMED_RUNS:
        raise Refused(400, "invalid_parameter", f"after names more than {MAX_NAMED_RUNS} runs.", "after")
    for pair in pairs:
        run_id, _, seq = pair.partition(":")
        if not (run_id.startswith("run_") and run_id.isascii() and run_id.isprintable()):
            raise Refused(400, "invalid_parameter", "after must be run ids and numbers: run_a:12,run_b:3.", "after")
        places[run_id] = read_number("after", seq, 0, MAX_SEQ)
    return places


# -- who comes -------------------------------------------------------------------------------------------------------


def _as_request(scope: Scope) -> HttpRequest:
    """The handshake as Django knows requests, so that hosts, cookies and keys are read as everywhere."""
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    return ASGIRequest({**scope, "method": "GET", "scheme": scheme}, io.BytesIO())


def _admit(request: HttpRequest) -> Caller:
    request.get_host()  # one of ours, or DisallowedHost
    caller = find_caller(request)
    # A browser sends the cookies of this site from whatever page it is on, but it cannot lie about that page.
    if caller.key is None and not _is_own_origin(request):
        raise DisallowedHost("Another site's page.")
    count_call(caller)
    return caller


def _is_own_origin(request: HttpRequest) -> bool:
    origin = request.headers.get("Origin", "")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    # Behind a proxy that speaks TLS the scheme is often not known here; the host is.
    return parts.scheme in ("http", "https") and parts.netloc == request.get_host()


# -- what they see ---------------------------------------------------------------------------------------------------


async def serve_socket(scope: Scope, receive: Receive, send: Send, open_texts: OpenTexts) -> None:
    """`open_texts` decides in a thread what is sent, one text after the other, or refuses."""
    await receive()  # websocket.connect
    request = _as_request(scope)
    try:
        caller = await in_reader(_admit, request)
    except Throttled:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": TOO_MANY_CALLS})
        return
    except (APIException, DisallowedHost):
        await send({"type": "websocket.close"})
        return
    except Unavailable:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": TRY_AGAIN})
        return
    await send({"type": "websocket.accept"})
    try:
        texts = await in_reader(open_texts, caller, request)
    except Unavailable:
        await send({"type": "websocket.close", "code": TRY_AGAIN})
        return
    except Refused as refused:
        code = NOT_FOUND if refused.status == 404 else BAD_PARAMETER
        await send({"type": "websocket.close", "code": code, "reason": refused.message[:100]})
        return
    following = asyncio.create_task(_send_texts(texts, send))
    listening = asyncio.create_task(_listen(receive, send))
    admitting = asyncio.create_task(_keep_admitting(scope, send, open_texts))
    tasks = (following, listening, admitting)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(*tasks)


async def _send_texts(texts: Texts, send: Send) -> None:
    try:
        async with aclosing(texts):
            async for text in texts:
                await send({"type": "websocket.send", "text": text})
    except OSError:
        return  # some servers say so when the client is gone
    except Unavailable:
        await send({"type": "websocket.close", "code": TRY_AGAIN})
        return
    except Exception:
        logger.exception("A websocket lost its events; the client may come back.")
        await send({"type": "websocket.close", "code": BROKEN})
        return
    await send({"type": "websocket.close", "code": ENDED})


async def _keep_admitting(scope: Scope, send: Send, open_texts: OpenTexts) -> None:
    """Until the watcher would be refused if they came now. A page may stay open for days."""

    def look() -> None:
        request = _as_request(scope)
        open_texts(find_caller(request), request)

    try:
        while True:
            await asyncio.sleep(admission.LOOK_SECONDS)
            await admission.look_again(look)
    except admission.Refusals as refusal:
        code = NOT_FOUND if isinstance(refusal, Refused) else NOT_ADMITTED
        await send({"type": "websocket.close", "code": code})


async def _listen(receive: Receive, send: Send) -> None:
    """Until the client is gone."""
    while (message := await receive())["type"] != "websocket.disconnect":
        if len(message.get("text") or message.get("bytes") or "") > MAX_MESSAGE:
            await send({"type": "websocket.close", "code": TOO_BIG})
            return
