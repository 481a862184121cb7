"""What a caller may send: the shapes are at once the check and the schema, so that they cannot disagree.

Strict: no text becomes a number, no number a truth value, and a field that nobody knows is refused, because a limit
that is misspelt must not look like one that holds.
"""

import hashlib
from decimal import ROUND_DOWN, Decimal
from typing import Annotated, Literal, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationError,
    field_validator,
)

from runs.actions import Refused, RunOrder
from runs.models.agents import ReasoningEffort

MAX_TEXT = 1_000_000
MAX_MESSAGES = 1_000
MAX_PARTS = 100
MAX_METADATA_BYTES = 16 * 1024
MAX_REASON = 4_000
MAX_DECISIONS = 1_000
NAMED = 5  # of fields that nobody knows
MAX_COUNT = 2**31 - 1  # what the database's integers hold
MICRO = Decimal("0.000001")

Text = Annotated[str, Field(max_length=MAX_TEXT, pattern=r"\S")]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TextPart(Strict):
    type: Literal["text"]
    text: Text


class ImageUrl(Strict):
    url: Annotated[str, Field(pattern=r"^(https?://|data:image/)\S+$")]
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(Strict):
    type: Literal["image_url"]
    image_url: ImageUrl


Part = Annotated[TextPart | ImagePart, Field(discriminator="type")]


def _kind(value: object) -> str | None:
    if isinstance(value, str):
        return "as text"
    return "as a list" if isinstance(value, list) else None


TEXT_OR_PARTS = Discriminator(
    _kind, custom_error_type="wrong_type", custom_error_message="must be text or a list of parts"
)


class InputMessage(Strict):
    role: Literal["user", "assistant", "system"]
    content: Annotated[
        Annotated[Text, Tag("as text")]
        | Annotated[list[Part], Field(min_length=1, max_length=MAX_PARTS), Tag("as a list")],
        TEXT_OR_PARTS,
    ]

    def count_characters(self) -> int:
        if isinstance(self.content, str):
            return len(self.content)
        return sum(len(part.text) for part in self.content if isinstance(part, TextPart))

    def as_stored(self) -> dict[str, object]:
        return self.model_dump(exclude_unset=True)


def _check_input(value: str | list[InputMessage]) -> str | list[InputMessage]:
    if isinstance(value, str):
        return value
    if value[-1].role != "user":
        raise ValueError("the last message must be from the user")
    if sum(message.count_characters() for message in value) > MAX_TEXT:
        raise ValueError(f"must hold at most {MAX_TEXT} characters of text")
    return value


RunInput = Annotated[
    Annotated[Text, Tag("as text")]
    | Annotated[list[InputMessage], Field(min_length=1, max_length=MAX_MESSAGES), Tag("as a list")],
    Discriminator(_kind, custom_error_type="wrong_type", custom_error_message="must be text or a list of messages"),
    AfterValidator(_check_input),
    Field(description="A text, or messages of which the last one is from the user."),
]


