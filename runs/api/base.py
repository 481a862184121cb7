"""What all REST views share."""

from rest_framework.views import APIView

from runs.api.authentication import Caller, caller_of
from runs.api.renderers import AlwaysJson


class ApiView(APIView):
    # Without OPTIONS: the schema says what a path takes, and there are no callers from other origins to be told.
    http_method_names = ["get", "head", "post", "patch", "delete"]
    content_negotiation_class = AlwaysJson

    @property
    def default_response_headers(self) -> dict[str, str]:
        # What it answers depends on who asks: nobody in between may keep it.
        return {**super().default_response_headers, "Cache-Control": "no-store"}

    @property
    def caller(self) -> Caller:
        return caller_of(self.request)
