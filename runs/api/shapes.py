"""What the API answers, for the schema. The answers themselves are built by plain code beside the views, and a test
holds every one of them against these shapes."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue


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


class RunWithdrawn(Shape):
    run_id: str
    status: Literal["withdrawn"]


class RunUsage(Shape):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: Annotated[str | None, Field(description="A decimal number; null where the agent has no prices.")]
    estimated: Annotated[bool, Field(description="The provider sent no usage, or a price was assumed.")]


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


class RunInput(Shape):
    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[JsonValue, Field(description="Text, or a list of content parts.")]
    tool_calls: list[dict[str, JsonValue]] = []
    tool_call_id: str = ""
    name: str = ""


class Approval(Shape):
    approval_id: str
    run_id: str
    conversation_id: str
    conversation_title: str
    agent: str
    owner: Annotated[str, Field(description="Whose conversation it is: this person may decide, and so may staff.")]
    tool_call_id: str
    name: str
    description: str
    arguments: Annotated[dict[str, JsonValue], Field(description="As the model asked for them.")]
    arguments_digest: Annotated[str, Field(description="SHA-256 of the arguments as JSON with sorted keys.")]
    schema_: Annotated[
        dict[str, JsonValue], Field(alias="schema", description="The JSON schema of the tool's arguments.")
    ]
    why: Annotated[str, Field(description="What the model said before the call.")]
    status: Literal["pending", "approved", "denied", "expired", "stopped"]
    requested_at: datetime
    expires_at: datetime | None
    on_expiry: Literal["deny", "stop"]
    decided_by: Annotated[str, Field(description="A user name; empty while it waits, and when it expired.")]
    decided_at: datetime | None
    decided_via: Literal["", "api", "console", "expiry", "stop"]
    reason: str
    edited_arguments: Annotated[dict[str, JsonValue] | None, Field(description="What a person put in their place.")]


class ApprovalCounts(Shape):
    pending: int


class ApprovalList(Shape):
    data: list[Approval]
    next_cursor: str | None
    counts: ApprovalCounts


class Decided(Shape):
    run_id: str
    status: Literal["queued", "requires_approval"]
    pending: Annotated[int, Field(description="How many calls of the run still wait.")]


class Run(Shape):
    run_id: str
    status: Literal["queued", "running", "requires_approval", "stopping", "completed", "failed", "cancelled"]
    stop_reason: Literal["end_turn", "max_steps", "max_time", "budget", "error", "cancelled"] | None
    agent: str
    agent_version: int
    conversation_id: str
    owner: str
    input: str | list[RunInput]
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
    withdrawn: Annotated[bool, Field(description="Taken back before it began: no part of the conversation.")]
    receipt: Annotated[dict[str, JsonValue] | None, Field(description="What a stop did, and how fast.")]
    attempt: Annotated[int, Field(description="How often a worker took the run up.")]
    pending_approvals: Annotated[list[Approval], Field(description="The calls that wait for a person to decide.")]


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
    context_from: Annotated[int, Field(description="The model sees the messages after this position.")]
    created_at: datetime
    updated_at: datetime


class ConversationDeleted(Shape):
    conversation_id: str
    status: Literal["deleted"]
    restorable_until: datetime


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


class Model(Shape):
    id: Annotated[str, Field(description="Slug of the agent.")]
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Shape):
    object: Literal["list"]
    data: list[Model]


class CompletionMessage(Shape):
    role: Literal["assistant"]
    content: str
    refusal: None
    reasoning_content: Annotated[str, Field(description="What the model thought, where it tells.")] = ""


class CompletionChoice(Shape):
    index: int
    message: CompletionMessage
    logprobs: None
    finish_reason: Annotated[
        Literal["stop", "length"], Field(description="`length`: a limit of steps, time, tokens or cost was reached.")
    ]


class CompletionUsage(Shape):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(Shape):
    id: Annotated[str, Field(description="Id of the run.")]
    object: Literal["chat.completion"]
    created: int
    model: str
    conversation_id: str
    choices: list[CompletionChoice]
    usage: Annotated[CompletionUsage, Field(description="Of all model calls of the run together.")]


class PoolEntry(Shape):
    conversation_id: str
    agent: str
    signature: Annotated[str, Field(description="The beginning of its configuration's signature.")]
    idle_seconds: Annotated[float | None, Field(description="0 while it is in use; null where it never was.")]
    is_active: bool
    is_building: bool


class Pool(Shape):
    worker: str
    seen_at: datetime | None
    is_fresh: Annotated[bool, Field(description="The worker answered at once; otherwise this is what it last told.")]
    capacity: int
    size: int
    active: int
    hits: int
    misses: int
    evictions: Annotated[dict[str, int], Field(description="How many agents were let go, by reason.")]
    entries: list[PoolEntry]


class PoolList(Shape):
    data: list[Pool]
    next_cursor: None
