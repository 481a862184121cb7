"""The model that everything is measured against, as a process of its own: it says so many tokens at such a rate, and
knows to the moment when the other side really hung up.

    python -m tests.bench.model PORT

The last message of a call steers it: `#tag=NAME` (by which the call can be asked for), `#tokens=N`, `#rate=R` (tokens a
second; without it as fast as they go), `#ttft=S` (seconds of silence first), `#hang` (nothing is ever sent, not even a
status). `GET /calls/NAME?until=arrived` and `?until=ended` answer when that has happened.
"""

import asyncio
import re
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aiohttp import web

from tests.gateway.fake_model import Call, FakeModel, chunk, sse

# So many tokens are written before others get a turn: a model without a rate must not starve its neighbours.
TOKENS_IN_A_ROW = 64


@dataclass
class Tagged:
    """A call that somebody may ask for, before or after it comes."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    call: Call | None = None


calls: defaultdict[str, Tagged] = defaultdict(Tagged)


def word(number: int) -> str:
    """The text of one token. Numbered, so that a missing, repeated or misplaced one is seen."""
    return f"tok{number} "


@cache
def event_of(number: int) -> bytes:
    """Made once: the model must not be what limits the figures."""
    return sse(chunk({"content": word(number)}))


@dataclass(frozen=True)
class Directives:
    tag: str
    tokens: int
    rate: float
    silence: float
    hangs: bool

    @classmethod
    def of(cls, body: dict[str, Any]) -> "Directives":
        text = str(body["messages"][-1]["content"])
        given = dict(re.findall(r"#(\w+)=(\S+)", text))
        return cls(
            given.get("tag", ""),
            int(given.get("tokens", 50)),
            float(given.get("rate", 0)),
            float(given.get("ttft", 0)),
            "#hang" in text,
        )


async def obey(call: Call) -> None:
    wanted = Directives.of(call.body)
    tagged = calls[wanted.tag]
    tagged.call = call
    tagged.arrived.set()
    if wanted.hangs:
        await call.hang()
    if wanted.silence:
        await asyncio.sleep(wanted.silence)
    await call.delta(role="assistant", content="")
    begun_at = time.perf_counter()
    for number in range(wanted.tokens):
        if wanted.rate:
            await asyncio.sleep(max(begun_at + (number + 1) / wanted.rate - time.perf_counter(), 0))
        elif number % TOKENS_IN_A_ROW == TOKENS_IN_A_ROW - 1:
            await asyncio.sleep(0)
        await call.write(event_of(number))
    await call.finish()
    usage = {"prompt_tokens": 10, "completion_tokens": wanted.tokens, "total_tokens": 10 + wanted.tokens}
    if (call.body.get("stream_options") or {}).get("include_usage"):
        await call.write(sse({**chunk({}), "choices": [], "usage": usage}))
    await call.done()


async def show_call(request: web.Request) -> web.Response:
    """How a call ended and when, in the clock of `time.perf_counter`, which is the same in every process."""
    tagged = calls[request.match_info["tag"]]
    try:
        async with asyncio.timeout(float(request.query.get("seconds", 10))):
            await tagged.arrived.wait()
            if tagged.call is not None and request.query.get("until") == "ended":
                await tagged.call.ended.wait()
    except TimeoutError:
        pass
    call = tagged.call
    if call is None:
        return web.json_response({"how": "never called", "ended_at": None})
    return web.json_response({"how": call.how, "ended_at": call.ended_at or None})


async def show_health(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def main(port: int) -> None:
    model = FakeModel()
    model.script = obey
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/v1/chat/completions", model.handle)
    app.router.add_get("/calls/{tag}", show_call)
    app.router.add_get("/healthz", show_health)
    web.run_app(app, host="127.0.0.1", port=port, print=None, handler_cancellation=True, shutdown_timeout=0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
