"""The agents that the caller may use, as the list of models that OpenAI's clients ask for."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runs import access
from runs.actions import Refused
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.queries import read_query
from runs.api.schema import describe
from runs.models import Agent


class ModelsView(ApiView):
    @describe(
        "list_models",
        "List the agents you may use, as models",
        answer=shapes.ModelList,
        errors=[400],
        description="OpenAI's shape: all of them, on one page.",
    )
    def get(self, request: Request) -> Response:
        read_query(request, ())
        agents = access.usable_agents(self.caller.user).order_by("slug").only("slug", "created_at")
        return Response({"object": "list", "data": [show_model(agent) for agent in agents]})


class ModelView(ApiView):
    @describe("get_model", "Look at an agent, as a model", answer=shapes.Model, errors=[404])
    def get(self, request: Request, model: str) -> Response:
        agent = None if "\0" in model else access.usable_agents(self.caller.user).filter(slug=model).first()
        if agent is None:
            raise Refused(404, "model_not_found", f"There is no model {model[:50]!a}.", "model")
        return Response(show_model(agent))


def show_model(agent: Agent) -> dict[str, Any]:
    return {
        "id": agent.slug,
        "object": "model",
        "created": int(agent.created_at.timestamp()),
        "owned_by": "agentsite",
    }
