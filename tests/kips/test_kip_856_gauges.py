"""KIP-856, Monitoring: the gauges and columns of this text and of KIP-595, computed from log and polls."""

import pytest

from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from rules.remedies.remedy_commands import add_controller, unless_it_joins
from tests.scripts.log_script import apply, formed_quorum, poll, replica
from tests.situation.commands import situation
from tests.unit.streaming.status.printed_status import printed
from tests.unit.streaming.status.statuses import status


def test_the_maximum_lag_is_that_of_a_voter_and_not_of_an_observer() -> None:
    assert status(situation("stop-fetching 2 end 9000", "stop-fetching 101 end 1"))["max_follower_lag"] == 1_000


@pytest.mark.parametrize(
    ("commands", "gauges"),
    [
        # Brokers are observers too, and could be no voters.
        ((), (3, 0, 0, 0)),
        (("add-observer 4",), (3, 1, 0, 0)),
        # A voter's id on a new disk.
        (("add-observer 2-new",), (3, 1, 0, 0)),
        # The leader counts votes by its latest set, also before it is committed.
        (("adding 4",), (4, 0, 1, 0)),
        (("removing 1",), (2, 0, 0, 1)),
        # The same id on another disk is another voter.
        (("removing 2", "adding 2-new"), (3, 0, 1, 1)),
        # An election truncated the addition.
        (("gone 4-dir4 20s",), (3, 0, 0, 0)),
    ],
)
def test_voters_possible_voters_and_pending_additions_and_removals_are_counted(
    commands: tuple[str, ...], gauges: tuple[int, int, int, int]
) -> None:
    said = status(situation(*commands))
    pending = said["pending_voters"]

    assert (said["voters"], len(said["could_be_voters"]), len(pending["added"]), len(pending["removed"])) == gauges


def test_the_latest_and_the_committed_voter_set_are_distinguished() -> None:
    """The leader uses a new set as soon as it is appended, and polls have that one."""
    joining = status(situation("adding 4", "stop-fetching 4 since 1s end 9000"))

    assert [one["id"] for one in joining["current_voters"]] == [1, 2, 3, 4]
    assert [one["id"] for one in joining["committed_voters"]["voters"]] == [1, 2, 3]
    assert [one["id"] for one in joining["pending_voters"]["added"]] == [4]
    assert joining["max_follower_lag"] == 1_000
    leaving = status(situation("removing 1"))
    assert [one["id"] for one in leaving["current_voters"]] == [2, 3]
    assert {one["status"] for one in leaving["replicas"] if one["node_id"] == 1} == {"Observer"}
    assert [one["id"] for one in leaving["committed_voters"]["voters"]] == [1, 2, 3]
    assert [one["id"] for one in leaving["pending_voters"]["removed"]] == [1]
    assert "voters to be added, not committed yet: 4-dir4" in printed(situation("adding 4"))
    assert "voters to be removed, not committed yet: 1-dir1" in printed(situation("removing 1"))


def test_voters_are_shown_with_id_directory_id_and_endpoints() -> None:
    (first, *_) = status(situation("moving 1 c1:9093,SECURE://[fd00::1]:9094"))["current_voters"]

    assert first == {"id": 1, "directory_id": "dir1", "endpoints": ["CONTROLLER://c1:9093", "SECURE://[fd00::1]:9094"]}


@pytest.mark.parametrize(("level", "can"), [(27, False), (28, True)], ids=["Kafka 4.1", "Kafka 4.2"])
def test_a_controller_that_may_add_itself_is_given_time_first(level: int, can: bool) -> None:
    assert bool(unless_it_joins(situation(f"registers 2 level {level}"), NodeId(2))) is can


@pytest.mark.parametrize("leader", [1, 3])
def test_the_addition_of_the_leader_is_sent_to_another_controller(leader: int) -> None:
    assert (
        f"--bootstrap-controller c{leader}:"
        not in add_controller(Facts(situation(f"leads {leader}")), NodeId(leader))[-1]
    )
    assert f"--bootstrap-controller c{leader}:" in add_controller(Facts(situation(f"leads {leader}")), NodeId(2))[-1]


def test_an_observer_without_a_directory_id_cannot_be_a_voter() -> None:
    for name, count in (("4-d", 1), ("4", 0)):
        script, replay = formed_quorum("1-a", "2-b", "3-c")
        script.controller(4)
        polled = poll(replica("1-a"), replica("2-b"), replica("3-c"), observers=(replica(name),))
        quorum = apply(replay, [script.read(), script.row(polled)])

        assert len(status(quorum)["could_be_voters"]) == count


@pytest.mark.parametrize(("since", "fetching"), [("4s", 3), ("16s", 2)])
def test_a_voter_that_has_not_fetched_from_a_new_leader_last_fetched_as_the_polls_before_it_say(
    since: str, fetching: int
) -> None:
    assert status(situation(f"unknown-row 1 since {since}"))["voters_fetching"] == fetching


@pytest.mark.parametrize("ahead", ["-1h", "1h"])
def test_a_leader_whose_clock_differs_from_the_monitors_shows_who_fetches(ahead: str) -> None:
    assert status(situation(f"clock {ahead}"))["voters_fetching"] == 3
