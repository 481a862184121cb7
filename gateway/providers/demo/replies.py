"""Decides by keywords what the demo model does: it calls tools where it was asked to and has them, and else talks.

What it says about the product is in `words`; what it says about the results of its tools, in `results`.
"""

import json
import re
from dataclasses import dataclass

from gateway.providers.demo import words
from gateway.providers.demo.question import Question
from gateway.providers.demo.results import tell_results
from gateway.providers.demo.tasks import find_task_call

LONGEST_READ = 4_000  # characters: patterns on a pasted book would hold up everybody else
PEOPLE = ("alice@example.com", "bob@example.com", "charlie@example.com")
GERMAN = re.compile(
    r"\b(hallo|guten|moin|servus|ich|du|ist|wer|wie|bitte|danke|kannst|und|nicht|rechne|berechne|mir|eine?n?|das|der|hilfe)\b"
)
CALCULATE = r"(?:calculate|compute|evaluate|rechne|berechne)"
ASKS_FOR_NUMBER = re.compile(
    rf"\b(?:what|what's|how much|how many|was (?:ist|ergibt|macht)|wie ?viel|{CALCULATE})\b|^[\s\d(][^a-wyz]*$"
)
EXPRESSION = re.compile(r"(?<![\w.])[-(]{0,9}\d[\d.,]*(?:\s*[-+*/×·÷x^%−]{1,2}\s*[-(]{0,9}\d[\d.,]*\){0,9})+")
NOTE_SUBJECT = re.compile(r"(?:my|our|the)\s+([\w -]{1,40}?)\s+(?:is|are|was|were|likes|lives)\b", re.IGNORECASE)
SPELLED_OPERATORS = {"times": "*", "multiplied by": "*", "mal": "*", "plus": "+", "minus": "-", "divided by": "/"}


@dataclass(frozen=True, slots=True)
class Reply:
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """A tool that the user's words ask for."""

    tool: str
    arguments: dict[str, object]


def reply_to(question: Question) -> Reply:
    text = question.text.strip()[:LONGEST_READ]
    said = text.lower()
    is_german = bool(GERMAN.search(said))
    if question.answered:
        return Reply(tell_results(question.answered, is_german))
    wishes = find_wishes(text)
    if wishes:
        return call_tools(wishes, question.tools, is_german)
    return speak(said, is_german)


# What it does


def find_wishes(text: str) -> list[Wish]:
    said = text.lower()
    if re.search(r"\bthree things\b", said):
        return [Wish("current_time", {}), Wish("calculator", {"expression": "17 * 23"}), Wish("wait", {"seconds": 2})]
    emails = find_emails(text)
    if emails:
        return emails
    note = re.search(r"\bremember(?: that|:)\s+(.+)", text, re.IGNORECASE | re.DOTALL)
    if note:
        kept = note[1].strip().rstrip(".!")
        return [Wish("remember", {"key": name_note(kept), "text": kept})]
    if (task := find_task_call(text)) is not None:
        return [Wish(*task)]
    wishes = []
    if re.search(r"\bwhat (do|did|can) you (still )?(remember|recall|know about me)|\brecall\b|did i tell you", said):
        wishes.append(Wish("recall", {}))
    if re.search(
        r"\bwhat('s| is)? (the )?(current )?(time|date)\b|\bwhat day is\b|wie spät|wieviel uhr|wie viel uhr", said
    ):
        wishes.append(Wish("current_time", {}))
    expression = find_expression(said)
    if expression:
        wishes.append(Wish("calculator", {"expression": expression}))
    pause = re.search(r"\b(?:wait|warte|sleep)\b\D{0,20}?(\d{1,9}(?:\.\d{1,9})?)\s*(min\b|minutes?)?", said)
    if pause:
        wishes.append(Wish("wait", {"seconds": tidy(float(pause[1]) * (60 if pause[2] else 1))}))
    return wishes


