"""A model request as the body of OpenAI's chat completions."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from gateway.messages import Message, ToolCall
from gateway.providers.base import ModelRequest, ToolSpec

# What a request says itself cannot be said again by an agent's sampling settings.
OWN_FIELDS = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})
ACCEPTED_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def build_body(request: ModelRequest) -> dict[str, Any]:
    body = {name: value for name, value in request.sampling.items() if name not in OWN_FIELDS}
    body["model"] = request.model
    body["messages"] = [build_message(message) for message in request.messages]
    if request.system_prompt:
        body["messages"].insert(0, {"role": "system", "content": request.system_prompt})
    if request.tools:
        body["tools"] = [build_tool(tool) for tool in request.tools]
    if request.reasoning_effort:
        body["reasoning_effort"] = request.reasoning_effort
    return body


def build_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content}
    built: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name and ACCEPTED_NAME.fullmatch(message.name):
        built["name"] = message.name
    if message.tool_calls:
        built["content"] = message.content or None
        built["tool_calls"] = [build_tool_call(call) for call in message.tool_calls]
    return built


def build_tool_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": as_json_object(call.arguments)},
    }


def as_json_object(arguments: str) -> str:
    """Some servers parse the arguments of past calls and refuse the whole conversation for a single bad one. What the
    model wrote stays readable to it."""
    if not arguments.strip():
        return "{}"
    try:
        is_object = isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        is_object = False
    return arguments if is_object else orjson.dumps({"not_a_json_object": arguments}).decode()


def build_tool(tool: ToolSpec) -> dict[str, Any]:
    parameters: Mapping[str, Any] = tool.parameters
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(parameters)},
    }
