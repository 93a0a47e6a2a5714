"""KIP-856 and KIP-595, monitoring: the gauges and columns of the texts, computed from log and polls."""

from dataclasses import replace
from typing import Any

import pytest

from rules.analysis.replica_lag import Liveness, liveness
from rules.evaluate import evaluate, thresholds_for
from rules.model.identifiers import Endpoint, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter
from rules.model.quorum import Quorum
from rules.remedies.remedy_commands import (
    add_controller,
    describe_status,
    remove_controller,
    unless_it_joins,
    wait_for_pending_change,
)
from rules.rescue.voter_override import initial_controllers
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterState, status_json
from tests.unit.rules.situation import (
    NOW,
    endpoint,
    evaluation_of,
    findings,
    healthy,
    history,
    key,
    leaders_clock,
    observer,
    present,
    registration,
    row,
    supporting,
    voter_not_fetching,
    with_controller,
    with_poll,
    with_rows,
)
from tests.unit.rules.test_voter_set_rules import removing
from tests.unit.streaming.status.test_status_tables import printed


def state_of(quorum: Quorum) -> ClusterState:
    thresholds = thresholds_for({})
    return ClusterState(
        quorum=quorum,
        evaluation=evaluate(quorum, thresholds),
        thresholds=thresholds,
        taken_at_ms=NOW,
        queried_since_ms=NOW,
        recorded_at_ms=None,
        missing=(),
    )


def status(quorum: Quorum) -> dict[str, Any]:
    return status_json(cluster_status(state_of(quorum)))


def test_the_maximum_lag_is_that_of_a_voter_and_not_of_an_observer() -> None:
    quorum = voter_not_fetching(healthy(3), 2, end=9_000)
    slow = with_poll(quorum, observers=(row(key(101), end=1, lag_ms=60_000),))

    assert status(slow)["max_follower_lag"] == 1_000
    ahead = with_rows(slow, 1, log_end_offset=Offset(10_050))
    assert status(ahead)["max_follower_lag"] == 1_000, "behind the leader"


def voting(quorum: Quorum, *nodes: int) -> Quorum:
    """Returns the quorum with these voters in the leader's latest set, committed or not."""
    return with_poll(quorum, voters=tuple(row(key(node)) for node in nodes))


def test_voters_possible_voters_and_pending_additions_and_removals_are_counted() -> None:
    def gauges(quorum: Quorum) -> tuple[int, int, int, int]:
        said = status(quorum)
        pending = said["pending_voters"]
        return said["voters"], len(said["could_be_voters"]), len(pending["added"]), len(pending["removed"])

    assert gauges(healthy(3)) == (3, 0, 0, 0), "brokers are observers too, and could be no voters"
    assert gauges(observer(healthy(3), 4)) == (3, 1, 0, 0)
    assert gauges(observer(healthy(3), 2, directory="newDirOf2")) == (3, 1, 0, 0), "a voter's id on a new disk"
    assert gauges(voting(healthy(3), 1, 2, 3, 4)) == (3, 0, 1, 0)
    assert gauges(voting(healthy(3), 2, 3)) == (3, 0, 0, 1)
    new = key(2, "newDirOf2")
    exchanged = with_poll(healthy(3), voters=tuple(map(row, (key(1), new, key(3)))))
    assert gauges(exchanged) == (3, 0, 1, 1), "the same id on another disk is another voter"
    (stuck,) = findings(exchanged, "voter-change-stuck")
    assert (stuck.evidence["adding"], stuck.evidence["removing"]) == ([str(new)], [str(key(2))])


def test_the_latest_and_the_committed_voter_set_are_distinguished() -> None:
    """The leader uses a new set as soon as it is appended, and polls have that one."""
    joining = voting(healthy(3), 1, 2, 3, 4)
    said = status(joining)

    assert [one["id"] for one in said["current_voters"]] == [1, 2, 3, 4]
    assert [one["id"] for one in said["committed_voters"]["voters"]] == [1, 2, 3]
    assert [one["id"] for one in said["pending_voters"]["added"]] == [4]
    assert status(with_rows(joining, 4, log_end_offset=Offset(9_000)))["max_follower_lag"] == 1_000
    assert f"voters to be added, not committed yet: {key(4)}" in printed(joining)
    assert f"voters to be removed, not committed yet: {key(1)}" in printed(removing(healthy(3), 1))
    leaving = status(removing(healthy(3), 1))
    assert [one["id"] for one in leaving["current_voters"]] == [2, 3]
    assert {one["status"] for one in leaving["replicas"] if one["node_id"] == 1} == {"Observer"}
    assert [one["id"] for one in leaving["committed_voters"]["voters"]] == [1, 2, 3]
    assert [one["id"] for one in leaving["pending_voters"]["removed"]] == [1]
    reverted = replace(healthy(3), histories={**joining.histories, key(4): history(key(4))})
    assert status(reverted)["pending_voters"]["added"] == [], "an election truncated the addition"


