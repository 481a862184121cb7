"""The OpenAPI document and its page. Both are public: they say nothing about anybody's data."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import orjson
from django.http import HttpResponse
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from pydantic import BaseModel
from rest_framework.request import Request

from runs.api import shapes
from runs.api.base import ApiView
from runs.api.pagination import Pages

View = TypeVar("View", bound=Callable[..., Any])

ERRORS = {
    400: "Something in the request is wrong; `param` names it.",
    401: "No valid key and no session.",
    403: "Not allowed, or a session without its CSRF token.",
    404: "It does not exist, or is not yours.",
    409: "A run is active or has started, waits for an approval or for none, or is decided; of a completion: stopped.",
    413: "The body is too large.",
    415: "The body is not `application/json`.",
    422: "The `Idempotency-Key` was used with another body.",
    429: "Too many calls; `Retry-After` says when to come back.",
    500: "Something failed here.",
    502: "The agent's model provider failed, or refused.",
    503: "The database does not answer at the moment; `Retry-After` says when to try again.",
    504: "The agent's model provider did not answer in time.",
}


def parameter(name: str, text: str, **details: Any) -> OpenApiParameter:
    return OpenApiParameter(name, description=text, **details)


def page_parameters(pages: Pages) -> list[OpenApiParameter]:
    count = {"type": "integer", "minimum": 1, "maximum": pages.most, "default": pages.usual}
    return [
        parameter("limit", "How many on a page.", type=count),
        parameter("cursor", "`next_cursor` of the page before."),
    ]


def describe(
    name: str,
    summary: str,
    *,
    answer: type[BaseModel] | OpenApiResponse,
    status: int = 200,
    body: type[BaseModel] | None = None,
    parameters: Sequence[OpenApiParameter] = (),
    errors: Sequence[int] = (),
    media_type: str = "application/json",
    stream: OpenApiResponse | None = None,
    **details: Any,
) -> Callable[[View], View]:
    """One operation of the document. `stream` is what it answers to those who ask for a stream instead."""
    codes = sorted({401, 429, 503, *errors, *((400, 413, 415) if body else ())})
    responses: dict[Any, Any] = {(status, media_type): answer}
    if stream is not None:
        responses[status, "text/event-stream"] = stream
    responses |= {(code, "application/json"): OpenApiResponse(shapes.Error, description=ERRORS[code]) for code in codes}
    return extend_schema(
        operation_id=name,
        summary=summary,
        request=body,
        parameters=list(parameters),
        responses=responses,
        **details,
    )


class KeyScheme(OpenApiAuthenticationExtension):
    target_class = "runs.api.authentication.KeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API key."}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "runs.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The session of a browser. What changes something needs its CSRF token as X-CSRFToken.",
        }


@lru_cache
def document() -> bytes:
    return orjson.dumps(SchemaGenerator().get_schema(request=None, public=True), default=str)


@extend_schema(exclude=True)
class SchemaView(ApiView):
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(document(), content_type="application/json")


class DocsView(SpectacularSwaggerSplitView):
    authentication_classes = []
    permission_classes = []
    throttle_classes = ()
    http_method_names = ["get", "head"]
    url_name = "api-schema"
