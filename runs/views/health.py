"""Two questions of whoever watches over the site: is the process up, and can it do its work?"""

import logging

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs.database import in_reader
from runs.models import Worker
from runs.models.workers import SEEN_SECONDS

logger = logging.getLogger(__name__)


@never_cache
@require_safe
async def show_health(request: HttpRequest) -> JsonResponse:
    """The process answers. Nothing else is asked, so that a broken database does not get the process killed."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
async def show_readiness(request: HttpRequest) -> JsonResponse:
    """503 with what is wrong, in words, while this process cannot do its part; `warnings` is what others do not do."""
    problems, warnings = await in_reader(look_around)
    response = JsonResponse({"status": "not ready" if problems else "ok", "problems": problems, "warnings": warnings})
    if problems:
        response.status_code = 503
        # Django would log an error at every look; whoever looks has the answer already.
        response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def look_around() -> tuple[list[str], list[str]]:
    try:
        is_worker_alive = Worker.objects.alive().exists()
    except Error as error:
        logger.warning("The database does not answer: %s", error)
        return ["The database does not answer."], []
    missing = [] if is_worker_alive else [f"No worker was seen in the last {SEEN_SECONDS} seconds."]
    # Where workers are processes of their own, a proxy must not take all web servers away because of them: runs can be
    # accepted, and everything that was said can be read.
    return ([], missing) if settings.IS_SCALE_OUT else (missing, [])
