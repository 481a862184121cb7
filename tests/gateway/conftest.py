"""What tests of the backend share."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.fake_model import FakeModel, serve_fake_model


@pytest.fixture
async def model() -> AsyncIterator[FakeModel]:
    """On a free port, to be given a script."""
    async with serve_fake_model() as model:
        yield model
