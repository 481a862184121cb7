"""A run is one turn of work in a conversation, from a user's input to a final answer.

    queued ──────────► running ──────► completed | failed | cancelled
     │ ▲ ▲                │  │
     │ │ └─ handed back ──┘  └► requires_approval ──► cancelled
     │ └─────── decided ───────────────┘
     └──────────────────────────────────────────────► cancelled

`stopping` is not stored: it is an active run with `stop_requested_at`. Every transition is a compare-and-set in
`runs.actions`, and the table below is the only list of them.
"""

from collections.abc import Mapping

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from runs.models.agents import Agent
from runs.models.conversations import Conversation
from runs.models.ids import new_run_id


class Status(models.TextChoices):
    QUEUED = "queued", _("queued")
    RUNNING = "running", _("running")
    REQUIRES_APPROVAL = "requires_approval", _("needs approval")
    COMPLETED = "completed", _("completed")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("stopped")


class StopReason(models.TextChoices):
    END_TURN = "end_turn", _("finished")
    MAX_STEPS = "max_steps", _("step limit")
    MAX_TIME = "max_time", _("time limit")
    BUDGET = "budget", _("budget reached")
    ERROR = "error", _("error")
    CANCELLED = "cancelled", _("stopped")


TRANSITIONS: dict[str, frozenset[str]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED}),
    Status.RUNNING: frozenset(
        {
            Status.QUEUED,  # handed back: its worker is shutting down
            Status.RUNNING,  # taken over: its worker is gone
            Status.REQUIRES_APPROVAL,
            Status.COMPLETED,
            Status.FAILED,
            Status.CANCELLED,
        }
    ),
    Status.REQUIRES_APPROVAL: frozenset(
        {
            Status.QUEUED,  # everything is decided
            Status.CANCELLED,
        }
    ),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}
TERMINAL = frozenset(status for status, following in TRANSITIONS.items() if not following)
ACTIVE = frozenset(TRANSITIONS) - TERMINAL
# One of these at a time in a conversation.
UNDER_WAY = (Status.RUNNING, Status.REQUIRES_APPROVAL)
# Reasons that the status of a completed run does not tell.
LIMITS = (StopReason.MAX_STEPS, StopReason.MAX_TIME, StopReason.BUDGET)


def word_for_status(shown_status: str) -> str:
    """A status as people read it, `stopping` included: the same word everywhere, in their language."""
    return gettext("stopping") if shown_status == "stopping" else str(Status(shown_status).label)


def word_for_reason(stop_reason: str, error: Mapping[str, str] | None) -> str:
    """Why a run ended, where its status alone does not say so."""
    if error and error.get("error_type") == "worker_lost":
        return gettext("worker lost")
    return str(StopReason(stop_reason).label) if stop_reason in LIMITS else ""


