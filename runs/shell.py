"""What stands around a transcript and changes with its run: the inspector and the queue, rendered by the same fragments
for the page and for the live update."""

from typing import Any

from django.template.loader import render_to_string

from runs.models import Conversation


def add_shell(state: dict[str, Any], conversation: Conversation) -> dict[str, Any]:
    """Put the fragments into a state that is about to be sent."""
    context = {"state": state, "conversation": conversation}
    state["inspector"] = render_to_string("_inspector.html", context)
    state["queue"] = render_to_string("_queue.html", context)
    return state
