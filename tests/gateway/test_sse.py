"""The SSE splitter: the standard, whatever the network makes of it."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.providers.sse import EventSplitter, EventTooLarge


def read_in_pieces(pieces: list[bytes]) -> list[bytes]:
    splitter = EventSplitter()
    return [event for piece in pieces for event in splitter.feed(piece)]


def read_by_the_standard(text: str) -> list[str]:
    """A literal transcription of the standard for the whole text at once, to compare with."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    events: list[str] = []
    data = ""
    for line in text.split("\n")[:-1]:
        if line == "":
            if data != "":
                events.append(data.removesuffix("\n"))
            data = ""
        elif line.startswith(":"):
            continue
        else:
            field, colon, value = line.partition(":")
            if colon and value.startswith(" "):
                value = value[1:]
            if field == "data":
                data += value + "\n"
    return events


LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.one_of(
    st.sampled_from(
        [
            "",
            "",
            "",
            "data",
            "data:",
            "data: ",
            "data:  two",
            'data: {"a": 1}',
            "data: [DONE]",
            ": comment",
            ":",
            "event: error",
        ]
        + [
            "id: 7",
            "retry: 10",
            "dataset: no",
            " data: no",
            "data : no",
            "daten: nein",
            "data: ünï😀cödé\ufeff",
            "\ufeffdata: no",
        ]
    ),
    st.text(alphabet=st.sampled_from("da t:x\ufeffé😀"), max_size=12),
)
STREAMS = st.lists(st.tuples(LINES, LINE_ENDS), max_size=30).map(
    lambda lines: "".join(line + end for line, end in lines)
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    text = draw(st.sampled_from(["", "\ufeff"])) + draw(STREAMS) + draw(st.sampled_from(["", "data: unfinished", "\r"]))
    raw = text.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=40)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    return text, pieces


@settings(max_examples=1500, deadline=None)
@given(cut_streams())
@example(("data: a\r\n\r\ndata: b\r\n\r\n", [b"data: a\r", b"\n\r", b"\ndata: b\r\n", b"\r", b"\n"]))
def test_any_stream_cut_anywhere_gives_what_the_standard_says(case: tuple[str, list[bytes]]) -> None:
    text, pieces = case
    assert [event.decode() for event in read_in_pieces(pieces)] == read_by_the_standard(text)


@settings(max_examples=200, deadline=None)
@given(STREAMS)
def test_a_stream_that_comes_byte_by_byte_gives_the_same_events(text: str) -> None:
    raw = text.encode()
    assert read_in_pieces([raw[i : i + 1] for i in range(len(raw))]) == read_in_pieces([raw])


def test_the_usual_stream_of_a_model_is_split_into_its_json_texts() -> None:
    assert read_in_pieces([b'data: {"n": 1}\n\n', b'data: {"n": 2}\n\ndata: {"n": 3}\n\n', b"data: [DONE]\n\n"]) == [
        b'{"n": 1}',
        b'{"n": 2}',
        b'{"n": 3}',
        b"[DONE]",
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end_ends_a_line(end: bytes) -> None:
    assert read_in_pieces([b"data: a" + end + end + b"data: b" + end + end]) == [b"a", b"b"]


def test_a_crlf_that_is_cut_in_two_is_one_line_end() -> None:
    assert read_in_pieces([b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]) == [b"a\nb"]


def test_an_event_ended_by_cr_is_given_back_without_waiting_for_a_line_feed() -> None:
    assert EventSplitter().feed(b"data: a\r\r") == [b"a"]


def test_data_lines_are_joined_whatever_stands_between_them() -> None:
    assert read_in_pieces([b"id: 1\ndata: a\n: still here\nevent: x\ndata:b\ndata\n\n"]) == [b"a\nb\n"]


def test_only_one_space_after_the_colon_belongs_to_the_syntax() -> None:
    assert read_in_pieces([b"data:a\n\ndata: b\n\ndata:  c\n\n"]) == [b"a", b"b", b" c"]


def test_comments_alone_are_no_event() -> None:
    assert read_in_pieces([b": OPENROUTER PROCESSING\n\n", b":\n\n", b"data: a\n\n"]) == [b"a"]


def test_a_byte_order_mark_is_skipped_even_when_cut() -> None:
    assert read_in_pieces([b"\xef", b"", b"\xbb", b"\xbfdata: a\n\n"]) == [b"a"]


def test_a_character_may_be_cut_in_two() -> None:
    raw = "data: Grüße 😀\n\n".encode()
    for cut in range(len(raw)):
        assert read_in_pieces([raw[:cut], raw[cut:]]) == ["Grüße 😀".encode()]


def test_an_event_that_the_stream_ends_in_is_dropped() -> None:
    assert read_in_pieces([b"data: a\n\ndata: b\n"]) == [b"a"]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 200 + b"\n\n"],
        [b"data: ", *[b"x" * 10] * 20],
        [b"data: xxxxxxxxxxxxxxxx\n"] * 10,
        [b": " + b"x" * 200 + b"\n"],
    ],
    ids=["in one piece", "in one line that does not end", "in many lines", "a comment"],
)
def test_an_event_larger_than_the_limit_is_refused(pieces: list[bytes]) -> None:
    splitter = EventSplitter(max_event_bytes=100)
    with pytest.raises(EventTooLarge):
        for piece in pieces:
            splitter.feed(piece)


def test_many_events_that_are_large_only_together_are_fine() -> None:
    splitter = EventSplitter(max_event_bytes=100)
    assert splitter.feed(b"data: xxxxxxxxxxxxxxxx\n\n" * 10) == [b"x" * 16] * 10


def test_a_long_line_in_many_pieces_is_put_together_once() -> None:
    """In time that grows with its length, not with the square of it: 8 MB in pieces of 100 bytes."""
    splitter = EventSplitter()
    splitter.feed(b"data: ")
    for _ in range(80_000):
        assert splitter.feed(b"x" * 100) == []
    assert splitter.feed(b"\n\n") == [b"x" * 8_000_000]
