"""Maintenance windows: weekly, by the clock on the wall, of their whole length when that clock is changed."""

from datetime import datetime
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from streaming.config import checked
from streaming.config.maintenance import in_force

BERLIN = ZoneInfo("Europe/Berlin")


def at(moment: str) -> Millis:
    """Berlin's wall clock; with an offset, that of the moment itself."""
    when = datetime.fromisoformat(moment)
    return Millis(round((when if when.tzinfo else when.replace(tzinfo=BERLIN)).timestamp() * 1000))


def silences(moment: str, **keys: Any) -> tuple[Silence, ...]:
    window = {"from": "22:00", "for": "4h", "timezone": "Europe/Berlin", "comment": "CHG-1", **keys}
    clusters = [{"name": name, "bootstrap": [f"{name}:9093"]} for name in ("prod-eu", "a", "b")]
    config = checked({"clusters": clusters, "maintenance": [window]}, "the test's configuration")
    return in_force(config.maintenance, at(moment))


@pytest.mark.parametrize(
    ("moment", "silent"),
    [
        ("2026-11-20T21:59:59", False),
        ("2026-11-20T22:00:00", True),
        ("2026-11-21T01:59:59", True),
        ("2026-11-21T02:00:00", False),
        ("2026-11-21T22:00:00", False),
    ],
)
def test_a_window_is_in_force_on_its_days_only(moment: str, silent: bool) -> None:
    assert bool(silences(moment, days=["fri"])) is silent


def test_a_windows_silence_has_scope_end_and_comment() -> None:
    (silence,) = silences("2026-11-20T23:00", clusters=["prod-*"], rules=["no-leader"])
    assert silence == Silence(
        id="maintenance-1",
        cluster="prod-*",
        rule="no-leader",
        starts_at_ms=at("2026-11-20T22:00"),
        ends_at_ms=at("2026-11-21T02:00"),
        author="configuration",
        comment="CHG-1",
    )


def test_each_pattern_gives_one_silence() -> None:
    found = silences("2026-11-20T23:00", clusters=["a", "b"], rules=["no-leader", "voter-*"])
    assert {(one.cluster, one.rule) for one in found} == {*product("ab", ("no-leader", "voter-*"))}


def test_a_window_of_several_days_lasts_until_its_end() -> None:
    weekend = {"days": ["fri"], "for": "3d"}
    assert silences("2026-11-23T21:59", **weekend)
    assert not silences("2026-11-23T22:00", **weekend)


@pytest.mark.parametrize(
    ("moment", "silent"),
    [
        # On 29 March 2026 at 02:00 clocks in Berlin are put forward to 03:00.
        ("2026-03-29T01:30:00+00:00", True),
        ("2026-03-29T01:29:59+00:00", False),
        ("2026-03-29T03:29:59+00:00", True),
        ("2026-03-29T03:30:00+00:00", False),
        # On 25 October 2026 at 03:00 they are put back to 02:00: 02:30 comes twice, and the first is meant.
        ("2026-10-25T00:29:59+00:00", False),
        ("2026-10-25T00:30:00+00:00", True),
        ("2026-10-25T02:29:59+00:00", True),
        ("2026-10-25T02:30:00+00:00", False),
    ],
)
def test_a_clock_change_does_not_change_a_windows_length(moment: str, silent: bool) -> None:
    window = {"days": ["sun"], "from": "02:30", "for": "2h"}
    assert bool(silences(moment, **window)) is silent
