"""What an action adds to the log of a run that no worker holds."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from runs import events
from runs.actions.stored import last_seq
from runs.models import Event, Run


class Log:
    def __init__(self, run: Run, now: datetime, first_seq: int | None = None) -> None:
        self.run = run
        self.now = now
        self.first_seq = last_seq(run) + 1 if first_seq is None else first_seq
        self.events: list[Event] = []

    @property
    def next_seq(self) -> int:
        return self.first_seq + len(self.events)

    def tell(self, type: str, payload: dict[str, Any]) -> None:
        self.events.append(events.write_event(self.run, self.next_seq, type, self.now, payload))


def store_log(run: Run, written: Sequence[Event]) -> None:
    """Store, and show when it is committed."""
    Event.objects.bulk_create(written)
    transaction.on_commit(lambda: events.publish(run, written))
