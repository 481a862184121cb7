"""The front page: what this is, and where to go."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def show_home(request: HttpRequest) -> HttpResponse:
    return render(request, "home.html")
