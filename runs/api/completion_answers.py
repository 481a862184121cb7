"""A run as the answer of a model, in the shapes of OpenAI's chat completions: whole, or piece by piece.

What an agent says in several steps becomes one text with an empty line between two messages, the same in both shapes.
Tool calls stay inside. A run that was stopped or failed is no answer: it is an error, whatever was said before.
"""

from typing import Any

import orjson

from runs import events
from runs.actions import Refused
from runs.models import Run, StopReason

FINISH_REASONS = {
    StopReason.END_TURN: "stop",
    StopReason.MAX_STEPS: "length",
    StopReason.MAX_TIME: "length",
    StopReason.BUDGET: "length",
}
STATUSES = {"llm_timeout": 504, "llm_rate_limit": 429, "llm_authentication": 502, "llm_error": 502}
DONE = b"data: [DONE]\n\n"


class Voice:
    """Pieces of several messages as one text, with an empty line between two messages."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.is_speaking = False

    def say(self, text: str) -> str:
        piece = text if self.is_speaking or not self.pieces else f"\n\n{text}"
        self.is_speaking = True
        self.pieces.append(piece)
        return piece

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class CompletionAnswer:
    """Takes a run's events, one after another. `finish_reason` or `refused` is set by the last one."""

    def __init__(self, run: Run) -> None:
        self.run_id = run.public_id
        self.conversation_id = run.conversation.public_id
        self.model = run.agent.slug
        self.created = int(run.queued_at.timestamp())
        self.content = Voice()
        self.reasoning = Voice()
        self.finish_reason: str | None = None
        self.refused: Refused | None = None
        self.usage: dict[str, int] = {}

    def take(self, line: events.Line) -> dict[str, str] | None:
        """What the event adds to the answer, if anything."""
        match line.type:
            case events.MESSAGE_DELTA:
                return {"content": self.content.say(events.payload_of(line.text)["text"])}
            case events.REASONING_DELTA:
                return {"reasoning_content": self.reasoning.say(events.payload_of(line.text)["text"])}
            case events.MESSAGE_COMPLETED:
                text = events.payload_of(line.text)["text"]
                # Mostly it came in pieces before. A message without any comes as a whole.
                delta = {"content": self.content.say(text)} if text and not self.content.is_speaking else None
                self.content.is_speaking = self.reasoning.is_speaking = False
                return delta
            case events.RUN_COMPLETED | events.RUN_FAILED | events.RUN_CANCELLED:
                self._end(line.type, events.payload_of(line.text))
        return None

    def _end(self, type: str, payload: dict[str, Any]) -> None:
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        self.usage = {name: payload["usage"][name] for name in names}
        if type == events.RUN_COMPLETED:
            self.finish_reason = FINISH_REASONS[payload["stop_reason"]]
        elif type == events.RUN_CANCELLED:
            by = payload["receipt"]["requested_by"]
            who = f" by {by}" if by else ""
            self.refused = Refused(409, "run_cancelled", f"The run {self.run_id} was stopped{who}.")
        else:
            error = payload["error"]
            self.refused = Refused(STATUSES.get(error["error_type"], 500), error["error_type"], error["message"])

    # -- the shapes --------------------------------------------------------------------------------------------------

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.content.text, "refusal": None}
        if self.reasoning.pieces:
            message["reasoning_content"] = self.reasoning.text
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self.usage}

    def chunk(self, delta: dict[str, str], finish_reason: str | None = None, *, includes_usage: bool) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        # Who asks for the usage finds the field in every chunk, and a value in the last.
        usage = {"usage": None} if includes_usage else {}
        return as_data({**self._frame("chat.completion.chunk"), "choices": [choice], **usage})

    def usage_chunk(self) -> bytes:
        return as_data({**self._frame("chat.completion.chunk"), "choices": [], "usage": self.usage})

    def _frame(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.run_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "conversation_id": self.conversation_id,
        }


def as_data(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
