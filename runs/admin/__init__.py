"""Django admin, one noun a file. Staff look at everything; what a run has written, nobody edits."""

from runs.admin import agents, conversations, events, keys, messages, notes, providers, runs, workers

__all__ = ["agents", "conversations", "events", "keys", "messages", "notes", "providers", "runs", "workers"]
