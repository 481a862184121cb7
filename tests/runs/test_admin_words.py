"""The admin speaks the language of whoever works in it: each of its words goes through the catalogues."""

from collections.abc import Iterator
from types import FunctionType

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.utils.functional import Promise

from tests.factories import make_agent, waiting_run

MODELS = list(apps.get_app_config("runs").get_models())


def words_of_model(model: type[Model]) -> Iterator[tuple[str, object]]:
    yield "verbose_name", model._meta.verbose_name
    yield "verbose_name_plural", model._meta.verbose_name_plural
    for field in model._meta.fields:
        if field.name != "id":
            yield f"{field.name}.verbose_name", field.verbose_name
        if field.help_text:
            yield f"{field.name}.help_text", field.help_text


def words_of_admin(shown: admin.ModelAdmin) -> Iterator[tuple[str, object]]:
    for title, _ in shown.fieldsets or ():
        if title is not None:
            yield f"fieldset {title}", title
    for part in (type(shown), *shown.inlines):
        for name, method in vars(part).items():
            if isinstance(method, FunctionType) and (
                hasattr(method, "short_description") or name in shown.list_display
            ):
                yield f"{part.__name__}.{name}", getattr(method, "short_description", None)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_label_of_a_model_can_be_translated(model: type[Model]) -> None:
    assert [place for place, words in words_of_model(model) if not isinstance(words, Promise)] == []


@pytest.mark.parametrize("model", [model for model in MODELS if admin.site.is_registered(model)])
def test_every_heading_and_action_of_the_admin_can_be_translated(model: type[Model]) -> None:
    words = list(words_of_admin(admin.site._registry[model]))
    assert [place for place, text in words if not isinstance(text, Promise)] == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", ["Agenten", "API-Schlüssel", "Gespräche", "Läufe", "Freigaben", "Postausgang", "Anbieter"]),
        ("agent/add/", ["Für Menschen", "Anweisungen", "Denkaufwand", "Der System-Prompt.", "Grenzen eines Laufs"]),
        ("provider/add/", ["Neuer API-Schlüssel", "Geduld", "OpenAI-kompatibler Endpunkt"]),
        ("run/", ["Ausgewählte Läufe stoppen", "Eingereiht", "braucht Freigabe"]),
        ("approval/", ["Entschieden von", "offen"]),
        ("worker/", ["Lebende Agenten"]),
        ("worker/pool/", ["Lebende Agenten", "Kein Worker hat seinen Pool gezeigt."]),
    ],
)
@pytest.mark.django_db
def test_the_admin_speaks_german(client: Client, path: str, words: list[str]) -> None:
    make_agent()
    charlie = User.objects.create_superuser("charlie")
    waiting_run(charlie, "call_1")
    client.force_login(charlie)
    page = client.get(f"/admin/runs/{path}", headers={"Accept-Language": "de"}).content.decode()
    assert [each for each in words if each not in page] == []
