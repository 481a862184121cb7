"""Everything that is stored, one noun a file."""

from runs.models.access import ApiKey
from runs.models.agents import Agent, AgentVersion, OnExpiry, Provider
from runs.models.approvals import Approval, ApprovalStatus
from runs.models.conversations import Conversation, Note
from runs.models.events import Event
from runs.models.messages import Message
from runs.models.outbox import OutboxEmail
from runs.models.runs import (
    ACTIVE,
    TERMINAL,
    TRANSITIONS,
    UNDER_WAY,
    Run,
    Status,
    StopReason,
    word_for_reason,
    word_for_status,
)
from runs.models.workers import Worker

__all__ = [
    "ACTIVE",
    "TERMINAL",
    "TRANSITIONS",
    "UNDER_WAY",
    "Agent",
    "AgentVersion",
    "ApiKey",
    "Approval",
    "ApprovalStatus",
    "Conversation",
    "Event",
    "Message",
    "Note",
    "OnExpiry",
    "OutboxEmail",
    "Provider",
    "Run",
    "Status",
    "StopReason",
    "Worker",
    "word_for_reason",
    "word_for_status",
]
