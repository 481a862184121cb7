"""Items to HTML. The same fragment makes the page, the live update and the catch-up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from runs.models import Run, Status
from runs.transcript import words
from runs.transcript.folding import Fold
from runs.transcript.forms import make_fields
from runs.transcript.items import Item, Note, Question, Said, Text, Thought, ToolUse
from runs.transcript.markdown import PICTURE
from runs.transcript.results import show_result, show_text, show_value
from runs.transcript.state import reason_for
from runs.transcript.words import Viewer

LONG_INPUT = 1_200


@dataclass(frozen=True, slots=True)
class Fragments:
    """The HTML of one run's parts, for one reader."""

    run: Run
    fold: Fold
    viewer: Viewer

    @property
    def id(self) -> str:
        return self.run.public_id

    def id_of(self, item: Item) -> str:
        return f"{self.id}-{item.key}"

    def _render(self, name: str, **context: Any) -> SafeString:
        return render_to_string(
            f"transcript/_{name}.html",
            {"run": self.run, "conversation": self.run.conversation, "viewer": self.viewer, **context},
        )

    # -- the run

    def section(self, items: Sequence[Item] | None = None) -> SafeString:
        """The whole run, or only these of its items: then its beginning is not shown either."""
        shown = self.fold.items if items is None else items
        return self._render(
            "run",
            id=self.id,
            asked=self.asked() if len(shown) == len(self.fold.items) else self._empty("in"),
            items=mark_safe("".join(self.item(item) for item in shown)),  # noqa: S308
            now=self.now(),
            end=self.end(),
        )

    def _empty(self, part: str) -> SafeString:
        return format_html('<div id="{}-{}" hidden></div>', self.id, part)

    def asked(self) -> SafeString:
        """What the person, or a program, said."""
        if self.fold.input is not None:
            messages: list[dict[str, Any]] = [{"role": "user", "content": self.fold.input}]
        else:
            messages = self.run.input
        parts = [_read_message(message) for message in messages]
        # A program may send a whole conversation along: the question is what comes after its last answer.
        answers = [number for number, part in enumerate(parts, start=1) if part["role"] != "user"]
        first = answers[-1] if answers and answers[-1] < len(parts) else 0
        return self._render(
            "asked",
            id=f"{self.id}-in",
            along=parts[:first],
            messages=parts[first:],
            is_long=sum(len(part["text"]) for part in parts[first:]) > LONG_INPUT,
        )

    def now(self) -> SafeString:
        return self._render("now", id=f"{self.id}-now", words=words.now_words(self.fold.now), kind=self.fold.now)

    def end(self) -> SafeString:
        end = self.fold.end
        if end is None or (end.status == Status.COMPLETED and not reason_for(self.fold)):
            return self._empty("end")
        context: dict[str, Any] = {"end": end, "id": f"{self.id}-end"}
        if end.error is not None:
            trouble = words.explain_trouble(end.error)
            has_kept = any(isinstance(item, Said) for item in self.fold.items)
            return self._render("failure", **context, trouble=trouble, has_kept=has_kept, reason=reason_for(self.fold))
        if end.status == Status.CANCELLED:
            receipt = end.receipt or {}
            return self._render(
                "stopped",
                **context,
                by=receipt.get("requested_by", ""),
                has_begun=self.fold.has_begun,
                parts=words.list_receipt(receipt),
                rows=words.receipt_rows(receipt, self.viewer) if receipt else [],
            )
        limits = {"max_steps": self.run.max_steps, "max_seconds": self.run.max_seconds}
        return self._render("limit", **context, words=words.explain_limit(end, limits))

    # -- items

    def item(self, item: Item) -> SafeString:
        match item:
            case Said():
                return self._render(
                    "said", id=self.id_of(item), item=item, nodes=self.nodes(item), foot=self.foot(item)
                )
            case Thought():
                return self._render(
                    "thought", id=self.id_of(item), item=item, nodes=self.nodes(item), summary=self.summary(item)
                )
            case ToolUse():
                return self.tool(item)
            case Question():
                return self.question(item)
            case Note():
                what = words.explain_retry(item.details.get("error", {}))
                return self._render("note", id=self.id_of(item), item=item, what=what)

    def nodes(self, item: Text) -> SafeString:
        assert isinstance(item, Said | Thought)
        parts = [(f"{self.id_of(item)}-b{number}", mark_safe(html)) for number, html in enumerate(item.nodes)]  # noqa: S308
        return format_html_join("", '<div class="b" id="{}">{}</div>', parts)

    def node(self, item: Text, number: int, html: str) -> SafeString:
        assert isinstance(item, Said | Thought)
        return format_html('<div class="b" id="{}-b{}">{}</div>', self.id_of(item), number, mark_safe(html))  # noqa: S308

    def foot(self, item: Said) -> SafeString:
        return self._render("said_foot", id=f"{self.id_of(item)}-f", item=item)

    def summary(self, item: Thought) -> SafeString:
        return self._render("thought_summary", id=f"{self.id_of(item)}-s", item=item)

    def tool(self, use: ToolUse) -> SafeString:
        if use.is_pending:
            return self._empty(use.key)  # its place is taken by the form that asks
        arguments = use.arguments
        rows = (
            [(name, show_text(show_value(value))) for name, value in arguments.items()]
            if isinstance(arguments, dict)
            else None
        )
        return self._render(
            "tool",
            id=self.id_of(use),
            use=use,
            brief=words.brief_arguments(arguments),
            rows=rows,
            raw=None if rows is not None else show_text(show_value(arguments)),
            result=show_result(use.result) if use.is_over else None,
            word=words.state_word(use.state),
            by=words.decided_by(use, self.viewer),
            decided=words.tell_decision(use, self.viewer),
            took=words.milliseconds(use.seconds * 1000) if use.seconds is not None else "",
            progress=self.progress(use),
        )

    def progress(self, use: ToolUse) -> SafeString:
        return self._render("tool_progress", id=f"{self.id_of(use)}-p", use=use)

    def question(self, question: Question) -> SafeString:
        if not question.is_pending:
            return self._empty(question.key)
        parts = mark_safe("".join(self.decision(question, use) for use in question.uses))  # noqa: S308
        approvals = [use.approval for use in question.uses if use.approval is not None]
        return self._render(
            "question",
            id=self.id_of(question),
            question=question,
            parts=parts,
            is_single=len(question.uses) == 1,
            expires_at=min((each.expires_at for each in approvals if each.expires_at), default=None),
            on_expiry=approvals[0].on_expiry,
        )

    def decision(self, question: Question, use: ToolUse) -> SafeString:
        """One call of a form: what is to be decided, or by whom it was."""
        assert use.approval is not None
        return self._render(
            "decision",
            id=f"{self.id_of(question)}-{use.index}",
            use=use,
            approval=use.approval,
            is_single=len(question.uses) == 1,
            fields=make_fields(use.approval.schema, use.arguments) if use.is_pending else (),
            decided=words.tell_decision(use, self.viewer),
        )


def make_viewer(user: Any) -> Viewer:
    return Viewer(user.get_username(), user.is_staff)


def _read_message(message: dict[str, Any]) -> dict[str, Any]:
    """A message of the input: its words, and the pictures that came with it."""
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts: list[str] = []
    pictures: list[str] = []
    links: list[str] = []
    for part in parts:
        if part.get("text"):
            texts.append(str(part["text"]))
        image = part.get("image_url")
        source = image.get("url") if isinstance(image, dict) else image
        if isinstance(source, str):
            (pictures if PICTURE.fullmatch(source) else links).append(source)
    return {"role": message.get("role", "user"), "text": "\n".join(texts), "pictures": pictures, "links": links}
