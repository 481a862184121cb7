"""What happened, in plain words: how a run ended, what went wrong and what to do about it, how a tool is doing."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runs.models import StopReason
from runs.templatetags.console import duration
from runs.transcript.folding import End
from runs.transcript.items import ToolUse
from runs.transcript.results import show_value

BRIEF = 80


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who reads."""

    username: str
    is_staff: bool

    def name_of(self, username: str) -> str:
        return _("you") if username == self.username else username


@dataclass(frozen=True, slots=True)
class Trouble:
    what: str
    advice: str
    admin: str = ""
    """The page of the admin where staff can mend it."""


def state_word(state: str) -> str:
    return {
        "waiting": _("waiting"),
        "running": _("running"),
        "finished": _("done"),
        "failed": _("failed"),
        "interrupted": _("cut off"),
        "not_started": _("not started"),
        "denied": _("denied"),
    }.get(state, state)


def decided_by(use: ToolUse, viewer: Viewer) -> str:
    """Who approved or denied a call, in short: beside its state."""
    decision = use.approval
    if decision is None or decision.is_pending or not decision.decided_by:
        return ""
    who = viewer.name_of(decision.decided_by)
    return _("by %s") % who if use.state == "denied" else _("approved by %s") % who


def tell_decision(use: ToolUse, viewer: Viewer) -> str:
    decision = use.approval
    if decision is None:
        return ""
    who = viewer.name_of(decision.decided_by) if decision.decided_by else _("somebody")
    if decision.is_approved:
        return (_("Approved with changes by %s") if decision.is_edited else _("Approved by %s")) % who
    if decision.decided_via == "expiry":
        return _("Denied: nobody decided in time")
    if decision.decided_via == "stop":
        return _("Denied: the run was stopped")
    return _("Denied by %s") % who


def now_words(now: str) -> str:
    return {
        "queued": _("Waiting for its turn…"),
        "resuming": _("Going on in a moment…"),
        "thinking": _("Thinking…"),
        "stopping": _("Stopping…"),
    }.get(now, "")


def brief_arguments(arguments: Any) -> str:
    """Arguments in one short line: the value alone where there is but one."""
    if isinstance(arguments, dict):
        values = [(name, show_value(value)) for name, value in arguments.items()]
        text = values[0][1] if len(values) == 1 else ", ".join(f"{name}: {value}" for name, value in values)
    else:
        text = show_value(arguments)
    text = re.sub(r"\s+", " ", text[: BRIEF * 4]).strip()
    return text if len(text) <= BRIEF else text[: BRIEF - 1] + "…"


def explain_trouble(error: dict[str, str]) -> Trouble:
    """An error of the contract's list: what happened, and what to do."""
    message = error.get("message", "")
    match error.get("error_type"):
        case "llm_timeout":
            return Trouble(
                _("The model did not answer in time."),
                _("Try again. If it keeps happening, an admin can give the provider more time."),
                "runs_provider_changelist",
            )
        case "llm_rate_limit":
            return Trouble(
                _("The provider takes no more requests for the moment."),
                _("Wait a minute and try again. An admin can look at the limits of the account."),
            )
        case "llm_authentication":
            return Trouble(
                _("The provider refused the key."),
                _("An admin can fix it under Providers; then try again."),
                "runs_provider_changelist",
            )
        case "llm_error":
            return Trouble(
                _("The request to the provider failed: %s") % message,
                _("Try again. If it keeps happening, an admin can check the model and the provider."),
                "runs_provider_changelist",
            )
        case "worker_lost":
            return Trouble(
                _("The server went down several times while it worked on this."),
                _("Try again. If it keeps happening, an admin should look at the server's log."),
            )
        case _other:
            return Trouble(
                _("Something went wrong on the server."),
                _("Try again. If it keeps happening, tell an admin: the run's page in the admin has the details."),
                "runs_run_changelist",
            )


def explain_retry(error: dict[str, str]) -> str:
    """What went wrong, as a sentence before the one that says when it is tried again."""
    return explain_trouble(error).what.rstrip(".") + "."


def explain_limit(end: End, limits: dict[str, Any]) -> str:
    """Where a run ended at one of its limits."""
    match end.stop_reason:
        case StopReason.MAX_STEPS:
            steps: int = limits["max_steps"]
            return ngettext("Step limit reached: %s step.", "Step limit reached: %s steps.", steps) % steps
        case StopReason.MAX_TIME:
            return _("Time limit reached: %s.") % duration(limits["max_seconds"])
        case StopReason.BUDGET:
            return _("Budget reached: this run may not use more tokens or money.")
    return ""


def list_receipt(receipt: dict[str, Any]) -> list[str]:
    """What a stop did, in short: the parts of the line behind "Stopped by you"."""
    parts = []
    if receipt.get("model_closed_ms") is not None:
        parts.append(_("model disconnected after %s") % milliseconds(receipt["model_closed_ms"]))
    words = receipt.get("kept_words") or 0
    if words:
        parts.append(ngettext("%s word kept", "%s words kept", words) % words)
    tools = []
    counts = [len(receipt.get(f"tools_{state}") or ()) for state in ("finished", "interrupted", "not_started")]
    if counts[0]:
        tools.append(ngettext("%s tool finished", "%s tools finished", counts[0]) % counts[0])
    if counts[1]:
        tools.append(ngettext("%s tool cut off", "%s tools cut off", counts[1]) % counts[1])
    if counts[2]:
        tools.append(ngettext("%s tool not started", "%s tools not started", counts[2]) % counts[2])
    if tools:
        parts.append(", ".join(tools))
    return parts


def receipt_rows(receipt: dict[str, Any], viewer: Viewer) -> list[tuple[str, Any]]:
    """All of it, a row each. A moment stays a moment: the reader's clock decides how it is written."""
    none = _("none")

    def names(state: str) -> str:
        return ", ".join(receipt.get(f"tools_{state}") or ()) or none

    closed, ended = receipt.get("model_closed_ms"), receipt.get("ended_ms")
    via = {"api": _("the API"), "console": _("the console")}.get(receipt.get("requested_via", ""), "")
    rows: list[tuple[str, Any]] = [
        (_("Asked by"), viewer.name_of(receipt.get("requested_by", ""))),
        (_("Asked via"), via or receipt.get("requested_via", "")),
        (_("Asked at"), datetime.fromisoformat(receipt["requested_at"])),
        (
            _("Model disconnected"),
            _("after %s") % milliseconds(closed) if closed is not None else _("it was not connected"),
        ),
        (_("Run ended"), _("after %s") % milliseconds(ended) if ended is not None else none),
        (
            _("Text kept"),
            _("%(words)s words, %(characters)s characters")
            % {"words": receipt.get("kept_words", 0), "characters": receipt.get("kept_characters", 0)},
        ),
        (_("Tools finished"), names("finished")),
        (_("Tools cut off"), names("interrupted")),
        (_("Tools not started"), names("not_started")),
        (_("Tokens after the request"), str(receipt.get("tokens_after_request", 0))),
    ]
    return rows


def milliseconds(number: float) -> str:
    return _("%s ms") % f"{number:.0f}" if number < 1000 else duration(number / 1000)
