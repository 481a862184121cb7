"""Figures for Prometheus. What a process sees itself is counted as it happens; what the database knows is read when
somebody asks. Each process tells its own; add them up there."""

import logging
from collections.abc import Iterable

from django.db import Error
from django.db.models import Count, Min
from django.utils import timezone
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry

from runs.models import ACTIVE, Run, Status, Worker

logger = logging.getLogger(__name__)

SECONDS = (0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 10, 30, 60)

RUNS_ENDED = Counter("agentsite_runs_ended", "Runs whose end was written by this process.", ["status", "stop_reason"])
FIRST_TEXT_SECONDS = Histogram("agentsite_first_text_seconds", "From the question to the first text.", buckets=SECONDS)
STOP_SECONDS = Histogram("agentsite_stop_seconds", "From the request of a stop to the end.", buckets=SECONDS)
STOP_MODEL_SECONDS = Histogram(
    "agentsite_stop_model_seconds", "From the request of a stop to the end of the model's connection.", buckets=SECONDS
)
COMMIT_SECONDS = Histogram("agentsite_journal_commit_seconds", "One commit of the journal.", buckets=SECONDS)
COMMIT_EVENTS = Histogram(
    "agentsite_journal_commit_events", "Events in one commit.", buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500)
)
WATCHERS = Gauge("agentsite_watchers", "Event streams and websockets that are open in this process.")
POOL_AGENTS = Gauge("agentsite_pool_agents", "Live agents in this worker's pool.")
POOL_REUSED = Gauge("agentsite_pool_reused", "Runs that found their agent in the pool, since the worker's start.")
POOL_BUILT = Gauge("agentsite_pool_built", "Runs for which an agent was built, since the worker's start.")


def observe_end(run: Run) -> None:
    """A run has ended, and this process has written it."""
    RUNS_ENDED.labels(run.status, run.stop_reason).inc()
    if run.first_token_at is not None and run.attempt == 1:
        # Whoever took the question may have another clock.
        FIRST_TEXT_SECONDS.observe(max((run.first_token_at - run.queued_at).total_seconds(), 0))
    receipt = run.receipt or {}
    for histogram, name in ((STOP_SECONDS, "ended_ms"), (STOP_MODEL_SECONDS, "model_closed_ms")):
        if (milliseconds := receipt.get(name)) is not None:
            histogram.observe(milliseconds / 1000)


class Stored:
    """What all processes share."""

    def collect(self) -> Iterable[Metric]:
        active = Run.objects.filter(status__in=ACTIVE)
        counts = dict(active.order_by().values_list("status").annotate(count=Count("pk")))
        runs = GaugeMetricFamily("agentsite_runs", "Runs that have not ended, on the whole site.", labels=["status"])
        for status in sorted(ACTIVE):
            runs.add_metric([str(status)], counts.get(status, 0))
        yield runs
        oldest = active.filter(status=Status.QUEUED).aggregate(oldest=Min("queued_at"))["oldest"]
        age = max((timezone.now() - oldest).total_seconds(), 0) if oldest else 0
        yield GaugeMetricFamily("agentsite_queue_oldest_seconds", "How long the oldest run waits.", value=age)
        workers = Worker.objects.alive().count()
        yield GaugeMetricFamily("agentsite_workers", "Workers that reported lately, on the whole site.", value=workers)


def write_metrics() -> bytes:
    """In Prometheus's text format. While the database is away there is what the process knows itself."""
    stored = CollectorRegistry()
    own = generate_latest(REGISTRY)
    try:
        stored.register(Stored())
        return own + generate_latest(stored)
    except Error as error:
        logger.warning("The database does not answer: %s", error)
        return own
