"""When the rules are evaluated after a row, and until when quiet rows may wait."""

from dataclasses import replace

import pytest

from rules.evaluate import RULES, evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from streaming.replay.pace import _ON_AVERAGE, PACE_MS, is_due, quiet_until_ms
from tests.situation.commands import situation

THRESHOLDS = thresholds_for({})
HEALTHY = situation()
NOW_MS = HEALTHY.now_ms
EVALUATED = TrackedConditions(now_ms=NOW_MS)


def after(ms: int) -> Millis:
    return Millis(NOW_MS + ms)


@pytest.mark.parametrize(("ms", "quiet", "due"), [(1, False, True), (PACE_MS - 1, True, False), (PACE_MS, True, True)])
def test_a_quiet_row_is_evaluated_at_the_pace_and_every_other_at_once(ms: int, quiet: bool, due: bool) -> None:
    assert is_due(EVALUATED, THRESHOLDS, after(ms), quiet=quiet) is due


@pytest.mark.parametrize(("ms", "due"), [(999, False), (1_000, True)])
def test_a_quiet_row_is_evaluated_when_a_hold_ends(ms: int, due: bool) -> None:
    thresholds = thresholds_for({"broker-fenced.hold": 1.0})
    fenced = situation("fence 101")
    tracked, alerts = advance(EVALUATED, evaluate(Facts(fenced), thresholds), fenced, thresholds)
    assert alerts == ()

    assert is_due(tracked, thresholds, after(ms), quiet=True) is due


def test_quiet_rows_wait_while_time_changes_nothing() -> None:
    assert quiet_until_ms(HEALTHY, evaluate(Facts(HEALTHY), THRESHOLDS), THRESHOLDS) > after(PACE_MS)


def test_no_row_waits_where_a_condition_begins_because_time_passes() -> None:
    expiring = situation("certificates 2=1209603s")
    found = evaluate(Facts(expiring), THRESHOLDS)
    assert found.findings == ()
    assert quiet_until_ms(expiring, found, THRESHOLDS) == NOW_MS


@pytest.mark.parametrize(("seconds", "waits"), [(0, False), (1, False), (3, True)])
def test_no_row_waits_while_the_next_poll_decides_about_a_failed_probe(seconds: int, waits: bool) -> None:
    """Whether the node fetched since decides whether its endpoint is stale."""
    refused = situation(f"probe 2 refused ago {seconds}s")
    assert (quiet_until_ms(refused, evaluate(Facts(refused), THRESHOLDS), THRESHOLDS) > NOW_MS) is waits


def test_no_row_waits_after_a_quiet_one_that_ended_a_condition() -> None:
    """Its clear time begins with the next evaluation."""
    fenced = situation("fence 101")
    assert quiet_until_ms(replace(HEALTHY, now_ms=after(1)), evaluate(Facts(fenced), THRESHOLDS), THRESHOLDS) == after(
        1
    )


def test_the_rules_about_averages_exist() -> None:
    assert RULES.keys() >= _ON_AVERAGE
