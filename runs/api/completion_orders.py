"""What a client of OpenAI's chat completions sends, as an order for a run.

Every parameter that OpenAI knows is taken and checked. Those that an agent has settled for itself (sampling, tools, the
length of an answer) change nothing; those that would make a client misread the answer (two choices, JSON, a forced
call) are refused. What a client sends beyond that, as a parameter or in the history, is left out: many send what only
some servers know.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, field_validator

from runs.actions import RunOrder
from runs.api.orders import (
    MAX_COUNT,
    MAX_MESSAGES,
    MAX_PARTS,
    MAX_TEXT,
    TEXT_OR_PARTS,
    ImagePart,
    Strict,
    check,
)
from runs.models.agents import ReasoningEffort

CONVERSATION = "conversation"

Words = Annotated[str, Field(max_length=MAX_TEXT)]
Name = Annotated[str, Field(max_length=100)]
CallId = Annotated[str, Field(min_length=1, max_length=150)]
Settled = Field(description="Taken and not used: the agent settles this for itself.")
SettledNumber = Annotated[float | None, Settled]
SettledCount = Annotated[Annotated[int, Field(ge=0, le=MAX_COUNT)] | None, Settled]
SettledText = Annotated[str | None, Settled]
SettledBool = Annotated[bool | None, Settled]
SettledObject = Annotated[dict[str, JsonValue] | None, Settled]
SettledObjects = Annotated[list[dict[str, JsonValue]] | None, Settled]


class Lenient(BaseModel):
    """What a client sends: fields that are not known are meant for other servers, and are left out."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class SaidText(Lenient):
    type: Literal["text"]
    text: Words


class SaidRefusal(Lenient):
    type: Literal["refusal"]
    refusal: Words

    @property
    def text(self) -> str:
        return self.refusal


Texts = Annotated[
    Annotated[Words, Tag("as text")]
    | Annotated[list[SaidText], Field(min_length=1, max_length=MAX_PARTS), Tag("as a list")],
    TEXT_OR_PARTS,
]
Parts = Annotated[
    Annotated[Words, Tag("as text")]
    | Annotated[
        list[Annotated[SaidText | ImagePart, Field(discriminator="type")]],
        Field(min_length=1, max_length=MAX_PARTS),
        Tag("as a list"),
    ],
    TEXT_OR_PARTS,
]
Answers = Annotated[
    Annotated[Words, Tag("as text")]
    | Annotated[
        list[Annotated[SaidText | SaidRefusal, Field(discriminator="type")]],
        Field(max_length=MAX_PARTS),
        Tag("as a list"),
    ],
    TEXT_OR_PARTS,
]


def _join(content: str | Sequence[SaidText | SaidRefusal] | None) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content or ())


class SystemMessage(Lenient):
    role: Literal["system", "developer"]
    content: Texts
    name: Name | None = None

    def as_stored(self) -> dict[str, Any]:
        return {"role": "system", "content": _join(self.content)}


class UserMessage(Lenient):
    role: Literal["user"]
    content: Parts
    name: Name | None = None

    def as_stored(self) -> dict[str, Any]:
        content = self.content
        if not isinstance(content, str):
            content = [part.model_dump(exclude_unset=True) for part in content]  # type: ignore[misc]
        return {"role": "user", "content": content, **({"name": self.name} if self.name else {})}


class Function(Lenient):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    arguments: Words


class MadeCall(Lenient):
    id: CallId
    type: Literal["function"] = "function"
    function: Function


class AssistantMessage(Lenient):
    role: Literal["assistant"]
    content: Answers | None = None
    refusal: Words | None = None
    tool_calls: Annotated[list[MadeCall], Field(max_length=MAX_PARTS)] | None = None
    name: Name | None = None

    def as_stored(self) -> dict[str, Any]:
        stored: dict[str, Any] = {"role": "assistant", "content": _join(self.content) or self.refusal or ""}
        if self.tool_calls:
            stored["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        return stored


class ToolMessage(Lenient):
    role: Literal["tool"]
    content: Texts
    tool_call_id: CallId

    def as_stored(self) -> dict[str, Any]:
        return {"role": "tool", "content": _join(self.content), "tool_call_id": self.tool_call_id}


ROLES = ("system", "developer", "user", "assistant", "tool")


def _role(value: object) -> str | None:
    role = value.get("role") if isinstance(value, dict) else getattr(value, "role", None)
    return f"as {'system' if role == 'developer' else role}" if isinstance(role, str) and role in ROLES else None


ChatMessage = Annotated[
    Annotated[SystemMessage, Tag("as system")]
    | Annotated[UserMessage, Tag("as user")]
    | Annotated[AssistantMessage, Tag("as assistant")]
    | Annotated[ToolMessage, Tag("as tool")],
    Discriminator(
        _role,
        custom_error_type="wrong_role",
        custom_error_message=f"must be a message whose role is one of {', '.join(ROLES)}",
    ),
]


class StreamOptions(Lenient):
    include_usage: bool | None = None
    include_obfuscation: SettledBool = None


class TextFormat(Strict):
    type: Literal["text"]


class NewCompletion(Lenient):
    """A conversation so far, and the agent that is to answer."""

    model: Annotated[str, Field(min_length=1, max_length=64, description="Slug of the agent.")]
    messages: Annotated[
        list[ChatMessage],
        Field(min_length=1, max_length=MAX_MESSAGES, description="The last one is from the user."),
    ]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    reasoning_effort: ReasoningEffort | None = None
    metadata: Annotated[
        dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] | None,
        Field(
            max_length=16,
            description=f"Kept with the run. `{CONVERSATION}`, the id of a conversation, goes on with that one: of the "
            "messages only those after the last answer are taken. Without it each call begins a new conversation.",
        ),
    ] = None

    # What would make a client misread the answer if it were ignored.
    n: Literal[1] | None = None
    response_format: TextFormat | None = None
    modalities: list[Literal["text"]] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    function_call: Literal["auto", "none"] | None = None

    temperature: SettledNumber = None
    top_p: SettledNumber = None
    frequency_penalty: SettledNumber = None
    presence_penalty: SettledNumber = None
    logit_bias: Annotated[dict[str, float] | None, Settled] = None
    seed: Annotated[int | None, Settled] = None
    stop: Annotated[str | list[str] | None, Settled] = None
    max_tokens: SettledCount = None
    max_completion_tokens: SettledCount = None
    logprobs: SettledBool = None
    top_logprobs: SettledCount = None
    tools: SettledObjects = None
    functions: SettledObjects = None
    parallel_tool_calls: SettledBool = None
    verbosity: SettledText = None
    prediction: SettledObject = None
    audio: SettledObject = None
    web_search_options: SettledObject = None
    moderation: SettledObject = None
    user: SettledText = None
    safety_identifier: SettledText = None
    store: SettledBool = None
    service_tier: SettledText = None
    prompt_cache_key: SettledText = None
    prompt_cache_options: SettledObject = None
    prompt_cache_retention: SettledText = None

    @field_validator("messages")
    @classmethod
    def check_messages(cls, messages: list[ChatMessage]) -> list[ChatMessage]:
        last = messages[-1].as_stored()
        if last["role"] != "user":
            raise ValueError("the last message must be from the user")
        if _is_blank(last):
            raise ValueError("the last message must not be blank")
        if sum(len(text) for message in messages for text in _texts(message.as_stored())) > MAX_TEXT:
            raise ValueError(f"must hold at most {MAX_TEXT} characters of text")
        return messages

    @property
    def includes_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


def read_completion(body: dict[str, JsonValue]) -> tuple[NewCompletion, RunOrder]:
    new = check(NewCompletion, body)
    metadata: dict[str, Any] = dict(new.metadata or {})
    conversation_id = metadata.get(CONVERSATION)
    messages = [message.as_stored() for message in new.messages]
    if conversation_id is not None:
        messages = _after_last_answer(messages)
    return new, RunOrder(
        # Clients send empty messages back, for example an answer that was stopped before its first word.
        messages=[message for message in messages if message["role"] == "tool" or not _is_blank(message)],
        agent_slug=new.model,
        conversation_id=conversation_id,
        reasoning_effort=new.reasoning_effort or "",
        metadata=metadata,
    )


def _after_last_answer(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answers = [index for index, message in enumerate(messages) if message["role"] in ("assistant", "tool")]
    return messages[answers[-1] + 1 :] if answers else messages


def _texts(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]
    return texts + [call["function"]["arguments"] for call in message.get("tool_calls", ())]


def _is_blank(message: dict[str, Any]) -> bool:
    content = message["content"]
    has_image = not isinstance(content, str) and any(part["type"] == "image_url" for part in content)
    return not has_image and not message.get("tool_calls") and not any(text.strip() for text in _texts(message))
