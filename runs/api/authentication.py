"""Who calls: a program by its API key, or a person by the session of a browser.

REST views, event streams and websockets all find their caller here. A key needs no CSRF token, because no browser adds
it by itself; a session does, for everything that changes something.
"""

from dataclasses import dataclass
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.request import Request

from runs import access
from runs.actions import Refused
from runs.models import ApiKey

CHALLENGE = 'Bearer realm="agentsite"'


@dataclass(frozen=True)
class Caller:
    user: User
    key: ApiKey | None

    @property
    def via(self) -> str:
        """How a stop that this caller asks for is described."""
        return "api" if self.key else "console"

    @property
    def throttle_name(self) -> str:
        return f"key.{self.key.pk}" if self.key else f"user.{self.user.pk}"


def find_key(request: HttpRequest) -> ApiKey | None:
    """The key that was sent; None where none was. A wrong one is never ignored in favour of a session."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    key = access.find_key(text.strip())
    if key is None:
        raise AuthenticationFailed("The API key is not valid.", code="invalid_key")
    return key


def find_session_user(request: HttpRequest) -> User | None:
    if not hasattr(request, "user"):
        # Neither the API's handler nor a websocket has middleware that would have done this.
        store = import_module(settings.SESSION_ENGINE).SessionStore
        request.session = store(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
        request.user = get_user(request)
    user = request.user
    return user if isinstance(user, User) and user.is_active else None


def find_caller(request: HttpRequest) -> Caller:
    """For what is no REST view."""
    key = find_key(request)
    if key is not None:
        return Caller(key.user, key)
    user = find_session_user(request)
    if user is None:
        raise NotAuthenticated("Send an API key (Authorization: Bearer …) or sign in.")
    check_csrf(request)
    return Caller(user, None)


def check_csrf(request: HttpRequest) -> None:
    """Of a session. What changes nothing needs no token."""
    check = CSRFCheck(lambda request: None)  # type: ignore[arg-type]
    check.process_request(request)
    reason = check.process_view(request, None, (), {})  # type: ignore[arg-type]
    if reason:
        raise Refused(403, "csrf_failed", f"{reason} Send the CSRF token of your session as X-CSRFToken.")


def caller_of(request: Request) -> Caller:
    """The caller of a REST view, once it is authenticated."""
    user, key = request.user, request.auth
    assert isinstance(user, User)
    assert key is None or isinstance(key, ApiKey)
    return Caller(user, key)


class KeyAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        key = find_key(request._request)
        return (key.user, key) if key else None

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class SessionAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = find_session_user(request._request)
        if user is None:
            return None
        check_csrf(request._request)
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE
