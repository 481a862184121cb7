"""Starting a conversation from the front page: a plain form, so that the first click works before any script does."""

import hashlib

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from pydantic import JsonValue

from runs import actions
from runs.actions import Refused
from runs.api.orders import read_idempotency_key, read_order
from runs.views.home import render_agents
from runs.views.lookups import viewer_of


@login_required
@require_POST
def start_conversation(request: HttpRequest) -> HttpResponse:
    user = viewer_of(request)
    text = request.POST.get("input", "").replace("\r\n", "\n").replace("\0", "")
    body: dict[str, JsonValue] = {"input": text, "agent": request.POST.get("agent", "")}
    try:
        run = actions.submit_run(user, read_order(body, read_key(request)))
    except Refused as refused:
        return render_agents(request, text=text, problem=refused.message, status=refused.status)
    return HttpResponseRedirect(reverse("conversation", args=[run.conversation.public_id]))


def read_key(request: HttpRequest) -> str:
    """The form's key belongs to what is sent with it: somebody who goes back and asks something else means it."""
    key = request.POST.get("key", "")
    if not key:
        return ""
    meant = "\n".join([key, request.POST.get("agent", ""), request.POST.get("input", "")])
    return read_idempotency_key(hashlib.sha256(meant.encode()).hexdigest())
