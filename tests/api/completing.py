"""Asking for completions without a worker: the test does the work of a run by hand."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from channels.layers import get_channel_layer

from runs import actions, bell, events
from runs.actions import Usage
from runs.database import in_reader, in_writer
from runs.models import Run, Status, StopReason
from tests.api.asking import Answer, Client, Stream
from tests.factories import add_event, end_run, start_run

PATH = "/v1/chat/completions"
USER = {"role": "user", "content": "hello"}
ASK: dict[str, Any] = {"model": "agent", "messages": [USER]}
STREAM = {**ASK, "stream": True}
USED = Usage(steps=1, prompt_tokens=7, completion_tokens=5)

Doing = Callable[[Run], object]


class Hands:
    """Hears of runs as a worker does, and does with them what the test says."""

    async def listen(self) -> None:
        self.layer = get_channel_layer()
        self.channel = await self.layer.new_channel()
        await self.layer.group_add(bell.WORKERS, self.channel)

    async def heard(self) -> Run:
        async with asyncio.timeout(20):
            while (message := await self.layer.receive(self.channel))["type"] != "work":
                pass
        return await in_reader(Run.objects.select_related("conversation", "agent__provider").get, pk=message["run"])

    async def do(self, *doings: Doing) -> Run:
        run = await in_writer(start_run, await self.heard())
        for doing in doings:
            await in_writer(doing, run)
        return run


def says(text: str) -> Doing:
    return lambda run: add_event(run, text=text)


def thinks(text: str) -> Doing:
    return lambda run: add_event(run, events.REASONING_DELTA, text=text)


def completes(text: str) -> Doing:
    return lambda run: add_event(run, events.MESSAGE_COMPLETED, message_id="msg_1", position=2, text=text)


def ends(stop_reason: StopReason = StopReason.END_TURN) -> Doing:
    return lambda run: end_run(run, stop_reason=stop_reason, usage=USED)


def fails(error_type: str) -> Doing:
    error = {"error_type": error_type, "message": "It broke.", "detail": "secret"}
    return lambda run: end_run(run, status=Status.FAILED, stop_reason=StopReason.ERROR, error=error)


def is_stopped_by(name: str) -> Doing:
    def stop(run: Run) -> None:
        run = actions.request_stop(run.pk, by=name, via="console")
        receipt = actions.make_receipt(run)
        end_run(run, status=Status.CANCELLED, stop_reason=StopReason.CANCELLED, receipt=receipt)

    return stop


async def ask(client: Client, hands: Hands, body: dict[str, Any], *doings: Doing) -> tuple[Answer, Run]:
    asking = asyncio.create_task(client.post(PATH, body))
    run = await hands.do(*doings)
    return await asking, run


async def data_of(stream: Stream) -> list[Any]:
    """All that comes until the stream ends by itself."""
    data = []
    while (frame := await stream.next_frame()) is not None:
        if not frame.startswith(":"):
            text = frame.removeprefix("data: ")
            data.append(text if text == "[DONE]" else json.loads(text))
    return data


async def ask_for_stream(client: Client, hands: Hands, body: dict[str, Any], *doings: Doing) -> list[Any]:
    async with client.stream(PATH, body=body) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        await hands.do(*doings)
        return await data_of(stream)
