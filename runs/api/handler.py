"""Django's handler for calls under `/v1`: the same requests, paths and views, without what a program does not need.

Django runs each middleware and each signal of a request as a trip of its own to a thread made for that request, which
then opens a database connection of its own. Here the whole view is one trip to a thread that is kept, with its
connection. Measured one after the other on the same busy machine: POST /v1/runs 8.5 ms and here 5, 20 at a time 110 and
190 a second.

What the middleware does for the API is done by others: `authentication` reads sessions and checks CSRF, the host is
checked below, the security headers are set below by Django's own classes, and errors of all kinds get the envelope.
"""

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestAborted
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http import HttpRequest, HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware
from django.template.response import SimpleTemplateResponse
from django.urls import ResolverMatch, resolve

from runs.api.errors import answer_error
from runs.api.requests import ApiRequest
from runs.api.sse import EventStream
from runs.cancelling import end_tasks
from runs.database import in_reader

# As Django's own handler does it.
foreign_hosts = logging.getLogger("django.security.DisallowedHost")

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class ApiHandler(ASGIHandler):
    def __init__(self) -> None:
        super().__init__()
        self.security = SecurityMiddleware(_no_response)
        self.framing = XFrameOptionsMiddleware(_no_response)

    def load_middleware(self, is_async: bool = False) -> None:
        """None."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            body = await _read_body(receive)
        except RequestAborted:
            return
        request = ApiRequest(scope, io.BytesIO(body))
        found = self._find_view(request)
        if isinstance(found, HttpResponseBase):
            await self._send(request, found, send)
        elif iscoroutinefunction(found.func):
            await self._while_connected(self._answer(request, found, send), request, receive)
        else:
            await self._answer(request, found, send)

    def _find_view(self, request: ApiRequest) -> ResolverMatch | HttpResponseBase:
        """Or the answer, where no view is asked."""
        try:
            request.get_host()  # one of ours, or DisallowedHost
            redirect = self.security.process_request(request)
            if redirect is not None:
                return redirect
            request.resolver_match = resolve(request.path_info)
            return request.resolver_match
        except Exception as exc:
            if isinstance(exc, DisallowedHost):
                foreign_hosts.error(str(exc))
            return answer_error(exc)

    async def _answer(self, request: ApiRequest, match: ResolverMatch, send: Send) -> None:
        response: HttpResponseBase
        try:
            if iscoroutinefunction(match.func):
                response = await match.func(request, **match.kwargs)
            else:
                response = await in_reader(_call_view, match.func, request, match.kwargs)
        except Exception as exc:
            response = answer_error(exc)
        await self._send(request, response, send)

    async def _send(self, request: ApiRequest, response: HttpResponseBase, send: Send) -> None:
        self.security.process_response(request, response)  # type: ignore[arg-type]
        self.framing.process_response(request, response)  # type: ignore[arg-type]
        if isinstance(response, EventStream):
            try:
                await self.send_response(response, send)
            finally:
                await response.frames.aclose()
        else:
            response.headers.setdefault("Content-Length", str(len(response.content)))  # type: ignore[attr-defined]
            await self.send_response(response, send)

    async def _while_connected(
        self, answer: Coroutine[None, None, None], request: ApiRequest, receive: Receive
    ) -> None:
        """Until it is all sent, or the client is gone."""
        answering = asyncio.create_task(answer)
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            else:
                # Before the view is cancelled: what it was about to start must be known to whoever acts here.
                await request.leave()
        finally:
            await end_tasks(answering, leaving)


def _no_response(request: HttpRequest) -> HttpResponseBase:
    raise AssertionError("Only the two halves of the middleware are used.")


def _call_view(view: Callable[..., HttpResponseBase], request: HttpRequest, kwargs: dict[str, Any]) -> HttpResponseBase:
    try:
        response = view(request, **kwargs)
        return response.render() if isinstance(response, SimpleTemplateResponse) else response
    finally:
        # The view has made an answer of every error. This thread's connection must not stay broken for the next call.
        for connection in connections.all(initialized_only=True):
            if connection.errors_occurred and not connection.is_usable():
                connection.close()


async def _read_body(receive: Receive) -> bytes:
    """The body up to one byte more than is allowed: the view will see that it is too large, and no memory is filled."""
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        body += message.get("body", b"")[: most - len(body)]
        if not message.get("more_body"):
            return bytes(body)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
