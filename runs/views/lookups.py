"""Who looks at a page, and what its address names. What somebody may not see is not found, as under `/v1`."""

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest

from runs.actions import Refused
from runs.api import lookups
from runs.models import Conversation, Run


def viewer_of(request: HttpRequest) -> User:
    """Behind `login_required`."""
    assert isinstance(request.user, User)
    return request.user


def find_conversation(request: HttpRequest, conversation_id: str) -> Conversation:
    try:
        return lookups.find_conversation(viewer_of(request), conversation_id)
    except Refused:
        raise Http404 from None


def find_run(request: HttpRequest, run_id: str) -> Run:
    try:
        return lookups.find_run(viewer_of(request), run_id)
    except Refused:
        raise Http404 from None
