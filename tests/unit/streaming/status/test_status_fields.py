"""The fields of `status`, `replication` and `partitions --json`."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.model.history import Election, RecentHistory, VoterChange
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import ObservationSource, Reason
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    LOG_END,
    all_refuse,
    endpoint,
    failing,
    forced_change,
    healthy,
    key,
    leaderless,
    name_not_found,
    not_observed_for,
    observer,
    present,
    recovering,
    refuses,
    registered_elsewhere,
    resolver_fails,
    row,
    static,
    unclean,
    voter_not_fetching,
    with_broker,
    with_poll,
)
from tests.unit.streaming.status.statuses import partitions, replication, status

pytestmark = pytest.mark.kip(
    "A012",
    "A055",
    "A093",
    "A096",
    "A098",
    "A103",
    "A106",
    "A108",
    "D058",
    "D097",
    "D098",
    "D099",
    "D100",
    "D101",
    "D143",
    "E012",
    "E071",
    "K008",
    "K014",
    "K018",
    "K037",
)


def voters_now(quorum: Quorum, *nodes: int) -> Quorum:
    """The leader's latest set."""
    return with_poll(quorum, voters=tuple(row(key(node)) for node in nodes))


@pytest.mark.kip("A098", "D097", "D098")
def test_values_of_kafka_metadata_quorum_describe_status() -> None:
    fields = status(voter_not_fetching(healthy(3), 2, for_ms=60_000, end=9_000))

    assert fields["cluster_id"] == "Zm9yLXRlc3RzLW9ubHkhIQ"
    assert fields["leader_id"] == 3
    assert fields["leader_epoch"] == 7
    assert fields["high_watermark"] == LOG_END
    assert fields["max_follower_lag"] == 1_000
    assert fields["max_follower_lag_time_ms"] == 60_000
    assert fields["current_voters"][0] == {
        "id": 1,
        "directory_id": key(1).directory_id,
        "endpoints": ["CONTROLLER://c1.test:9093"],
    }
    assert [one["id"] for one in fields["current_observers"]] == [101, 102]


def in_the_kips_sample() -> Quorum:
    """KIP-595's sample of `describe`: leader 0, voters 1 and 2, observers 3 and 4, with log ends and lag times."""
    ends = {0: (234_134, 0), 1: (234_130, 10), 2: (234_100, 15), 3: (234_124, 12), 4: (234_130, 15)}
    rows = {node: row(key(node), end=end, lag_ms=lag_ms) for node, (end, lag_ms) in ends.items()}
    quorum = healthy(3)
    assert quorum.poll is not None
    poll = replace(
        quorum.poll,
        leader_id=NodeId(0),
        leader_epoch=Epoch(15),
        high_watermark=Offset(234_130),
        voters=(rows[0], rows[1], rows[2]),
        observers=(rows[3], rows[4]),
    )
    return replace(
        quorum, poll=poll, leader_id=NodeId(0), leader_epoch=Epoch(15), high_watermark=Offset(234_130), committed=None
    )


@pytest.mark.kip("A098", "A108", "D099", "D100", "K018", "K037")
def test_replication_rows_of_the_sample_in_kip_595() -> None:
    fields = replication(in_the_kips_sample())

    shown = [(one["node_id"], one["lag"], one["lag_time_ms"], one["status"]) for one in fields["replicas"]]
    assert shown == [
        (0, 0, 0, "Leader"),
        (1, 4, 10, "Follower"),
        (2, 34, 15, "Follower"),
        (3, 10, 12, "Observer"),
        (4, 4, 15, "Observer"),
    ]
    assert [one["directory_id"] for one in fields["replicas"]] == [key(node).directory_id for node in range(5)]


@pytest.mark.kip("D098", "D101", "K018")
def test_the_lag_in_time_is_that_of_the_voter_with_the_shortest_log() -> None:
    """As MetadataQuorumCommand counts it, also if another voter caught up longer ago."""
    quorum = in_the_kips_sample()
    leader, _, last = present(quorum.poll).voters
    rows = (leader, row(key(1), end=234_130, lag_ms=900), last)

    fields = status(with_poll(quorum, voters=rows))

    assert (fields["max_follower_lag"], fields["max_follower_lag_time_ms"]) == (34, 15)


