"""The bench itself, in its smallest size, so that it cannot rot. No figure is judged: that needs a quiet machine."""

from collections.abc import Iterator

import pytest

from tests.bench.__main__ import measure, read_arguments
from tests.bench.scenarios import Plan, scenarios_of
from tests.bench.stage import SiteEnded, Stage, set_up_stage
from tests.bench.table import Row, is_good, make_table, milliseconds, rows_of

TINY = Plan(
    first_texts=2,
    stops=2,
    silent_stops=2,
    many_stops=4,
    at_once=2,
    stop_after=2,
    fans=(2,),
    fan_tokens=4,
    flat_out_runs=1,
    flat_out_tokens=50,
    starts=1,
)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with set_up_stage() as stage:
        yield stage


@pytest.mark.parametrize("scenario", [*scenarios_of(TINY), "start"])
def test_each_scenario_measures_every_figure_of_its_rows(stage: Stage, scenario: str) -> None:
    results = measure(stage, TINY, only=[scenario])
    assert list(results) == [scenario]
    for system, figures in results[scenario].items():
        assert figures["wrong"] == 0, system
        for row in rows_of(TINY):
            assert row.scenario != scenario or figures[row.figure] > 0, (system, row)


def test_both_ways_of_a_stop_really_close_the_models_connection(stage: Stage) -> None:
    results = measure(stage, TINY, only=["silent_stop", "many_stops"])
    closed = {(name, system): f["closed"] for name, by in results.items() for system, f in by.items()}
    assert closed == {
        ("silent_stop", "direct"): 2,
        ("silent_stop", "agentsite"): 2,
        ("many_stops", "direct"): 4,
        ("many_stops", "agentsite"): 4,
    }


def test_a_missed_limit_and_a_wrong_run_are_seen() -> None:
    slow = {"first_text": {"direct": {"median": 0.002, "p95": 0.003, "wrong": 0}}}
    slow["first_text"]["agentsite"] = {"median": 0.021, "p95": 0.03, "wrong": 0}
    fast = {"first_text": {**slow["first_text"], "agentsite": {"median": 0.019, "p95": 0.03, "wrong": 0}}}
    wrong = {"first_text": {**slow["first_text"], "agentsite": {"median": 0.019, "p95": 0.03, "wrong": 1}}}
    assert [is_good(results, TINY) for results in (slow, fast, wrong)] == [False, True, False]
    assert "21.0 ms" in make_table(slow, TINY)
    assert "NO" in make_table(slow, TINY)
    assert "NO" not in make_table(fast, TINY)
    assert "1 runs of agentsite did not end as they should" in make_table(wrong, TINY)
    # A run that never began would be the fastest of all: its figure is neither shown nor praised.
    assert "19.0 ms" not in make_table(wrong, TINY)
    assert "yes" not in make_table(wrong, TINY)
    assert milliseconds(float("inf")) == "never"
    assert Row("", "", "", milliseconds, at_least=1).is_kept(1) is True


def test_a_server_that_ends_in_the_middle_leaves_no_figures() -> None:
    with set_up_stage() as stage:
        assert stage.site.stop() == 0
        with pytest.raises(SiteEnded, match="exit code 0"):
            measure(stage, TINY, only=["stop"])


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_arguments(["--fan", "3,4", "--only", "fan_3,stop"]).fan == (3, 4)
    with pytest.raises(SystemExit):
        read_arguments(["--only", "stopp"])
    assert "There is no scenario stopp" in capsys.readouterr().err
