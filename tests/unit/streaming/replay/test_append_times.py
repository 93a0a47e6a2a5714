"""How long the active controller has appended nothing: by its own clock, and only where it writes NoOps."""

from dataclasses import replace

from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from tests.scripts.log_script import LogScript, again, apply, machine, poll, replica

HOUR_MS = 3_600_000


def begun(*, noops: bool = True, clock_ahead_ms: int = 0) -> tuple[LogScript, Machine]:
    """A leader has written a topic, and NoOps after it."""
    script, replay = LogScript(clock_ahead_ms=clock_ahead_ms), machine()
    script.leader(1)
    script.topic("orders")
    apply(replay, [script.read()])
    read_on(script, replay, noops=noops)
    return script, replay


def read_on(script: LogScript, replay: Machine, *, noops: bool = True) -> None:
    """Reads what was written in a second."""
    script.noops(2)
    event = script.advanced(script.offset)
    apply(replay, [script.row(replace(event, newest_noop_ms=event.newest_timestamp_ms if noops else None))])


def polled(script: LogScript, replay: Machine, seconds: int, *, end: int | None = None) -> Quorum:
    """So many seconds later the leader answers a poll; its log ends where it was read to, or at `end`."""
    read = replace(script.advanced(script.offset), newest_timestamp_ms=None)
    row = replica("1-a", end=script.offset if end is None else end)
    rows = [
        script.row(read, after_ms=seconds * 1_000),
        script.row(poll(row, hw=script.offset, epoch=script.epoch), after_ms=0),
    ]
    return apply(replay, rows)


def test_a_leader_that_appends_nothing_is_silent_since_its_newest_record() -> None:
    script, replay = begun()

    assert polled(script, replay, 1).silent_ms == 0
    assert polled(script, replay, 30).silent_ms == 32_000
    assert again(replay.to_bytes()).quorum().silent_ms == 32_000
    read_on(script, replay)
    assert polled(script, replay, 1).silent_ms == 0


def test_the_leaders_clock_may_be_wrong() -> None:
    script, replay = begun(clock_ahead_ms=5 * HOUR_MS)

    assert polled(script, replay, 1).silent_ms == 0
    assert polled(script, replay, 30).silent_ms == 32_000


def test_records_that_were_not_read_yet_are_appended() -> None:
    script, replay = begun()

    assert polled(script, replay, 30, end=script.offset + 5).silent_ms == 0


def test_without_noops_it_is_not_known() -> None:
    script, replay = begun(noops=False)

    assert polled(script, replay, 600).silent_ms is None


def test_noops_that_are_switched_off_are_known_as_soon_as_records_without_them_follow() -> None:
    script, replay = begun()
    for _ in range(12):
        read_on(script, replay, noops=False)

    assert polled(script, replay, 600).silent_ms is None


def test_the_next_leader_may_append_nothing_from_its_start_on() -> None:
    script, replay = begun()
    script.leader(1, epoch=script.epoch + 1)
    apply(replay, [script.read()])

    assert polled(script, replay, 30).silent_ms == 31_000
