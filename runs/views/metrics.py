"""The figures of this process, for a Prometheus that knows the token."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from runs.database import in_reader
from runs.metrics import write_metrics


@never_cache
@require_safe
async def show_metrics(request: HttpRequest) -> HttpResponse:
    """For nobody, unless a token is set: figures tell strangers how much goes on here."""
    if not is_known(request.headers.get("Authorization", "")):
        raise Http404
    return HttpResponse(await in_reader(write_metrics), content_type=CONTENT_TYPE_LATEST)


def is_known(authorization: str) -> bool:
    token: str = settings.AGENTSITE["METRICS_TOKEN"]
    return bool(token) and constant_time_compare(authorization, f"Bearer {token}")
