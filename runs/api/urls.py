"""The paths under `/v1`."""

from django.http import Http404
from django.urls import path, re_path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from runs.api.agents import AgentsView
from runs.api.approvals import ApprovalsView, RunApprovalsView
from runs.api.base import ApiView
from runs.api.conversations import (
    ConversationMessagesView,
    ConversationResetView,
    ConversationRestoreView,
    ConversationsView,
    ConversationView,
)
from runs.api.openai_compat import create_completion
from runs.api.openai_models import ModelsView, ModelView
from runs.api.pool import PoolView
from runs.api.runs import RunMessagesView, RunStopView, RunsView, RunView
from runs.api.schema import DocsView, SchemaView
from runs.api.sse import stream_events


@extend_schema(exclude=True)
class UnknownView(ApiView):
    """Everything else: for strangers like any other path, for callers not found."""

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        raise Http404


urlpatterns = [
    path("agents", AgentsView.as_view()),
    path("approvals", ApprovalsView.as_view()),
    path("runs", RunsView.as_view()),
    path("runs/<str:run_id>", RunView.as_view()),
    path("runs/<str:run_id>/stop", RunStopView.as_view()),
    path("runs/<str:run_id>/approvals", RunApprovalsView.as_view()),
    path("runs/<str:run_id>/events", stream_events),
    path("runs/<str:run_id>/messages", RunMessagesView.as_view()),
    path("conversations", ConversationsView.as_view()),
    path("conversations/<str:conversation_id>", ConversationView.as_view()),
    path("conversations/<str:conversation_id>/messages", ConversationMessagesView.as_view()),
    path("conversations/<str:conversation_id>/reset", ConversationResetView.as_view()),
    path("conversations/<str:conversation_id>/restore", ConversationRestoreView.as_view()),
    path("pool", PoolView.as_view()),
    path("chat/completions", create_completion),
    path("models", ModelsView.as_view()),
    path("models/<str:model>", ModelView.as_view()),
    path("schema", SchemaView.as_view(), name="api-schema"),
    path("docs", DocsView.as_view(), name="api-docs"),
    re_path(r"", UnknownView.as_view()),
]
