"""A text that still grows, as HTML: what is finished is never rendered again.

The text is cut into Markdown's top-level blocks. A block is finished when another one has begun behind it, judged by
whole lines only: half a line may look like a heading and turn out to be none. So only the last block is rendered anew
when something is added, and where even that one is long, what is added is shown plainly until it is worth the work:

* code whose fence is still open grows by plain text and gets its colours when the fence closes;
* any other block of more than `LONG` characters is looked at again each time it has grown by a quarter.

So the work for a text is in proportion to its length, however small the pieces in which it comes.
"""

import re
from dataclasses import dataclass

from runs.transcript.markdown import code_block, parse_blocks, render_blocks, render_tokens, sanitise

LONG = 4_000
OPENING = re.compile(r" {0,3}(`{3,}(?=[^`\n]*\n)|~{3,})[ \t]*([^\s`]*)[^\n]*\n")


@dataclass(frozen=True, slots=True)
class Put:
    """Block `number` now looks like this."""

    number: int
    html: str


@dataclass(frozen=True, slots=True)
class Add:
    """Plain text that is added at the end of block `number`."""

    number: int
    text: str


Change = Put | Add


class GrowingText:
    def __init__(self) -> None:
        self.finished: list[str] = []
        self._tail = ""
        self._rendered = 0  # how long the tail was when it was last looked at
        self._fence: re.Pattern[str] | None = None  # what would close the code that is open

    @property
    def nodes(self) -> list[str]:
        """The HTML of all blocks, the open one last."""
        return [*self.finished, self._render_tail()] if self._tail.strip() else list(self.finished)

    def add(self, text: str) -> list[Change]:
        before = len(self._tail)
        self._tail += text
        if self._fence is not None:
            if self._fence.search(self._tail, max(self._tail.rfind("\n", 0, before), 0)) is None:
                return self._grow(text)
            self._fence = None
        elif LONG < len(self._tail) < self._rendered * 1.25:
            return self._grow(text)
        changes = self._finish_blocks()
        opening = OPENING.match(self._tail)
        if opening is not None and (closing := _closing_of(opening)).search(self._tail, opening.end() - 1) is None:
            self._fence = closing
        self._rendered = len(self._tail)
        if self._tail.strip():
            changes.append(Put(len(self.finished), self._render_tail()))
        return changes

    def finish(self, text: str) -> list[Change]:
        """The whole text is known: what the blocks look like in the end, where that is different. Links may refer to
        addresses that came later, and code gets its colours."""
        before = self.nodes
        self._tail, self._fence = "", None
        self.finished = render_blocks(text)
        changes: list[Change] = [
            Put(number, html)
            for number, html in enumerate(self.finished)
            if number >= len(before) - 1 or before[number] != html
        ]
        changes += [Put(number, "") for number in range(len(self.finished), len(before))]
        return changes

    def _grow(self, text: str) -> list[Change]:
        return [Add(len(self.finished), text)]

    def _finish_blocks(self) -> list[Change]:
        whole = self._tail[: self._tail.rfind("\n") + 1]
        blocks = list(parse_blocks(whole, {})) if whole else []
        if len(blocks) < 2:
            return []
        changes: list[Change] = []
        for block in blocks[:-1]:
            html = render_tokens(block, {})
            changes.append(Put(len(self.finished), html))
            self.finished.append(html)
        lines = blocks[-1][0].map
        assert lines is not None
        self._tail = self._tail.split("\n", lines[0])[-1] if lines[0] else self._tail
        return changes

    def _render_tail(self) -> str:
        opening = OPENING.match(self._tail) if self._fence is not None else None
        if opening is not None:
            return sanitise(code_block(self._tail[opening.end() :], opening[2], is_coloured=False))
        return "".join(render_blocks(self._tail))


def _closing_of(opening: re.Match[str]) -> re.Pattern[str]:
    marker = opening[1]
    return re.compile(rf"\n {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*\n")
