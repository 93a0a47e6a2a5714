"""What was told and what is still to be told, across crashes."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.delivery import ledger_record
from connectors.delivery.ledger import Ledger
from connectors.delivery.ledger_record import Closed, Heard, Opened, Recorded, Told
from connectors.errors import LedgerError
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

FIRST, SECOND, OVER = alert("one"), alert("two"), alert("one", resolved=True)
DAY_MS = 86_400_000


def opened(path: Path, *sinks: str, keep_entries: int = 10_000) -> Ledger:
    ledger = Ledger(path, keep_entries=keep_entries)
    for sink in sinks:
        ledger.open_sink(sink)
    return ledger


def reread(path: Path) -> bytes:
    """What the ledger would say if it were opened now."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    Ledger(copy).close()
    return copy.read_bytes()


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.none() | st.integers(0, 2**63))
def test_an_entry_reads_back_as_it_was(text: str, number: float, offset: int | None) -> None:
    of = alert(text, summary=text, evidence={text: [number, {"in": text}]}, remedy=(text,), offset=offset)
    entries = (
        Recorded(number=3, recorded_at_ms=NOON_MS, incident=text, alert=of),
        Told(number=3, sink=text),
        Told(number=3, sink=text, forgotten=True),
        Heard(sink=text, incident=text, at_ms=NOON_MS),
        Opened(sink=text),
        Closed(sink=text),
    )
    for each in entries:
        line = ledger_record.to_line(each)
        assert line.count(b"\n") == 1
        assert ledger_record.from_line(line[:-1]) == each
        for cut in range(len(line) - 1):
            assert ledger_record.from_line(line[:cut]) is None


def test_every_sink_is_told_in_order_and_once(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "a", "b")
    assert ledger.record([FIRST, SECOND, FIRST], NOON_MS) == (FIRST, SECOND)
    assert ledger.record([SECOND, OVER], NOON_MS) == (OVER,)
    ledger.told("a", [FIRST.key, OVER.key])
    assert ledger.pending("a") == [SECOND]
    assert ledger.pending("b") == [FIRST, SECOND, OVER]
    ledger.close()
    again = opened(tmp_path / "ledger", "a", "b")
    assert again.pending("a") == [SECOND]
    assert again.pending("b") == [FIRST, SECOND, OVER]
    assert again.record([FIRST, SECOND, OVER], NOON_MS) == ()
    assert again.firing() == [SECOND]


def test_a_change_of_severity_is_a_telling_of_its_own(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "a")
    worse = alert("one", severity=Severity.WARNING)
    assert ledger.record([FIRST, worse], NOON_MS) == (FIRST, worse)


def test_a_new_sink_is_told_what_is_still_firing_and_not_the_past(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "a")
    ledger.record([FIRST, SECOND, OVER], NOON_MS)
    ledger.open_sink("b")
    ledger.open_sink("a")
    third = alert("three")
    ledger.record([third], NOON_MS)
    assert ledger.pending("b") == [SECOND, third]
    assert ledger.pending("a") == [FIRST, SECOND, OVER, third]
    ledger.close()
    assert opened(tmp_path / "ledger").pending("b") == [SECOND, third]


def test_a_ledger_cut_at_any_byte_loses_only_what_was_not_finished(tmp_path: Path) -> None:
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


def test_a_damaged_line_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "a")
    ledger.record([FIRST, SECOND], NOON_MS)
    ledger.told("a", [FIRST.key, SECOND.key])
    ledger.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\x00" * 50 + b"\n", *lines[2:]]))
    again = opened(path, "a")
    assert "1 torn or damaged lines" in caplog.text
    # It comes again with its batch, and does not take the number of the one that was told.
    assert again.record([FIRST, SECOND], NOON_MS) == (FIRST,)
    assert again.pending("a") == [FIRST]


