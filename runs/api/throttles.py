"""So many calls a minute for each key, or for each person without one.

A counter for each minute in Django's cache: one operation a call, whatever the limit. A caller can so get twice the
limit through around the turn of a minute, which harms nobody.
"""

import time
from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from runs.api.authentication import Caller, caller_of
from runs.counting import count

if TYPE_CHECKING:  # REST framework imports this module while it makes APIView
    from rest_framework.views import APIView

WINDOW = 60


def count_call(caller: Caller) -> None:
    """Raises when it is one too many."""
    now = time.time()
    if count(f"calls.{caller.throttle_name}.{int(now // WINDOW)}", 2 * WINDOW) > settings.AGENTSITE["CALLS_PER_MINUTE"]:
        raise Throttled(WINDOW - now % WINDOW)


class CallerThrottle(BaseThrottle):
    def allow_request(self, request: Request, view: "APIView") -> bool:
        count_call(caller_of(request))
        return True
