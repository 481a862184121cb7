"""Finding a conversation by its title or by what was said in it."""

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import access
from runs.models import Conversation, Run
from runs.views.layout import render_console
from runs.views.lookups import viewer_of

MOST = 20
MAX_LENGTH = 200


@login_required
@never_cache
@require_safe
def show_search(request: HttpRequest) -> HttpResponse:
    user = viewer_of(request)
    words = request.GET.get("q", "").replace("\0", "").strip()[:MAX_LENGTH]
    found = list(find_conversations(user, words)[:MOST])
    context = {"section": "search", "words": words, "found": found, "is_cut": len(found) == MOST}
    if "fragment" in request.GET:
        return render(request, "_found.html", context)
    return render_console(request, "search.html", context)


def find_conversations(user: User, words: str) -> QuerySet[Conversation]:
    """Each of the words somewhere in it; without words the latest ones."""
    found = access.writable_conversations(user).order_by("-updated_at", "-pk")
    for word in words.split():
        said = Run.objects.filter(conversation=OuterRef("pk")).filter(
            Q(input_text__icontains=word) | Q(output__icontains=word)
        )
        found = found.filter(Q(title__icontains=word) | Exists(said))
    return found
