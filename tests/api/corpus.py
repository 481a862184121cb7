"""Bodies that must be refused, and what their refusal must name."""

from typing import Any

from runs.api.orders import MAX_MESSAGES, MAX_METADATA_BYTES, MAX_TEXT

SURROGATE = "\ud800"
LOW_SURROGATE = "\udfff"
USER = {"role": "user", "content": "hello"}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def said(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


def image(image_url: Any) -> list[Any]:
    return said([{"type": "image_url", "image_url": image_url}])


# What is no JSON object at all, and the words that the message must hold.
NOT_AN_OBJECT = [
    (b"", "not JSON"),
    (b" ", "not JSON"),
    (b"{", "not JSON"),
    (b"nonsense", "not JSON"),
    (b"{'input': 'x'}", "not JSON"),
    (b'{"input": "x"} trailing', "not JSON"),
    (b'{"input": "x",}', "not JSON"),
    (b'{"input": "raw \x00 byte"}', "not JSON"),
    (b'{"input": "raw \n break"}', "not JSON"),
    (b'\xef\xbb\xbf{"input": "x"}', "not JSON"),
    (b'{"input": "\xff"}', "not UTF-8"),
    (b'{"input": "\xed\xa0\x80"}', "not UTF-8"),
    ('{"input": "x"}'.encode("utf-16"), "not UTF-8"),
    (b"null", "JSON object"),
    (b"[]", "JSON object"),
    (b'"text"', "JSON object"),
    (b"1", "JSON object"),
    (b"true", "JSON object"),
    (b"[" * 100_000, "deeper"),
    (b'{"a":' * 100_000, "deeper"),
    (b"NaN", "NaN"),
    (b'{"input": "x", "max_seconds": NaN}', "NaN"),
    (b'{"input": "x", "max_seconds": Infinity}', "Infinity"),
    (b'{"input": "x", "metadata": {"a": -Infinity}}', "Infinity"),
    (b'{"input": "x", "max_seconds": 1e999}', "out of range"),
    (b'{"input": "x", "max_steps": 9223372036854775808}', "64 bits"),
    (b'{"input": "x", "metadata": {"a": -99999999999999999999999}}', "64 bits"),
    (b'{"input": "x", "metadata": {"a": ' + b"9" * 100_000 + b"}}", "64 bits"),
    (b'{"input": "x", "input": "y"}', "twice"),
    (b'{"input": "x", "metadata": {"deep": {"k": 1, "k": 2}}}', "twice"),
    (b'{"input": "x", "\\ud800": 1, "\\ud800": 2}', "twice"),
    (b"{" + b",".join(b'"%d":1' % number for number in range(150_000)) + b',"149999":2}', "twice"),
]

COUNTS: list[Any] = [0, -1, True, False, 1.0, 1.5, "1", "", [], {}, 2**31, 2**63 - 1, -(2**63) + 1]

# What is wrong for a field that is there.
WRONG: dict[str, list[Any]] = {
    "input": [
        *(None, True, False, 0, 1.5, {}, {"role": "user"}),
        *("", " ", "\n\t ", "\u00a0\u2003"),
        *([], [1], ["text"], [None], [[]], [{}], [{"role": "user"}], [{"content": "x"}]),
        *([{**USER, "extra": 1}], [{"role": "tool", "content": "x"}], [{"role": 1, "content": "x"}]),
        *(said(None), said(""), said(" "), said([]), said({}), said(7), said(["x"])),
        said([{"type": "text"}]),
        said([{"type": "text", "text": ""}]),
        said([{"type": "text", "text": 1}]),
        said([{"type": "video", "text": "x"}]),
        said([{"text": "x"}]),
        said([{"type": "image_url"}]),
        *(image("https://example.org/a.png"), image({"url": ""}), image({"url": "file:///etc/passwd"})),
        image({"url": "https://example.org/a.png", "extra": 1}),
        # The last word must be the user's.
        [USER, {"role": "assistant", "content": "x"}],
        [{"role": "system", "content": "x"}],
        # Too much.
        [USER] * (MAX_MESSAGES + 1),
        "x" * (MAX_TEXT + 1),
        said("x" * (MAX_TEXT // 2 + 1)) * 2,
        said([{"type": "text", "text": "x" * (MAX_TEXT // 2 + 1)}] * 2),
        nested(100),
        # What PostgreSQL cannot store.
        *("nul \0", f"half {SURROGATE}", f"half {LOW_SURROGATE} x", said("nul \0"), said(SURROGATE)),
        said([{"type": "text", "text": "nul \0"}]),
        [{**USER, "nul \0": 1}],
    ],
    "agent": [1, True, [], {}, ["agent"], "nul \0", SURROGATE, "x" * 65],
    "conversation": [1, True, [], {}, "nul \0", "x" * 10_000],
    "stream_tokens": [None, 0, 1, "true", "", [], {}],
    "max_steps": COUNTS,
    "max_tokens": COUNTS,
    "max_seconds": [0, 0.0, -1, True, "1", [], {}],
    "max_cost": [
        *(0, -1, True, 1e-9, 1_000_000, [], {}),
        *("", "0", "0.0", "-1", "1e3", "NaN", "Infinity", " 1", "1 ", "1.", ".5", "1,5", "1.1234567", "1000000", "٣"),
    ],
    "reasoning_effort": ["", "HIGH", "extreme", 1, True, [], {}],
    "metadata": [
        *([], "x", 1, True, {"a": "x" * MAX_METADATA_BYTES}, {"a": nested(100)}),
        *({"a": "nul \0"}, {"nul \0": 1}, {"a": {"b": [SURROGATE]}}, {"a": [{SURROGATE: 1}]}),
    ],
}

# The field that must be named, and a body.
WRONG_FIELDS: list[tuple[str, dict[str, Any]]] = [
    *((field, {"input": "x", field: wrong}) for field, values in WRONG.items() for wrong in values),
    ("input", {}),
    ("inptu", {"inptu": "x"}),
    ("temperature", {"input": "x", "temperature": 1}),
    ("", {"input": "x", "": 1}),
    ("nul \\x00", {"input": "x", "nul \0": 1}),
    ("\\ud800", {"input": "x", SURROGATE: 1}),
]

# No server decodes a path to half of a surrogate pair, so there is none here.
IDS = [
    *("x", "1", "-1", "run_", "conv_", "run_" + "0" * 24, "run_" + "0" * 10_000, "RUN_" + "0" * 24, "run_%", ".."),
    *("nul\0", "run_\0", "run_0\n", "ü", "🙂", "' OR 1=1 --", " "),
]
