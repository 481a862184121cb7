"""How somebody likes their pages: appearance, language, shortcuts. Kept in cookies, because they belong to the device
in front of them: a phone in bed and a screen in the office may differ, and the sign-in page should know them, too."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import check_for_language, gettext_lazy
from django.views.decorators.http import require_http_methods

from runs.views.layout import render_console

YEAR = 365 * 24 * 3600
THEMES = {"system": gettext_lazy("System"), "light": gettext_lazy("Light"), "dark": gettext_lazy("Dark")}
SHORTCUTS = ("on", "off")


@dataclass(frozen=True)
class Preferences:
    theme: str
    shortcuts: str

    @property
    def themes(self) -> list[tuple[str, Any]]:
        return list(THEMES.items())

    @classmethod
    def of(cls, request: HttpRequest) -> "Preferences":
        theme = request.COOKIES.get("theme", "")
        shortcuts = request.COOKIES.get("shortcuts", "")
        return cls(theme if theme in THEMES else "system", shortcuts if shortcuts in SHORTCUTS else "on")


def add_preferences(request: HttpRequest) -> dict[str, Any]:
    """For every template."""
    return {"preferences": Preferences.of(request)}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def show_preferences(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        languages = [(code, name) for code, name in settings.LANGUAGES]
        return render_console(
            request,
            "preferences.html",
            {"section": "preferences", "languages": languages, "is_saved": "saved" in request.GET},
        )
    response = HttpResponseRedirect(reverse("preferences") + "?saved")
    if request.POST.get("theme") in THEMES:
        keep(response, "theme", request.POST["theme"])
    keep(response, "shortcuts", "on" if request.POST.get("shortcuts") == "on" else "off")
    language = request.POST.get("language", "")
    if language in dict(settings.LANGUAGES) and check_for_language(language):
        keep(response, settings.LANGUAGE_COOKIE_NAME, language)
    return response


def keep(response: HttpResponse, name: str, value: str) -> None:
    # Readable by scripts: the theme switch writes the same cookie without asking the server.
    response.set_cookie(name, value, max_age=YEAR, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)
