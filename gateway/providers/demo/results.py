"""How the demo model tells what its tools brought back: it quotes the result, and says when there is none."""

import json
import re
from collections.abc import Sequence
from datetime import datetime

from gateway.providers.demo.question import Answered

LONGEST_QUOTE = 600
# A result is only text to a model. A call that did not work is usually answered with one of these words early on.
OPENING = 100
DENIED = re.compile(r"\b(denied|rejected|not approved)\b", re.IGNORECASE)
STOPPED = re.compile(r"\b(stopped|interrupted|cancelled|not executed|never answered)\b", re.IGNORECASE)
FAILED = re.compile(r"\b(error|failed|took longer|did not finish|there is no tool|cannot|invalid)\b", re.IGNORECASE)
NUMBER = re.compile(r"-?[\d.,]+(?:e-?\d+)?", re.IGNORECASE)


def tell_results(answered: Sequence[Answered], is_german: bool = False) -> str:
    told = [tell_result(call, is_german) for call in answered]
    if len(told) == 1:
        return told[0]
    opening = "Alles erledigt:" if is_german else f"All {len(told)} calls are through:"
    # What has several lines stays in its point of the list.
    points = [f"{number}. {text.replace(chr(10), f'{chr(10)}   ')}" for number, text in enumerate(told, 1)]
    return opening + "\n\n" + "\n".join(points)


def tell_result(call: Answered, is_german: bool = False) -> str:
    result = call.result.strip()
    failure = tell_failure(call.name, result)
    if failure:
        return failure
    arguments = read_arguments(call.arguments)
    match call.name:
        case "calculator":
            is_word = "ist" if is_german else "is"
            return f"`{arguments.get('expression', '')}` {is_word} **{quote(result)}**."
        case "current_time":
            return tell_time(result, is_german)
        case "wait":
            return (
                f"{quote(result)} Had you pressed **Stop** in the meantime, the wait would have ended there and then."
            )
        case "remember":
            return f"Noted: *{arguments.get('text', '')}*. Ask me later *what do you remember?*"
        case "recall":
            return tell_notes(result)
        case "send_email":
            return f"The e-mail to **{arguments.get('to', '')}**: {quote(result)}"
    return f"The tool `{call.name}` answered: {quote(result)}"


def tell_failure(name: str, result: str) -> str | None:
    said = f"It said: {quote(result)}"
    opening = result[:OPENING]
    if DENIED.search(opening):
        return f"The call of `{name}` was not allowed, so I did not do it. {said}"
    if STOPPED.search(opening):
        return f"The call of `{name}` was stopped before it had a result. {said}"
    if FAILED.search(opening) or (name == "calculator" and not NUMBER.fullmatch(result)):
        return f"The tool `{name}` did not manage it. {said}"
    return None


def tell_notes(result: str) -> str:
    notes = read_arguments(result)
    if not notes:
        return f"From my notes: {quote(result)}"
    return "This is what I remember:\n\n" + "\n".join(f"* **{key}**: {text}" for key, text in notes.items())


def read_arguments(text: str) -> dict[str, object]:
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def quote(result: str) -> str:
    if not result:
        return "(nothing)"
    return result if len(result) <= LONGEST_QUOTE else result[:LONGEST_QUOTE] + " …"


def tell_time(result: str, is_german: bool) -> str:
    """As people write it: the tool tells a weekday and a moment for programs."""
    try:
        moment = datetime.fromisoformat(result.rpartition(", ")[2])
    except ValueError:
        return f"**{quote(result)}**"
    if is_german:
        return f"Es ist **{moment:%H:%M} Uhr** ({moment:%Z}), am {moment:%d.%m.%Y}."
    return f"It is **{moment:%H:%M}** ({moment:%Z}) on {moment:%A}, {moment.day} {moment:%B %Y}."
