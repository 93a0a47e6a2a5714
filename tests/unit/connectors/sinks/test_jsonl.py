"""The jsonl sink: one line for each transition, also after a torn last line."""

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.sinks.alert_json import key_of, to_line
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Delivered, Outcome, Retry
from rules.alert import Alert
from rules.notifications.notification import single_alert_notification
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

FIRST, SECOND, THIRD = alert("one"), alert("two"), alert("one", resolved=True)


def keys_in(path: Path) -> list[object]:
    return [key_of(line) for line in path.read_bytes().splitlines()]


def send(sink: JsonlSink, *alerts: Alert) -> list[Outcome]:
    return list(sink.send([single_alert_notification(alert) for alert in alerts], sent_at_ms=NOON_MS, deadline_s=5))


def test_a_new_file_is_for_its_owner_alone_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    new, existing = tmp_path / "new.jsonl", tmp_path / "existing.jsonl"
    existing.touch()
    existing.chmod(0o644)

    for path in (new, existing):
        send(JsonlSink(path), FIRST)

    assert [stat.S_IMODE(path.stat().st_mode) for path in (new, existing)] == [0o600, 0o644]


def test_a_last_line_torn_at_any_byte_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    first, second = to_line(FIRST, NOON_MS), to_line(SECOND, NOON_MS)
    for cut in range(len(second)):
        path.write_bytes(first + second[:cut])
        sink = JsonlSink(path)
        # If only the line feed is missing, the line is complete.
        assert keys_in(path) == ([FIRST.key, SECOND.key] if cut == len(second) - 1 else [FIRST.key])
        send(sink, FIRST, SECOND, THIRD)
        assert keys_in(path) == [FIRST.key, SECOND.key, THIRD.key]


def test_a_rotated_file_is_created_again_without_repeating_lines(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    sink = JsonlSink(path)
    send(sink, FIRST)
    path.rename(tmp_path / "alerts.jsonl.1")
    send(sink, FIRST, SECOND)
    assert keys_in(path) == [SECOND.key]
    path.write_bytes(b"")
    send(sink, THIRD)
    assert keys_in(path) == [THIRD.key]


def test_a_full_disk_is_a_retry_and_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alerts.jsonl"
    sink, real = JsonlSink(path), os.write
    send(sink, FIRST)

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", full)
    assert send(sink, SECOND, THIRD) == [Retry(reason=f"{path} cannot be written: No space left on device")] * 2
    monkeypatch.undo()
    assert keys_in(path) == [FIRST.key]
    assert send(sink, SECOND, THIRD) == [Delivered()] * 2
    assert keys_in(path) == [FIRST.key, SECOND.key, THIRD.key]


def test_a_truncated_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alerts.jsonl"
    sink, real = JsonlSink(path), os.write
    send(sink, FIRST)
    os.truncate(path, 0)
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:9]) and 1 // 0)
    with pytest.raises(ZeroDivisionError):
        send(sink, SECOND)
    monkeypatch.undo()
    # The half line after an exception is truncated like one after a crash.
    send(sink, SECOND)
    assert keys_in(path) == [SECOND.key]


def test_foreign_lines_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_bytes(b"# a comment\n")
    send(JsonlSink(path), FIRST)
    assert path.read_bytes() == b"# a comment\n" + to_line(FIRST, NOON_MS)


def test_an_unusable_path_is_reported_in_one_sentence(tmp_path: Path) -> None:
    foreign = tmp_path / "passwd"
    foreign.write_bytes(b"root:x:0:0")
    with pytest.raises(UsageError, match="passwd ends in a line that kraftwatch did not write"):
        JsonlSink(foreign)
    assert foreign.read_bytes() == b"root:x:0:0"
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        JsonlSink(tmp_path)
    with pytest.raises(
        UsageError, match="cannot be written: No such file or directory; name a file in an existing folder"
    ):
        JsonlSink(tmp_path / "no" / "alerts.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a regular file"):
        JsonlSink(tmp_path / "pipe")


def test_a_file_locked_by_another_process_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    sink = JsonlSink(path)
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert send(sink, FIRST) == [Retry(reason=f"{path} is in use by another process: give each job its own file.")]
    assert send(sink, FIRST) == [Delivered()]
