"""Who answers: a provider is where models are, an agent is a configured assistant."""

from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from runs.models.fields import EncryptedTextField


def check_base_url(url: str) -> None:
    """Django's own check refuses the one-word host names of containers and local networks."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or any(character.isspace() for character in url):
        raise ValidationError("Give an http or https address, for example http://localhost:11434/v1.")


class Provider(models.Model):
    class Kind(models.TextChoices):
        OPENAI = "openai", "OpenAI-compatible endpoint"
        DEMO = "demo", "Built-in demo (no key, no network)"

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=20, choices=Kind.choices, default=Kind.OPENAI)
    base_url = models.CharField(
        max_length=500, blank=True, validators=[check_base_url], help_text="For example http://localhost:11434/v1"
    )
    api_key = EncryptedTextField(blank=True, help_text="Stored encrypted.")
    api_key_env = models.CharField(
        max_length=100, blank=True, help_text="Read the key from this environment variable of the worker instead."
    )
    connect_seconds = models.FloatField(default=10, validators=[MinValueValidator(0.1)])
    silence_seconds = models.FloatField(
        default=120, validators=[MinValueValidator(0.1)], help_text="How long the model may send nothing at all."
    )
    max_retries = models.PositiveSmallIntegerField(default=3)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class OnExpiry(models.TextChoices):
    """What becomes of a call that nobody decided on in time."""

    DENY = "deny", "deny the call, and go on"
    STOP = "stop", "stop the run"


class Agent(models.Model):
    slug = models.CharField(
        max_length=64,
        unique=True,
        validators=[
            RegexValidator(r"^[a-z0-9][a-z0-9._-]*\Z", "Lower-case letters, digits, dots, dashes and underscores.")
        ],
    )
    name = models.CharField(max_length=100)
    description = models.TextField(blank=True, help_text="What it is good for, in a sentence or two.")
    instructions = models.TextField(blank=True, help_text="The system prompt.")
    examples = models.JSONField(default=list, blank=True, help_text="Questions to begin with, as a list of texts.")
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="agents")
    model = models.CharField(max_length=200)
    fallback_model = models.CharField(
        max_length=200,
        blank=True,
        help_text="Goes on with the run when the first model fails for good: time-outs, overload, lost connections.",
    )
    fallback_provider = models.ForeignKey(
        Provider,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="fallback_agents",
        help_text="Where the second model is; empty: at the same provider.",
    )
    sampling = models.JSONField(
        default=dict, blank=True, help_text="Passed to the model as it is, for example {&quot;temperature&quot;: 0.2}."
    )
    reasoning_effort = models.CharField(
        max_length=10, blank=True, choices=[(word, word) for word in ("minimal", "low", "medium", "high")]
    )
    tools = models.JSONField(default=list, blank=True, help_text="Names of the tools it may use.")
    approvals = models.JSONField(
        default=dict,
        blank=True,
        help_text="By tool, where it differs from the tool's own rule: &quot;always&quot;, &quot;never&quot;, or a "
        "JSON schema of the arguments that a person must approve, for example "
        "{&quot;wait&quot;: {&quot;properties&quot;: {&quot;seconds&quot;: {&quot;minimum&quot;: 60}}}}.",
    )
    approval_hours = models.PositiveIntegerField(
        null=True,
        blank=True,
        default=168,
        validators=[MinValueValidator(1), MaxValueValidator(10 * 365 * 24)],
        help_text="How long a call waits for approval; empty: for ever.",
    )
    on_expiry = models.CharField(
        max_length=10,
        choices=OnExpiry.choices,
        default=OnExpiry.DENY,
        help_text="What happens when nobody decided in time.",
    )
    has_parallel_tools = models.BooleanField(
        default=False, help_text="Calls that the model asks for together run at the same time instead of one by one."
    )
    max_steps = models.PositiveIntegerField(default=20, validators=[MinValueValidator(1)])
    max_seconds = models.FloatField(default=900, validators=[MinValueValidator(0.1)])
    max_tokens = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tokens of one run, prompt and answer together."
    )
    max_cost = models.DecimalField(null=True, blank=True, max_digits=12, decimal_places=6)
    prompt_price = models.DecimalField(
        null=True, blank=True, max_digits=12, decimal_places=6, help_text="For a million prompt tokens."
    )
    completion_price = models.DecimalField(
        null=True, blank=True, max_digits=12, decimal_places=6, help_text="For a million completion tokens."
    )
    fallback_prompt_price = models.DecimalField(
        null=True,
        blank=True,
        max_digits=12,
        decimal_places=6,
        help_text="Of the second model, for a million prompt tokens; both empty: as the first, marked as estimated.",
    )
    fallback_completion_price = models.DecimalField(null=True, blank=True, max_digits=12, decimal_places=6)
    is_active = models.BooleanField(default=True)
    is_default = models.BooleanField(default=False, help_text="Answers where no agent is named.")
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["is_default"], condition=Q(is_default=True), name="one_default_agent"),
        ]

    def __str__(self) -> str:
        return self.name


class AgentVersion(models.Model):
    """What an agent was at each of its versions, so that a run can be reviewed later."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    configuration = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)

    class Meta:
        ordering = ["agent", "-number"]
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="one_row_a_version")]

    def __str__(self) -> str:
        return f"{self.agent} v{self.number}"
