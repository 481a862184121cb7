"""The pools of the living workers, as staff see them: asked over the bell, read from the workers' rows.

A worker that does not answer within a second is shown as it was last seen, and marked as such.
"""

import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from runs import bell
from runs.models import Conversation, Worker

ANSWER_SECONDS = 1.0
LOOK_SECONDS = 0.01

EvictionResult = Literal["evicted", "active", "absent", "unanswered"]


@dataclass(frozen=True)
class PoolEntry:
    conversation_id: str
    agent: str
    signature: str
    idle_seconds: float | None
    is_active: bool
    is_building: bool

    @property
    def state(self) -> str:
        return "in use" if self.is_active else "being built" if self.is_building else "idle"

    @property
    def idle_for(self) -> str:
        """In words for people."""
        seconds = self.idle_seconds
        if seconds is None or self.state != "idle":
            return "–"
        if seconds < 60:
            return f"{seconds:.0f} s"
        return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class Pool:
    worker: str
    seen_at: datetime | None
    is_fresh: bool
    capacity: int
    size: int
    active: int
    hits: int
    misses: int
    evictions: dict[str, int]
    entries: list[PoolEntry]
    """The most recently used first."""

    @property
    def hidden(self) -> int:
        """How many of a large pool are not among the entries."""
        return self.size - len(self.entries)


def look_at_pools() -> list[Pool]:
    question = secrets.token_hex(8)
    bell.ring(bell.WORKERS, {"type": "pool", "question": question})
    workers = [worker for worker in _wait_for_answers(question) if worker.pool]
    ids = {entry["conversation_id"] for worker in workers for entry in worker.pool["entries"]}
    agents = dict(Conversation.objects.filter(public_id__in=ids).values_list("public_id", "agent__slug"))
    return [_make_pool(worker, question, agents) for worker in workers]


def evict_agent(conversation_id: str) -> EvictionResult:
    """Ask all workers to let a conversation's agent go. One in the middle of a run stays (P5)."""
    question = secrets.token_hex(8)
    bell.ring(bell.WORKERS, {"type": "evict", "question": question, "conversation": conversation_id})
    answers = {worker.pool.get("answers", {}).get(question) for worker in _wait_for_answers(question)}
    results: tuple[EvictionResult, ...] = ("evicted", "active")
    for result in results:
        if result in answers:
            return result
    return "unanswered" if None in answers else "absent"


def _wait_for_answers(question: str) -> list[Worker]:
    """The living workers, when all of them have answered or the time is over."""
    give_up_at = time.monotonic() + ANSWER_SECONDS
    while True:
        workers = list(Worker.objects.alive().order_by("name"))
        if time.monotonic() > give_up_at or all(question in worker.pool.get("answers", {}) for worker in workers):
            return workers
        time.sleep(LOOK_SECONDS)


def _make_pool(worker: Worker, question: str, agents: dict[str, str]) -> Pool:
    picture: dict[str, Any] = worker.pool
    counters = {name: picture[name] for name in ("capacity", "size", "active", "hits", "misses", "evictions")}
    return Pool(
        worker=worker.name,
        seen_at=worker.pool_at,
        is_fresh=question in picture["answers"],
        entries=[PoolEntry(agent=agents.get(entry["conversation_id"], ""), **entry) for entry in picture["entries"]],
        **counters,
    )
