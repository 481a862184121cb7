"""The console itself: one conversation, its transcript, and what its run is doing."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs.transcript.page import open_transcript
from runs.views.layout import render_console
from runs.views.lookups import find_conversation, find_run, viewer_of


@login_required
@never_cache
@require_safe
def show_conversation(request: HttpRequest, conversation_id: str) -> HttpResponse:
    user = viewer_of(request)
    conversation = find_conversation(request, conversation_id)
    context = {
        "conversation": conversation,
        "transcript": open_transcript(conversation, user, request.GET.get("run")),
        "can_write": conversation.owner == user and conversation.agent.is_active,
    }
    return render_console(request, "conversation.html", context)


@login_required
@require_safe
def show_run(request: HttpRequest, run_id: str) -> HttpResponse:
    """A run's permanent link leads to its place in the conversation."""
    run = find_run(request, run_id)
    address = reverse("conversation", args=[run.conversation.public_id])
    return HttpResponseRedirect(f"{address}?run={run.public_id}#{run.public_id}")
