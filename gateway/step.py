"""The tool calls of one step: which have a result, which started, which never did.

Each answer has its place in the conversation from the beginning (the assistant message's position plus the number of
the call), so that answers of parallel calls can be stored as they come and still stand in the order of the calls.

A call that a person approved runs with what that person saw. If that is not what the model asked for, the answer says
so: the call itself stays in the history as the model made it.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from gateway.messages import Message, ToolCall, ToolResult

State = Literal["finished", "interrupted", "not_started"]


@dataclass(frozen=True, slots=True)
class Approved:
    """What a call runs with, as JSON; `note` tells the model where a person changed it."""

    arguments: str
    note: str = ""


@dataclass
class Step:
    calls: tuple[ToolCall, ...]
    position: int
    started: set[str] = field(default_factory=set)
    """Begun here, or perhaps by an earlier process."""
    answers: dict[str, Message] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    approved: dict[str, Approved] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    """Of which this process has told that they start."""

    def position_of(self, call: ToolCall) -> int:
        return self.position + 1 + self.calls.index(call)

    def answer(self, call: ToolCall, result: ToolResult, state: State) -> Message:
        message = Message("tool", result.content, tool_call_id=call.id, name=call.name)
        self.answers[call.id] = message
        self.states[call.id] = state
        return message

    def as_decided(self, call: ToolCall) -> ToolCall:
        """The call as it is executed."""
        approved = self.approved.get(call.id)
        return call if approved is None else replace(call, arguments=approved.arguments)

    def annotate(self, call: ToolCall, result: ToolResult) -> ToolResult:
        approved = self.approved.get(call.id)
        if approved is None or not approved.note:
            return result
        return replace(result, content=f"{result.content}\n\n{approved.note}")

    @property
    def open_calls(self) -> list[ToolCall]:
        return [call for call in self.calls if call.id not in self.answers]

    @property
    def postponed_calls(self) -> list[ToolCall]:
        """Announced here, and not begun by anybody."""
        return [call for call in self.open_calls if call.id in self.announced - self.started]

    @property
    def messages(self) -> list[Message]:
        """The answers in the order of the calls. Only when none is missing."""
        return [self.answers[call.id] for call in self.calls]
