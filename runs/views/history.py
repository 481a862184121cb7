"""All runs that somebody may see, with filters, and a Stop on each that is active."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import access
from runs.actions import Refused
from runs.api.pagination import Pages
from runs.api.runs import STATUSES, filter_runs
from runs.models import word_for_status
from runs.views.layout import render_console
from runs.views.lookups import viewer_of

PAGES = Pages("history", usual=30)
FILTERS = ("status", "agent", "q")


@login_required
@never_cache
@require_safe
def show_history(request: HttpRequest) -> HttpResponse:
    user = viewer_of(request)
    given = {name: request.GET[name].strip()[:200].replace("\0", "") for name in FILTERS if request.GET.get(name)}
    given = {name: value for name, value in given.items() if value}
    if given.get("status") not in STATUSES:
        given.pop("status", None)
    place = {"cursor": request.GET["cursor"]} if request.GET.get("cursor") else {}
    try:
        rows, cursor = PAGES.cut(filter_runs(access.visible_runs(user), given), place, str(user.pk))
    except Refused as refused:
        raise BadRequest(refused.message) from None
    context: dict[str, Any] = {
        "section": "history",
        "rows": rows,
        "given": given,
        "here": address_of({**given, **place}),
        "older": address_of({**given, "cursor": cursor}) if cursor else "",
        "is_first": not place,
    }
    if "fragment" in request.GET:
        return render(request, "_history_rows.html", context)
    context |= {
        "statuses": [(status, word_for_status(status)) for status in STATUSES],
        "agents": access.usable_agents(user).order_by("name"),
    }
    return render_console(request, "history.html", context)


def address_of(given: dict[str, str]) -> str:
    query = QueryDict(mutable=True)
    query.update(given)
    return "?" + query.urlencode()
