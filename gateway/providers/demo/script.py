"""What the demo model will do with one request, decided before it begins."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

ALWAYS = 2**31


@dataclass(frozen=True, slots=True)
class Script:
    """`error` is an HTTP status, for the first `failures` calls with the same text; `cut_after` a number of tokens
    after which the connection breaks, in the first `cuts` calls. Token counts of 0 mean: count them."""

    tokens: Iterable[str] = ()
    reasoning: Iterable[str] = ()
    calls: tuple[tuple[str, str], ...] = ()
    seconds_to_think: float = 0.0
    tokens_a_second: float = 0.0
    hangs: bool = False
    error: int = 0
    failures: int = ALWAYS
    retry_after: float | None = None
    cut_after: int = 0
    cuts: int = ALWAYS
    reports_usage: bool = True
    prompt_tokens: int = 0
    completion_tokens: int = 0


def cut_into_tokens(text: str) -> list[str]:
    """Pieces about as long as a model's, which put together are the text again."""
    return re.findall(r"\s*\S{1,6}|\s+$", text)