def test_voters_are_shown_with_id_directory_id_and_endpoints() -> None:
    quorum = healthy(3)
    secure = Endpoint(listener="SECURE", host="fd00::1", port=9094)
    nodes = {**present(quorum.poll).nodes, NodeId(1): (*present(quorum.poll).nodes[NodeId(1)], secure)}
    (first, *_) = status(with_poll(quorum, nodes=nodes))["current_voters"]
    assert status(removing(healthy(3), 1))["could_be_voters"] == [], "a voter until its removal is committed"

    assert first == {
        "id": 1,
        "directory_id": key(1).directory_id,
        "endpoints": ["CONTROLLER://c1.test:9093", "SECURE://[fd00::1]:9094"],
    }


def test_commands_are_those_of_released_kafka() -> None:
    tool = "kafka-metadata-quorum.sh --bootstrap-controller c3.test:9093"

    assert describe_status(healthy()) == f"{tool} describe --status"
    assert remove_controller(healthy(), key(2)) == (
        f"{tool} remove-controller --controller-id 2 --controller-directory-id {key(2).directory_id}"
    )
    # The request has the id, the directory and the listeners of the node whose configuration the tool reads.
    assert add_controller(healthy(), NodeId(2)) == (
        "# On controller 2's host, with its own configuration file as $NODE_PROPERTIES",
        f"{tool} --command-config $NODE_PROPERTIES add-controller",
    )


@pytest.mark.parametrize(("metadata_version", "can"), [(27, False), (28, True)], ids=["Kafka 4.1", "Kafka 4.2"])
def test_a_controller_that_may_add_itself_is_given_time_first(metadata_version: int, can: bool) -> None:
    started = replace(registration(2), features=supporting(metadata_version))

    assert bool(unless_it_joins(with_controller(healthy(), started), NodeId(2))) is can


@pytest.mark.parametrize("leader", [1, 3])
def test_a_removal_command_has_id_and_directory(leader: int) -> None:
    quorum = healthy()
    led = replace(with_poll(quorum, leader_id=NodeId(leader)), leader_id=NodeId(leader))

    assert f"c{leader}.test" not in remove_controller(led, key(leader)), "its removal is sent to another one"
    assert f"c{leader}.test" not in add_controller(led, NodeId(leader))[-1], "and its addition"
    assert remove_controller(led, key(2)).split()[1:] == [
        *("--bootstrap-controller", f"c{leader}.test:9093", "remove-controller"),
        *("--controller-id", "2", "--controller-directory-id", key(2).directory_id),
    ]


def test_an_observer_without_a_directory_id_cannot_be_a_voter() -> None:
    quorum = observer(healthy(3), 4)

    assert len(status(quorum)["could_be_voters"]) == 1
    assert status(with_rows(quorum, 4, key=ReplicaKey(id=NodeId(4))))["could_be_voters"] == []


def test_voters_without_a_known_directory_are_reported_as_such() -> None:
    mixed = with_rows(healthy(3), 1, key=ReplicaKey(id=NodeId(1)))

    assert [one["id"] for one in status(mixed)["current_voters"] if one["directory_id"] is None] == [1]
    assert findings(mixed, "voter-change-stuck") == [], "nobody was added or removed"
    assert wait_for_pending_change(mixed) == ()
    without = Voter(key=ReplicaKey(id=NodeId(1)), endpoints=(endpoint(1),))
    assert initial_controllers([without]) is None, "--initial-controllers needs the directory"


def test_without_the_leaders_times_no_replica_counts_as_not_fetching() -> None:
    quorum = replace(with_poll(healthy(3), leader_id=NodeId(9)), leader_views={})

    assert liveness(quorum, quorum.poll, key(2), thresholds_for({})["no-leader"]) is Liveness.UNKNOWN
    evaluation = evaluation_of(quorum)
    assert [one for one in evaluation.findings if one.rule != "quorum-shape"] == []
    assert {one.rule for one in evaluation.unknown} >= {"failure-tolerance", "voter-lagging", "observer-lagging"}


def test_a_voter_that_has_not_fetched_from_a_new_leader_last_fetched_as_the_polls_before_it_say() -> None:
    elected_now = with_rows(healthy(3), 1, last_fetch_ms=None, last_caught_up_ms=None)
    known = elected_now.histories[key(1)]
    earlier = tuple(replace(one, observed_at_ms=Millis(one.observed_at_ms - 15_000)) for one in known.samples)
    long_ago = replace(elected_now, histories={**elected_now.histories, key(1): replace(known, samples=earlier)})

    assert [status(one)["voters_fetching"] for one in (elected_now, long_ago)] == [3, 2]


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
def test_a_leader_whose_clock_differs_from_the_monitors_shows_who_fetches(ahead_ms: int) -> None:
    assert status(leaders_clock(healthy(3), ahead_ms=ahead_ms))["voters_fetching"] == 3