def find_emails(text: str) -> list[Wish]:
    asked = re.search(r"\bsend\b.{0,20}?\b(e-?mails?|messages?)\b", text, re.IGNORECASE)
    if not asked:
        return []
    if re.search(r"\b(three|3) (e-?mails|messages)\b", text, re.IGNORECASE):
        return [
            write_email(person, "Hello from the demo", f"Hello {person.split('@')[0].title()}.") for person in PEOPLE
        ]
    to = re.search(r"\bto\s+([^\s,;:]+)", text[asked.end() :], re.IGNORECASE)
    person = to[1].rstrip(".!?") if to else PEOPLE[0]
    if person.isalnum():  # a name
        person = f"{person.lower()}@example.com"
    body = re.search(
        r"\b(?:saying|that says|with the text|telling \w+)(?: that)?[\s:,]+(.+)", text, re.IGNORECASE | re.DOTALL
    )
    about = re.search(r"\babout\s+([^.!?\n]{1,100})", text, re.IGNORECASE)
    if body:
        message = body[1].strip().strip("\"'")
        return [write_email(person, " ".join(message.split()[:6]).rstrip(".!") or "Hello", message)]
    if about:
        return [write_email(person, about[1].strip().capitalize(), f"Hello, this is about {about[1].strip()}.")]
    return [write_email(person, "Hello from the demo", "Hello from the demo.")]


def write_email(to: str, subject: str, body: str) -> Wish:
    return Wish("send_email", {"to": to, "subject": subject, "body": body})


def find_expression(said: str) -> str | None:
    """An arithmetic expression, in signs or in words."""
    share = re.search(r"(?<![\d.])(\d{1,15}(?:\.\d{1,9})?) ?(?:%|percent) of (\d{1,15}(?:\.\d{1,9})?)", said)
    if share:
        return f"{share[2]} * {share[1]} / 100"
    if not ASKS_FOR_NUMBER.search(said):
        return None  # a date or a telephone number is no calculation
    explicit = re.search(rf"\b{CALCULATE}\b[\s:]*(.+)", said)
    text = explicit[1] if explicit else said
    for word, sign in SPELLED_OPERATORS.items():
        text = re.sub(rf"(?<=\d)\s*\b{word}\b\s*(?=\d)", f" {sign} ", text)
    found = EXPRESSION.search(text)
    if found:
        return re.sub(r"(?<=[\d\s])x(?=[\d\s])", "*", found[0].replace(",", "")).strip()
    return explicit[1].strip(" ?.!") if explicit and re.search(r"\d", explicit[1]) else None


def name_note(kept: str) -> str:
    """A note that my cat is called Minka is about the cat."""
    about = NOTE_SUBJECT.match(kept)
    return about[1].lower() if about else " ".join(re.findall(r"\w+", kept.lower())[:3]) or "note"


def tidy(number: float) -> float | int:
    return int(number) if number.is_integer() else number


def call_tools(wishes: list[Wish], offered: frozenset[str], is_german: bool) -> Reply:
    missing = sorted({wish.tool for wish in wishes if wish.tool not in offered})
    if missing:
        return Reply(words.tell_missing(missing, is_german))
    calls = tuple((wish.tool, json.dumps(wish.arguments, ensure_ascii=False)) for wish in wishes)
    return Reply(words.ANNOUNCEMENTS.get(wishes[0].tool, "") if len(calls) < 3 else words.AT_ONCE, calls=calls)


# What it says


def speak(said: str, is_german: bool) -> Reply:
    if is_german:
        return speak_german(said)
    thought = re.search(r"\bthink (?:about|hard about|over)\s+(.+)", said)
    if thought:
        subject = thought[1][:100].strip(" .?!")
        return Reply(words.tell_after_thinking(subject), reasoning=words.think_about(subject))
    for pattern, answer in words.ANSWERS:
        if re.search(pattern, said):
            return Reply(answer)
    return Reply(words.NOT_UNDERSTOOD)


def speak_german(said: str) -> Reply:
    for pattern, answer in words.GERMAN_ANSWERS:
        if re.search(pattern, said):
            return Reply(answer)
    return Reply(words.GERMAN_NOT_UNDERSTOOD)
