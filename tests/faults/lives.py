"""Many short lives of a worker, each in a process of its own that ends at a commit of our choice.

A server takes a second or two to start, so that not every moment of a run can be tried with it. Here one process is
prepared, and each life is a fork of it: a real process, the real worker, the real database, a real SIGKILL. Every write
of the site is a commit, so its lives can differ by nothing but the commit after which they end.

    python -m tests.faults.lives NAME…      plays some of the stories below and prints what `test_lives.py` judges
"""

import asyncio
import gc
import itertools
import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import django

R = TypeVar("R")

# What becomes of a life at its last commit.
Fate = Literal["dies", "is shut down", "has no database", "loses its answer"]

PATIENCE = 30.0
# Where a run is told to stop, commits that come later than these are no more than a worker's being there.
COMMITS_AFTER_STOP = 3


@dataclass(frozen=True)
class Story:
    text: str
    agent: str = "sequential"
    fates: tuple[Fate, ...] = ("dies",)
    is_stopped_at: str = ""
    """An event after which somebody stops the run."""
    lease_seconds: float = 3600
    """Nobody should have to wait until one runs out, except where a worker is still alive that lost its run."""
    first_commit: int = 1


MARKS = '#tool=mark {"name": "a"} #tool=mark {"name": "b"} #reasoning=2 #tokens=3'
STORIES = {
    "stream": Story("#reasoning=2 #tokens=4 #rate=100"),
    "one by one": Story(MARKS),
    "at once": Story(MARKS, agent="parallel"),
    "shutdown": Story(MARKS, fates=("is shut down",)),
    # Without a database for its first commit, with which it says that it is there, a worker ends.
    "database": Story(MARKS, fates=("has no database", "loses its answer"), lease_seconds=0.5, first_commit=2),
    "stop in a stream": Story("#tokens=50 #rate=100", fates=("dies", "is shut down"), is_stopped_at="message.delta"),
    "stop in a tool": Story(
        '#tool=mark {"name": "a"} #tool=mark_and_hang {"name": "b"} #tool=mark {"name": "c"}',
        fates=("dies", "is shut down"),
        is_stopped_at="tool.completed",
    ),
}


# -- lives


class Died(Exception):
    pass


def in_a_life(function: Callable[..., R], *args: Any) -> R:
    """Call it in a fork; raises `Died` where that did not come back."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            data = pickle.dumps(function(*args))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(data)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise Died
    assert os.WEXITSTATUS(status) == 0, "see the traceback above"
    result: R = pickle.loads(data)
    return result


def meet_fate(fate: Fate | None, number: int, shut_down: Callable[[], object]) -> Callable[[], bool]:
    """At the commit with this number. Returns whether it has come to that."""
    from django.db import OperationalError
    from django.db.backends.base.base import BaseDatabaseWrapper

    commit = BaseDatabaseWrapper._commit  # type: ignore[attr-defined]
    numbers = itertools.count(1)
    is_met = False

    def commit_or_not(database: BaseDatabaseWrapper) -> None:
        nonlocal is_met
        if next(numbers) != number:
            commit(database)
            return
        is_met = True
        if fate == "dies":
            # Before, not after: everything has happened since the commit before, and nothing of it is known. After a
            # moment, in which nobody must have seen anything of it either.
            time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == "has no database":
            raise OperationalError("the database is away")
        commit(database)
        if fate == "loses its answer":
            raise OperationalError("the connection broke after the commit")
        shut_down()

    BaseDatabaseWrapper._commit = commit_or_not  # type: ignore[attr-defined]
    return lambda: is_met


async def watch(run_pk: int) -> None:
    """Write down what a watcher sees, at once: nobody knows how much time there is."""
    from runs import events
    from runs.database import in_reader
    from runs.models import Run

    run = await in_reader(Run.objects.select_related("conversation").get, pk=run_pk)
    with seen_path().open("w") as seen:
        async for batch in events.follow_run(run):
            seen.writelines(f"{line.text}\n" for line in batch)
            seen.flush()


def seen_path() -> Path:
    return Path(os.environ["AGENTSITE_DATA"]) / "seen"


def live(run_pk: int, story: Story, fate: Fate | None = None, number: int = 0) -> bool:
    """A worker's life, until the run has ended or it meets its fate. Whether it did."""
    from django.conf import settings
    from django.db import OperationalError

    from runs import actions, bell
    from runs.database import in_reader
    from runs.models import Event, Run
    from runs.worker import Worker

    settings.AGENTSITE["LEASE_SECONDS"] = story.lease_seconds
    actions.release_orphans()

    def is_moment_to_stop() -> bool:
        return bool(story.is_stopped_at) and Event.objects.filter(run_id=run_pk, type=story.is_stopped_at).exists()

    async def work() -> bool:
        loop = asyncio.get_running_loop()
        bell.live_at(loop)
        worker = Worker()
        is_shut_down = asyncio.Event()
        if fate == "is shut down":
            # So that the stop can only be found at the very end.
            worker._stop = lambda pk, by, via: None  # type: ignore[method-assign]
        is_met = meet_fate(fate, number, lambda: loop.call_soon_threadsafe(is_shut_down.set))
        working = asyncio.create_task(worker.run())
        watching = asyncio.create_task(watch(run_pk))
        is_stopped = False
        async with asyncio.timeout(PATIENCE):
            while not is_shut_down.is_set() and (await in_reader(Run.objects.get, pk=run_pk)).is_active:
                if not is_stopped and await in_reader(is_moment_to_stop):
                    is_stopped = True
                    with suppress(actions.Refused):  # it has ended meanwhile
                        await in_reader(actions.request_stop, run_pk, by="admin", via="api")
                await asyncio.sleep(0.001)
            leaving = asyncio.create_task(worker.shutdown())
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            with suppress(OperationalError):  # a worker that cannot say goodbye
                await working
            watching.cancel()
            await asyncio.wait({watching})
        return is_met()

    return asyncio.run(work())