def test_max_follower_lag_counts_an_unknown_log_end_offset_as_minus_one() -> None:
    quorum = healthy(3)
    unheard = replace(row(key(2), end=None), last_fetch_ms=None, last_caught_up_ms=None)
    rows = (present(quorum.poll).voters[0], unheard, present(quorum.poll).voters[2])

    fields = status(with_poll(quorum, voters=rows))

    assert fields["max_follower_lag"] == LOG_END + 1
    assert fields["max_follower_lag_time_ms"] is None


@pytest.mark.parametrize(
    "outage",
    [
        lambda quorum: leaderless(quorum, 1, 2),
        all_refuse,
        not_observed_for,
        lambda quorum: failing(
            not_observed_for(quorum, 2_000, 2_000), Reason.NO_LEADER, "c1.test:9093", source=ObservationSource.QUORUM
        ),
    ],
    ids=["no leader", "all refuse", "old poll", "no leader since a poll of 2 s ago"],
)
def test_max_follower_lag_is_null_without_a_leader_or_a_current_poll(outage: Callable[[Quorum], Quorum]) -> None:
    fields = status(outage(voter_not_fetching(healthy(3), 2, for_ms=60_000, end=9_000)))

    assert (fields["max_follower_lag"], fields["max_follower_lag_time_ms"]) == (None, None)
    assert fields["voters_fetching"] is None, "both are of the same poll"


@pytest.mark.kip("A096", "A106")
def test_possible_voters_committed_voters_and_failure_tolerance() -> None:
    waiting = observer(healthy(3), 4)

    fields = status(waiting)

    assert [one["id"] for one in fields["could_be_voters"]] == [4]
    assert [one["id"] for one in fields["registrations_without_voter"]] == [4]
    assert [one["id"] for one in fields["committed_voters"]["voters"]] == [1, 2, 3]
    assert fields["pending_voters"] == {"added": [], "removed": [], "moved": []}
    assert (fields["voters"], fields["votes_needed"], fields["voters_fetching"]) == (3, 2, 3)
    assert (fields["failures_tolerated"], fields["failures_left"], fields["electable"]) == (1, 1, True)


@pytest.mark.kip("A012", "A055")
def test_elections_and_voter_changes() -> None:
    election = Election(
        leader_id=NodeId(2),
        leader_epoch=Epoch(7),
        offset=Offset(90),
        timestamp_ms=Millis(0),
        voter_ids=(NodeId(1), NodeId(2), NodeId(3)),
        granting_voter_ids=(NodeId(2), NodeId(3)),
    )
    change = VoterChange(
        before=(key(1), key(2)),
        after=(key(1), key(2), key(3)),
        moved=(NodeId(1),),
        offset=Offset(91),
        leader_epoch=Epoch(7),
        timestamp_ms=Millis(5),
    )
    quorum = replace(healthy(), history=RecentHistory(elections=(election,), voter_changes=(change,)))

    shown = status(quorum)

    assert shown["elections"] == [
        {
            "leader_id": 2,
            "leader_epoch": 7,
            "voter_ids": [1, 2, 3],
            "granting_voter_ids": [2, 3],
            "offset": 90,
            "at": "1970-01-01T00:00:00.000Z",
        },
    ]
    (changed,) = shown["voter_changes"]
    assert changed["added"] == [{"id": 3, "directory_id": key(3).directory_id}]
    assert (changed["removed"], changed["moved"], changed["leader_epoch"], changed["offset"]) == ([], [1], 7, 91)


@pytest.mark.kip("A025", "K008")
def test_uncommitted_voter_change_is_pending() -> None:
    assert status(voters_now(healthy(3), 1, 2, 3, 4))["pending_voters"]["added"][0]["id"] == 4
    assert status(voters_now(healthy(3), 1, 3))["pending_voters"]["removed"][0]["id"] == 2


@pytest.mark.kip("A103")
def test_uncommitted_endpoint_of_a_voter_is_pending() -> None:
    quorum = healthy(3)
    nodes = {**present(quorum.poll).nodes, NodeId(2): (endpoint(2, port=19093),)}
    moving = with_poll(quorum, nodes=nodes)
    assert status(moving)["pending_voters"] == {"added": [], "removed": [], "moved": [2]}


