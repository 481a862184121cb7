"""What the garbage collector is told at the start of a server."""

import gc
from collections.abc import Iterator

import pytest

from runs.collector import put_imports_aside


@pytest.fixture
def _collector_as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("_collector_as_before")
def test_what_was_imported_is_not_looked_at_again() -> None:
    looked_at = len(gc.get_objects())
    put_imports_aside()
    assert gc.get_freeze_count() > looked_at / 2
    assert len(gc.get_objects()) < looked_at / 10
