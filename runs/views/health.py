"""Two questions of whoever watches over the site: is the process up, and can it do its work?"""

import logging
from datetime import timedelta

from django.db import Error
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs.database import in_reader
from runs.models import Worker

logger = logging.getLogger(__name__)

# Workers renew their row every few seconds.
WORKER_SEEN_SECONDS = 15


@never_cache
@require_safe
async def show_health(request: HttpRequest) -> JsonResponse:
    """The process answers. Nothing else is asked, so that a broken database does not get the process killed."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
async def show_readiness(request: HttpRequest) -> JsonResponse:
    """503 with what is wrong, in words, while new work would not be done."""
    problems = await in_reader(find_problems)
    response = JsonResponse({"status": "not ready" if problems else "ok", "problems": problems})
    if problems:
        response.status_code = 503
        # Django would log an error at every look; whoever looks has the answer already.
        response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def find_problems() -> list[str]:
    since = timezone.now() - timedelta(seconds=WORKER_SEEN_SECONDS)
    try:
        is_worker_alive = Worker.objects.filter(seen_at__gte=since).exists()
    except Error:
        logger.warning("The database does not answer.", exc_info=True)
        return ["The database does not answer."]
    return [] if is_worker_alive else [f"No worker was seen in the last {WORKER_SEEN_SECONDS} seconds."]
