"""The fields of `status`, `replication` and `partitions --json`."""

from collections.abc import Callable

import pytest

from rules.model.monitoring import ObservationSource, Reason
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    all_refuse,
    failing,
    healthy,
    key,
    leaderless,
    name_not_found,
    not_observed_for,
    present,
    recovering,
    refuses,
    registered_elsewhere,
    resolver_fails,
    row,
    voter_not_fetching,
    with_broker,
    with_poll,
)
from tests.unit.streaming.status.status_situations import in_the_kips_sample
from tests.unit.streaming.status.statuses import partitions, status


def voters_now(quorum: Quorum, *nodes: int) -> Quorum:
    """The leader's latest set."""
    return with_poll(quorum, voters=tuple(row(key(node)) for node in nodes))


def test_the_lag_in_time_is_that_of_the_voter_with_the_shortest_log() -> None:
    """As MetadataQuorumCommand counts it, also if another voter caught up longer ago."""
    quorum = in_the_kips_sample()
    leader, _, last = present(quorum.poll).voters
    rows = (leader, row(key(1), end=234_130, lag_ms=900), last)

    fields = status(with_poll(quorum, voters=rows))

    assert (fields["max_follower_lag"], fields["max_follower_lag_time_ms"]) == (34, 15)


@pytest.mark.parametrize(
    "outage",
    [
        lambda quorum: leaderless(quorum, 1, 2),
        all_refuse,
        not_observed_for,
        lambda quorum: failing(not_observed_for(quorum, 2_000, 2_000), Reason.NO_LEADER, "c1.test:9093"),
    ],
    ids=["no leader", "all refuse", "old poll", "no leader since a poll of 2 s ago"],
)
def test_max_follower_lag_is_null_without_a_leader_or_a_current_poll(outage: Callable[[Quorum], Quorum]) -> None:
    fields = status(outage(voter_not_fetching(healthy(3), 2, for_ms=60_000, end=9_000)))

    assert (fields["max_follower_lag"], fields["max_follower_lag_time_ms"]) == (None, None)
    assert fields["voters_fetching"] is None, "both are of the same poll"


def test_uncommitted_voter_change_is_pending() -> None:
    assert status(voters_now(healthy(3), 1, 2, 3, 4))["pending_voters"]["added"][0]["id"] == 4
    assert status(voters_now(healthy(3), 1, 3))["pending_voters"]["removed"][0]["id"] == 2
    other_disk = with_poll(healthy(3), voters=(row(key(1)), row(key(2)), row(key(3, "new"))))
    pending = status(other_disk)["pending_voters"]
    assert [pending[of][0]["directory_id"] for of in ("added", "removed")] == [
        key(3, "new").directory_id,
        key(3).directory_id,
    ]


@pytest.mark.parametrize(
    ("situation", "verdict", "faults"),
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
    situation: Callable[[Quorum], Quorum], verdict: str, faults: list[str]
) -> None:
    of_2 = status(situation(healthy(3)))["endpoints"][1]

    assert (of_2["id"], of_2["recorded"]) == (2, "c2.test:9093")
    assert (of_2["verdict"], of_2["faults"]) == (verdict, faults)


@pytest.mark.parametrize(
    ("source", "ago_ms", "listed"),
    [
        # A node that was asked before the leader was found.
        (ObservationSource.QUORUM, 2_000, []),
        (ObservationSource.QUORUM, 0, [("quorum", "no-leader")]),
        (ObservationSource.LOG, 1_000, [("log", "no-leader")]),
    ],
)
def test_failed_polls_before_the_newest_answer_are_not_listed(
    source: ObservationSource, ago_ms: int, listed: list[tuple[str, str]]
) -> None:
    fields = status(failing(healthy(3), Reason.NO_LEADER, "c1.test:9093", source=source, ago_ms=ago_ms))

    assert [(one["source"], one["reason"]) for one in fields["failing"]] == listed
    assert fields["leader_id"] == 3


def test_a_fenced_replica_is_not_alive() -> None:
    fenced = with_broker(recovering(healthy(), 0), 101, fenced=True)
    assert [one["replicas_alive"] for one in partitions(fenced)["recovering"]] == [[102]]
