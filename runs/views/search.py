"""Finding a conversation by its title or by what was said in it."""

from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import access
from runs.excerpts import cut_excerpt, has_word, mark_words
from runs.models import Conversation, Run
from runs.views.layout import render_console
from runs.views.lookups import viewer_of

MOST = 20
MAX_LENGTH = 200


@dataclass(frozen=True)
class Found:
    conversation: Conversation
    title: SafeString
    excerpt: SafeString | None
    """Where it was found by what was said."""
    address: str


@login_required
@never_cache
@require_safe
def show_search(request: HttpRequest) -> HttpResponse:
    user = viewer_of(request)
    words = request.GET.get("q", "").replace("\0", "").strip()[:MAX_LENGTH]
    found = find_conversations(user, words.split())
    context = {"section": "search", "words": words, "found": found, "is_cut": len(found) == MOST}
    if "fragment" in request.GET:
        return render(request, "_found.html", context)
    return render_console(request, "search.html", context)


def find_conversations(user: User, words: list[str]) -> list[Found]:
    """Each of the words somewhere in it; without words the latest ones."""
    matching = access.writable_conversations(user).order_by("-updated_at", "-pk")
    # What was taken back before its turn was never said.
    said = Run.objects.filter(conversation=OuterRef("pk"), is_withdrawn=False)
    elsewhere = Q(pk=None)
    for word in words:
        in_title, in_run = Q(title__icontains=word), Q(input_text__icontains=word) | Q(output__icontains=word)
        matching = matching.filter(in_title | Exists(said.filter(in_run)))
        elsewhere |= in_run & ~Q(conversation__title__icontains=word)
    latest = said.filter(elsewhere).order_by("-pk").values("pk")[:1]
    conversations = list(matching.annotate(hit=Subquery(latest))[:MOST])
    hits = Run.objects.in_bulk([conversation.hit for conversation in conversations if conversation.hit])
    return [_show(conversation, words, hits.get(conversation.hit)) for conversation in conversations]


def _show(conversation: Conversation, words: list[str], hit: Run | None) -> Found:
    title = mark_words(conversation.title or gettext("Untitled"), words)
    address = reverse("conversation", args=[conversation.public_id])
    if hit is None:
        return Found(conversation, title, None, address)
    missing = [word for word in words if not has_word(conversation.title, [word])] or words
    text = hit.input_text if has_word(hit.input_text, missing) else hit.output
    return Found(conversation, title, cut_excerpt(text, missing), f"{address}?run={hit.public_id}#{hit.public_id}")
