"""The fields of `status`, `replication` and `partitions --json`."""

import pytest

from tests.situation.commands import situation
from tests.unit.streaming.status.status_situations import KIP_595_SAMPLE
from tests.unit.streaming.status.statuses import partitions, status


def test_the_lag_in_time_is_that_of_the_voter_with_the_shortest_log() -> None:
    """As MetadataQuorumCommand counts it, also if another voter caught up longer ago."""
    fields = status(situation(*KIP_595_SAMPLE, "behind 1 900ms"))

    assert (fields["max_follower_lag"], fields["max_follower_lag_time_ms"]) == (34, 15)


@pytest.mark.parametrize(
    "outage",
    [
        ("leaderless 1,2",),
        ("all-refuse",),
        ("unanswered 14s",),
        ("unanswered 2s", "fails log no-leader 1 for 1s"),
    ],
    ids=["no leader", "all refuse", "old poll", "no leader since a poll of 2 s ago"],
)
def test_max_follower_lag_is_null_without_a_leader_or_a_current_poll(outage: tuple[str, ...]) -> None:
    fields = status(situation("stopped 2 since 60s", *outage))

    assert (fields["max_follower_lag"], fields["max_follower_lag_time_ms"]) == (None, None)
    assert fields["voters_fetching"] is None, "both are of the same poll"


def test_uncommitted_voter_change_is_pending() -> None:
    assert status(situation("adding 4"))["pending_voters"]["added"][0]["id"] == 4
    assert status(situation("removing 2"))["pending_voters"]["removed"][0]["id"] == 2
    other_disk = status(situation("removing 3", "adding 3-new"))["pending_voters"]
    assert [other_disk[of][0]["directory_id"] for of in ("added", "removed")] == ["new", "dir3"]


@pytest.mark.parametrize(
    ("commands", "verdict", "faults"),
    [
        ((), "ok", []),
        (("probe 2 name-not-found",), "stale", ["name-gone"]),
        (("registers 2 at c2:19093",), "stale", ["registration-differs"]),
        (("probe 2 refused",), "stale", ["refused-while-fetching"]),
        (("stopped 2", "probe 2 refused"), "down", []),
        (("probe 2 resolver-fails",), "unknown", []),
    ],
)
def test_verdict_and_faults_of_an_endpoint(commands: tuple[str, ...], verdict: str, faults: list[str]) -> None:
    of_2 = status(situation(*commands))["endpoints"][1]

    assert (of_2["id"], of_2["recorded"]) == (2, "c2:9093")
    assert (of_2["verdict"], of_2["faults"]) == (verdict, faults)


@pytest.mark.parametrize(
    ("commands", "listed"),
    [
        # A node that was asked before the leader was found.
        (("fails quorum no-leader 1 ago 2s",), []),
        (("unpolled 2s", "fails quorum no-leader 1"), [("quorum", "no-leader")]),
        (("fails log no-leader 1 for 1s",), [("log", "no-leader")]),
    ],
)
def test_failed_polls_before_the_newest_answer_are_not_listed(
    commands: tuple[str, ...], listed: list[tuple[str, str]]
) -> None:
    fields = status(situation(*commands))

    assert [(one["source"], one["reason"]) for one in fields["failing"]] == listed
    assert fields["leader_id"] == 3


def test_a_fenced_replica_is_not_alive() -> None:
    fenced = situation("unclean orders 0", "fenced 101 since 50s")
    assert [one["replicas_alive"] for one in partitions(fenced)["recovering"]] == [[102]]
