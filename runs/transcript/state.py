"""What the rest of the console (composer, inspector, title, queue) needs to know about a conversation's runs."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from runs.models import Run, word_for_reason, word_for_status
from runs.transcript.folding import Fold

MOST_SPANS = 50


def state_of(shown: tuple[Run, Fold] | None, waiting: Sequence[tuple[Run, Fold]]) -> dict[str, Any]:
    """`shown` is the run that is active, or the last that began; `waiting` are those behind it, in order."""
    is_active = shown is not None and shown[1].end is None
    return {
        "run": _show_run(*shown) if shown else None,
        "active": shown[0].public_id if shown and is_active else None,
        "queued": [
            {
                "id": run.public_id,
                "text": fold.input if fold.input is not None else run.input_text,
                "is_plain": is_plain(run),
                "queued_at": run.queued_at.isoformat(),
            }
            for run, fold in waiting
        ],
        "pending_approvals": len(shown[1].pending) if shown else 0,
    }


def is_plain(run: Run) -> bool:
    """Whether all of its input is the text that the console shows. Whoever edited anything else there (a conversation
    that a program sent along, an image) would lose what they cannot see."""
    match run.input:
        case [{"role": "user", "content": str()}]:
            return True
    return False


def status_of(fold: Fold) -> str:
    return "stopping" if fold.is_stopping else str(fold.status)


def reason_for(fold: Fold) -> str:
    return word_for_reason(fold.end.stop_reason, fold.end.error) if fold.end is not None else ""


def _seconds_worked(fold: Fold) -> float:
    """Up to now, as the run's limit counts: waiting for a person takes none of it."""
    if fold.working_since is None:
        return fold.worked_seconds
    return fold.worked_seconds + max((timezone.now() - fold.working_since).total_seconds(), 0)


def _show_run(run: Run, fold: Fold) -> dict[str, Any]:
    usage = fold.usage
    has_ended = fold.end is not None and run.ended_at is not None
    return {
        "id": run.public_id,
        "status": status_of(fold),
        "word": word_for_status(status_of(fold)),
        "reason": reason_for(fold),
        "is_active": fold.end is None,
        "queued_at": run.queued_at.isoformat(),
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "ended_at": fold.end.at.isoformat() if fold.end else None,
        "active_seconds": round(run.active_seconds if has_ended else _seconds_worked(fold), 3),
        "is_working": fold.working_since is not None,
        "steps": run.steps if has_ended else fold.steps + fold.is_asking,
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "tokens": usage.get("total_tokens"),
        "cost": usage.get("cost"),
        "is_estimated": bool(usage.get("estimated")),
        "limits": {
            "max_steps": run.max_steps,
            "max_seconds": run.max_seconds,
            "max_tokens": run.max_tokens,
            "max_cost": None if run.max_cost is None else str(run.max_cost),
        },
        "agent": run.agent.slug,
        "agent_name": run.agent.name,
        "agent_version": run.agent_version,
        "model": fold.model or run.agent.model,
        "timeline": [
            {
                "kind": span.kind,
                "name": span.name,
                "seconds": None if span.seconds is None else round(span.seconds, 3),
                "state": span.state,
            }
            for span in fold.spans[-MOST_SPANS:]
        ],
    }
