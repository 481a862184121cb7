"""Where models are. A stored key can be replaced or forgotten here, and is never shown again."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from runs.models import Provider


class ProviderForm(forms.ModelForm):
    new_api_key = forms.CharField(
        required=False,
        label=_("New API key"),
        help_text=_("Replaces the stored one. Stored encrypted, and not shown again."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
    )
    forgets_api_key = forms.BooleanField(required=False, label=_("Forget the stored API key"))

    class Meta:
        model = Provider
        exclude = ["api_key"]

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("kind") == Provider.Kind.OPENAI and not self.cleaned_data.get("base_url"):
            self.add_error("base_url", _("An endpoint needs its address."))
        return cleaned


@admin.register(Provider)
class ProviderAdmin(admin.ModelAdmin):
    form = ProviderForm
    list_display = ["name", "kind", "base_url", "api_key_state", "updated_at"]
    list_filter = ["kind"]
    search_fields = ["name", "base_url"]
    readonly_fields = ["api_key_state", "created_at", "updated_at"]
    fieldsets = [
        (None, {"fields": ["name", "kind", "base_url"]}),
        (_("API key"), {"fields": ["api_key_state", "new_api_key", "forgets_api_key", "api_key_env"]}),
        (_("Patience"), {"fields": ["connect_seconds", "silence_seconds", "max_retries"]}),
        (_("History"), {"fields": ["created_at", "updated_at"]}),
    ]

    @admin.display(description=_("API key"))
    def api_key_state(self, provider: Provider) -> str:
        if provider.api_key_env:
            return gettext("from $%(name)s") % {"name": provider.api_key_env}
        return gettext("set") if provider.api_key else gettext("not set")

    def save_model(self, request: HttpRequest, obj: Provider, form: forms.ModelForm, change: bool) -> None:
        if form.cleaned_data["forgets_api_key"]:
            obj.api_key = ""
        if form.cleaned_data["new_api_key"]:
            obj.api_key = form.cleaned_data["new_api_key"]
        super().save_model(request, obj, form, change)
