"""Addresses below /c/ that belong to a transcript."""

from django.urls import path

from runs.views.transcript import show_newer, show_older, show_raw_message, show_raw_result

urlpatterns = [
    path("<str:conversation_id>/older", show_older, name="older"),
    path("<str:conversation_id>/newer", show_newer, name="newer"),
    path("<str:conversation_id>/runs/<str:run_id>/messages/<int:number>", show_raw_message, name="raw_message"),
    path(
        "<str:conversation_id>/runs/<str:run_id>/results/<int:number>/<int:index>", show_raw_result, name="raw_result"
    ),
]