class NewRun(Strict):
    """What to do, and within which limits. A limit lowers the agent's own and never raises it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"input": "What is 17*23?", "stream_tokens": True}]})

    input: RunInput
    agent: Annotated[
        str | None, Field(max_length=64, description="Slug of the agent; the default agent where none is named.")
    ] = None
    conversation: Annotated[
        str | None,
        Field(max_length=64, description="Id of the conversation to go on with; without it a new one begins."),
    ] = None
    stream_tokens: Annotated[bool, Field(description="Off: watchers see whole messages only.")] = True
    max_steps: Count | None = None
    max_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_tokens: Count | None = None
    max_cost: (
        Annotated[float, Field(ge=0.000001, lt=1_000_000)]
        | Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?$")]
        | None
    ) = None
    reasoning_effort: ReasoningEffort | None = None
    metadata: Annotated[
        dict[str, JsonValue] | None, Field(description=f"Yours to use, at most {MAX_METADATA_BYTES} bytes as JSON.")
    ] = None

    @field_validator("max_cost")
    @classmethod
    def check_cost(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, str) and not Decimal(value):
            raise ValueError("must be above 0")
        return value

    @field_validator("metadata")
    @classmethod
    def check_metadata(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if value and len(orjson.dumps(value)) > MAX_METADATA_BYTES:
            raise ValueError(f"must be at most {MAX_METADATA_BYTES} bytes")
        return value


class RunChange(Strict):
    """Another input for a run that has not started, in place of the whole one that it has."""

    input: RunInput


class OneDecision(Strict):
    tool_call_id: Annotated[str, Field(max_length=200)]
    approve: bool
    arguments: Annotated[
        dict[str, JsonValue] | None,
        Field(description="What the call is to run with instead; checked against the tool's schema."),
    ] = None
    reason: Annotated[
        str | None,
        Field(max_length=MAX_REASON, description="Of a denial, for the model; of an approval, for the record."),
    ] = None


class Decisions(Strict):
    decisions: Annotated[list[OneDecision], Field(min_length=1, max_length=MAX_DECISIONS)]


class ConversationChange(Strict):
    title: Annotated[str, Field(max_length=200)]


def read_order(body: dict[str, JsonValue], idempotency_key: str = "") -> RunOrder:
    new = check(NewRun, body)
    return RunOrder(
        messages=_as_messages(new.input),
        agent_slug=new.agent,
        conversation_id=new.conversation,
        has_token_streaming=new.stream_tokens,
        max_steps=new.max_steps,
        max_seconds=new.max_seconds,
        max_tokens=new.max_tokens,
        max_cost=None if new.max_cost is None else Decimal(str(new.max_cost)).quantize(MICRO, ROUND_DOWN),
        reasoning_effort=new.reasoning_effort or "",
        metadata=new.metadata or {},
        idempotency_key=idempotency_key,
        body_digest=_digest_of(body) if idempotency_key else "",
    )


def read_change(body: dict[str, JsonValue]) -> list[dict[str, object]]:
    """The messages that are the run's input from now on."""
    return _as_messages(check(RunChange, body).input)


def _as_messages(given: str | list[InputMessage]) -> list[dict[str, object]]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [message.as_stored() for message in given]


def read_idempotency_key(value: str | None) -> str:
    if value is None:
        return ""
    if not (1 <= len(value) <= 200 and value.isascii() and value.isprintable()):
        raise Refused(
            400,
            "invalid_idempotency_key",
            "Idempotency-Key must be 1 to 200 printable ASCII characters.",
            "Idempotency-Key",
        )
    return value


def _digest_of(body: dict[str, JsonValue]) -> str:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def check(shape: type[Model], body: dict[str, JsonValue]) -> Model:
    try:
        return shape.model_validate(body)
    except ValidationError as invalid:
        raise _as_refused(invalid) from None


def _as_refused(invalid: ValidationError) -> Refused:
    problems = invalid.errors(include_url=False, include_input=False, include_context=False)
    unknown = [str(problem["loc"][0])[:50] for problem in problems if _is_unknown(problem["type"], problem["loc"])]
    if unknown:
        more = f" (and {len(unknown) - NAMED} more)" if len(unknown) > NAMED else ""
        names = ", ".join(unknown[:NAMED])
        return Refused(400, "unknown_field", f"There is no field {names}{more} here.", unknown[0])
    problem = problems[0]
    field = str(problem["loc"][0])
    # The branches of a union are part of pydantic's path and not of the caller's.
    path = ".".join(str(step) for step in problem["loc"] if not str(step).startswith("as "))
    if problem["type"] == "missing":
        return Refused(400, "missing_field", f"{path} is required.", field)
    if problem["type"] == "string_pattern_mismatch" and path.endswith(("input", "content", "text")):
        return Refused(400, "invalid_field", f"{path} must not be blank.", field)
    words = problem["msg"].removeprefix("Value error, ")
    return Refused(400, "invalid_field", f"{path}: {words[0].lower()}{words[1:]}.", field)


def _is_unknown(kind: str, path: tuple[int | str, ...]) -> bool:
    return kind == "extra_forbidden" and len(path) == 1
