"""A run's events as a stream: replayed from wherever the client was, followed live, ended right after the last one.

A plain async Django view, because a REST view would hold a thread for as long as somebody watches. For the same reason
its database work goes to the readers' threads and not to the thread of the request.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import OpenApiResponse
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request

from runs import events
from runs.actions import Refused
from runs.api.admission import Look, Refusals, while_admitted
from runs.api.authentication import find_caller
from runs.api.base import ApiView
from runs.api.errors import answer_error
from runs.api.lookups import find_followable_run
from runs.api.queries import read_number
from runs.api.requests import ApiRequest
from runs.api.schema import describe, parameter
from runs.api.throttles import count_call
from runs.database import in_reader
from runs.models import Run

MAX_SEQ = 2**31 - 1
KEEP_ALIVE = b": keep-alive\n\n"
MOST_AT_ONCE = 64 * 1024
SEQ = {"type": "integer", "minimum": 0, "maximum": MAX_SEQ}


class EventStream(StreamingHttpResponse):
    """Whoever sends it closes `frames` afterwards. Django would leave that to the garbage collector, too late."""

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        self.frames = frames
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(frames, content_type="text/event-stream", headers=headers)


# Nothing but GET is answered, and a refusal must come in the envelope, not as Django's CSRF page.
@csrf_exempt
async def stream_events(request: ApiRequest, run_id: str) -> HttpResponseBase:
    try:
        run, after = await in_reader(_admit, request, run_id)
    except Exception as exc:
        response = answer_error(exc)
        if response.status_code == 405:
            response["Allow"] = "GET"
        return response

    def look() -> None:
        find_followable_run(find_caller(request.as_if_new()).user, run_id)

    return EventStream(_frames(run, after, look))


def _admit(request: HttpRequest, run_id: str) -> tuple[Run, int]:
    caller = find_caller(request)
    count_call(caller)
    if request.method != "GET":
        raise MethodNotAllowed(str(request.method))
    after = _read_place(request)
    return find_followable_run(caller.user, run_id), after


def _read_place(request: HttpRequest) -> int:
    """The last event that the client has. What a browser sends when it reconnects is newer than its address."""
    last_event_id = request.headers.get("Last-Event-ID", "")
    if last_event_id:
        return read_number("Last-Event-ID", last_event_id, 0, MAX_SEQ)
    if "starting_after" in request.GET:
        return read_number("starting_after", request.GET["starting_after"], 0, MAX_SEQ)
    return 0


async def _frames(run: Run, after: int, look: Look) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(while_admitted(events.follow_run(run, after), look)) as batches:
            async for batch in batches:
                if not batch:
                    yield KEEP_ALIVE
                # Not all of them at once: what a slow reader has not taken yet is held for it.
                frames, length = [], 0
                for line in batch:
                    frames.append(_frame(line))
                    length += len(frames[-1])
                    if length >= MOST_AT_ONCE:
                        yield b"".join(frames)
                        frames, length = [], 0
                if frames:
                    yield b"".join(frames)
    except Refusals:
        return  # a client that comes back is told why


def _frame(line: events.Line) -> bytes:
    return f"id: {line.seq}\nevent: {line.type}\ndata: {line.text}\n\n".encode()


class EventsOperation(ApiView):
    """What the document says about the view above. It answers nothing itself."""

    @describe(
        "stream_run_events",
        "Follow a run's events",
        answer=OpenApiResponse(
            {"type": "string"},
            description="Server-sent events: `id` is the event's `seq`, `event` its type, `data` the event as one line "
            "of JSON. Ends right after `run.completed`, `run.failed` or `run.cancelled`, and without one of them soon "
            "after you may not watch any more.",
        ),
        media_type="text/event-stream",
        parameters=[
            parameter("starting_after", "The last event that you have; 0 is the whole run.", type=SEQ),
            parameter("Last-Event-ID", "The same, as browsers send it. It wins.", type=SEQ, location="header"),
        ],
        errors=[400, 404],
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        raise Refused(404, "not_found", "There is nothing here.")


# By these attributes the schema generator recognises what it should describe.
stream_events.__dict__.update(cls=EventsOperation, initkwargs={})
