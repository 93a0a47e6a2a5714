"""Quorums whose whole status is shown: each has other parts of it."""

from dataclasses import replace

from rules.model.history import ControllerStart, Election, VoterChange
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    adding,
    endpoint,
    forced_change,
    healthy,
    history,
    key,
    leaderless,
    name_not_found,
    observer,
    present,
    recovering,
    refuses,
    registered,
    registered_elsewhere,
    row,
    static,
    unclean,
    voter_not_fetching,
    voters_lagging,
    with_broker,
    with_certificates,
    with_poll,
    with_rows,
)


def in_the_kips_sample() -> Quorum:
    """KIP-595's sample of `describe`: leader 0, voters 1 and 2, observers 3 and 4, with log ends and lag times."""
    ends = {0: (234_134, 0), 1: (234_130, 10), 2: (234_100, 15), 3: (234_124, 12), 4: (234_130, 15)}
    rows = {node: row(key(node), end=end, lag_ms=lag_ms) for node, (end, lag_ms) in ends.items()}
    quorum = healthy(3)
    poll = replace(
        present(quorum.poll),
        leader_id=NodeId(0),
        leader_epoch=Epoch(15),
        high_watermark=Offset(234_130),
        voters=(rows[0], rows[1], rows[2]),
        observers=(rows[3], rows[4]),
    )
    return replace(
        quorum, poll=poll, leader_id=NodeId(0), leader_epoch=Epoch(15), high_watermark=Offset(234_130), committed=None
    )


def with_history(quorum: Quorum) -> Quorum:
    """An election of each kind, a change of the voters, a start of a controller; no two numbers are equal."""
    elections = (
        Election(
            leader_id=NodeId(2),
            leader_epoch=Epoch(5),
            offset=Offset(8_001),
            timestamp_ms=Millis(NOW - 600_000),
            voter_ids=(NodeId(1), NodeId(2), NodeId(3)),
            granting_voter_ids=(NodeId(1), NodeId(2)),
        ),
        Election(
            leader_id=NodeId(3),
            leader_epoch=Epoch(7),
            offset=Offset(9_002),
            timestamp_ms=Millis(NOW - 300_000),
            previous_leader_id=NodeId(2),
            previous_epoch=Epoch(5),
            voter_ids=(NodeId(1), NodeId(2), NodeId(3)),
            granting_voter_ids=(NodeId(1), NodeId(3)),
        ),
    )
    change = VoterChange(
        before=(key(1),),
        after=(key(1), key(3)),
        moved=(NodeId(1),),
        offset=Offset(9_003),
        leader_epoch=Epoch(6),
        timestamp_ms=Millis(NOW - 250_000),
    )
    start = ControllerStart(
        id=NodeId(1),
        incarnation_id="new",
        offset=Offset(9_004),
        timestamp_ms=Millis(NOW - 200_000),
        replaced_incarnation_id="old",
    )
    return replace(
        quorum, history=replace(quorum.history, elections=elections, voter_changes=(change,), starts=(start,))
    )


def in_the_middle_of_everything() -> Quorum:
    """Voter 2's disk was replaced, voter 4 is being added, voter 3 moves; partitions of two topics are recovering."""
    quorum = adding(observer(voter_not_fetching(healthy(3), 2, end=9_100, epoch=5), 2, directory="newDirOf2"), 4)
    quorum = observer(quorum, 6, fetched_ago_ms=400, lags=(900,) * 30)
    moved = (endpoint(3, port=19_093), Endpoint(listener="INTERNAL", host="fd00:0:0:0:0:0:0:3", port=40_123))
    nodes = {**present(quorum.poll).nodes, NodeId(3): moved}
    quorum = with_poll(quorum, high_watermark=Offset(9_940), nodes=nodes)
    quorum = replace(quorum, high_watermark=Offset(9_950), leader_epoch=Epoch(8), last_offset=Offset(9_949))
    quorum = with_broker(registered(with_certificates(quorum, days={1: 9.5}), 9), 101, fenced=True)
    quorum = recovering(quorum, 0, 3, replicas=(101, 102, 103), for_ms=61_000)
    quorum = recovering(
        quorum, 7, topic=None, topic_id=TopicId("b3RoZXItdG9waWMtaWQhIQ"), leader=None, at_least=True, previous_isr=None
    )
    return forced_change(unclean(with_history(quorum), 0, 3), before=(1, 4), after=(1, 2, 3))


def five_voters() -> Quorum:
    """Voter 1 does not fetch, voter 2 lags, the name of 3 is lost and 4 has moved; 5 leads."""
    quorum = registered_elsewhere(name_not_found(voters_lagging(voter_not_fetching(healthy(5), 1), 2), 3), 4)
    quorum = with_rows(quorum, 4, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
    histories = {**quorum.histories, key(4): history(key(4), end=9_700, epoch=6)}
    return replace(quorum, histories=histories)


def not_observed() -> Quorum:
    """Nothing was ever observed."""
    return Quorum(cluster="prod", cluster_id=None, now_ms=Millis(0))


SITUATIONS = {
    "the-sample-of-kip-595": in_the_kips_sample(),
    "in-the-middle-of-everything": in_the_middle_of_everything(),
    "five-voters": five_voters(),
    "leaderless": leaderless(refuses(healthy(3), 1, 3), 2),
    "static": static(name_not_found(healthy(3), 2)),
    "static-before-kafka-3.9": with_poll(static(healthy(3)), nodes={}),
    "not-observed": not_observed(),
}
