"""Plain orders to the demo model, anywhere in the last user message, for tests and measurements.

    #tokens=N             how many tokens to stream, "tok0 tok1 …"          (50)
    #rate=R               tokens a second, 0 = no pause                      (0)
    #ttft=S               seconds before the first token                     (0)
    #reasoning=N          N tokens of reasoning first
    #tool=NAME {json}     answer with one call of NAME first, then with text
    #tools=NAME*K {json}  K parallel calls of NAME first
    #error=CODE           answer with that HTTP status
    #errors=N             … only the first N times that this text is asked
    #retryafter=S         … with that Retry-After
    #hang                 send the headers and never a token
    #cut=N                drop the connection after N tokens; #cutonce=N only the first time
    #nousage              report no usage

A message with any of them gets tokens instead of an answer.
"""

import json
import re

from gateway.providers.demo.question import Question
from gateway.providers.demo.script import ALWAYS, Script

DIRECTIVE = re.compile(
    r"#(?:(?:tokens|rate|ttft|reasoning|errors?|retryafter|cut|cutonce)=\d|tools?=[A-Za-z0-9_.-]|(?:hang|nousage)\b)"
)
TOOL = re.compile(r"#tools?=([A-Za-z0-9_.-]+)(?:\*(\d{1,6}))?\s*")
MOST_CALLS = 128


def find_directives(question: Question) -> Script | None:
    text = question.text
    if not DIRECTIVE.search(text):
        return None
    calls = () if question.answered else find_calls(text)
    count = int(find_number(text, "tokens", 50))
    reasoning = int(find_number(text, "reasoning", 0))
    cut_once = int(find_number(text, "cutonce", 0))
    retry_after = find_number(text, "retryafter", -1)
    return Script(
        tokens=() if calls else (f"tok{number} " for number in range(count)),
        reasoning=(f"think{number} " for number in range(reasoning)),
        calls=calls,
        seconds_to_think=find_number(text, "ttft", 0),
        tokens_a_second=find_number(text, "rate", 0),
        hangs=bool(re.search(r"#hang\b", text)),
        error=int(find_number(text, "error", 0)),
        failures=int(find_number(text, "errors", ALWAYS)),
        retry_after=None if retry_after < 0 else retry_after,
        cut_after=cut_once or int(find_number(text, "cut", 0)),
        cuts=1 if cut_once else ALWAYS,
        reports_usage=not re.search(r"#nousage\b", text),
        prompt_tokens=10,
        completion_tokens=count + reasoning,
    )


def find_number(text: str, name: str, default: float) -> float:
    found = re.search(f"#{name}=" + r"(\d{1,9}(?:\.\d{1,9})?)", text)
    return float(found[1]) if found else default


def find_calls(text: str) -> tuple[tuple[str, str], ...]:
    calls: list[tuple[str, str]] = []
    for found in TOOL.finditer(text):
        calls += [(found[1], find_arguments(text[found.end() :]))] * min(int(found[2] or 1), MOST_CALLS)
    return tuple(calls[:MOST_CALLS])


def find_arguments(rest: str) -> str:
    """The JSON object that the text begins with. What only looks like one is passed on too: models do send rubbish."""
    if not rest.startswith("{"):
        return "{}"
    try:
        _, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        end = rest.find("}") + 1
    return rest[:end] or "{}"
