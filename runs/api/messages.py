"""Messages of a run or of a conversation, in order, as they are stored."""

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from runs.api.pagination import PARAMETERS, Pages
from runs.api.queries import read_query
from runs.models import Message

MESSAGE_PAGES = Pages("messages", field="position", is_descending=False, usual=100, most=1000)


def show_messages(request: Request, messages: QuerySet[Message], whose: str) -> Response:
    # Of each message's run only the id: a run carries its whole input and output.
    rows = messages.select_related("run").only(
        "public_id",
        "position",
        "role",
        "content",
        "created_at",
        "tool_calls",
        "tool_call_id",
        "name",
        "is_partial",
        "run__public_id",
    )
    page, cursor = MESSAGE_PAGES.cut(rows, read_query(request, PARAMETERS), whose)
    return Response({"data": [message.as_dict() for message in page], "next_cursor": cursor})
