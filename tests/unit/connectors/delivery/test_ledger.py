"""The ledger: what was delivered and what is pending, across crashes."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.delivery import ledger_record
from connectors.delivery.ledger import Ledger
from connectors.delivery.ledger_record import AlertDelivered, AlertRecorded, IncidentNotified, SinkAdded, SinkRemoved
from connectors.errors import LedgerError
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

FIRST, SECOND, RESOLVED = alert("one"), alert("two"), alert("one", resolved=True)
DAY_MS = 86_400_000


def opened(path: Path, *sinks: str, keep_entries: int = 10_000) -> Ledger:
    ledger = Ledger(path, keep_entries=keep_entries)
    for sink in sinks:
        ledger.add_sink(sink)
    return ledger


def rewritten(path: Path) -> bytes:
    """Returns the content of the file after a ledger opened and rewrote it."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    Ledger(copy).close()
    return copy.read_bytes()


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.none() | st.integers(0, 2**63))
def test_a_record_is_parsed_as_it_was_written(text: str, number: float, offset: int | None) -> None:
    of = alert(text, summary=text, evidence={text: [number, {"in": text}]}, remedy=(text,), offset=offset)
    records = (
        AlertRecorded(number=3, recorded_at_ms=NOON_MS, incident=text, alert=of),
        AlertDelivered(number=3, sink=text),
        AlertDelivered(number=3, sink=text, discarded=True),
        IncidentNotified(sink=text, incident=text, at_ms=NOON_MS),
        SinkAdded(sink=text),
        SinkRemoved(sink=text),
    )
    for each in records:
        line = ledger_record.to_line(each)
        assert line.count(b"\n") == 1
        assert ledger_record.from_line(line[:-1]) == each
        for cut in range(len(line) - 1):
            assert ledger_record.from_line(line[:cut]) is None


@pytest.mark.parametrize(
    ("record", "body"),
    [
        (AlertDelivered(number=3, sink="a"), b'{"n":3,"told":"a"}'),
        (AlertDelivered(number=3, sink="a", discarded=True), b'{"n":3,"told":"a","forgotten":true}'),
        (IncidentNotified(sink="a", incident="1n", at_ms=NOON_MS), b'{"heard":"a","incident":"1n","at":1795150862345}'),
        (SinkAdded(sink="a"), b'{"opened":"a"}'),
        (SinkRemoved(sink="a"), b'{"closed":"a"}'),
    ],
)
def test_the_stored_keys_of_a_record_never_change(record: ledger_record.LedgerRecord, body: bytes) -> None:
    assert ledger_record.to_line(record).partition(b" ")[2] == body + b"\n"


def test_each_sink_has_its_pending_transitions_in_order_and_once(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "a", "b")
    assert ledger.record([FIRST, SECOND, FIRST], NOON_MS) == (FIRST, SECOND)
    assert ledger.record([SECOND, RESOLVED], NOON_MS) == (RESOLVED,)
    ledger.mark_delivered("a", [FIRST.key, RESOLVED.key])
    assert ledger.pending("a") == [SECOND]
    assert ledger.pending("b") == [FIRST, SECOND, RESOLVED]
    ledger.close()
    again = opened(tmp_path / "ledger", "a", "b")
    assert again.pending("a") == [SECOND]
    assert again.pending("b") == [FIRST, SECOND, RESOLVED]
    assert again.record([FIRST, SECOND, RESOLVED], NOON_MS) == ()
    assert again.firing() == [SECOND]


def test_a_change_of_severity_is_a_separate_transition(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "a")
    worse = alert("one", severity=Severity.WARNING)
    assert ledger.record([FIRST, worse], NOON_MS) == (FIRST, worse)


def test_only_what_is_firing_is_pending_for_a_new_sink(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "a")
    ledger.record([FIRST, SECOND, RESOLVED], NOON_MS)
    ledger.add_sink("b")
    ledger.add_sink("a")
    third = alert("three")
    ledger.record([third], NOON_MS)
    assert ledger.pending("b") == [SECOND, third]
    assert ledger.pending("a") == [FIRST, SECOND, RESOLVED, third]
    ledger.close()
    assert opened(tmp_path / "ledger").pending("b") == [SECOND, third]


def test_a_ledger_truncated_at_any_byte_loses_only_the_unfinished_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "a")
    ledger.record([FIRST], NOON_MS)
    before = len(path.read_bytes())
    ledger.record([SECOND], NOON_MS)
    ledger.close()
    whole = path.read_bytes()
    for cut in range(before, len(whole) + 1):
        path.write_bytes(whole[:cut])
        again = opened(path, "a")
        finished = cut >= len(whole) - 1
        assert again.pending("a") == ([FIRST, SECOND] if finished else [FIRST])
        assert again.record([FIRST, SECOND], NOON_MS) == (() if finished else (SECOND,))
        again.close()
        assert opened(path, "a").pending("a") == [FIRST, SECOND]


