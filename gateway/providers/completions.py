"""Reads a streamed chat completion: the JSON of one event after another becomes chunks.

"OpenAI-compatible" is a wide word. What differs between servers, and is understood here:

* the index of a tool call may be missing, or be 0 for each of several parallel calls; a call begins with a new id,
  but some servers make up a new id for every piece of the same call, and only the first piece carries a name;
* usage may come in an event of its own, with the last piece of text, or with every piece, growing: the last one counts;
* reasoning is called `reasoning_content` or `reasoning`, or is a part of a list as content;
* the end may be a finish_reason, `[DONE]`, or both;
* an error may come in the middle of the stream, after the status 200;
* a character past U+FFFF may be cut in two, where a gateway counts as JavaScript does.

What no model says in good faith is not believed: figures that cannot be true count as none, and an answer without an
end is ended here, before it fills the memory.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from gateway.errors import ProviderError
from gateway.messages import Usage
from gateway.providers.base import Chunk, Ended, ReasoningDelta, TextDelta, ToolCallDelta, UsageReport
from gateway.providers.failures import failure_in_stream

DONE = b"[DONE]"
Spoken = TextDelta | ReasoningDelta
HALF = re.compile("[\ud800-\udfff]")
FIRST_HALF = re.compile("[\ud800-\udbff]")
MAX_ANSWER_CHARACTERS = 16 * 2**20  # of text, thoughts and arguments together
MAX_CALLS = 1_000
MAX_TOKENS = 2**31 - 1
MAX_COST = 1_000_000


class CompletionReader:
    """Reads the events of one model call, in order."""

    def __init__(self) -> None:
        self.has_ended = False  # an `Ended` was given out: the answer is complete
        self.is_done = False  # nothing more will come
        self._calls: list[tuple[str, str]] = []  # id and name of each tool call so far, from its first piece
        self._call_of_index: dict[int, int] = {}
        self._characters = 0
        self._halves: dict[str, str] = {}  # of characters that are cut in two: the first, until the second comes

    def read(self, payload: bytes, chunks: list[Chunk]) -> None:
        """Appends to `chunks` what an event says."""
        if self.is_done:
            return
        if payload == DONE:
            self.is_done = True
            if not self.has_ended:
                self._end(chunks, "tool_calls" if self._calls else "stop")
        elif payload:
            try:
                self._read_event(parse(payload), chunks)
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                raise unreadable(payload) from error

    def read_whole(self, body: bytes, chunks: list[Chunk]) -> None:
        """For servers that answer a streamed request with one JSON object."""
        self.read(body, chunks)
        if not chunks:
            raise unreadable(body)
        self.read(DONE, chunks)

    def _read_event(self, event: dict[str, Any], chunks: list[Chunk]) -> None:
        if event.get("error") or event.get("object") == "error":
            raise failure_in_stream(event)
        for choice in event.get("choices") or ():
            if choice.get("index"):
                continue  # a second answer to the same question: nobody asked for one
            delta = choice.get("delta") or choice.get("message")
            if delta:
                self._read_delta(delta, chunks)
            finish_reason = choice.get("finish_reason")
            if finish_reason and not self.has_ended:
                self._end(chunks, str(finish_reason))
        usage = read_usage(event.get("usage"))
        if usage is not None:
            chunks.append(UsageReport(usage))

    def _read_delta(self, delta: dict[str, Any], chunks: list[Chunk]) -> None:
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        first = len(chunks)
        if reasoning:
            chunks.append(ReasoningDelta(as_text(reasoning)))
        content = delta.get("content") or delta.get("refusal")
        if isinstance(content, list):
            read_parts(content, chunks)
        elif content:
            chunks.append(TextDelta(as_text(content)))
        for piece in delta.get("tool_calls") or ():
            chunks.append(self._read_tool_call(piece))
        for chunk in chunks[first:]:
            self._take(chunk)
        if self._halves:  # with nothing before it, half a character is nothing yet
            chunks[first:] = [chunk for chunk in chunks[first:] if not isinstance(chunk, Spoken) or chunk.text]

    def _read_tool_call(self, piece: dict[str, Any]) -> ToolCallDelta:
        function = piece.get("function") or {}
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else orjson.dumps(arguments).decode()
        delta = ToolCallDelta(-1, as_text(piece.get("id") or ""), as_text(function.get("name") or ""), arguments)
        index = piece.get("index")
        delta.index = self._find_call(delta) if index is None else self._find_indexed_call(delta, int(index))
        if delta.index == len(self._calls):
            self._calls.append((delta.id, delta.name))
        return delta

    def _find_call(self, delta: ToolCallDelta) -> int:
        """Where a piece without an index belongs."""
        if delta.id:
            return next((at for at, (call_id, _) in enumerate(self._calls) if call_id == delta.id), len(self._calls))
        begins_another = bool(delta.name) or not self._calls
        return len(self._calls) if begins_another else len(self._calls) - 1

    def _find_indexed_call(self, delta: ToolCallDelta, index: int) -> int:
        known = self._call_of_index.get(index)
        if known is not None:
            call_id, name = self._calls[known]
            begins_another = name and delta.name and call_id and delta.id and call_id != delta.id
            if not begins_another:
                return known
        self._call_of_index[index] = len(self._calls)
        return len(self._calls)

    def _take(self, chunk: Chunk) -> None:
        if isinstance(chunk, ToolCallDelta):
            chunk.arguments = self._join(chunk.arguments, f"arguments {chunk.index}")
            self._characters += len(chunk.arguments)
        elif isinstance(chunk, Spoken):
            chunk.text = self._join(chunk.text, type(chunk).__name__)
            self._characters += len(chunk.text)
        if self._characters > MAX_ANSWER_CHARACTERS:
            raise ProviderError("llm_error", "The provider's answer is longer than can be true.")
        if len(self._calls) > MAX_CALLS:
            raise ProviderError("llm_error", "The provider asks for more tool calls at once than can be true.")

    def _join(self, text: str, kind: str) -> str:
        """Without halves of characters: with the one that came before, and without one whose other half is to come."""
        if self._halves:
            text = self._halves.pop(kind, "") + text
        if text.isascii() or not HALF.search(text):
            return text
        if FIRST_HALF.match(text[-1]):
            self._halves[kind] = text[-1]
            text = text[:-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _end(self, chunks: list[Chunk], finish_reason: str) -> None:
        self.has_ended = True
        chunks.append(Ended(finish_reason))


def parse(payload: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError:
        # The standard has broken UTF-8 replaced, not refused. Python's own reader takes halves of characters, too;
        # anything else that is wrong fails again.
        event = json.loads(payload.decode("utf-8", "replace"))
    if not isinstance(event, dict):
        raise TypeError("An event must be an object.")
    return event


def unreadable(payload: bytes) -> ProviderError:
    words = payload[:500].decode("utf-8", "replace")
    return ProviderError("llm_error", "The provider sent something that cannot be read.", words, transient=True)


def as_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("Not a text.")
    return value


def read_parts(parts: list[dict[str, Any]], chunks: list[Chunk]) -> None:
    """Content as a list: `{"type": "text", "text": …}` and `{"type": "thinking", "thinking": [text parts]}`."""
    for part in parts:
        thoughts = part.get("thinking")
        if thoughts:
            said = thoughts if isinstance(thoughts, str) else "".join(as_text(thought["text"]) for thought in thoughts)
            chunks.append(ReasoningDelta(said))
        elif part.get("text"):
            chunks.append(TextDelta(as_text(part["text"])))


def read_usage(usage: object) -> Usage | None:
    """None where nothing is said, or nothing that can be true: no reason to lose an answer over it."""
    if not isinstance(usage, dict) or not usage:
        return None
    prompt_tokens = read_count(usage.get("prompt_tokens"))
    completion_tokens = read_count(usage.get("completion_tokens"))
    if prompt_tokens is None or completion_tokens is None:
        return None
    return Usage(prompt_tokens, completion_tokens, read_cost(usage.get("cost")))


def read_count(count: Any) -> int | None:
    try:
        number = int(count or 0)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= MAX_TOKENS else None


def read_cost(cost: object) -> Decimal | None:
    """Some providers state what the call cost."""
    if not isinstance(cost, int | float | str) or isinstance(cost, bool):
        return None
    try:
        amount = Decimal(str(cost))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and 0 <= amount < MAX_COST else None
