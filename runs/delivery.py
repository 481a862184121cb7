"""procrastinate's worker inside ours: takes jobs as they come and tells which run can be taken."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import psycopg
from procrastinate import App
from procrastinate.contrib.django import app
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from procrastinate.psycopg_connector import PsycopgConnector

from runs.cancelling import end_tasks
from runs.jobs import QUEUE, keep_house

logger = logging.getLogger(__name__)

Outages = (ConnectorException, psycopg.Error, OSError)
Deliver = Callable[[int, str], Awaitable[None]]

# Deliveries take no time of their own, except for those that leave another worker its advance.
AT_ONCE = 64
HEARTBEAT_SECONDS = 3
HOUSEKEEPING_SECONDS = 10
TRY_AGAIN_SECONDS = 1.0


async def deliver_jobs(name: str, deliver: Deliver) -> None:
    """Until cancelled. A database that is away for a while is waited for."""
    is_away = False
    while True:
        try:
            jobs = app.with_connector(PsycopgConnector(kwargs=connector_params(), min_size=1, max_size=4))
            async with jobs.open_async():
                if is_away:
                    logger.warning("Jobs are delivered again.")
                    is_away = False
                await _work(jobs, name, deliver)
        except Outages as error:
            if not is_away:
                logger.warning("Jobs cannot be delivered (%s); workers look for runs.", error.__cause__ or error)
            is_away = True
        await asyncio.sleep(TRY_AGAIN_SECONDS)


async def _work(jobs: App, name: str, deliver: Deliver) -> None:
    keeping = asyncio.create_task(_keep_house(jobs))
    try:
        await jobs.run_worker_async(
            queues=[QUEUE],
            name=name,
            concurrency=AT_ONCE,
            fetch_job_polling_interval=TRY_AGAIN_SECONDS,
            shutdown_graceful_timeout=TRY_AGAIN_SECONDS,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            install_signal_handlers=False,
            additional_context={"deliver": deliver},
            task_middleware=[],
        )
    finally:
        await end_tasks(keeping)


async def _keep_house(jobs: App) -> None:
    while True:
        await asyncio.sleep(HOUSEKEEPING_SECONDS)
        try:
            await keep_house(jobs)
        except Outages as error:
            logger.info("The jobs could not be tidied up (%s).", error.__cause__ or error)
