"""The list on the left: a person's own conversations, newest first, with what each of them is doing."""

from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import access
from runs.models import ACTIVE, UNDER_WAY, Conversation, Run
from runs.views.lookups import viewer_of
from runs.views.waiting import count_waiting

USUAL = 40
MOST = 1000


@dataclass(frozen=True)
class Entry:
    id: str
    title: str
    status: str
    word: str
    run: str
    """The run that a Stop beside the entry would stop."""


@dataclass(frozen=True)
class Group:
    name: str
    entries: list[Entry]


@dataclass(frozen=True)
class Sidebar:
    groups: list[Group]
    limit: int
    has_more: bool
    waiting: int

    @property
    def more(self) -> int:
        return min(self.limit + USUAL, MOST)


@login_required
@never_cache
@require_safe
def show_sidebar(request: HttpRequest) -> HttpResponse:
    """The list alone, for a page that heard of a change."""
    user = viewer_of(request)
    sidebar = read_sidebar(user, read_limit(request))
    return render(request, "_conversations.html", {"sidebar": sidebar, "current": request.GET.get("current", "")})


def read_limit(request: HttpRequest) -> int:
    text = request.GET.get("limit", "")
    return min(max(int(text), 1), MOST) if text.isascii() and text.isdigit() and len(text) < 6 else USUAL


def read_sidebar(user: User, limit: int = USUAL) -> Sidebar:
    # Staff may look at everybody's conversations, in the history; this list is for one's own.
    recent = access.writable_conversations(user).order_by("-updated_at", "-pk")
    page = list(recent[: limit + 1])
    shown = page[:limit]
    doing = read_doing(shown)
    today = timezone.localdate()
    groups = [
        Group(name, [make_entry(conversation, doing.get(conversation.pk)) for conversation in conversations])
        for name, conversations in groupby(
            shown, lambda conversation: name_age(timezone.localdate(conversation.updated_at), today)
        )
    ]
    return Sidebar(groups, limit, len(page) > limit and limit < MOST, count_waiting(user))


def read_doing(conversations: list[Conversation]) -> dict[int, Run]:
    """The run under way in each conversation, or else the first that waits."""
    active = Run.objects.filter(conversation__in=conversations, status__in=ACTIVE).order_by("pk")
    doing: dict[int, Run] = {}
    for run in active:
        if run.status in UNDER_WAY or run.conversation_id not in doing:
            doing[run.conversation_id] = run
    return doing


def make_entry(conversation: Conversation, run: Run | None) -> Entry:
    if run is None:
        return Entry(conversation.public_id, conversation.title, "", "", "")
    return Entry(conversation.public_id, conversation.title, run.shown_status, run.status_word, run.public_id)


def name_age(day: date, today: date) -> str:
    if day >= today:
        return gettext("Today")
    if day == today - timedelta(days=1):
        return gettext("Yesterday")
    if day > today - timedelta(days=7):
        return gettext("Last 7 days")
    if day > today - timedelta(days=30):
        return gettext("Last 30 days")
    return gettext("Older")
