"""Every error in one envelope: `{"error": {"message", "type", "code", "param"}}`, whatever raised it and wherever."""

import logging
import math
from typing import Any

import orjson
from django.core.exceptions import DisallowedHost, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.template import loader
from django.views import defaults
from rest_framework import exceptions

from runs.actions import Refused
from runs.api.authentication import CHALLENGE
from runs.database import find_outage

logger = logging.getLogger(__name__)

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
CODES = {
    401: "not_authenticated",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    429: "rate_limit_exceeded",
}


def answer_error(exc: Exception) -> HttpResponse:
    """The answer to an exception. The unexpected is logged with its traceback, and its caller learns nothing of it."""
    refused = as_refused(exc)
    if refused is None:
        logger.error("An API call failed unexpectedly.", exc_info=exc)
        refused = Refused(500, "internal_error", "Something went wrong on the server. It has been logged.")
    response = answer_refused(refused)
    if refused.status == 401:
        response["WWW-Authenticate"] = CHALLENGE
    if refused.status == 503:
        logger.warning(
            "An API call was refused, because the database is not available (%s).", " ".join(str(exc).split())
        )
        response["Retry-After"] = "1"
    if isinstance(exc, exceptions.Throttled):
        seconds: float = getattr(exc, "wait", None) or 1
        response["Retry-After"] = str(math.ceil(seconds))
    return response


def answer_refused(refused: Refused) -> HttpResponse:
    return HttpResponse(orjson.dumps(envelope_of(refused)), status=refused.status, content_type="application/json")


def envelope_of(refused: Refused) -> dict[str, dict[str, str | None]]:
    kind = "api_error" if refused.status >= 500 else TYPES.get(refused.status, "invalid_request_error")
    return {"error": {"message": refused.message, "type": kind, "code": refused.code, "param": refused.param}}


def as_refused(exc: Exception) -> Refused | None:
    """What its caller is told; None where it is unexpected."""
    match exc:
        case Refused():
            return exc
        case exceptions.APIException():
            if exc.status_code >= 500:
                return None
            code = exc.get_codes() if isinstance(exc, exceptions.AuthenticationFailed) else None
            return Refused(exc.status_code, str(code or CODES.get(exc.status_code, "invalid_request")), str(exc.detail))
        case Http404():
            return Refused(404, CODES[404], "There is nothing here.")
        case PermissionDenied():
            return Refused(403, CODES[403], "This is not allowed.")
        case RequestDataTooBig():
            return Refused(413, CODES[413], "The body is too large.")
        case _ if find_outage(exc) is not None:
            return Refused(503, "database_unavailable", "The database does not answer at the moment. Try again soon.")
        case DisallowedHost():
            return Refused(400, "unknown_host", "The site does not answer to this host. AGENTSITE_HOSTS names its own.")
        case SuspiciousOperation() | UnreadablePostError() | MultiPartParserError():
            return Refused(400, "invalid_request", "The request could not be read.")
    return None


def handle_exception(exc: Exception, context: dict[str, Any]) -> HttpResponse:
    """What REST framework calls."""
    return answer_error(exc)


# For `handler400` and `handler500` of the root URL configuration: what goes wrong before a view is found (an unknown
# host, a failing middleware) gets the envelope under /v1 and Django's page elsewhere.


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith("/v1/"):
        return answer_error(exception if isinstance(exception, SuspiciousOperation) else SuspiciousOperation())
    is_foreign_host = isinstance(exception, DisallowedHost)
    # Without the request: what is wrong with it may keep a page from being made for it.
    return HttpResponse(loader.render_to_string("400.html", {"is_foreign_host": is_foreign_host}), status=400)


def server_error(request: HttpRequest) -> HttpResponse:
    if request.path.startswith("/v1/"):
        # Django has logged the traceback already.
        return answer_refused(Refused(500, "internal_error", "Something went wrong on the server. It has been logged."))
    return defaults.server_error(request)
