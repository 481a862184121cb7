"""Conversations: list, look, read, rename."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runs import access, actions
from runs.actions import Refused
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.bodies import read_object
from runs.api.lookups import find_conversation
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
        user = self.caller.user
        conversation = find_conversation(user, conversation_id)
        change = check(ConversationChange, read_object(request))
        if conversation.owner != user:
            raise Refused(403, "not_yours", "Only its owner changes a conversation.")
        return Response(show_conversation(actions.rename_conversation(conversation, change.title.strip())))


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
        "created_at": conversation.created_at,
        "updated_at": conversation.updated_at,
    }
