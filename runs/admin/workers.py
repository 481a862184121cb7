"""Workers that are, or were, alive."""

from django.contrib import admin

from runs.admin.reading import ReadOnlyAdmin
from runs.models import Worker


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "started_at", "seen_at", "active_runs"]
    search_fields = ["name"]
