"""A request under `/v1`, whose client may leave before it is answered."""

import io
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.handlers.asgi import ASGIRequest

Act = Callable[[], Awaitable[None]]

# What a scope says where nobody could ask for the rest of the answer elsewhere: a server that ends waits for it.
MUST_FINISH = "agentsite.must_finish"


class ApiRequest(ASGIRequest):
    """An async view says by `when_left` what is to be done if its client leaves too early. Not by catching its
    cancellation: a server that shuts down cancels it as well, and that is nobody's wish to end anything."""

    scope: dict[str, Any]
    _act_when_left: Act | None = None

    def when_left(self, act: Act) -> None:
        self._act_when_left = act
        self.scope[MUST_FINISH] = True

    def as_if_new(self) -> "ApiRequest":
        """Its head once more, with nothing of what was found out about its caller."""
        return ApiRequest(self.scope, io.BytesIO())

    async def leave(self) -> None:
        """The client is gone."""
        if self._act_when_left is not None:
            await self._act_when_left()
