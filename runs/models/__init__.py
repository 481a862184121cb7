"""Everything that is stored, one noun a file."""

from runs.models.access import ApiKey
from runs.models.agents import Agent, AgentVersion, Provider
from runs.models.conversations import Conversation, Note
from runs.models.events import Event
from runs.models.messages import Message
from runs.models.runs import ACTIVE, TERMINAL, TRANSITIONS, UNDER_WAY, Run, Status, StopReason
from runs.models.workers import Worker

__all__ = [
    "ACTIVE",
    "TERMINAL",
    "TRANSITIONS",
    "UNDER_WAY",
    "Agent",
    "AgentVersion",
    "ApiKey",
    "Conversation",
    "Event",
    "Message",
    "Note",
    "Provider",
    "Run",
    "Status",
    "StopReason",
    "Worker",
]
