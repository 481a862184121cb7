"""Traces of runs, by OpenTelemetry's conventions for generative AI: run → step → model call and tools.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT says where to send them. What a run does is seen from what it reports to its
journal; what was said, and what tools were given and gave back, is in no trace.
"""

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from gateway.messages import ToolCall
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
        self._model = run.agent.model
        self._run = self._begin(
            f"invoke_agent {run.agent.slug}",
            None,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.id": run.agent.slug,
                "gen_ai.agent.name": run.agent.name,
                "gen_ai.conversation.id": run.conversation.public_id,
                "gen_ai.request.model": self._model,
                "agentsite.run.id": run.public_id,
                "agentsite.run.attempt": run.attempt,
            },
        )
        self._step: Span | None = None
        self._call: Span | None = None
        self._tools: dict[str, Span] = {}
        # Since when nothing else went on: from here the next model call is counted.
        self._idle_since: int | None = time.time_ns()

    def text_came(self) -> None:
        if self._call is None:
            self._call = self._begin_call()
            self._call.add_event("first text")

    def message_completed(self) -> None:
        call = self._call or self._begin_call()  # which was not streamed
        call.end()
        self._call, self._idle_since = None, time.time_ns()

    def tool_started(self, call: ToolCall) -> None:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name}
        attributes["gen_ai.tool.call.id"] = call.id
        self._tools[call.id] = self._begin(f"execute_tool {call.name}", self._step or self._run, attributes)

    def tool_completed(self, call: ToolCall, state: str, is_error: bool) -> None:
        if (tool := self._tools.pop(call.id, None)) is not None:
            if is_error:
                tool.set_attribute("error.type", state if state != "finished" else "tool_error")
                tool.set_status(self._trace.StatusCode.ERROR)
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
                self._run.set_attribute("error.type", (run.error or {}).get("error_type", "_OTHER"))
                self._run.set_status(self._trace.StatusCode.ERROR)
        else:
            self._run.add_event("handed over")
        for span in (*self._tools.values(), self._call, self._step, self._run):
            if span is not None:
                span.end()

    def _begin_call(self) -> "Span":
        """A model call, and with it a step."""
        if self._step is not None:
            self._step.end(self._idle_since)
        self._step = self._begin("step", self._run, {}, self._idle_since)
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": self._model}
        kind = self._trace.SpanKind.CLIENT
        return self._begin(f"chat {self._model}", self._step, attributes, self._idle_since, kind=kind)

    def _begin(
        self, name: str, parent: "Span | None", attributes: dict[str, Any], start: int | None = None, **details: Any
    ) -> "Span":
        context = self._trace.set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context, attributes=attributes, start_time=start, **details)
