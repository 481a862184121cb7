"""Conversations: list, look, read, rename, reset, delete and restore."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runs import access, actions
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.bodies import read_object
from runs.api.lookups import find_conversation, find_own_conversation, find_restorable_conversation
from runs.api.messages import MESSAGE_PAGES, show_messages
from runs.api.orders import ConversationChange, check
from runs.api.pagination import PARAMETERS, Pages
from runs.api.queries import read_query
from runs.api.schema import describe, page_parameters
from runs.models import Conversation

PAGES = Pages("conversations")


class ConversationsView(ApiView):
    @describe(
        "list_conversations",
        "List conversations, newest first",
        answer=shapes.ConversationList,
        parameters=page_parameters(PAGES),
        errors=[400],
    )
    def get(self, request: Request) -> Response:
        user = self.caller.user
        page, cursor = PAGES.cut(access.visible_conversations(user), read_query(request, PARAMETERS), str(user.pk))
        return Response({"data": [show_conversation(conversation) for conversation in page], "next_cursor": cursor})


class ConversationView(ApiView):
    @describe("get_conversation", "Look at a conversation", answer=shapes.Conversation, errors=[404])
    def get(self, request: Request, conversation_id: str) -> Response:
        return Response(show_conversation(find_conversation(self.caller.user, conversation_id)))

    @describe(
        "change_conversation",
        "Rename a conversation",
        body=ConversationChange,
        answer=shapes.Conversation,
        errors=[403, 404],
    )
    def patch(self, request: Request, conversation_id: str) -> Response:
        conversation = find_own_conversation(self.caller.user, conversation_id)
        change = check(ConversationChange, read_object(request))
        return Response(show_conversation(actions.rename_conversation(conversation, change.title.strip())))

    @describe(
        "delete_conversation",
        "Delete a conversation",
        answer=shapes.ConversationDeleted,
        errors=[403, 404],
        description="Its runs are stopped, and nobody finds it any more. Until `restorable_until` it can be restored; "
        "then its files and background processes are removed.",
    )
    def delete(self, request: Request, conversation_id: str) -> Response:
        caller = self.caller
        conversation = find_own_conversation(caller.user, conversation_id)
        actions.delete_conversation(conversation, by=caller.user.get_username(), via=caller.via)
        deleted = {
            "conversation_id": conversation_id,
            "status": "deleted",
            "restorable_until": conversation.restorable_until,
        }
        return Response(deleted)


class ConversationResetView(ApiView):
    @describe(
        "reset_conversation",
        "Begin a fresh context",
        answer=shapes.Conversation,
        errors=[403, 404, 409],
        description="The messages are kept, and the model no longer sees them. Files and notes stay. Refused while a "
        "run is active.",
    )
    def post(self, request: Request, conversation_id: str) -> Response:
        conversation = find_own_conversation(self.caller.user, conversation_id)
        return Response(show_conversation(actions.reset_conversation(conversation)))


class ConversationRestoreView(ApiView):
    @describe(
        "restore_conversation",
        "Restore a deleted conversation",
        answer=shapes.Conversation,
        errors=[403, 404],
        description="While that is possible. Runs that its deletion stopped stay stopped.",
    )
    def post(self, request: Request, conversation_id: str) -> Response:
        conversation = find_restorable_conversation(self.caller.user, conversation_id)
        return Response(show_conversation(actions.restore_conversation(conversation)))


class ConversationMessagesView(ApiView):
    @describe(
        "list_conversation_messages",
        "List a conversation's messages, in order",
        answer=shapes.MessageList,
        parameters=page_parameters(MESSAGE_PAGES),
        errors=[400, 404],
    )
    def get(self, request: Request, conversation_id: str) -> Response:
        conversation = find_conversation(self.caller.user, conversation_id)
        return show_messages(request, conversation.messages.all(), conversation_id)


def show_conversation(conversation: Conversation) -> dict[str, Any]:
    return {
        "conversation_id": conversation.public_id,
        "agent": conversation.agent.slug,
        "owner": conversation.owner.get_username(),
        "title": conversation.title,
        "last_stop_reason": conversation.last_stop_reason or None,
        "context_from": conversation.context_from,
        "created_at": conversation.created_at,
        "updated_at": conversation.updated_at,
    }
