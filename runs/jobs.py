"""procrastinate's jobs, where there are many processes: `runs.dispatch` defers them, `runs.delivery` executes them."""

from procrastinate import App, JobContext
from procrastinate.contrib.django import app

QUEUE = "runs"
STALLED_SECONDS = 10
# Never none: with a table that it believes empty, PostgreSQL plans the search for the next job so badly that a thousand
# waiting ones take a minute.
FINISHED_KEPT = 5000
FORGET = """
    DELETE FROM procrastinate_jobs
    WHERE status NOT IN ('todo', 'doing') AND id < (SELECT max(id) FROM procrastinate_jobs) - %(kept)s
"""


@app.task(name="take_run", queue=QUEUE, pass_context=True)
async def take_run(context: JobContext, run: int, worker: str) -> None:
    await context.additional_context["deliver"](run, worker)


async def keep_house(jobs: App) -> None:
    """Deliver again what a worker took and died with; forget what is long done. Every worker may do it: procrastinate's
    own periodic tasks would be deferred over a Django connection, which nobody replaces when it breaks."""
    for job in await jobs.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=STALLED_SECONDS):
        await jobs.job_manager.retry_job(job)
    await jobs.connector.execute_query_async(FORGET, kept=FINISHED_KEPT)
