import asyncio
import secrets

import pytest
from channels.layers import get_channel_layer

from runs import bell
from runs.database import close_threads
from tests.runs.moments import find_moments
from tests.runs.stage import set_the_stage


@pytest.fixture
async def stage(transactional_db, monkeypatch):
    """People, an agent and a scripted model, without a worker."""
    bell.live_at(asyncio.get_running_loop())
    stage = await set_the_stage(monkeypatch)
    yield stage
    await stage.thaw()
    await stage.stop_worker()
    close_threads()


@pytest.fixture
async def working(stage):
    """The same with a worker."""
    await stage.start_worker()
    return stage


@pytest.fixture
async def property_stage(working, monkeypatch):
    """For many examples in one test. Hypothesis seeds `random` anew for each, from which the in-memory layer draws the
    names of its channels: they would repeat."""

    async def new_channel(prefix: str = "specific") -> str:
        return f"{prefix}.{secrets.token_hex(8)}"

    monkeypatch.setattr(get_channel_layer(), "new_channel", new_channel)
    return working


@pytest.fixture
def moments(property_stage, monkeypatch):
    """Where the runs of `property_stage` can be held."""
    return find_moments(monkeypatch)
