"""The front page: for strangers what this is, for everybody else the agents, with questions to begin with."""

import secrets

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from runs import access
from runs.views.layout import render_console


@require_safe
def show_home(request: HttpRequest) -> HttpResponse:
    if not isinstance(request.user, User):
        return render(request, "welcome.html")
    return render_agents(request)


def render_agents(request: HttpRequest, *, text: str = "", problem: str = "", status: int = 200) -> HttpResponse:
    assert isinstance(request.user, User)
    agents = list(access.usable_agents(request.user).order_by("-is_default", "name"))
    wanted = request.POST.get("agent") or request.GET.get("agent", "")
    chosen = next((agent for agent in agents if agent.slug == wanted), agents[0] if agents else None)
    context = {
        "section": "home",
        "agents": agents,
        "chosen": chosen,
        "text": text,
        "problem": problem,
        # A double click sends this twice and starts one run.
        "key": secrets.token_hex(16),
    }
    return render_console(request, "home.html", context, status)
