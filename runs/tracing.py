"""Traces of runs, by OpenTelemetry's conventions for generative AI: run → step → model call and tools.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT says where to send them. What a run does is seen from what it reports to its
journal; what was said, and what tools were given and gave back, is in no trace.
"""

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from gateway.messages import ToolCall
from runs.actions import Usage
from runs.models import Run, Status

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_tracer: "Tracer | None" = None


def set_up_tracing() -> None:
    """Once in a process that executes runs."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("No traces: install opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http.")
        return
    service = os.environ.get("OTEL_SERVICE_NAME", "agentsite")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace_with(provider.get_tracer("agentsite"))


def trace_with(tracer: "Tracer | None") -> None:
    global _tracer
    _tracer = tracer


def start_trace(run: Run) -> "Trace | None":
    return Trace(_tracer, run) if _tracer is not None else None


class Trace:
    """One run in a worker's hands."""

    def __init__(self, tracer: "Tracer", run: Run) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._tracer = tracer
        agent = run.agent
        self._provider = agent.provider.kind
        self._second_provider = (agent.fallback_provider or agent.provider).kind
        self._run = self._begin(
            f"invoke_agent {agent.slug}",
            None,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": str(self._provider),
                "gen_ai.agent.id": agent.slug,
                "gen_ai.agent.name": agent.name,
                "gen_ai.conversation.id": run.conversation.public_id,
                "gen_ai.request.model": agent.model,
                "agentsite.run.id": run.public_id,
                "agentsite.run.attempt": run.attempt,
            },
        )
        self._step: Span | None = None
        self._is_step_answered = False
        self._call: Span | None = None
        self._has_text = False
        self._tools: dict[str, Span] = {}
        self._counted = (run.prompt_tokens, run.completion_tokens)
        # Since when nothing else went on: a step has ended there.
        self._idle_since: int | None = None

    def model_called(self, model: str) -> None:
        """The first time in a step, and with it the step begins, or again."""
        if self._step is None or self._is_step_answered:
            if self._step is not None:
                self._step.end(self._idle_since)
            self._step = self._begin("step", self._run, {})
            self._is_step_answered = False
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": str(self._provider),
            "gen_ai.request.model": model,
        }
        self._call = self._begin(f"chat {model}", self._step, attributes, kind=self._trace.SpanKind.CLIENT)
        self._has_text = False

    def text_came(self) -> None:
        if self._call is not None and not self._has_text:
            self._call.add_event("first text")
            self._has_text = True

    def message_completed(self, usage: Usage, finish_reason: str) -> None:
        if self._call is not None:
            prompt, completion = self._counted
            self._call.set_attributes(
                {
                    "gen_ai.usage.input_tokens": usage.prompt_tokens - prompt,
                    "gen_ai.usage.output_tokens": usage.completion_tokens - completion,
                    "gen_ai.response.finish_reasons": [finish_reason],
                }
            )
            self._call.end()
        self._counted = (usage.prompt_tokens, usage.completion_tokens)
        self._call, self._is_step_answered, self._idle_since = None, True, time.time_ns()

    def call_failed(self, error_type: str) -> None:
        if self._call is not None:
            self._fail(self._call, error_type)
            self._call.end()
            self._call = None

    def model_changed(self, error_type: str) -> None:
        self.call_failed(error_type)
        self._provider = self._second_provider

    def tool_started(self, call: ToolCall) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
        }
        self._tools[call.id] = self._begin(f"execute_tool {call.name}", self._step or self._run, attributes)

    def tool_completed(self, call: ToolCall, state: str, is_error: bool) -> None:
        if (tool := self._tools.pop(call.id, None)) is not None:
            if is_error:
                self._fail(tool, state if state != "finished" else "tool_error")
            tool.end()
        self._idle_since = time.time_ns()

    def end(self, run: Run | None) -> None:
        """The run has ended; None: it goes on elsewhere."""
        if run is not None:
            self._run.set_attributes(
                {
                    "gen_ai.usage.input_tokens": run.prompt_tokens,
                    "gen_ai.usage.output_tokens": run.completion_tokens,
                    "gen_ai.response.finish_reasons": [str(run.stop_reason)],
                    "agentsite.run.status": str(run.status),
                }
            )
            if run.status == Status.FAILED:
                error_type = (run.error or {}).get("error_type", "_OTHER")
                self._fail(self._run, error_type)
                self.call_failed(error_type)
        else:
            self._run.add_event("handed over")
        for span in (*self._tools.values(), self._call, self._step, self._run):
            if span is not None:
                span.end()

    def _fail(self, span: "Span", error_type: str) -> None:
        span.set_attribute("error.type", error_type)
        span.set_status(self._trace.StatusCode.ERROR)

    def _begin(self, name: str, parent: "Span | None", attributes: dict[str, Any], **details: Any) -> "Span":
        context = self._trace.set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context, attributes=attributes, **details)
