"""What the pages for looking have in common: nothing is added, changed or deleted there."""

import json
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode

SHORT = 120


class ReadOnlyAdmin(admin.ModelAdmin):
    # Counting all rows of a big table costs more than the page that shows a hundred of them.
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHORT else text[:SHORT] + "…"


def pretty(value: Any) -> str:
    return format_html('<pre class="json">{}</pre>', json.dumps(value, indent=2, ensure_ascii=False))


def link_to(row: Model) -> str:
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return format_html('<a href="{}">{}</a>', url, row)


def link_to_rows(rows: QuerySet[Any], **filters: int) -> str:
    """A link to the list of these rows, with their number."""
    url = reverse(f"admin:{rows.model._meta.app_label}_{rows.model._meta.model_name}_changelist")
    return format_html('<a href="{}?{}">{}</a>', url, urlencode(filters), rows.filter(**filters).count())
