"""What `manage.py check --deploy` says about this site's own settings."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register


@register(Tags.database, deploy=True)
def check_deployment(**options: Any) -> list[CheckMessage]:
    if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql" or settings.IS_SCALE_OUT:
        return []
    return [
        Warning(
            "PostgreSQL without Redis: this site must be one process.",
            hint="Set REDIS_URL before you start a second web server or worker: without it they do not hear of each "
            "other's runs, events and stops. With one `manage.py serve` all is well, and this can be silenced.",
            id="runs.W001",
        )
    ]
