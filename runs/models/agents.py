"""Who answers: a provider is where models are, an agent is a configured assistant."""

from typing import Literal, get_args
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from runs.models.fields import EncryptedTextField

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


def check_base_url(url: str) -> None:
    """Django's own check refuses the one-word host names of containers and local networks."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or any(character.isspace() for character in url):
        raise ValidationError(_("Give an http or https address, for example http://localhost:11434/v1."))


class Provider(models.Model):
    class Kind(models.TextChoices):
        OPENAI = "openai", _("OpenAI-compatible endpoint")
        DEMO = "demo", _("Built-in demo (no key, no network)")

    name = models.CharField(_("name"), max_length=100, unique=True)
    kind = models.CharField(_("kind"), max_length=20, choices=Kind.choices, default=Kind.OPENAI)
    base_url = models.CharField(
        _("base URL"),
        max_length=500,
        blank=True,
        validators=[check_base_url],
        help_text=_("For example http://localhost:11434/v1"),
    )
    api_key = EncryptedTextField(_("API key"), blank=True, help_text=_("Stored encrypted."))
    api_key_env = models.CharField(
        _("environment variable"),
        max_length=100,
        blank=True,
        help_text=_("Read the key from this environment variable of the worker instead."),
    )
    connect_seconds = models.FloatField(_("seconds to connect"), default=10, validators=[MinValueValidator(0.1)])
    silence_seconds = models.FloatField(
        _("seconds of silence"),
        default=120,
        validators=[MinValueValidator(0.1)],
        help_text=_("How long the model may send nothing at all."),
    )
    max_retries = models.PositiveSmallIntegerField(_("limit of retries"), default=3)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("provider")
        verbose_name_plural = _("providers")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class OnExpiry(models.TextChoices):
    """What becomes of a call that nobody decided on in time."""

    DENY = "deny", _("deny the call, and go on")
    STOP = "stop", _("stop the run")


class Agent(models.Model):
    slug = models.CharField(
        _("slug"),
        max_length=64,
        unique=True,
        validators=[
            RegexValidator(r"^[a-z0-9][a-z0-9._-]*\Z", _("Lower-case letters, digits, dots, dashes and underscores."))
        ],
    )
    name = models.CharField(_("name"), max_length=100)
    description = models.TextField(
        _("description"), blank=True, help_text=_("What it is good for, in a sentence or two.")
    )
    instructions = models.TextField(_("instructions"), blank=True, help_text=_("The system prompt."))
    examples = models.JSONField(
        _("examples"), default=list, blank=True, help_text=_("Questions to begin with, as a list of texts.")
    )
    provider = models.ForeignKey(Provider, verbose_name=_("provider"), on_delete=models.PROTECT, related_name="agents")
    model = models.CharField(_("model"), max_length=200)
    fallback_model = models.CharField(
        _("second model"),
        max_length=200,
        blank=True,
        help_text=_("Goes on with the run when the first model fails for good: time-outs, overload, lost connections."),
    )
    fallback_provider = models.ForeignKey(
        Provider,
        verbose_name=_("provider of the second model"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="fallback_agents",
        help_text=_("Where the second model is; empty: at the same provider."),
    )
    sampling = models.JSONField(
        _("sampling"),
        default=dict,
        blank=True,
        help_text=_("Passed to the model as it is, for example {&quot;temperature&quot;: 0.2}."),
    )
    reasoning_effort = models.CharField(
        _("reasoning effort"),
        max_length=10,
        blank=True,
        choices=[(word, word) for word in get_args(ReasoningEffort)],
    )
    tools = models.JSONField(_("tools"), default=list, blank=True, help_text=_("Names of the tools it may use."))
    approvals = models.JSONField(
        _("approvals"),
        default=dict,
        blank=True,
        help_text=_(
            "By tool, where it differs from the tool's own rule: &quot;always&quot;, &quot;never&quot;, or a "
            "JSON schema of the arguments that a person must approve, for example "
            "{&quot;wait&quot;: {&quot;properties&quot;: {&quot;seconds&quot;: {&quot;minimum&quot;: 60}}}}."
        ),
    )
    approval_hours = models.PositiveIntegerField(
        _("approval hours"),
        null=True,
        blank=True,
        default=168,
        validators=[MinValueValidator(1), MaxValueValidator(10 * 365 * 24)],
        help_text=_("How long a call waits for approval; empty: for ever."),
    )
    on_expiry = models.CharField(
        _("on expiry"),
        max_length=10,
        choices=OnExpiry.choices,
        default=OnExpiry.DENY,
        help_text=_("What happens when nobody decided in time."),
    )
    has_parallel_tools = models.BooleanField(
        _("parallel tools"),
        default=False,
        help_text=_("Calls that the model asks for together run at the same time instead of one by one."),
    )
    max_steps = models.PositiveIntegerField(_("limit of steps"), default=20, validators=[MinValueValidator(1)])
    max_seconds = models.FloatField(_("limit of seconds"), default=900, validators=[MinValueValidator(0.1)])
    max_tokens = models.PositiveIntegerField(
        _("limit of tokens"), null=True, blank=True, help_text=_("Tokens of one run, prompt and answer together.")
    )
    max_cost = models.DecimalField(_("limit of cost"), null=True, blank=True, max_digits=12, decimal_places=6)
    prompt_price = models.DecimalField(
        _("price of a prompt"),
        null=True,
        blank=True,
        max_digits=12,
        decimal_places=6,
        help_text=_("For a million prompt tokens."),
    )
    completion_price = models.DecimalField(
        _("price of an answer"),
        null=True,
        blank=True,
        max_digits=12,
        decimal_places=6,
        help_text=_("For a million completion tokens."),
    )
    fallback_prompt_price = models.DecimalField(
        _("price of a prompt, second model"),
        null=True,
        blank=True,
        max_digits=12,
        decimal_places=6,
        help_text=_("Of the second model, for a million prompt tokens; both empty: as the first, marked as estimated."),
    )
    fallback_completion_price = models.DecimalField(
        _("price of an answer, second model"), null=True, blank=True, max_digits=12, decimal_places=6
    )
    is_active = models.BooleanField(_("active"), default=True)
    is_default = models.BooleanField(_("default"), default=False, help_text=_("Answers where no agent is named."))
    version = models.PositiveIntegerField(_("version"), default=1, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["is_default"], condition=Q(is_default=True), name="one_default_agent"),
        ]

    def __str__(self) -> str:
        return self.name


class AgentVersion(models.Model):
    """What an agent was at each of its versions, so that a run can be reviewed later."""

    agent = models.ForeignKey(Agent, verbose_name=_("agent"), on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(_("number"))
    configuration = models.JSONField(_("configuration"))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("created by"), null=True, blank=True, on_delete=models.SET_NULL
    )

    class Meta:
        verbose_name = _("agent version")
        verbose_name_plural = _("agent versions")
        ordering = ["agent", "-number"]
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="one_row_a_version")]

    def __str__(self) -> str:
        return f"{self.agent} v{self.number}"
