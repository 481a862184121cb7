"""Traces: what a run did and how long it took, and nothing that was said."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.errors import ProviderError
from runs import actions, tracing
from runs.database import in_writer
from tests.runs.stage import Stage
from tests.scripted import Gate, call, used


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.trace_with(provider.get_tracer("tests"))
    yield exporter
    tracing.trace_with(None)


async def spans_of(stage: Stage, exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    """In the order in which they began, when the worker has let go of its runs."""
    await stage.until(lambda: stage.worker is not None and not stage.worker.executions)
    return sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


async def test_a_run_is_a_tree_of_steps_calls_and_tools(working: Stage, exporter: InMemorySpanExporter) -> None:
    working.script(
        ["let me see", call("current_time"), call("calculator", {"expression": "1/0"}), used(100, 10)],
        ["secret answer", used(50, 5)],
    )
    run = await working.ended(await working.submit("secret question"))
    spans = await spans_of(working, exporter)
    names = {span.context.span_id: span.name for span in spans if span.context}
    tree = sorted((span.name, names[span.parent.span_id] if span.parent else None) for span in spans)
    assert tree == [
        ("chat scripted", "step"),
        ("chat scripted", "step"),
        ("execute_tool calculator", "step"),
        ("execute_tool current_time", "step"),
        ("invoke_agent agent", None),
        ("step", "invoke_agent agent"),
        ("step", "invoke_agent agent"),
    ]
    by_name = {span.name: span for span in spans}
    whole = dict(by_name["invoke_agent agent"].attributes or {})
    assert whole["gen_ai.conversation.id"] == run.conversation.public_id
    assert (whole["gen_ai.usage.input_tokens"], whole["gen_ai.usage.output_tokens"]) == (150, 15)
    assert whole["agentsite.run.status"] == "completed"
    assert not by_name["execute_tool calculator"].status.is_ok
    assert by_name["execute_tool current_time"].status.is_unset
    assert "secret" not in "".join(span.to_json() for span in spans)


async def test_spans_say_what_the_conventions_ask_for(working: Stage, exporter: InMemorySpanExporter) -> None:
    """Names of OpenTelemetry's conventions for generative AI: provider, model, tokens of each call, reasons."""
    working.script(["let me see", call("current_time"), used(100, 10)], ["answer", used(50, 5)])
    await working.ended(await working.submit())
    spans = await spans_of(working, exporter)
    provider = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "scripted"}
    whole, *rest = [dict(span.attributes or {}) for span in spans]
    assert whole.items() >= {"gen_ai.operation.name": "invoke_agent", **provider}.items()
    calls = [one for one in rest if one.get("gen_ai.operation.name") == "chat"]
    assert calls == [
        {
            "gen_ai.operation.name": "chat",
            **provider,
            "gen_ai.usage.input_tokens": tokens[0],
            "gen_ai.usage.output_tokens": tokens[1],
            "gen_ai.response.finish_reasons": (reason,),
        }
        for tokens, reason in (((100, 10), "tool_calls"), ((50, 5), "stop"))
    ]
    [tool] = [one for one in rest if one.get("gen_ai.operation.name") == "execute_tool"]
    assert tool["gen_ai.tool.type"] == "function"


def overloaded() -> ProviderError:
    return ProviderError("llm_rate_limit", "Too many.", transient=True, retry_after=0.0)


async def test_a_model_call_that_failed_is_seen_with_its_error(working: Stage, exporter: InMemorySpanExporter) -> None:
    """Also where it was tried again, and where it said nothing."""
    working.script([overloaded()], [ProviderError("llm_authentication", "A wrong key.")])
    run = await working.ended(await working.submit())
    assert run.status == "failed"
    spans = await spans_of(working, exporter)
    assert [(span.name, (span.attributes or {}).get("error.type")) for span in spans] == [
        ("invoke_agent agent", "llm_authentication"),
        ("step", None),
        ("chat scripted", "llm_rate_limit"),
        ("chat scripted", "llm_authentication"),
    ]
    assert [span.status.is_ok for span in spans[2:]] == [False, False]


async def test_a_call_of_the_second_model_bears_its_name(working: Stage, exporter: InMemorySpanExporter) -> None:
    working.agent.fallback_model = "second"
    await in_writer(actions.save_agent, working.agent)
    working.script([overloaded()], [overloaded()], [overloaded()], "From the second.")
    await working.ended(await working.submit())
    spans = await spans_of(working, exporter)
    assert [span.name for span in spans] == ["invoke_agent agent", "step", *["chat scripted"] * 3, "chat second"]
    assert spans[-1].status.is_unset


async def test_a_model_that_says_nothing_until_it_is_stopped_is_seen(
    working: Stage, exporter: InMemorySpanExporter
) -> None:
    gate = Gate()
    working.script([gate])
    run = await working.submit()
    await gate.reached.wait()
    await working.stop(run)
    await working.ended(run)
    spans = await spans_of(working, exporter)
    assert [span.name for span in spans] == ["invoke_agent agent", "step", "chat scripted"]


async def test_a_stopped_run_leaves_no_span_open(working: Stage, exporter: InMemorySpanExporter) -> None:
    gate = Gate()
    working.script(["one two", gate])
    run = await working.submit()
    await working.shown(run, "one two")
    await working.stop(run)
    await working.ended(run)
    spans = await spans_of(working, exporter)
    assert [span.name for span in spans] == ["invoke_agent agent", "step", "chat scripted"]
    assert (spans[0].attributes or {})["agentsite.run.status"] == "cancelled"


async def test_without_an_address_nothing_is_traced(working: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing.set_up_tracing()
    assert tracing._tracer is None
