"""voter-disk-replaced: one node id with two directory ids, and the time between its two remedy commands."""

from dataclasses import replace

import pytest

from rules.analysis.voter_status import half_done as half_done_removal
from rules.evaluate import thresholds_for
from rules.finding import Severity
from rules.model.identifiers import Millis, NodeId, ReplicaKey
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    findings,
    healthy,
    key,
    observer,
    present,
    removed,
    unknown,
    unknown_reasons,
    voter_not_fetching,
    with_committed,
    with_history,
    with_poll,
)

RULE = "voter-disk-replaced"
NEW = key(2, "newDirOf2")


def replaced(quorum: Quorum | None = None, *, lag: int = 0) -> Quorum:
    return observer(voter_not_fetching(quorum or healthy(), 2), 2, directory="newDirOf2", lags=(lag,) * 30)


def half_done(*, ago_ms: int = 4_000, lag: int = 0) -> Quorum:
    return removed(replaced(lag=lag), 2, ago_ms=ago_ms)


def test_remedy_removes_the_old_voter_and_then_adds_the_new_one() -> None:
    (finding,) = findings(replaced(), RULE)
    assert finding.subject == "controller 2"
    assert finding.severity is Severity.WARNING
    assert f"voter {key(2)} is not fetching, observer {NEW} is." in finding.summary
    assert (finding.evidence["old_voter"], finding.evidence["new_replica"]) == (str(key(2)), str(NEW))
    assert finding.remedy[0].startswith(f"# Check on controller 2's host that the directory {key(2).directory_id} ")
    assert finding.remedy[1:] == (
        "kafka-metadata-quorum.sh --bootstrap-controller c3.test:9093 remove-controller --controller-id 2 "
        f"--controller-directory-id {key(2).directory_id}",
        "# On controller 2's host, with its own configuration file as $NODE_PROPERTIES",
        "kafka-metadata-quorum.sh --bootstrap-controller c3.test:9093 --command-config $NODE_PROPERTIES add-controller",
    )


def test_no_finding_when_the_new_directory_is_a_voter() -> None:
    done = half_done()
    voters = [replace(healthy().committed.voters[1], key=NEW)]  # type: ignore[union-attr]
    assert findings(with_committed(done, voters=(*present(done.committed).voters, *voters)), RULE) == []


@pytest.mark.parametrize(
    "quorum",
    [
        voter_not_fetching(healthy(), 2),
        # The old directory still fetches: two processes use one id, and no directory was replaced.
        observer(healthy(), 2, directory="newDirOf2"),
        # A broker with its own directory id.
        observer(healthy(), 103, registered=False),
        # A removed voter that still runs with the same directory.
        observer(removed(healthy(), 2, ago_ms=5_000), 2),
        # Removed two days ago: a replica with that id is an ordinary observer.
        half_done(ago_ms=2 * 86_400_000),
    ],
)
def test_no_replacement(quorum: Quorum) -> None:
    assert findings(quorum, RULE) == []
    assert [gap for gap in unknown(quorum) if gap[0] == RULE] == []


def test_first_directory_id_of_a_voter_without_one_is_no_replacement() -> None:
    """In a static quorum the voter set and the polls have no directory ids."""
    quorum = observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2")
    known, nameless = key(2), ReplicaKey(id=NodeId(2))
    voters = tuple(replace(one, key=nameless) if one.key == known else one for one in present(quorum.committed).voters)
    rows = tuple(replace(row, key=nameless) if row.key == known else row for row in present(quorum.poll).voters)
    histories = {nameless if each == known else each: one for each, one in quorum.histories.items()}
    quorum = replace(with_committed(with_poll(quorum, voters=rows), voters=voters), histories=histories)
    assert findings(quorum, RULE) == []
    assert unknown_reasons(quorum, RULE) == []


def test_replacement_that_stops_fetching_is_unknown() -> None:
    stopped = observer(
        voter_not_fetching(healthy(), 2), 2, directory="newDirOf2", fetched_ago_ms=30_000, lags=(30_000,) * 5
    )
    assert findings(stopped, RULE) == []
    assert unknown_reasons(stopped, RULE) == [("controller 2", f"the replacement {NEW} is not fetching")]


def test_leader_change_does_not_make_a_voter_not_fetching() -> None:
    """All fetch times are -1, and an observer has another directory of a live voter."""
    quorum = observer(healthy(), 2, directory="newDirOf2")
    voters = tuple(
        row if row.key.id == 3 else replace(row, last_fetch_ms=None, last_caught_up_ms=None)
        for row in present(quorum.poll).voters
    )
    assert findings(with_poll(quorum, voters=voters), RULE) == []


def test_old_directory_is_not_a_replacement_of_the_new_one() -> None:
    """After the replacement the leader lists the old key for 300 s; then the new voter restarts."""
    quorum = observer(
        voter_not_fetching(healthy(), 2), 2, directory="oldDirOf2", fetched_ago_ms=200_000, lags=(200_000,) * 5
    )
    old = key(2, "oldDirOf2")
    before = replace(quorum.histories[old], first_seen_at_ms=Millis(NOW - 7_200_000))
    known = with_history(quorum, before)
    assert (RULE, "controller 2") in unknown(quorum)
    assert (RULE, "controller 2") not in unknown(known)
    assert findings(known, RULE) == []


def test_two_new_directories_of_one_controller_are_one_finding() -> None:
    (finding,) = findings(observer(replaced(), 2, directory="oneMoreDirOf2"), RULE)
    assert finding.evidence["new_replica"] == str(NEW), "the first by its directory id"


@pytest.mark.parametrize(
    ("voters", "active", "tolerance"),
    [
        (3, "2 of 3", "no further failure"),
        (5, "4 of 5", "1 further failure"),
        (7, "6 of 7", "2 further failures"),
    ],
)
def test_summary_tells_how_many_further_failures_the_quorum_tolerates(voters: int, active: str, tolerance: str) -> None:
    (finding,) = findings(replaced(healthy(voters)), RULE)
    assert finding.summary.endswith(f"{active} voters are active; the quorum tolerates {tolerance}.")


def test_after_several_removals_of_one_controller_the_newest_is_the_one_to_complete() -> None:
    twice = removed(removed(replaced(), 2, ago_ms=3_600_000, directory="oldDirOf2"), 2, ago_ms=60_000)
    assert [each.key for each in twice.removals] == [key(2, "oldDirOf2"), key(2)]

    found = half_done_removal(twice, NEW, thresholds_for({})[RULE])

    assert found is not None
    assert found.key == key(2)
    (finding,) = findings(twice, RULE)
    assert str(key(2)) in finding.summary
    assert str(key(2, "oldDirOf2")) not in finding.summary
