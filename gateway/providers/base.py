"""What the loop asks of a model provider, and what a provider's stream consists of."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.messages import Message, Usage


@dataclass(slots=True)
class TextDelta:
    text: str


@dataclass(slots=True)
class ReasoningDelta:
    text: str


@dataclass(slots=True)
class ToolCallDelta:
    """A piece of a tool call; pieces with the same index belong together, `arguments` pieces are concatenated."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class UsageReport:
    usage: Usage


@dataclass(slots=True)
class Ended:
    """The model said that it is done; a stream that ends without this was cut."""

    finish_reason: str


Chunk = TextDelta | ReasoningDelta | ToolCallDelta | UsageReport | Ended


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    model: str
    system_prompt: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort: str | None = None


class Provider(Protocol):
    """A connection to a model. Every failure comes as `gateway.errors.ProviderError`."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        """One model call. Chunks come in the batches in which the network brought them.

        Leaving the block, by whatever way, closes the connection to the model."""

    async def close(self) -> None: ...