class Run(models.Model):
    public_id = models.CharField(_("ID"), max_length=40, unique=True, default=new_run_id, editable=False)
    conversation = models.ForeignKey(
        Conversation, verbose_name=_("conversation"), on_delete=models.CASCADE, related_name="runs"
    )
    agent = models.ForeignKey(Agent, verbose_name=_("agent"), on_delete=models.PROTECT, related_name="runs")
    agent_version = models.PositiveIntegerField(_("agent version"))
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("owner"), on_delete=models.CASCADE, related_name="runs"
    )

    status = models.CharField(_("status"), max_length=20, choices=Status.choices, default=Status.QUEUED)
    stop_reason = models.CharField(_("stop reason"), max_length=20, choices=StopReason.choices, blank=True)

    # What was asked. It becomes messages of the conversation when the run's turn comes, see `actions.placing`.
    input = models.JSONField(_("input"), help_text=_("A list of messages."))
    input_text = models.TextField(_("text of the input"), blank=True)
    is_input_placed = models.BooleanField(_("input placed"), default=False)
    edits = models.PositiveIntegerField(
        _("edits"), default=0, help_text=_("How often its input was changed while it waited.")
    )
    is_withdrawn = models.BooleanField(
        _("withdrawn"),
        default=False,
        db_default=False,
        help_text=_("Taken back before it began: no part of the conversation."),
    )
    has_token_streaming = models.BooleanField(_("token streaming"), default=True)
    max_steps = models.PositiveIntegerField(_("limit of steps"))
    max_seconds = models.FloatField(_("limit of seconds"))
    max_tokens = models.PositiveIntegerField(_("limit of tokens"), null=True)
    max_cost = models.DecimalField(_("limit of cost"), null=True, max_digits=12, decimal_places=6)
    reasoning_effort = models.CharField(_("reasoning effort"), max_length=10, blank=True)
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    idempotency_key = models.CharField(_("idempotency key"), max_length=200, blank=True)
    body_digest = models.CharField(_("digest of the body"), max_length=64, blank=True)

    # What came of it.
    output = models.TextField(_("output"), blank=True)
    error = models.JSONField(_("error"), null=True)
    steps = models.PositiveIntegerField(_("steps"), default=0)
    prompt_tokens = models.PositiveBigIntegerField(_("prompt tokens"), default=0)
    completion_tokens = models.PositiveBigIntegerField(_("completion tokens"), default=0)
    cost = models.DecimalField(_("cost"), null=True, max_digits=14, decimal_places=8)
    is_usage_estimated = models.BooleanField(_("usage estimated"), default=False)
    receipt = models.JSONField(_("receipt"), null=True, help_text=_("What a stop did, and how fast."))

    queued_at = models.DateTimeField(_("queued at"))
    started_at = models.DateTimeField(_("started"), null=True)
    first_token_at = models.DateTimeField(_("first token"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)
    active_seconds = models.FloatField(
        _("active seconds"), default=0, help_text=_("Worked on, without the time it waited.")
    )

    stop_requested_at = models.DateTimeField(_("stop requested"), null=True)
    stop_requested_by = models.CharField(_("stop requested by"), max_length=150, blank=True)
    stop_requested_via = models.CharField(_("stop requested via"), max_length=20, blank=True)

    # Who works on it. `attempt` rises with every claim: together they fence off a worker that was replaced.
    worker = models.CharField(_("worker"), max_length=100, blank=True)
    last_worker = models.CharField(
        _("last worker"),
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text=_("Who took it last: its pool holds the agent."),
    )
    attempt = models.PositiveIntegerField(_("attempt"), default=0)
    losses = models.PositiveIntegerField(_("losses"), default=0, help_text=_("How often its worker was lost."))
    lease_expires_at = models.DateTimeField(_("lease expires"), null=True)

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["conversation"],
                condition=Q(status__in=UNDER_WAY),
                name="one_run_at_a_time",
            ),
            models.UniqueConstraint(
                fields=["owner", "idempotency_key"], condition=~Q(idempotency_key=""), name="one_run_an_idempotency_key"
            ),
        ]
        indexes = [
            models.Index(fields=["owner", "-id"], name="run_owner_recent"),
            models.Index(fields=["conversation", "id"], name="run_conversation_order"),
            models.Index(fields=["agent", "-id"], name="run_agent_recent"),
            models.Index(fields=["status", "-id"], name="run_status_recent"),
            models.Index(fields=["stop_reason", "-id"], name="run_stop_reason_recent"),
            models.Index(fields=["queued_at"], name="run_queued_at"),
            models.Index(
                fields=["status", "lease_expires_at"],
                condition=Q(status__in=[Status.QUEUED, Status.RUNNING]),
                name="run_to_do",
            ),
            models.Index(fields=["conversation"], condition=Q(is_input_placed=False), name="run_to_place"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def shown_status(self) -> str:
        """The status word for people and programs, `stopping` included."""
        return "stopping" if self.is_active and self.stop_requested_at else self.status

    @property
    def status_word(self) -> str:
        return word_for_status(self.shown_status)

    @property
    def reason_word(self) -> str:
        return word_for_reason(self.stop_reason, self.error)
