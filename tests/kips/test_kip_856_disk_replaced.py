"""KIP-856, its disk failure scenario step by step: a voter is a node id with a directory id, never a node id alone."""

from dataclasses import replace

import pytest

from connectors.observations.observation import QuorumPolled
from rules.model.membership import FeatureRange
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status
from tests.kips.test_kip_856_gauges import state_of
from tests.unit.rules.situation import (
    evaluation_of,
    finding_lines,
    findings,
    healthy,
    leaderless,
    observer,
    refuses,
    voter_not_fetching,
)
from tests.unit.streaming.replay.log_script import LogScript, apply, key, machine, poll, replica

RULE = "voter-disk-replaced"


def described(*voters: str, observers: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> QuorumPolled:
    """Returns a poll of leader 1; replicas in `gone` last fetched 40 s ago."""
    rows = {name: replica(name, fetch=40_000 if name in gone else 0) for name in (*voters, *observers)}
    polled = poll(*(rows[name] for name in voters))
    return replace(polled, observers=tuple(rows[name] for name in observers))


def formed() -> tuple[LogScript, Machine]:
    """Voters (1,UUID1), (2,UUID2), (3,UUID3), no observers."""
    script, replay = LogScript(), machine()
    script.leader(1)
    script.kraft(1)
    script.voters("1-UUID1", "2-UUID2", "3-UUID3")
    for node in (1, 2, 3):
        script.controller(node, features=(FeatureRange(name="kraft.version", lowest=0, highest=1),))
    apply(replay, [script.read(), script.row(described("1-UUID1", "2-UUID2", "3-UUID3"))])
    return script, replay


REPLACED = described("1-UUID1", "2-UUID2", "3-UUID3", observers=("3-NEW",), gone=("3-UUID3",))


@pytest.mark.kip("A047")
def test_three_voters_and_no_observer_are_healthy() -> None:
    _, replay = formed()
    quorum = replay.quorum()

    assert quorum.committed is not None
    assert quorum.poll is not None
    assert (
        quorum.committed.keys
        == {row.key for row in quorum.poll.voters}
        == {*map(key, ("1-UUID1", "2-UUID2", "3-UUID3"))}
    )
    assert quorum.poll.observers == ()
    shown = cluster_status(state_of(quorum))
    voters = [(one.id, one.directory_id) for one in shown.current_voters]
    assert (voters, shown.current_observers) == ([(1, "UUID1"), (2, "UUID2"), (3, "UUID3")], ())
    assert evaluation_of(quorum).findings == ()


@pytest.mark.kip("A004", "A012", "A017", "A048", "A049")
def test_a_poll_alone_shows_a_voter_directory_not_fetching_and_a_fetching_observer_directory() -> None:
    script, replay = formed()
    both = described("1-UUID1", "2-UUID2", "3-UUID3", observers=("3-NEW",))
    assert findings(apply(replay, [script.row(both)]), RULE) == [], "while the voter fetches, its disk is not replaced"

    quorum = apply(replay, [script.row(REPLACED)])

    assert quorum.committed is not None
    assert key("3-NEW") not in quorum.committed.keys, "the node is a voter's, and the replica is none"
    (finding,) = findings(quorum, RULE)
    assert (finding.evidence["old_voter"], finding.evidence["new_replica"]) == ("3-UUID3", "3-NEW")
    assert finding.evidence["voters_fetching"] == 2, "the dead voter stays one"
    rows = cluster_status(state_of(quorum)).replicas
    assert {row.directory_id for row in rows if row.committed_voter} == {"UUID1", "UUID2", "UUID3"}


@pytest.mark.kip("A048", "A049")
def test_a_voter_directory_that_never_fetched_from_this_leader_is_replaced_too() -> None:
    """Nor in a poll before: the monitor started after the disk was replaced, and a new leader knows no older fetch."""
    unheard = replica("3-UUID3", end=None, fetch=None, caught_up=None)
    polled = replace(REPLACED, voters=(*REPLACED.voters[:2], unheard))
    script, replay = LogScript(), machine()
    script.leader(1)
    script.kraft(1)
    script.voters("1-UUID1", "2-UUID2", "3-UUID3")

    assert len(findings(apply(replay, [script.read(), script.row(polled)]), RULE)) == 1


@pytest.mark.kip("A051", "A052", "K011")
def test_remove_before_add_as_in_kafka_is_replayed() -> None:
    script, replay = formed()
    apply(replay, [script.row(REPLACED)])
    script.voters("1-UUID1", "2-UUID2")
    half = apply(replay, [script.read(), script.row(described("1-UUID1", "2-UUID2", observers=("3-NEW",)))])
    (finding,) = findings(half, RULE)
    assert "The old voter" in finding.summary
    assert not any(" remove-controller " in step for step in finding.remedy), "it is removed already"

    script.noops(1)
    observers = described("1-UUID1", "2-UUID2", observers=("3-NEW",))
    for hours, fires in ((23, 1), (2, 0)):
        overnight = apply(replay, [script.read(after_ms=hours * 3_600_000), script.row(observers)])
        assert len(findings(overnight, RULE)) == fires, "half done for a day"

    script.voters("1-UUID1", "2-UUID2", "3-NEW")
    fixed = apply(replay, [script.read(), script.row(described("1-UUID1", "2-UUID2", "3-NEW"))])

    assert findings(fixed, RULE) == []


@pytest.mark.kip("A004", "A048", "A069", "A072")
@pytest.mark.parametrize("caught_up", [60_000, None], ids=["long ago", "never"])
def test_a_new_disk_that_lags_is_not_added_before_it_has_caught_up(caught_up: int | None) -> None:
    """Kafka refuses to add a replica that has not caught up, and a second one of a voter's id."""
    script, replay = formed()
    lagging = replace(REPLACED, observers=(replica("3-NEW", end=40, caught_up=caught_up),))

    (finding,) = findings(apply(replay, [script.row(lagging)]), RULE)

    places = [
        next(place for place, step in enumerate(finding.remedy) if words in step)
        for words in ("# Wait until 3-NEW has caught up", " remove-controller ", " add-controller")
    ]
    assert places == sorted(places)


@pytest.mark.kip("A006")
def test_one_replaced_disk_is_a_warning_and_a_majority_is_critical() -> None:
    assert finding_lines(observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2")) == [
        "warning voter-disk-replaced: controller 2"
    ]
    assert "critical no-leader: quorum" in finding_lines(leaderless(refuses(healthy(), 1, 2), 3))
    one = voter_not_fetching(healthy(), 1)
    assert finding_lines(one) == ["warning failure-tolerance: quorum"]
    assert finding_lines(voter_not_fetching(one, 2)) == ["critical failure-tolerance: quorum"]
