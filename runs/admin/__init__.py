"""Django admin, one noun a file. Staff look at everything; what a run has written, nobody edits."""

from runs.admin import (
    agents,
    approvals,
    conversations,
    events,
    keys,
    messages,
    notes,
    outbox,
    providers,
    runs,
    workers,
)

__all__ = [
    "agents",
    "approvals",
    "conversations",
    "events",
    "keys",
    "messages",
    "notes",
    "outbox",
    "providers",
    "runs",
    "workers",
]
