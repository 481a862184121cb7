"""A model that is built in: no key, no network, no bill.

It is a transport for the same HTTP client that talks to real providers, and speaks OpenAI's streamed chat completions,
so a demo run takes the same way through the code as any other: it streams, it can be stopped in the middle, it calls
tools, it can fail. What it says is in `replies`; what tests and measurements make it do, in `directives`.

Like a real provider it stops generating when its connection is closed: `calls` tells how each one ended.
"""

import asyncio
import itertools
import time
import uuid
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import orjson

from gateway.providers.demo.directives import find_directives
from gateway.providers.demo.question import Question, what_is_malformed
from gateway.providers.demo.replies import reply_to
from gateway.providers.demo.script import Script, cut_into_tokens

TOKENS_A_SECOND = 60.0
SECONDS_TO_THINK = 0.4
REMEMBERED_CALLS = 100
REMEMBERED_CHARACTERS = 120
REMEMBERED_TEXTS = 1_000
TOKENS_BETWEEN_TURNS = 16  # flat out, everybody else on the event loop still gets a turn
FOR_EVER = 365 * 86_400.0


@dataclass(slots=True)
class DemoCall:
    """What became of one call: "closed" means that the client left before the end."""

    text: str
    sent: int = 0
    how: Literal["open", "done", "closed", "cut", "timed out"] = "open"


class DemoTransport(httpx2.AsyncBaseTransport):
    """`tokens_a_second` 0 means as fast as it can."""

    def __init__(self, *, tokens_a_second: float = TOKENS_A_SECOND, seconds_to_think: float = SECONDS_TO_THINK) -> None:
        self.calls: deque[DemoCall] = deque(maxlen=REMEMBERED_CALLS)
        self._tokens_a_second = tokens_a_second
        self._seconds_to_think = seconds_to_think
        self._times_asked: Counter[str] = Counter()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = orjson.loads(await request.aread())
        wrong = what_is_malformed(body.get("messages") or [])
        if wrong is None and not body.get("stream"):
            wrong = "The demo model only streams."
        if wrong is not None:
            return refuse(400, wrong, "invalid_request_error")
        question = Question.read(body)
        script = self._write_script(question)
        times_asked = self._count(question.text) if script.error or script.cut_after else 1
        if script.error and times_asked <= script.failures:
            headers = {} if script.retry_after is None else {"Retry-After": f"{script.retry_after:g}"}
            return refuse(script.error, f"simulated {script.error}", "simulated", headers)
        call = DemoCall(question.text[:REMEMBERED_CHARACTERS])
        self.calls.append(call)
        cut_after = script.cut_after if times_asked <= script.cuts else 0
        patience = request.extensions.get("timeout", {}).get("read")
        stream = DemoStream(script, call, question, cut_after, patience)
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)

    def _write_script(self, question: Question) -> Script:
        directed = find_directives(question)
        if directed is not None:
            return directed
        reply = reply_to(question)
        return Script(
            tokens=cut_into_tokens(reply.text),
            reasoning=cut_into_tokens(reply.reasoning),
            calls=reply.calls,
            seconds_to_think=self._seconds_to_think,
            tokens_a_second=self._tokens_a_second,
        )

    def _count(self, text: str) -> int:
        """How often this has been asked, this time included."""
        if len(self._times_asked) >= REMEMBERED_TEXTS:
            self._times_asked.clear()
        self._times_asked[text] += 1
        return self._times_asked[text]


def demo_transport() -> DemoTransport:
    return DemoTransport()


def refuse(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> httpx2.Response:
    error = {"message": message, "type": kind, "code": None if status == 400 else str(status)}
    return httpx2.Response(status, json={"error": error}, headers=headers)


class DemoStream(httpx2.AsyncByteStream):
    """The body of an answer, made while it is read. `patience` is the client's read time-out, as a network keeps it."""

    def __init__(
        self, script: Script, call: DemoCall, question: Question, cut_after: int, patience: float | None
    ) -> None:
        self._script = script
        self._call = call
        self._question = question
        self._cut_after = cut_after
        self._patience = patience
        self._id = uuid.uuid4().hex[:8]

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        try:
            async for delta, finish in self._perform():
                yield self._event([{"index": 0, "delta": delta, "finish_reason": finish}])
            if self._question.wants_usage and self._script.reports_usage:
                yield self._event([], usage=self._usage())
            yield b"data: [DONE]\n\n"
            self._call.how = "done"
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        if self._call.how == "open":
            self._call.how = "closed"

    async def _perform(self) -> AsyncGenerator[tuple[dict[str, Any], str | None]]:
        script = self._script
        if script.hangs:
            await self._pause(FOR_EVER)
        if script.seconds_to_think:
            await self._pause(script.seconds_to_think)
        yield {"role": "assistant", "content": None if script.calls else ""}, None
        begun_at = time.monotonic()
        for number, delta in enumerate(self._deltas(script.reasoning, script.tokens), 1):
            await self._keep_pace(begun_at, number)
            yield delta, None
            self._call.sent = number
            if self._cut_after and number >= self._cut_after:
                self._call.how = "cut"
                raise httpx2.ReadError("The demo's connection broke, as it was told to.")
        for number, (name, arguments) in enumerate(script.calls):
            function = {"name": name, "arguments": arguments}
            call = {"index": number, "id": f"call_{self._id}_{number}", "type": "function", "function": function}
            yield {"tool_calls": [call]}, None
        yield {}, "tool_calls" if script.calls else "stop"

    def _deltas(self, reasoning: Iterable[str], tokens: Iterable[str]) -> Iterable[dict[str, str]]:
        return itertools.chain(
            ({"reasoning_content": token} for token in reasoning), ({"content": token} for token in tokens)
        )

    async def _keep_pace(self, begun_at: float, number: int) -> None:
        rate = self._script.tokens_a_second
        delay = begun_at + number / rate - time.monotonic() if rate else 0
        if delay > 0:
            await self._pause(delay)
        elif number % TOKENS_BETWEEN_TURNS == 0:
            await asyncio.sleep(0)

    async def _pause(self, seconds: float) -> None:
        if self._patience is not None and seconds > self._patience:
            await asyncio.sleep(self._patience)
            self._call.how = "timed out"
            raise httpx2.ReadTimeout("The demo was silent, as it was told to be.")
        await asyncio.sleep(seconds)

    def _usage(self) -> dict[str, int]:
        prompt = self._script.prompt_tokens or self._question.tokens
        completion = self._script.completion_tokens or self._call.sent + 20 * len(self._script.calls)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        event = {"id": f"chatcmpl-{self._id}", "object": "chat.completion.chunk", "created": int(time.time())}
        return b"data: " + orjson.dumps({**event, "model": self._question.model, "choices": choices, **more}) + b"\n\n"
