"""What approval tests ask a scripted model for: e-mails, which nobody sends without being told to."""

import json
from typing import Any

from gateway.messages import ToolCall
from gateway.providers.base import ToolCallDelta
from tests.scripted import call


def letter(to: str, **fields: str) -> dict[str, Any]:
    return {"to": f"{to}@example.com", "subject": "Hello", "body": f"Dear {to}", **fields}


def email(to: str, **fields: str) -> ToolCallDelta:
    """A call of `send_email` whose id is the name of the one it goes to."""
    return call("send_email", letter(to, **fields), id=to)


def as_made(to: str) -> ToolCall:
    return ToolCall(to, "send_email", json.dumps(letter(to)))
