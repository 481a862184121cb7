"""E-mails that agents sent. They are only kept here."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from runs.admin.reading import ReadOnlyAdmin, short
from runs.models import OutboxEmail


@admin.register(OutboxEmail)
class OutboxEmailAdmin(ReadOnlyAdmin):
    list_display = ["subject", "to", "shown_body", "conversation", "created_at"]
    list_select_related = ["conversation"]
    search_fields = ["to", "subject", "=conversation__public_id"]

    @admin.display(description=_("body"))
    def shown_body(self, email: OutboxEmail) -> str:
        return short(email.body)
