"""Websockets: the events of one run, or of all runs of one conversation, each event one text frame, the same line and
the same number as everywhere else.

    /ws/runs/<run_id>/?starting_after=12
    /ws/conversations/<conversation_id>/?after=run_a:12,run_b:3
    /ws/overview/                       which of the caller's own conversations has something new

A run's socket closes with 1000 after the terminal event. Who is let in, and with which codes the others are closed, is
told in `sockets`. The console has a socket of its own, see `console_socket`.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from channels.routing import URLRouter
from django.http import HttpRequest
from django.urls import path, re_path

from runs import events
from runs.api.authentication import Caller
from runs.api.lookups import find_conversation, find_followable_run
from runs.api.queries import read_number
from runs.api.sse import MAX_SEQ
from runs.console_socket import watch_console
from runs.overview import follow_overview
from runs.sockets import NOT_FOUND, Receive, Scope, Send, Texts, read_places, serve_socket


async def watch_run(scope: Scope, receive: Receive, send: Send) -> None:
    def open_run(caller: Caller, request: HttpRequest) -> Texts:
        after = read_number("starting_after", request.GET.get("starting_after", "0"), 0, MAX_SEQ)
        run = find_followable_run(caller.user, scope["url_route"]["kwargs"]["run_id"])
        return _lines(events.follow_run(run, after))

    await serve_socket(scope, receive, send, open_run)


async def watch_conversation(scope: Scope, receive: Receive, send: Send) -> None:
    def open_conversation(caller: Caller, request: HttpRequest) -> Texts:
        after = read_places(request.GET.get("after", ""))
        conversation = find_conversation(caller.user, scope["url_route"]["kwargs"]["conversation_id"])
        return _lines(events.follow_conversation(conversation, after))

    await serve_socket(scope, receive, send, open_conversation)


async def watch_overview(scope: Scope, receive: Receive, send: Send) -> None:
    def open_overview(caller: Caller, request: HttpRequest) -> Texts:
        return follow_overview(caller.user)

    await serve_socket(scope, receive, send, open_overview)


async def _lines(batches: AsyncGenerator[list[events.Line], None]) -> Texts:
    async with aclosing(batches):
        async for batch in batches:
            for line in batch:
                yield line.text


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.close", "code": NOT_FOUND})


application = URLRouter(
    [
        path("ws/runs/<str:run_id>/", watch_run),  # type: ignore[arg-type]
        path("ws/conversations/<str:conversation_id>/", watch_conversation),  # type: ignore[arg-type]
        path("ws/console/<str:conversation_id>/", watch_console),  # type: ignore[arg-type]
        path("ws/overview/", watch_overview),  # type: ignore[arg-type]
        re_path(r"", refuse),  # type: ignore[arg-type]
    ]
)
