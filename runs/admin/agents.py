"""Configured assistants. Saving goes through `actions.save_agent`, so that each change of behaviour is a version."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.validators import MinValueValidator
from django.db.models import Model, QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from runs import actions
from runs.admin.json_field import StorableJSONField
from runs.admin.reading import pretty
from runs.models import Agent, AgentVersion
from runs.toolbox import known_tools

VERSIONS_SHOWN = 20
AMOUNTS = ["max_cost", "prompt_price", "completion_price", "fallback_prompt_price", "fallback_completion_price"]


class LinesField(forms.CharField):
    """A list of texts, one a line."""

    widget = forms.Textarea(attrs={"rows": 4, "class": "vLargeTextField"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        return [line.strip() for line in super().clean(value).splitlines() if line.strip()]


class AgentForm(forms.ModelForm):
    tools = forms.MultipleChoiceField(label=_("Tools"), required=False, widget=forms.CheckboxSelectMultiple)
    examples = LinesField(label=_("Examples"), required=False, help_text=_("Questions to begin with, one a line."))

    class Meta:
        model = Agent
        exclude: list[str] = []
        field_classes = {"sampling": StorableJSONField, "approvals": StorableJSONField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A tool that this site no longer has stays visible, so that it can be taken away.
        names = [*known_tools(), *(name for name in self.instance.tools if name not in known_tools())]
        field = self.fields.get("tools")
        if isinstance(field, forms.MultipleChoiceField):
            field.choices = [(name, name) for name in names]
        for name in AMOUNTS:
            if name in self.fields:
                self.fields[name].validators.append(MinValueValidator(0))

    def clean_tools(self) -> list[str]:
        """In the order in which they were: a form sends them in its own, and that is not a change."""
        chosen = self.cleaned_data["tools"]
        kept = [name for name in self.instance.tools if name in chosen]
        return [*kept, *(name for name in chosen if name not in kept)]

    def clean_instructions(self) -> str:
        """Browsers end a line with two characters; models and versions know one."""
        instructions: str = self.cleaned_data["instructions"].replace("\r\n", "\n")
        return instructions

    def clean_sampling(self) -> dict[str, Any]:
        sampling = self.cleaned_data["sampling"] or {}
        if not isinstance(sampling, dict):
            raise forms.ValidationError(_('Give an object, for example {"temperature": 0.2}.'))
        return sampling

    def clean_approvals(self) -> Any:
        """Empty is no rule at all. The rest is checked together with the tools."""
        return self.cleaned_data["approvals"] or {}

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "approvals" in cleaned and "tools" in cleaned:
            try:
                asked = Agent(pk=self.instance.pk, tools=cleaned["tools"], approvals=cleaned["approvals"])
                actions.check_approvals(asked)
            except actions.Refused as refused:
                self.add_error("approvals", str(refused))
        if cleaned.get("fallback_provider") and not cleaned.get("fallback_model"):
            self.add_error("fallback_model", _("Name the second model, or choose no provider for it."))
        return cleaned

    def _get_validation_exclusions(self) -> set[str]:
        # There is one default agent, and saving this one as such takes the place of the other.
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]
        return {*excluded, "is_default"}


class NewestVersions(BaseInlineFormSet):
    @cached_property
    def newest(self) -> list[AgentVersion]:
        return list(super().get_queryset()[:VERSIONS_SHOWN])

    def get_queryset(self) -> Any:
        # Asked for again for every row.
        return self.newest


class VersionInline(admin.TabularInline):
    model = AgentVersion
    formset = NewestVersions
    ordering = ["-number"]
    fields = ["number", "created_at", "created_by", "shown_configuration"]
    readonly_fields = ["number", "created_at", "created_by", "shown_configuration"]
    extra = 0
    can_delete = False
    verbose_name_plural = format_lazy(_("versions (the newest {number})"), number=VERSIONS_SHOWN)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AgentVersion]:
        return super().get_queryset(request).select_related("created_by", "agent")

    @admin.display(description=_("configuration"))
    def shown_configuration(self, version: AgentVersion) -> str:
        return pretty(version.configuration)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):
    form = AgentForm
    inlines = [VersionInline]
    list_display = ["name", "slug", "provider", "model", "version", "is_active", "is_default", "updated_at"]
    list_filter = ["is_active", "provider"]
    list_select_related = ["provider"]
    search_fields = ["name", "slug", "model"]
    autocomplete_fields = ["provider", "fallback_provider"]
    readonly_fields = ["version", "created_at", "updated_at"]
    fieldsets = [
        (None, {"fields": ["name", "slug", "is_active", "is_default"]}),
        (_("For people"), {"fields": ["description", "examples"]}),
        (_("Model"), {"fields": ["provider", "model", "instructions", "sampling", "reasoning_effort"]}),
        (
            _("Second model"),
            {
                "fields": [
                    "fallback_model",
                    "fallback_provider",
                    "fallback_prompt_price",
                    "fallback_completion_price",
                ]
            },
        ),
        (_("Tools"), {"fields": ["tools", "has_parallel_tools", "approvals", "approval_hours", "on_expiry"]}),
        (
            _("Limits of one run"),
            {"fields": ["max_steps", "max_seconds", "max_tokens", "max_cost", "prompt_price", "completion_price"]},
        ),
        (_("History"), {"fields": ["version", "created_at", "updated_at"]}),
    ]

    def save_model(self, request: HttpRequest, obj: Agent, form: forms.ModelForm, change: bool) -> None:
        assert isinstance(request.user, User)
        actions.save_agent(obj, request.user)