def test_old_and_excess_alerts_are_forgotten_but_never_what_is_firing(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "a", keep_entries=10)
    ledger.record([FIRST], NOON_MS)
    for at in range(600):
        past = [alert(f"past {at}"), alert(f"past {at}", resolved=True)]
        ledger.record(past, NOON_MS)
        ledger.told("a", [each.key for each in past])
        assert len(path.read_bytes().splitlines()) < 1_100
    assert ledger.firing() == [FIRST]
    assert ledger.pending("a") == [FIRST]
    assert ledger.record([FIRST, alert("past 599")], NOON_MS) == ()
    # By age the others go too, and with them the memory of having told them.
    ledger.record([SECOND], Millis(NOON_MS + 31 * DAY_MS))
    assert ledger.record([FIRST, SECOND, alert("past 599")], NOON_MS) == (alert("past 599"),)


def test_giving_up_on_what_a_dead_sink_was_never_told_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = opened(tmp_path / "ledger", "dead", keep_entries=2)
    ledger.record([alert("one"), alert("one", resolved=True), SECOND, alert("two", resolved=True)], NOON_MS)
    assert "2 alerts could not be told for so long that they were given up" in caplog.text
    assert len(ledger.pending("dead")) == 2


def test_a_sink_that_is_never_told_does_not_keep_what_another_was_told(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "well", "dead", keep_entries=10)
    for at in range(200):
        for each in (alert(f"past {at}"), alert(f"past {at}", resolved=True)):
            ledger.record([each], NOON_MS)
            ledger.told("well", [each.key])
    assert len(ledger.history()) == len(ledger.pending("dead")) == 10


def test_the_word_before_an_end_is_kept_for_the_sink_that_is_still_to_be_told_the_end(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", "well", "late", keep_entries=3)
    ledger.record([FIRST], NOON_MS)
    for sink in ("well", "late"):
        ledger.told(sink, [FIRST.key])
    ledger.record([SECOND, alert("two", resolved=True), OVER], NOON_MS)
    ledger.told("well", [OVER.key])
    ledger.record([], NOON_MS)
    (filed,) = ledger.incidents("late").values()
    assert [(each.alert, each.told) for each in filed if each.alert.subject == "one"] == [(FIRST, True), (OVER, False)]


def test_a_sink_that_is_no_more_is_forgotten_when_what_waits_for_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger"
    opened(path, "stays", "goes", "went").close()
    ledger = opened(path, "stays", "goes", keep_entries=2)
    ledger.leave_sink("goes")
    past = [alert("past"), alert("past", resolved=True)]
    ledger.record([FIRST], NOON_MS)
    ledger.told("stays", [FIRST.key])
    # Until then it can come back, and is told what it missed.
    ledger.open_sink("goes")
    assert ledger.pending("goes") == [FIRST]
    ledger.leave_sink("goes")
    ledger.record(past, NOON_MS)
    ledger.told("stays", [each.key for each in past])
    ledger.record([SECOND], NOON_MS)
    assert caplog.text == ""
    assert b'"opened":"goes"' not in reread(path)
    assert b'"opened":"went"' not in reread(path)
    ledger.close()
    again = opened(path, "goes", "stays")
    assert again.pending("goes") == [FIRST, SECOND]
    assert again.pending("stays") == [SECOND]


def test_half_a_line_that_could_not_be_cut_off_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_rewriting_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, "a", "b")
    ledger.record([FIRST, SECOND, OVER], NOON_MS)
    ledger.told("b", [SECOND.key])
    for _ in range(3):
        again = opened(path)
        assert (again.pending("a"), again.pending("b")) == ([FIRST, SECOND, OVER], [FIRST, OVER])
        assert again.firing() == [SECOND]
        again.close()


def test_a_ledger_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="file/ledger cannot be used: "):
        Ledger(tmp_path / "file" / "ledger")
    with pytest.raises(LedgerError, match="cannot be used: Is a directory"):
        Ledger(tmp_path)
