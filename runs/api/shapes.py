"""What the API answers, for the schema. The answers themselves are built by plain code beside the views, and a test
holds every one of them against these shapes."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from runs.api.orders import InputMessage


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorBody(Shape):
    message: str
    type: Literal["invalid_request_error", "authentication_error", "permission_error", "rate_limit_error", "api_error"]
    code: str
    param: Annotated[str | None, Field(description="The field, parameter or header at fault.")]


class Error(Shape):
    error: ErrorBody


class RunStarted(Shape):
    run_id: str
    status: Literal["started"]
    conversation_id: str


class RunStopping(Shape):
    run_id: str
    status: Literal["stopping"]


class RunUsage(Shape):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: Annotated[str | None, Field(description="A decimal number; null where the agent has no prices.")]
    estimated: Annotated[bool, Field(description="The provider sent no usage, so it was counted here.")]


class RunError(Shape):
    error_type: str
    message: str
    detail: Annotated[str, Field(description="Of an `internal_error` for staff only, and empty for others.")]


class RunTimings(Shape):
    queued_at: datetime
    started_at: datetime | None
    first_token_at: datetime | None
    ended_at: datetime | None


class Limits(Shape):
    max_steps: int
    max_seconds: float
    max_tokens: int | None
    max_cost: str | None


class Run(Shape):
    run_id: str
    status: Literal["queued", "running", "requires_approval", "stopping", "completed", "failed", "cancelled"]
    stop_reason: Literal["end_turn", "max_steps", "max_time", "budget", "error", "cancelled"] | None
    agent: str
    agent_version: int
    conversation_id: str
    owner: str
    input: str | list[InputMessage]
    output: str
    usage: RunUsage
    error: RunError | None
    timings: RunTimings
    steps: int
    limits: Limits
    stream_tokens: bool
    reasoning_effort: str | None
    metadata: dict[str, JsonValue]
    stop_requested_at: datetime | None
    receipt: Annotated[dict[str, JsonValue] | None, Field(description="What a stop did, and how fast.")]
    attempt: Annotated[int, Field(description="How often a worker took the run up.")]


class RunList(Shape):
    data: list[Run]
    next_cursor: str | None


class Message(Shape):
    id: str
    position: int
    run_id: str
    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[JsonValue, Field(description="Text, or a list of content parts.")]
    created_at: datetime
    tool_calls: list[dict[str, JsonValue]] = []
    tool_call_id: str = ""
    name: str = ""
    partial: Annotated[bool, Field(description="Cut by a stop: what had been said until then.")] = False


class MessageList(Shape):
    data: list[Message]
    next_cursor: str | None


class Conversation(Shape):
    conversation_id: str
    agent: str
    owner: str
    title: str
    last_stop_reason: str | None
    created_at: datetime
    updated_at: datetime


class ConversationList(Shape):
    data: list[Conversation]
    next_cursor: str | None


class Agent(Shape):
    slug: str
    name: str
    description: str
    examples: list[str]
    model: str
    tools: list[str]
    version: int
    default: Annotated[bool, Field(description="Answers where no agent is named.")]
    limits: Limits


class AgentList(Shape):
    data: list[Agent]
    next_cursor: str | None
