"""What a person's lists are told: that one of their conversations has something new. Which, and no more: whoever hears
it asks for the list, so that a ring that gets lost costs a moment and never the truth. Staff, who may decide for
others, also hear of everybody's approvals."""

from collections.abc import AsyncGenerator

import orjson
from django.contrib.auth.models import User

from runs import events
from runs.events import Subscription

LOOK_AT_ALL = orjson.dumps({"conversation_id": None}).decode()


async def follow_overview(user: User) -> AsyncGenerator[str, None]:
    """A line of JSON for each change, and one without a conversation first: whatever changed while nobody listened is
    to be looked at from here on. Never ends by itself."""
    groups = [events.overview_of(user.pk), *([events.STAFF_OVERVIEW] if user.is_staff else [])]
    async with Subscription(*groups) as subscription:
        yield LOOK_AT_ALL
        while True:
            message = await subscription.next_ring()
            if message is not None:
                yield orjson.dumps({"conversation_id": message["conversation"]}).decode()
            elif subscription.has_missed:
                yield LOOK_AT_ALL