@pytest.mark.parametrize(
    ("situation", "verdict", "flaws"),
    [
        (lambda quorum: quorum, "ok", []),
        (lambda quorum: name_not_found(quorum, 2), "stale", ["name-gone"]),
        (lambda quorum: registered_elsewhere(quorum, 2), "stale", ["registration-differs"]),
        (lambda quorum: refuses(quorum, 2), "stale", ["refused-while-fetching"]),
        (lambda quorum: refuses(voter_not_fetching(quorum, 2), 2), "down", []),
        (lambda quorum: resolver_fails(quorum, 2), "unknown", []),
    ],
)
def test_verdict_and_faults_of_an_endpoint(
    situation: Callable[[Quorum], Quorum], verdict: str, flaws: list[str]
) -> None:
    of_2 = status(situation(healthy(3)))["endpoints"][1]

    assert (of_2["id"], of_2["recorded"]) == (2, "c2.test:9093")
    assert (of_2["verdict"], of_2["flaws"]) == (verdict, flaws)


def test_static_quorum_has_no_committed_voters_and_no_recorded_endpoints() -> None:
    fields = status(static(healthy(3)))

    assert fields["committed_voters"] is None
    assert fields["pending_voters"] is None
    assert fields["endpoints"] == []
    assert (fields["voters"], fields["votes_needed"]) == (3, 2)


def test_unknown_fields_are_null_and_not_zero() -> None:
    fields = status(replace(healthy(3), last_offset=None, poll=None, committed=None, leader_id=None))

    for name in ("recovering_partitions", "brokers", "voters", "max_follower_lag", "electable", "leader_id"):
        assert fields[name] is None, name


@pytest.mark.kip("D099")
def test_replicas_are_in_the_order_of_kafka_metadata_quorum() -> None:
    fields = replication(voter_not_fetching(healthy(3), 1, for_ms=60_000, end=9_000))

    assert [(one["node_id"], one["status"]) for one in fields["replicas"]] == [
        (3, "Leader"),
        (1, "Follower"),
        (2, "Follower"),
        (101, "Observer"),
        (102, "Observer"),
    ]
    of_1 = fields["replicas"][1]
    assert (of_1["lag"], of_1["lag_time_ms"], of_1["fetch_age_ms"]) == (1_000, 60_000, 60_000)
    assert (of_1["liveness"], of_1["committed_voter"], of_1["endpoint"]) == ("silent", True, "c1.test:9093")


def test_recovering_partitions_name_alive_replicas_and_previous_isr() -> None:
    stuck = recovering(recovering(healthy(3), 1, for_ms=5_000), 0, for_ms=75_000, replicas=(101, 103))

    fields = partitions(stuck)

    longest, other = fields["recovering"]
    assert (longest["topic"], longest["partition"], longest["for_ms"]) == ("orders", 0, 75_000)
    assert longest["replicas_alive"] == [101], "broker 103 is not registered"
    assert longest["previous_isr"] == [101]
    assert other["for_ms"] == 5_000


def test_findings_are_in_the_order_of_severity() -> None:
    damaged = forced_change(unclean(voter_not_fetching(healthy(3), 2), 0), before=(1, 2, 3, 4, 5), after=(1, 2, 3))

    fields = [one["severity"] for one in status(damaged)["findings"]]
    assert fields[-1] == "info"
    assert fields == sorted(fields, key=["critical", "warning", "info"].index)


@pytest.mark.kip("D089")
def test_failure_before_the_newest_poll_is_not_listed() -> None:
    quorum = healthy(3)
    early = failing(quorum, Reason.NO_LEADER, "c1.test:9093", source=ObservationSource.QUORUM, ago_ms=2_000)
    late = failing(quorum, Reason.NO_LEADER, "c1.test:9093", source=ObservationSource.QUORUM, ago_ms=0)

    assert status(early)["failing"] == []
    assert status(late)["failing"] != []
    assert NodeId(3) == status(late)["leader_id"]


@pytest.mark.kip("D089")
def test_failed_fetch_before_the_newest_poll_is_listed() -> None:
    quorum = failing(healthy(), Reason.DENIED, str(endpoint(1)), ago_ms=1_000)
    assert [(one["source"], one["reason"]) for one in status(quorum)["failing"]] == [("log", "denied")]


def test_a_fenced_replica_is_not_alive() -> None:
    fenced = with_broker(recovering(healthy(), 0), 101, fenced=True)
    assert [one["replicas_alive"] for one in partitions(fenced)["recovering"]] == [[102]]
