"""The live agents of the workers, for staff."""

from dataclasses import asdict

from rest_framework.request import Request
from rest_framework.response import Response

from runs import pools
from runs.actions import Refused
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.schema import describe


class PoolView(ApiView):
    @describe(
        "get_pool",
        "Look at the live agents",
        answer=shapes.PoolList,
        errors=[403],
        description="For staff: one entry for each worker, with its counters and the agents that it holds, the most "
        "recently used first.",
    )
    def get(self, request: Request) -> Response:
        if not self.caller.user.is_staff:
            raise Refused(403, "not_allowed", "Only staff see the pool.")
        return Response({"data": [asdict(pool) for pool in pools.look_at_pools()], "next_cursor": None})
