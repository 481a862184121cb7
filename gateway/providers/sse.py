"""Cuts a byte stream of server-sent events into the data of its events, however the network chopped it up.

By the standard (https://html.spec.whatwg.org/multipage/server-sent-events.html), except that only the data is of
interest here: names, ids and retry times are read over. The work is done on bytes, because all that separates events
is ASCII and so no character can be cut in two. The usual case, one `data: {…}` and a blank line, takes a short way.
"""

from collections.abc import Iterable

BOM = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 16 * 2**20


class EventTooLarge(ValueError):
    """An event, or a line of one, is larger than anything a model sends in good faith."""


class EventSplitter:
    """Feed it what comes in; it gives back the data of the events that are complete by then.

    An event in the middle of which the stream ends is never given back: that, too, is the standard."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._opening: bytes | None = b""  # the first bytes, until it is clear whether they are a byte order mark
        self._ended_in_cr = False
        self._line: list[bytes] = []  # pieces of a line whose end has not come: joined once, not at every piece
        self._line_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, received: bytes) -> list[bytes]:
        if self._opening is not None:
            received = self._without_bom(received)
        if self._ended_in_cr or b"\r" in received:
            received = self._with_plain_line_ends(received)
        size = len(received)
        if (
            received.startswith(b"data: ")
            and received.find(b"\n") == size - 2
            and received.endswith(b"\n")
            and not self._line
            and not self._data
            and size <= self._max_event_bytes
        ):
            return [received[6:-2]]
        return self._split_lines(received)

    def _without_bom(self, received: bytes) -> bytes:
        opening = (self._opening or b"") + received
        if len(opening) < len(BOM) and BOM.startswith(opening):
            self._opening = opening
            return b""
        self._opening = None
        return opening.removeprefix(BOM)

    def _with_plain_line_ends(self, received: bytes) -> bytes:
        """A CR ends its line at once. Should the other half of a CRLF follow in the next piece, it is skipped."""
        if not received:
            return received
        if self._ended_in_cr:
            received = received.removeprefix(b"\n")
        self._ended_in_cr = received.endswith(b"\r")
        return received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _split_lines(self, received: bytes) -> list[bytes]:
        first, *others = received.split(b"\n")
        self._hold(first)
        if not others:
            return []
        rest = others.pop()
        complete = [b"".join(self._line), *others]
        self._line.clear()
        self._line_bytes = 0
        events = self._read_lines(complete)
        self._hold(rest)
        return events

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._line.append(piece)
            self._line_bytes += len(piece)
            self._refuse_over_limit(self._line_bytes)

    def _read_lines(self, lines: Iterable[bytes]) -> list[bytes]:
        events = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data))
                    self._data.clear()
                    self._data_bytes = 0
                continue
            self._refuse_over_limit(len(line))
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
                self._data_bytes += len(value) + 1
                self._refuse_over_limit(self._data_bytes)
        return events

    def _refuse_over_limit(self, size: int) -> None:
        if size > self._max_event_bytes:
            raise EventTooLarge(f"An event of more than {self._max_event_bytes:,} bytes.")
