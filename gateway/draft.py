"""An answer while the model writes it, and what of it watchers have been shown.

After a lost connection the model is asked again, and begins again. As long as it says what was shown already, nothing
is shown twice: the new text is held back until it goes beyond the old one. Where it says something else, the old text
stays as a partial message of its own and the new answer becomes the next message.
"""

from dataclasses import dataclass, field

from gateway.messages import ToolCall, Usage
from gateway.providers.base import ToolCallDelta
from gateway.text import storable_text


@dataclass
class Draft:
    shown: str = ""
    is_reasoning_shown: bool = False
    is_reasoning_held_back: bool = False
    has_begun: bool = False
    usage: Usage | None = None
    _parts: list[str] = field(default_factory=list)
    _length: int = 0
    _calls: dict[int, ToolCallDelta] = field(default_factory=dict)
    _arguments: dict[int, list[str]] = field(default_factory=dict)  # joined once, not at every piece

    @property
    def text(self) -> str:
        """What this attempt has said so far."""
        return "".join(self._parts)

    @property
    def kept_text(self) -> str:
        """What is to be kept if it ends here: never less than what somebody saw."""
        text = self.text
        return self.shown if self.shown.startswith(text) else text

    def begin_again(self, *, was_shown: bool) -> None:
        """A new attempt: what was shown stays shown."""
        self.shown = self.kept_text if was_shown else ""
        self.is_reasoning_held_back = self.is_reasoning_shown
        self.has_begun = False
        self.usage = None
        self._parts, self._length = [], 0
        self._calls, self._arguments = {}, {}

    def add_text(self, text: str) -> str | None:
        """Take more text; what is new for the watchers of it, or None where the answer has become another one."""
        before = self._length
        self._parts.append(text)
        self._length += len(text)
        if before >= len(self.shown):
            return text
        overlap = min(len(text), len(self.shown) - before)
        if self.shown[before : before + overlap] != text[:overlap]:
            return None
        return text[overlap:]

    def is_shorter_than_shown(self) -> bool:
        return self._length < len(self.shown)

    def part_with_shown(self) -> str:
        """Give up the old answer: from here on this draft is a message of its own. Returns the old text."""
        old, self.shown = self.shown, ""
        return old

    def add_call(self, delta: ToolCallDelta) -> None:
        call = self._calls.setdefault(delta.index, ToolCallDelta(delta.index))
        call.id = call.id or delta.id
        call.name = call.name or delta.name
        self._arguments.setdefault(delta.index, []).append(delta.arguments)

    @property
    def calls(self) -> list[ToolCall]:
        return [
            ToolCall(
                storable_text(call.id)[:150],
                storable_text(call.name)[:100],
                storable_text("".join(self._arguments[index])) or "{}",
            )
            for index, call in sorted(self._calls.items())
        ]

    @property
    def characters(self) -> int:
        names = sum(len(call.name) for call in self._calls.values())
        return self._length + names + sum(len(part) for parts in self._arguments.values() for part in parts)