# -- what happened


def submit(story: Story) -> int:
    from django.contrib.auth.models import User

    from runs.actions import RunOrder, submit_run

    messages = [{"role": "user", "content": story.text}]
    run = submit_run(User.objects.get(username="admin"), RunOrder(messages, agent_slug=story.agent))
    return run.pk


def look(run_pk: int) -> dict[str, Any]:
    from runs.models import Event, Message, Run

    run = Run.objects.select_related("conversation").get(pk=run_pk)
    lines = Event.objects.filter(run=run).order_by("seq").values_list("line", flat=True)
    messages = Message.objects.filter(conversation=run.conversation).order_by("position")
    return {
        "run_id": run.public_id,
        "status": run.status,
        "is_held": bool(run.worker),
        "is_stopped": run.stop_requested_at is not None,
        "last_stop_reason": run.conversation.last_stop_reason,
        "output": run.output,
        "events": [json.loads(line) for line in lines],
        "messages": [message.as_dict() for message in messages],
    }


def first_life(story: Story, fate: Fate, number: int) -> bool:
    seen_path().write_text("")
    return live(submit(story), story, fate, number)


def second_life(story: Story) -> dict[str, Any]:
    """In which the run can end."""
    from runs.models import Run

    run_pk = Run.objects.latest("pk").pk
    seen = [json.loads(line) for line in seen_path().read_text().splitlines()]
    between = look(run_pk)
    if between["status"] in ("queued", "running"):
        live(run_pk, story)
    return {"seen": seen, "between": between, "after": look(run_pk)}


def play(name: str, fate: Fate, number: int) -> dict[str, Any]:
    """A life that ends at a commit, if it comes to that, and the next."""
    try:
        is_met = in_a_life(first_life, STORIES[name], fate, number)
    except Died:
        is_met = True
    lives = in_a_life(second_life, STORIES[name])
    return {"story": name, "fate": fate, "commit": number, "is_met": is_met, **lives}


def play_all(name: str, fate: Fate) -> None:
    """At one commit after another, as many as there are."""
    stopped = 0
    for number in itertools.count(STORIES[name].first_commit):
        told = play(name, fate, number)
        print(json.dumps(told), flush=True)
        stopped += told["between"]["is_stopped"]
        if not told["is_met"] or stopped == COMMITS_AFTER_STOP:
            return


def prepare() -> None:
    """Everything that is imported and made here need not be in each life."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "agentsite.settings"
    django.setup()
    import runs.worker
    from runs.toolbox import known_tools

    # So often that leases of half a second are kept.
    runs.worker.LOOK_SECONDS = 0.05
    known_tools()
    gc.freeze()


if __name__ == "__main__":
    prepare()
    for name in sys.argv[1:]:
        for fate in STORIES[name].fates:
            play_all(name, fate)
