"""The logs of the runs, event by event, as they were sent."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from runs import events
from runs.admin.reading import ReadOnlyAdmin, link_to, pretty, short
from runs.models import Event

TYPES = sorted(
    value for name, value in vars(events).items() if name.isupper() and isinstance(value, str) and "." in value
)


class TypeFilter(admin.SimpleListFilter):
    """Named here: to find them in the table would be to read all of it."""

    title = _("type")
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in TYPES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Event]) -> QuerySet[Event]:
        return queryset.filter(type=self.value()) if self.value() else queryset


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "run", "at", "payload"]
    list_filter = [TypeFilter]
    list_select_related = ["run"]
    search_fields = ["=run__public_id"]
    ordering = ["-id"]
    fields = ["run_link", "seq", "type", "at", "shown_payload"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        log = super().get_queryset(request).select_related("run")
        return log.filter(run__conversation__deleted_at__isnull=True)

    @admin.display(description=_("payload"))
    def payload(self, event: Event) -> str:
        return short(event.line)

    @admin.display(description=_("run"))
    def run_link(self, event: Event) -> str:
        return link_to(event.run)

    @admin.display(description=_("payload"))
    def shown_payload(self, event: Event) -> str:
        return pretty(events.payload_of(event.line))
