"""A log without NoOps (metadata.max.idle.interval.ms=0): while nothing is written, the polls show that time passes."""

from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from streaming.replay.machine import Machine
from tests.scripts.log_script import LogScript, again, apply, machine, poll, replica


def begun() -> tuple[LogScript, Machine]:
    """A partition becomes RECOVERING; its other replica's broker is alive."""
    script, replay = LogScript(), machine()
    script.leader(1)
    for node in (101, 102):
        script.broker(node, fenced=False)
    script.topic("orders")
    script.partition("orders", 0, 101, 102)
    apply(replay, [script.read()])
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [script.read()])
    return script, replay


def idle(script: LogScript, replay: Machine, seconds: int, *, end: int | None = None) -> Quorum:
    """Each second the leader answers without new records, and its log ends at `end`."""
    high_watermark = script.offset
    for _ in range(seconds):
        row = replica("1-a", end=high_watermark if end is None else end)
        apply(
            replay, [script.row(script.advanced(high_watermark)), script.row(poll(row, hw=high_watermark), after_ms=0)]
        )
    return replay.quorum()


def found(quorum: Quorum) -> set[tuple[str, str]]:
    findings = evaluate(Facts(quorum), thresholds_for({})).findings
    return {(one.rule, str(one.severity)) for one in findings if one.subject == Subject("topic", "orders")}


def test_a_partition_that_no_replica_joins_becomes_critical_and_the_election_is_over_after_ten_minutes() -> None:
    script, replay = begun()

    assert found(idle(script, replay, 25)) == {
        ("partition-stuck-recovering", "warning"),
        ("unclean-election", "critical"),
    }
    assert found(idle(script, replay, 10)) == {
        ("partition-stuck-recovering", "critical"),
        ("unclean-election", "critical"),
    }
    replay = again(replay.to_bytes())
    assert found(idle(script, replay, 600)) == {("partition-stuck-recovering", "critical")}


def test_the_time_of_the_log_stands_still_while_records_are_not_committed() -> None:
    script, replay = begun()
    newest = replay.quorum().newest_timestamp_ms
    assert idle(script, replay, 60, end=script.offset + 1).newest_timestamp_ms == newest


def test_new_records_continue_where_the_time_of_the_idle_log_is() -> None:
    script, replay = begun()
    before = idle(script, replay, 60).newest_timestamp_ms
    script.topic("other")
    quorum = apply(replay, [script.read()])
    assert before is not None
    assert (quorum.newest_timestamp_ms, quorum.idle_ms) == (before + 1_000, 0)
