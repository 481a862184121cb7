"""OpenAI's chat completions: any client of theirs talks to an agent as if it were a model.

A call is a run like any other, in a conversation of its own unless it names one. The client that waits for the answer
is the only one who wants it, so when it closes its connection the run is stopped, streamed or not. A plain async view,
like that of the event streams, because it waits for as long as the run takes.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import OpenApiResponse
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request

from runs import actions, events
from runs.actions import Refused, RunOrder
from runs.api import shapes
from runs.api.admission import Refusals, while_admitted
from runs.api.authentication import Caller, find_caller
from runs.api.base import ApiView
from runs.api.bodies import read_object
from runs.api.completion_answers import DONE, CompletionAnswer, as_data
from runs.api.completion_orders import NewCompletion, read_completion
from runs.api.errors import answer_error, answer_refused, as_refused, envelope_of
from runs.api.lookups import find_followable_run
from runs.api.requests import ApiRequest
from runs.api.schema import describe
from runs.api.sse import KEEP_ALIVE, EventStream
from runs.api.throttles import count_call
from runs.database import Unavailable, in_reader
from runs.models import Run

logger = logging.getLogger(__name__)

Batches = AsyncGenerator[list[events.Line], None]

# What an order for a run and a completion call differently.
PARAMETERS = {"agent": "model", "conversation": "metadata"}
CODES = {"agent_not_found": "model_not_found"}


@csrf_exempt  # `find_caller` checks it
async def create_completion(request: ApiRequest) -> HttpResponseBase:
    try:
        caller, new, order = await in_reader(_admit, request)
        starting = asyncio.ensure_future(in_reader(_start, caller, order))
        # From here on there may be a run, also if the client leaves before we know of it.
        request.when_left(lambda: _stop(starting, caller))
        run = await starting
    except Exception as exc:
        response = answer_error(exc)
        if response.status_code == 405:
            response["Allow"] = "POST"
        return response
    batches = _follow(run, caller, request)
    if new.stream:
        return EventStream(_frames(run, batches, includes_usage=new.includes_usage))
    return await _wait_for_answer(run, batches)


def _admit(request: HttpRequest) -> tuple[Caller, NewCompletion, RunOrder]:
    caller = find_caller(request)
    count_call(caller)
    if request.method != "POST":
        raise MethodNotAllowed(str(request.method))
    return caller, *read_completion(read_object(request))


def _start(caller: Caller, order: RunOrder) -> Run:
    try:
        return actions.submit_run(caller.user, order)
    except Refused as refused:
        code = CODES.get(refused.code, refused.code)
        raise replace(refused, code=code, param=PARAMETERS.get(refused.param or "", refused.param)) from None


async def _stop(starting: "asyncio.Future[Run]", caller: Caller) -> None:
    try:
        run = await starting
    except (Refused, *Unavailable):
        return  # it never began
    await _stop_run(run, caller)


async def _stop_run(run: Run, caller: Caller) -> None:
    with suppress(Refused):  # it has ended already
        # Nobody else will ask for it: a database that is away for a moment must not leave the run to itself.
        await events.read_patiently(actions.request_stop, run.pk, by=caller.user.get_username(), via=caller.via)


async def _follow(run: Run, caller: Caller, request: ApiRequest) -> Batches:
    """A client that may not have the answer any more is like one that has left."""

    def look() -> None:
        find_followable_run(find_caller(request.as_if_new()).user, run.public_id)

    try:
        async with aclosing(while_admitted(events.follow_run(run), look)) as batches:
            async for batch in batches:
                yield batch
    except Refusals:
        await _stop_run(run, caller)
        raise


async def _wait_for_answer(run: Run, batches: Batches) -> HttpResponse:
    answer = CompletionAnswer(run)
    try:
        async with aclosing(batches):
            async for batch in batches:
                for line in batch:
                    answer.take(line)
    except Exception as error:
        answer.refused = _explain(run, error)
    if answer.refused is None:
        response = HttpResponse(orjson.dumps(answer.whole()), content_type="application/json")
    else:
        response = answer_refused(answer.refused)
        # OpenAI's clients try again by themselves after many errors. This would do the whole work again, with all that
        # its tools do, although what was worth trying again has been tried here.
        response["X-Should-Retry"] = "false"
    response["Cache-Control"] = "no-store"
    return response


async def _frames(run: Run, batches: Batches, *, includes_usage: bool) -> AsyncGenerator[bytes, None]:
    answer = CompletionAnswer(run)
    yield answer.chunk({"role": "assistant", "content": ""}, includes_usage=includes_usage)
    try:
        async with aclosing(batches):
            async for batch in batches:
                deltas = [delta for line in batch if (delta := answer.take(line)) is not None]
                chunks = [answer.chunk(delta, includes_usage=includes_usage) for delta in deltas]
                # Also for what is not told: a tool may report for minutes, and nobody should think that all is dead.
                yield b"".join(chunks) or KEEP_ALIVE
    except Exception as error:
        answer.refused = _explain(run, error)
    if answer.refused is not None:
        yield as_data(envelope_of(answer.refused))
        return
    yield answer.chunk({}, answer.finish_reason, includes_usage=includes_usage)
    if includes_usage:
        yield answer.usage_chunk()
    yield DONE


def _explain(run: Run, error: Exception) -> Refused:
    """What the client is told, instead of an answer."""
    if isinstance(error, Refusals) and (refused := as_refused(error)) is not None:
        return refused
    logger.error("The answer of run %s could not be followed to its end.", run, exc_info=error)
    return Refused(500, "internal_error", "Something went wrong on the server. It has been logged.")


class CompletionOperation(ApiView):
    """What the document says about the view above. It answers nothing itself."""

    @describe(
        "create_chat_completion",
        "Ask an agent as if it were a model",
        body=NewCompletion,
        answer=shapes.ChatCompletion,
        stream=OpenApiResponse(
            {"type": "string"},
            description="With `stream`: server-sent events whose `data` is a `chat.completion.chunk`, the last one "
            "`[DONE]`. What fails after the stream has begun comes as an `error`, with which it ends.",
        ),
        errors=[403, 404, 409, 500, 502, 504],
        description="OpenAI's chat completions. Closing the connection stops the run.",
    )
    def post(self, request: Request) -> HttpResponse:
        raise Refused(404, "not_found", "There is nothing here.")


# By these attributes the schema generator recognises what it should describe.
create_completion.__dict__.update(cls=CompletionOperation, initkwargs={})