def test_old_and_excess_alerts_are_dropped_but_never_what_is_firing(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "a", keep_entries=10)
    ledger.record([FIRST], NOON_MS)
    for at in range(600):
        past = [alert(f"past {at}"), alert(f"past {at}", resolved=True)]
        ledger.record(past, NOON_MS)
        ledger.mark_delivered("a", [each.key for each in past])
        assert len(path.read_bytes().splitlines()) < 1_100
    assert ledger.firing() == [FIRST]
    assert ledger.pending("a") == [FIRST]
    assert ledger.record([FIRST, alert("past 599")], NOON_MS) == ()
    # The others are dropped by age too, with their delivery status.
    ledger.record([SECOND], Millis(NOON_MS + 31 * DAY_MS))
    assert ledger.record([FIRST, SECOND, alert("past 599")], NOON_MS) == (alert("past 599"),)


def test_dropping_undelivered_alerts_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = opened(tmp_path / "ledger", "dead", keep_entries=2)
    ledger.record([alert("one"), alert("one", resolved=True), SECOND, alert("two", resolved=True)], NOON_MS)
    assert "2 alerts were dropped undelivered: they exceed what the ledger keeps" in caplog.text
    assert len(ledger.pending("dead")) == 2


def test_a_failing_sink_does_not_keep_what_was_delivered_to_another(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "well", "dead", keep_entries=10)
    for at in range(200):
        for each in (alert(f"past {at}"), alert(f"past {at}", resolved=True)):
            ledger.record([each], NOON_MS)
            ledger.mark_delivered("well", [each.key])
    assert len(ledger.history()) == len(ledger.pending("dead")) == 10


def test_the_delivered_transition_is_kept_while_its_end_is_pending(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "well", "late", keep_entries=3)
    ledger.record([FIRST], NOON_MS)
    for sink in ("well", "late"):
        ledger.mark_delivered(sink, [FIRST.key])
    ledger.record([SECOND, alert("two", resolved=True), RESOLVED], NOON_MS)
    ledger.mark_delivered("well", [RESOLVED.key])
    ledger.record([], NOON_MS)
    (transitions,) = ledger.incidents("late").values()
    assert [(each.alert, each.delivered) for each in transitions if each.alert.subject == "one"] == [
        (FIRST, True),
        (RESOLVED, False),
    ]


def test_a_dropped_end_takes_its_beginning_with_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "failing")
    ledger.record([FIRST], NOON_MS)
    ledger.mark_delivered("failing", [FIRST.key])
    ledger.record([RESOLVED], NOON_MS)
    # The end is pending for longer than the ledger keeps it; the beginning was needed only for that end.
    for later_ms in (0, 1_000):
        assert ledger.record([], Millis(NOON_MS + 31 * DAY_MS + later_ms)) == ()
        assert (ledger.history(), ledger.firing()) == ((), [])
    ledger.close()
    path.write_bytes(rewritten(path))
    assert opened(path, "failing").firing() == []


def test_a_deactivated_sink_is_removed_when_its_pending_transitions_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger"
    opened(path, "stays", "goes", "went").close()
    ledger = opened(path, "stays", "goes", keep_entries=2)
    ledger.deactivate_sink("goes")
    past = [alert("past"), alert("past", resolved=True)]
    ledger.record([FIRST], NOON_MS)
    ledger.mark_delivered("stays", [FIRST.key])
    # Until then it can be added again and receives what it missed.
    ledger.add_sink("goes")
    assert ledger.pending("goes") == [FIRST]
    ledger.deactivate_sink("goes")
    ledger.record(past, NOON_MS)
    ledger.mark_delivered("stays", [each.key for each in past])
    ledger.record([SECOND], NOON_MS)
    assert caplog.text == ""
    assert b'"opened":"goes"' not in rewritten(path)
    assert b'"opened":"went"' not in rewritten(path)
    ledger.close()
    again = opened(path, "goes", "stays")
    assert again.pending("goes") == [FIRST, SECOND]
    assert again.pending("stays") == [SECOND]


def test_half_a_line_that_could_not_be_truncated_damages_no_other_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger"
    ledger, real = opened(path, "a"), os.write

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def half(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", broken)
        return real(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(LedgerError, match="Input/output error"):
        ledger.record([FIRST], NOON_MS)
    monkeypatch.undo()
    assert ledger.pending("a") == []
    assert ledger.record([FIRST, SECOND], NOON_MS) == (FIRST, SECOND)
    ledger.close()
    assert opened(path, "a").pending("a") == [FIRST, SECOND]


def test_rewriting_keeps_the_content(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "a", "b")
    ledger.record([FIRST, SECOND, RESOLVED], NOON_MS)
    ledger.mark_delivered("b", [SECOND.key])
    for _ in range(3):
        again = opened(path)
        assert (again.pending("a"), again.pending("b")) == ([FIRST, SECOND, RESOLVED], [FIRST, RESOLVED])
        assert again.firing() == [SECOND]
        again.close()


def test_a_ledger_that_cannot_be_used_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="file/ledger cannot be used: "):
        Ledger(tmp_path / "file" / "ledger")
    with pytest.raises(LedgerError, match="cannot be used: Is a directory"):
        Ledger(tmp_path)
