"""Agents that the caller may use."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runs import access
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.pagination import PARAMETERS, Pages
from runs.api.queries import read_query
from runs.api.schema import describe, page_parameters
from runs.models import Agent

PAGES = Pages("agents", is_descending=False, usual=100)


class AgentsView(ApiView):
    @describe(
        "list_agents",
        "List the agents you may use",
        answer=shapes.AgentList,
        parameters=page_parameters(PAGES),
        errors=[400],
    )
    def get(self, request: Request) -> Response:
        user = self.caller.user
        page, cursor = PAGES.cut(access.usable_agents(user), read_query(request, PARAMETERS), str(user.pk))
        return Response({"data": [show_agent(agent) for agent in page], "next_cursor": cursor})


def show_agent(agent: Agent) -> dict[str, Any]:
    return {
        "slug": agent.slug,
        "name": agent.name,
        "description": agent.description,
        "examples": agent.examples,
        "model": agent.model,
        "tools": agent.tools,
        "version": agent.version,
        "default": agent.is_default,
        "limits": {
            "max_steps": agent.max_steps,
            "max_seconds": agent.max_seconds,
            "max_tokens": agent.max_tokens,
            "max_cost": None if agent.max_cost is None else str(agent.max_cost),
        },
    }
