"""What the server calls: the API has its own handler, other HTTP goes to Django, websockets to `runs.consumers`."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentsite.settings")
django_application = get_asgi_application()

# Only now: they need the models.
from runs import bell, consumers  # noqa: E402
from runs.api.handler import ApiHandler  # noqa: E402
from runs.heads import without_body  # noqa: E402

api_application = ApiHandler()

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    # Rings from other threads travel to the loop on which this process serves.
    bell.live_at(asyncio.get_running_loop())
    if scope["type"] == "http" and scope["method"] == "HEAD":
        send = without_body(send)
    match scope["type"]:
        case "http" if _is_call(scope):
            await api_application(scope, receive, send)
        case "http":
            await django_application(scope, receive, send)
        case "websocket":
            await consumers.application(scope, receive, send)
        case "lifespan":
            await _live(receive, send)
        case other:
            raise ValueError(f"There is no application for {other!r}.")


def _is_call(scope: dict[str, Any]) -> bool:
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.startswith("/v1/") and path != "/v1/docs"  # which is a page


async def _live(receive: Receive, send: Send) -> None:
    """Some servers tell of their start and end, and wait for a nod."""
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})
