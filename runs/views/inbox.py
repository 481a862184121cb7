"""Everything that waits for a decision of the person who looks."""

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs.views.layout import render_console
from runs.views.lookups import viewer_of
from runs.views.waiting import read_waiting, waiting_runs

PAGE = 20


@login_required
@never_cache
@require_safe
def show_inbox(request: HttpRequest) -> HttpResponse:
    user = viewer_of(request)
    page = Paginator(waiting_runs(user), PAGE).get_page(request.GET.get("page"))
    context = {"section": "inbox", "page": page, "waiting": read_waiting(list(page), user)}
    if "fragment" in request.GET:
        return render(request, "_inbox_rows.html", context)
    return render_console(request, "inbox.html", context)
