"""What surrounds every page of the console: the list of conversations on the left, and how many things wait."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from runs.views.lookups import viewer_of
from runs.views.sidebar import read_limit, read_sidebar


def render_console(request: HttpRequest, template: str, context: Mapping[str, Any], status: int = 200) -> HttpResponse:
    user = viewer_of(request)
    conversation = context.get("conversation")
    shown = {
        "sidebar": read_sidebar(user, read_limit(request)),
        "current": conversation.public_id if conversation is not None else "",
    }
    return render(request, template, {**shown, **context}, status=status)
