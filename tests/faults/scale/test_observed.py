"""What a fleet tells of itself, to those who collect it: Prometheus, and whoever takes the traces of OpenTelemetry."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.faults.calling import Caller, until
from tests.faults.promises import check_run, words_shown
from tests.faults.scale.fleet import Fleet
from tests.runs.test_metrics import read_figures
from tests.serving import free_port

TOKEN = "a token of Prometheus"
Look = Callable[[], Awaitable[dict[str, float]]]


@asynccontextmanager
async def scraping(*ports: int) -> AsyncIterator[list[Look]]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:

        def make_look(port: int) -> Look:
            async def look() -> dict[str, float]:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                    assert answer.status == 200
                    assert answer.content_type == "text/plain"
                    return read_figures(await answer.text())

            return look

        yield [make_look(port) for port in ports]


async def test_figures_of_all_processes_move_with_what_happens(fleet: Fleet, caller: Caller) -> None:
    """Runs by state, the queue's age, first text and stops as histograms, the pool, events, watchers, batches."""
    port = free_port()
    fleet.environment.update(AGENTSITE_METRICS_TOKEN=TOKEN, AGENTSITE_WORKER_PORT=str(port))
    site = fleet.web[0]
    site.start()
    async with scraping(site.port, port) as (of_web, of_worker):
        run = await caller.start("#tokens=2000 #rate=50")
        waiting = await of_web()
        assert waiting['agentsite_runs{status="queued"}'] == 1
        assert waiting["agentsite_queue_oldest_seconds"] > 0
        assert (waiting["agentsite_workers"], waiting["agentsite_watchers"]) == (0, 0)

        await asyncio.to_thread(fleet.make_worker().start)
        async with caller.following(run) as frames:
            async for frame in frames:
                if frame.type == "message.delta":
                    break
            streaming = await of_web()
            assert streaming['agentsite_runs{status="running"}'] == 1
            assert streaming["agentsite_queue_oldest_seconds"] == 0
            assert (streaming["agentsite_workers"], streaming["agentsite_watchers"]) == (1, 1)
        before = await of_worker()
        assert await caller.stop(run) == 200
        await check_run(caller, run)
        second = await caller.start("#tokens=5", conversation=run.conversation_id)
        await check_run(caller, second)

        async def is_told() -> bool:
            """The pool is told with the worker's reports."""
            return (await of_worker())["agentsite_pool_reused"] == 1

        await until(is_told)
        after = await of_worker()
        for status, reason in (("cancelled", "cancelled"), ("completed", "end_turn")):
            assert after[f'agentsite_runs_ended_total{{status="{status}",stop_reason="{reason}"}}'] == 1
        for name in ("first_text", "stop", "stop_model", "journal_commit"):
            name = f"agentsite_{name}_seconds"
            assert after[f"{name}_count"] > before[f"{name}_count"]
            assert after[f"{name}_sum"] > before[f"{name}_sum"]
            assert after[f'{name}_bucket{{le="+Inf"}}'] == after[f"{name}_count"]
        assert after["agentsite_first_text_seconds_count"] == 2
        assert after["agentsite_stop_seconds_count"] == 1
        # Four of them are not the journal's: two were queued, and two begun.
        [(events,)] = fleet.ask("SELECT count(*) FROM runs_event")
        assert after["agentsite_journal_commit_events_sum"] == events - 4
        assert (after["agentsite_pool_agents"], after["agentsite_pool_built"]) == (1, 1)
        over = await of_web()
        assert over["agentsite_watchers"] == 0
        assert over['agentsite_runs{status="running"}'] == 0


class Collector:
    """Takes traces as a collector does, over HTTP in OpenTelemetry's own format."""

    def __init__(self) -> None:
        self.port = free_port()
        self.spans: list[tuple[Any, dict[str, Any]]] = []
        self.service = ""

    async def __aenter__(self) -> "Collector":
        application = web.Application()
        application.add_routes([web.post("/v1/traces", self.take)])
        self.runner = web.AppRunner(application, access_log=None)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.runner.cleanup()

    async def take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            [self.service] = [
                one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
            ]
            for scope in resource.scope_spans:
                self.spans += [(span, {one.key: one.value for one in span.attributes}) for span in scope.spans]
        return web.Response(content_type="application/x-protobuf")


async def test_a_run_arrives_at_a_collector_as_one_trace(fleet: Fleet, caller: Caller) -> None:
    """Also what the worker has not sent yet when it ends."""
    async with Collector() as collector:
        fleet.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.port}"
        await fleet.start(web=0, workers=1)
        run = await caller.start('#tool=mark {"name": "one"} #tokens=5', agent="sequential")
        await check_run(caller, run)
        stopped = await caller.start("#tokens=2000 #rate=50", agent="sequential")
        await caller.see(stopped, words_shown(3))
        await caller.stop(stopped)
        await check_run(caller, stopped)
        assert await fleet.stop(fleet.workers[0]) == [0]
        spans = collector.spans
    assert collector.service == "agentsite"
    names = {span.span_id: span.name for span, _ in spans}
    traces = {
        attributes["agentsite.run.id"].string_value: span.trace_id
        for span, attributes in spans
        if not span.parent_span_id
    }
    assert set(traces) == {run.run_id, stopped.run_id}
    trees = {
        run_id: sorted(
            (span.name, names.get(span.parent_span_id, "")) for span, _ in spans if span.trace_id == trace_id
        )
        for run_id, trace_id in traces.items()
    }
    assert trees[run.run_id] == [
        ("chat demo", "step"),
        ("chat demo", "step"),
        ("execute_tool mark", "step"),
        ("invoke_agent sequential", ""),
        ("step", "invoke_agent sequential"),
        ("step", "invoke_agent sequential"),
    ]
    assert [name for name, _ in trees[stopped.run_id]] == ["chat demo", "invoke_agent sequential", "step"]
    for span, attributes in spans:
        assert span.end_time_unix_nano >= span.start_time_unix_nano
        if span.name == "chat demo" and span.trace_id == traces[run.run_id]:
            assert attributes["gen_ai.provider.name"].string_value == "demo"
            assert attributes["gen_ai.usage.output_tokens"].int_value > 0
