"""API keys: made here, shown once, revoked here."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from runs import access
from runs.models import ApiKey

NEW = ["name", "user", "expires_at"]
KNOWN = ["beginning", "state", "created_at", "last_used_at", "revoked_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin):
    list_display = ["name", "beginning", "user", "state", "last_used_at", "expires_at", "created_at"]
    list_filter = ["created_at"]
    list_select_related = ["user"]
    search_fields = ["name", "=beginning", "=user__username"]
    autocomplete_fields = ["user"]
    actions = ["revoke_keys"]

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[Any]:
        return NEW if obj is None else [*NEW, *KNOWN]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        return [] if obj is None else ["user", *KNOWN]

    def save_model(self, request: HttpRequest, obj: ApiKey, form: forms.ModelForm, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            access.forget_keys()
            return
        key, text = ApiKey.make(name=obj.name, user=obj.user, expires_at=obj.expires_at)
        obj.pk = key.pk
        obj.refresh_from_db()
        self.message_user(
            request,
            format_html(gettext("The new key, shown this once: <code>{}</code>"), text),
            messages.WARNING,
        )

    @admin.action(description=_("Revoke selected API keys"), permissions=["change"])
    def revoke_keys(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        revoked = keys.filter(revoked_at=None).update(revoked_at=timezone.now())
        access.forget_keys()
        self.message_user(request, gettext("Revoked: %(number)s.") % {"number": revoked}, messages.SUCCESS)

    @admin.display(description=_("state"))
    def state(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return gettext("revoked")
        return gettext("usable") if key.is_usable else gettext("expired")
