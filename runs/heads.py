"""The answer to HEAD: what GET would be answered with, without its body.

Daphne keeps back the first piece of a body only, and Django sends a long one in several. The others would stand where
the client of a kept connection, or the proxy that shares it among many clients, looks for its next answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Send = Callable[[Mapping[str, Any]], Awaitable[None]]


def without_body(send: Send) -> Send:
    async def send_head(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head
