"""Recent history: elections, starts, forced reconfigurations, and the time of the last commit."""

from connectors.observations.log_event import VotersReplaced
from streaming.replay.recent_history import REMEMBERED, REMEMBERED_MS
from tests.unit.streaming.replay.log_script import (
    LogScript,
    apply,
    begun,
    key,
    machine,
    voter,
)


def test_every_voter_change_is_kept_as_a_difference() -> None:
    script, replay = begun()
    for voters in (("1-a", "2-b"), ("1-a", "2-b", "3-c"), ("1-a", "2-b", "3-c"), ("2-b", "3-d")):
        script.voters(*voters)
        apply(replay, [script.read(after_ms=100_000_000)])
    script.write(VotersReplaced(at=script.at(), voters=(voter("2-b", port=9193), voter("3-d"))))
    script.voters("2-e", "3-d")

    changes = apply(replay, [script.read()]).history.voter_changes

    assert [(one.added, one.removed, one.moved, one.offset, one.forced) for one in changes] == [
        ((key("3-c"),), (), (), 2, False),
        ((key("3-d"),), (key("1-a"), key("3-c")), (), 4, True),
        ((), (), (2,), 5, False),
        ((key("2-e"),), (key("2-b"),), (), 6, True),
    ]


def test_history_is_bounded_in_time_and_in_number() -> None:
    script, replay = begun()
    apply(replay, [script.read(after_ms=REMEMBERED_MS)])
    for epoch in range(2, 2 + REMEMBERED):
        script.leader(1, epoch)
    assert len(apply(replay, [script.read()]).history.elections) == REMEMBERED

    script.now_ms += REMEMBERED_MS + 1
    script.leader(1, 900)
    assert [one.leader_epoch for one in apply(replay, [script.read()]).history.elections] == [900]


def test_an_entry_with_a_false_time_in_the_future_does_not_stay() -> None:
    script, replay = LogScript(now_ms=1_790_000_000_000), machine()
    script.leader(1)
    script.now_ms += 100 * REMEMBERED_MS
    script.leader(1, 2)
    script.now_ms -= 100 * REMEMBERED_MS
    script.leader(1, 3)
    assert [one.leader_epoch for one in apply(replay, [script.read()]).history.elections] == [3]
