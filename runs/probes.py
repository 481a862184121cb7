"""Questions of those who watch over a process, answered before all other middleware.

A load balancer, a container's health check or a Prometheus calls a process by its address and without TLS: no name by
which the site may be called, and nothing to redirect.
"""

from collections.abc import Awaitable, Callable

from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import async_only_middleware

from runs.views.health import show_health, show_readiness
from runs.views.metrics import show_metrics

PROBES = {"/healthz": show_health, "/readyz": show_readiness, "/metrics": show_metrics}

Answer = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@async_only_middleware
def answer_probes(get_response: Answer) -> Answer:
    async def answer(request: HttpRequest) -> HttpResponseBase:
        return await PROBES.get(request.path_info, get_response)(request)

    return answer
