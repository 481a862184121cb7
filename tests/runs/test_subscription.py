"""A place in groups: whoever gives it up has none, however early."""

import asyncio

import pytest
from channels.layers import get_channel_layer

from runs.events import Subscription


async def test_whoever_is_cancelled_while_joining_is_in_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """C11"""
    layer = get_channel_layer()
    assert layer is not None
    join, is_joining = layer.group_add, asyncio.Event()

    async def join_and_wait(group: str, channel: str) -> None:
        await join(group, channel)
        if group == "second":
            is_joining.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(layer, "group_add", join_and_wait)
    joining = asyncio.create_task(Subscription("first", "second").__aenter__())
    await is_joining.wait()
    assert set(layer.groups) == {"first", "second"}
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert not layer.groups
