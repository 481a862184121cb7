"""The pool's bench in its smallest size, so that it cannot rot; and what holds on any machine."""

import pytest

from tests.bench.pool import WITH, WITHOUT, Measured, measure, prefix_of


@pytest.mark.parametrize(("capacity", "hits"), [(WITH, 4), (WITHOUT, 0)])
async def test_the_prompts_begin_with_the_same_bytes_with_and_without_a_pool(capacity: str, hits: int) -> None:
    """P1, P2: with it each second message is a hit, without it none; the provider sees the same prefix either way."""
    measured = await measure(capacity, messages=2, history=4)
    assert measured.prefixes == [True, True]
    assert measured.hits == hits
    assert all(seconds > 0 for seconds in (*measured.asked, *measured.first_text))


def test_a_prefix_that_changed_is_seen() -> None:
    before = '{"model":"m","messages":[{"role":"system","content":"a]"},{"role":"user","content":"b"}],"stream":true}'
    assert prefix_of(before).endswith('"content":"b"}')
    assert before.replace('"b"}]', '"b"},{"role":"user"}]').startswith(prefix_of(before))
    assert not before.replace("a]", "c]").startswith(prefix_of(before))
    assert "1.5 ms" in Measured([0.0015], [0.002], [True], 1).describe("with pool")
