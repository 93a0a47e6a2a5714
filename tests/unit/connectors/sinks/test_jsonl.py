"""One line a transition, whatever happened to the last one."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.sinks.alert_json import key_of, to_line
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Delivered, Outcome, Retry
from rules.alert import Alert
from rules.notifications.notification import each
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

FIRST, SECOND, THIRD = alert("one"), alert("two"), alert("one", resolved=True)


def told(path: Path) -> list[object]:
    return [key_of(line) for line in path.read_bytes().splitlines()]


def tell(sink: JsonlSink, *alerts: Alert) -> list[Outcome]:
    return list(sink.tell([each(alert) for alert in alerts], sent_at_ms=NOON_MS, deadline_s=5))


def test_lines_come_in_order_and_once(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    sink = JsonlSink(path)
    assert tell(sink, FIRST, SECOND, FIRST) == [Delivered()] * 3
    assert tell(sink, SECOND, THIRD) == [Delivered()] * 2
    assert told(path) == [FIRST.key, SECOND.key, THIRD.key]


def test_a_restarted_sink_knows_what_its_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    tell(JsonlSink(path), FIRST, SECOND)
    tell(JsonlSink(path), FIRST, SECOND, THIRD)
    assert told(path) == [FIRST.key, SECOND.key, THIRD.key]


def test_a_last_line_torn_at_any_byte_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    first, second = to_line(FIRST, NOON_MS), to_line(SECOND, NOON_MS)
    for cut in range(len(second)):
        path.write_bytes(first + second[:cut])
        sink = JsonlSink(path)
        # Only its line feed missing: the line is there.
        assert told(path) == ([FIRST.key, SECOND.key] if cut == len(second) - 1 else [FIRST.key])
        tell(sink, FIRST, SECOND, THIRD)
        assert told(path) == [FIRST.key, SECOND.key, THIRD.key]


def test_a_file_rotated_away_is_begun_anew_without_repeating(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    sink = JsonlSink(path)
    tell(sink, FIRST)
    path.rename(tmp_path / "alerts.jsonl.1")
    tell(sink, FIRST, SECOND)
    assert told(path) == [SECOND.key]
    path.write_bytes(b"")
    tell(sink, THIRD)
    assert told(path) == [THIRD.key]


def test_a_full_disk_is_a_retry_and_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alerts.jsonl"
    sink, real = JsonlSink(path), os.write
    tell(sink, FIRST)

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", full)
    assert tell(sink, SECOND, THIRD) == [Retry(reason=f"{path} cannot be written: No space left on device")] * 2
    monkeypatch.undo()
    assert told(path) == [FIRST.key]
    assert tell(sink, SECOND, THIRD) == [Delivered()] * 2
    assert told(path) == [FIRST.key, SECOND.key, THIRD.key]


def test_a_file_emptied_under_us_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alerts.jsonl"
    sink, real = JsonlSink(path), os.write
    tell(sink, FIRST)
    os.truncate(path, 0)
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:9]) and 1 // 0)
    with pytest.raises(ZeroDivisionError):
        tell(sink, SECOND)
    monkeypatch.undo()
    # The half line that a fault of ours left behind is cut off as one that a crash left.
    tell(sink, SECOND)
    assert told(path) == [SECOND.key]


def test_half_a_line_that_could_not_even_be_cut_off_is_cut_off_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "alerts.jsonl"
    sink, real = JsonlSink(path), os.fsync
    tell(sink, FIRST)

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    monkeypatch.setattr(os, "ftruncate", broken)
    assert tell(sink, SECOND) == [Retry(reason=f"{path} cannot be written: Input/output error")]
    monkeypatch.setattr(os, "fsync", real)
    monkeypatch.undo()
    # The line came to stand there after all.
    assert tell(sink, SECOND, THIRD) == [Delivered()] * 2
    assert told(path) == [FIRST.key, SECOND.key, THIRD.key]


def test_lines_of_others_stay_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_bytes(b"# a comment\n")
    tell(JsonlSink(path), FIRST)
    assert path.read_bytes() == b"# a comment\n" + to_line(FIRST, NOON_MS)


def test_a_place_that_will_not_do_is_refused_in_one_sentence(tmp_path: Path) -> None:
    foreign = tmp_path / "passwd"
    foreign.write_bytes(b"root:x:0:0")
    with pytest.raises(UsageError, match="passwd ends in a line that kraftwatch did not write"):
        JsonlSink(foreign)
    assert foreign.read_bytes() == b"root:x:0:0"
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        JsonlSink(tmp_path)
    with pytest.raises(UsageError, match="cannot be written: No such file or directory; name a file in a folder"):
        JsonlSink(tmp_path / "no" / "alerts.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is no regular file"):
        JsonlSink(tmp_path / "pipe")


def test_a_file_that_another_process_writes_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    sink = JsonlSink(path)
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert tell(sink, FIRST) == [Retry(reason=f"{path} is being written by another process: give each job a file.")]
    assert tell(sink, FIRST) == [Delivered()]
