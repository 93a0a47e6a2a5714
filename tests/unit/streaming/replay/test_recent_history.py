"""Recent history: elections, starts, forced reconfigurations, and the time of the last commit."""

import pytest

from connectors.observations.log_event import VotersReplaced
from rules.model.history import KRaftUpgrade
from streaming.replay.recent_history import REMEMBERED, REMEMBERED_MS
from tests.scripts.log_script import (
    LogScript,
    apply,
    begun,
    formed_quorum,
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


@pytest.mark.parametrize(
    ("first", "between", "level"),
    [
        # kafka-features upgrade --release-version: kraft.version, the voters, each feature in the order of a hash map.
        (0, 4, 33),
        (None, 4, 33),
        # Some time after an upgrade of kraft.version alone.
        (0, 40, None),
    ],
)
def test_metadata_version_of_the_request_that_made_the_quorum_dynamic(
    first: int | None, between: int, level: int | None
) -> None:
    script, replay = LogScript(), machine()
    script.leader(1)
    if first is not None:
        script.kraft(first)
    script.feature("metadata.version", 30)
    upgrade = script.kraft(1)
    for number in range(between):
        script.feature(f"feature-{number % 4}", 1)
    script.feature("metadata.version", 33)

    found = apply(replay, [script.read()]).history.kraft_upgrade

    assert found == KRaftUpgrade(
        version=1, offset=upgrade.at.offset, timestamp_ms=upgrade.at.timestamp_ms, metadata_version=level
    )


def test_new_dynamic_quorum_was_not_upgraded() -> None:
    script, replay = formed_quorum("1-a", "2-b")
    script.feature("metadata.version", 33)
    assert apply(replay, [script.read()]).history.kraft_upgrade is None
