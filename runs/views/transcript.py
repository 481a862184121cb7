"""What an open transcript asks for besides its live connection: its other parts, and texts as they are."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import events
from runs.models import Run
from runs.transcript.items import ToolUse
from runs.transcript.log import fold_runs
from runs.transcript.page import read_newer, read_older
from runs.views.lookups import find_conversation, find_run, viewer_of


@never_cache
@require_safe
@login_required
def show_older(request: HttpRequest, conversation_id: str) -> JsonResponse:
    conversation = find_conversation(request, conversation_id)
    found = read_older(conversation, viewer_of(request), request.GET.get("before", ""))
    if found is None:
        raise Http404
    ops, before = found
    return JsonResponse({"ops": ops, "before": before})


@never_cache
@require_safe
@login_required
def show_newer(request: HttpRequest, conversation_id: str) -> JsonResponse:
    conversation = find_conversation(request, conversation_id)
    found = read_newer(conversation, viewer_of(request), request.GET.get("beyond", ""))
    if found is None:
        raise Http404
    return JsonResponse({"ops": found.ops, "beyond": found.beyond, "after": found.after})


@never_cache
@require_safe
@login_required
def show_raw_message(request: HttpRequest, conversation_id: str, run_id: str, number: int) -> HttpResponse:
    """A message as the model wrote it."""
    run = _find_run_in(request, conversation_id, run_id)
    lines = run.events.filter(type=events.MESSAGE_COMPLETED).order_by("seq").values_list("line", flat=True)
    count = lines.count()
    if number > count:
        raise Http404
    # A run that streams whole messages only tells the last one, where it was cut, with its end.
    return _plain(events.payload_of(lines[number])["text"] if number < count else run.output)


@never_cache
@require_safe
@login_required
def show_raw_result(request: HttpRequest, conversation_id: str, run_id: str, number: int, index: int) -> HttpResponse:
    """All that a tool gave back."""
    run = _find_run_in(request, conversation_id, run_id)
    for item in fold_runs([run])[run.pk].items:
        if isinstance(item, ToolUse) and (item.number, item.index) == (number, index):
            return _plain(item.result)
    raise Http404


def _plain(text: str) -> HttpResponse:
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


def _find_run_in(request: HttpRequest, conversation_id: str, run_id: str) -> Run:
    run = find_run(request, run_id)
    if run.conversation.public_id != conversation_id:
        raise Http404
    return run
