"""Signing in, and how often a wrong password may be tried: ten times in five minutes, for each name and address.

Counted before the password is looked at, so that many tries at once are as many tries. Whoever signs in is forgiven.
The counters are in Django's cache: each web server has its own.
"""

import hashlib
import ipaddress
import math
import re
from time import time
from typing import Any

from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.utils.translation import ngettext

from runs.counting import count

MOST_TRIES = 10
WINDOW = 300


class PatientBackend(ModelBackend):
    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        counter = _counter_of(request, username)
        if count(counter, 2 * WINDOW) > MOST_TRIES:
            raise PermissionDenied
        user = super().authenticate(request, username, password, **kwargs)
        if user is not None:
            cache.delete(counter)
        return user


class _SaysWhenBlocked:
    """For the form: a person who is made to wait is told so, whatever password they have now."""

    request: HttpRequest | None
    cleaned_data: dict[str, Any]
    is_blocked = False

    def get_invalid_login_error(self) -> ValidationError:
        if cache.get(_counter_of(self.request, self.cleaned_data.get("username")), 0) <= MOST_TRIES:
            return super().get_invalid_login_error()  # type: ignore[misc, no-any-return]
        self.is_blocked = True
        minutes = math.ceil((WINDOW - time() % WINDOW) / 60)
        words = ngettext(
            "Too many wrong passwords. Try again in %(minutes)s minute.",
            "Too many wrong passwords. Try again in %(minutes)s minutes.",
            minutes,
        )
        return ValidationError(words, code="blocked", params={"minutes": minutes})


class SignInForm(_SaysWhenBlocked, AuthenticationForm):
    """Of the console."""


class AdminSignInForm(_SaysWhenBlocked, AdminAuthenticationForm):
    """Of the admin."""


def _counter_of(request: HttpRequest | None, username: str | None) -> str:
    who = hashlib.sha256(f"{username} {_address_of(request)}".encode()).hexdigest()
    return f"sign-in.{who}.{int(time() // WINDOW)}"


def _address_of(request: HttpRequest | None) -> str:
    """A public site stands behind a proxy, whose own address would make everybody the same. What the proxy itself has
    seen stands last; clients can write whatever they like before it."""
    if request is None:
        return ""
    forwarded: str = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.IS_PRODUCTION else ""
    return _network_of(forwarded.split(",")[-1].strip() or str(request.META.get("REMOTE_ADDR", "")))


def _network_of(text: str) -> str:
    """One visitor's addresses: of IPv6 everybody has a whole /64, and some proxies add a port, which is always new."""
    bare = re.sub(r"^\[(.*)\](:\d+)?$|^([\d.]+):\d+$", r"\1\3", text)
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)
