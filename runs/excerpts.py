"""Short pieces of text around the words that somebody looked for, with those words marked."""

import re
from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

BEFORE = 60
AFTER = 120


def has_word(text: str, words: Sequence[str]) -> bool:
    return _find(words).search(text) is not None


def mark_words(text: str, words: Sequence[str]) -> SafeString:
    """The text as HTML, with these words marked wherever they stand."""
    pieces = _find(words).split(text) if words else [text]
    marked = (format_html("<mark>{}</mark>", piece) if at % 2 else piece for at, piece in enumerate(pieces))
    return format_html_join("", "{}", ((piece,) for piece in marked))


def cut_excerpt(text: str, words: Sequence[str]) -> SafeString:
    """One line of the text, around the first of these words that stands in it."""
    hit = _find(words).search(text)
    begin, end = hit.span() if hit else (0, 0)
    before, after = text[max(begin - BEFORE, 0) : begin], text[end : end + AFTER]
    # Half a word at either side would look like another word.
    if begin > BEFORE:
        before = "…" + re.sub(r"^\S*\s+", "", before)
    if end + AFTER < len(text):
        after = re.sub(r"\s+\S*$", "", after) + "…"
    return mark_words(" ".join(f"{before}{text[begin:end]}{after}".split()), words)


def _find(words: Sequence[str]) -> re.Pattern[str]:
    """Any of these words; where one begins with another, the longer one."""
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})", re.IGNORECASE)
