"""What agents were asked to remember."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from runs.admin.reading import ReadOnlyAdmin, short
from runs.models import Note


@admin.register(Note)
class NoteAdmin(ReadOnlyAdmin):
    list_display = ["key", "shown_text", "conversation", "updated_at"]
    list_select_related = ["conversation"]
    search_fields = ["key", "=conversation__public_id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Note]:
        return super().get_queryset(request).filter(conversation__deleted_at__isnull=True)

    @admin.display(description=_("text"))
    def shown_text(self, note: Note) -> str:
        return short(note.text)
