"""What a worker in a process of its own answers over HTTP: that it is up, that it works, and its figures."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from django.conf import settings
from django.db import Error
from prometheus_client import CONTENT_TYPE_LATEST

from runs.database import in_reader
from runs.metrics import write_metrics
from runs.models import Worker as WorkerRow
from runs.views.metrics import is_known
from runs.worker import Worker

logger = logging.getLogger(__name__)


@asynccontextmanager
async def answering(worker: Worker) -> AsyncIterator[None]:
    """On AGENTSITE_WORKER_PORT, for as long as the block lasts; nowhere without one."""
    port = settings.AGENTSITE["WORKER_PORT"]
    if port is None:
        yield
        return
    health = _Health(worker)
    application = web.Application()
    application.add_routes(
        [web.get("/healthz", health.is_up), web.get("/readyz", health.is_ready), web.get("/metrics", health.metrics)]
    )
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.AGENTSITE["WORKER_HOST"], port).start()
        yield
    finally:
        await runner.cleanup()


class _Health:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    async def is_up(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def is_ready(self, request: web.Request) -> web.Response:
        """503 with what is wrong, in words, while it would not take runs."""
        problems = [] if not self.worker.is_draining else ["The worker is draining."]
        try:
            async with asyncio.timeout(5):
                if not await in_reader(WorkerRow.objects.alive().filter(name=self.worker.name).exists):
                    problems.append("The worker has not reported lately.")
        except (Error, TimeoutError):
            problems.append("The database does not answer.")
        body = {"status": "not ready" if problems else "ok", "problems": problems}
        return web.json_response(body, status=503 if problems else 200)

    async def metrics(self, request: web.Request) -> web.Response:
        if not is_known(request.headers.get("Authorization", "")):
            raise web.HTTPNotFound
        return web.Response(body=await in_reader(write_metrics), headers={"Content-Type": CONTENT_TYPE_LATEST})
