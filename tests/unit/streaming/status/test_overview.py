"""What `status`, `replication` and `partitions` say of a glimpse, and the verdict on it."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from rules.evaluate import evaluate, thresholds_for
from rules.model.history import Election, RecentHistory, VoterSetChange
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import ObservationSource, Reason
from rules.model.quorum import Quorum
from streaming.status import overview, status_tables
from streaming.status.cluster_state import Glimpse
from streaming.status.health import Health, health, worst
from tests.unit.rules.situation import (
    LOG_END,
    NOW,
    all_refuse,
    failing,
    healthy,
    key,
    leaderless,
    name_gone,
    observer,
    recovering,
    refuses,
    registered_elsewhere,
    resolver_fails,
    row,
    silent,
    static,
    unclean,
    unseen_for,
)


def glimpse(quorum: Quorum, *, recorded_ago_ms: int | None = None, live: bool = True) -> Glimpse:
    thresholds = thresholds_for({})
    return Glimpse(
        quorum=quorum,
        evaluation=evaluate(quorum, thresholds),
        thresholds=thresholds,
        taken_at_ms=NOW,
        looked_since_ms=Millis(NOW - 3_000) if live else None,
        recorded_at_ms=None if recorded_ago_ms is None else Millis(NOW - recorded_ago_ms),
        missing=(),
    )


def status(quorum: Quorum) -> dict[str, Any]:
    return overview.status(glimpse(quorum))


def voters_now(quorum: Quorum, *nodes: int) -> Quorum:
    """The leader's latest set."""
    assert quorum.poll is not None
    return replace(quorum, poll=replace(quorum.poll, voters=tuple(row(key(node)) for node in nodes)))


@pytest.mark.kip("D098")
def test_the_values_that_kafkas_own_tool_prints() -> None:
    said = status(silent(healthy(3), 2, for_ms=60_000, end=9_000))

    assert said["cluster_id"] == "Zm9yLXRlc3RzLW9ubHkhIQ"
    assert said["leader_id"] == 3
    assert said["leader_epoch"] == 7
    assert said["high_watermark"] == LOG_END
    assert said["max_follower_lag"] == 1_000
    assert said["max_follower_lag_time_ms"] == 60_000
    assert said["current_voters"][0] == {
        "id": 1,
        "directory_id": key(1).directory_id,
        "endpoints": ["CONTROLLER://c1.test:9093"],
    }
    assert [one["id"] for one in said["current_observers"]] == [101, 102]


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


@pytest.mark.kip("D098", "D100", "D101", "K018", "K037")
def test_the_numbers_of_the_kips_sample() -> None:
    said = status(in_the_kips_sample())

    assert (said["leader_id"], said["leader_epoch"], said["high_watermark"]) == (0, 15, 234_130)
    assert (said["max_follower_lag"], said["max_follower_lag_time_ms"]) == (34, 15), "observers do not count"
    assert [one["id"] for one in said["current_voters"]] == [0, 1, 2]


@pytest.mark.kip("D099", "D100", "A108", "K037")
def test_the_rows_of_the_kips_sample() -> None:
    said: dict[str, Any] = overview.replication(glimpse(in_the_kips_sample()))

    shown = [(one["node_id"], one["lag"], one["lag_time_ms"], one["status"]) for one in said["replicas"]]
    assert shown == [
        (0, 0, 0, "Leader"),
        (1, 4, 10, "Follower"),
        (2, 34, 15, "Follower"),
        (3, 10, 12, "Observer"),
        (4, 4, 15, "Observer"),
    ]
    assert [one["directory_id"] for one in said["replicas"]] == [key(node).directory_id for node in range(5)]


def test_a_voter_that_the_leader_has_not_heard_of_counts_from_minus_one_as_kafka_counts() -> None:
    quorum = healthy(3)
    assert quorum.poll is not None
    unheard = replace(row(key(2), end=None), last_fetch_ms=None, last_caught_up_ms=None)
    rows = (quorum.poll.voters[0], unheard, quorum.poll.voters[2])

    said = status(replace(quorum, poll=replace(quorum.poll, voters=rows)))

    assert said["max_follower_lag"] == LOG_END + 1
    assert said["max_follower_lag_time_ms"] is None


@pytest.mark.kip("A096", "A106")
def test_what_kafkas_own_tool_lacks() -> None:
    waiting = observer(healthy(3), 4)

    said = status(waiting)

    assert [one["id"] for one in said["could_be_voters"]] == [4]
    assert [one["id"] for one in said["registrations_without_voter"]] == [4]
    assert [one["id"] for one in said["committed_voters"]["voters"]] == [1, 2, 3]
    assert said["pending_voters"] == {"added": [], "removed": []}
    assert (said["voters"], said["votes_needed"], said["voters_fetching"]) == (3, 2, 3)
    assert (said["failures_tolerated"], said["failures_left"], said["electable"]) == (1, 1, True)


@pytest.mark.kip("A012")
def test_who_led_which_epoch_and_how_the_voter_set_changed() -> None:
    election = Election(leader_id=NodeId(2), leader_epoch=Epoch(7), offset=Offset(90), timestamp_ms=Millis(0))
    change = VoterSetChange(
        added=(key(3),),
        removed=(),
        moved=(NodeId(1),),
        offset=Offset(91),
        leader_epoch=Epoch(7),
        timestamp_ms=Millis(5),
    )
    quorum = replace(healthy(), past=RecentHistory(elections=(election,), voter_changes=(change,)))

    shown = status(quorum)

    assert shown["elections"] == [
        {"leader_id": 2, "leader_epoch": 7, "offset": 90, "at": "1970-01-01T00:00:00.000Z"},
    ]
    (told,) = shown["voter_changes"]
    assert told["added"] == [{"id": 3, "directory_id": key(3).directory_id}]
    assert (told["removed"], told["moved"], told["leader_epoch"], told["offset"]) == ([], [1], 7, 91)


def test_a_replaced_disk_is_among_those_that_could_be_voters() -> None:
    said = status(observer(silent(healthy(3), 2), 2, directory="newDisk"))

    assert [one["directory_id"] for one in said["could_be_voters"]] == [key(2, "newDisk").directory_id]


def test_brokers_are_observers_and_could_never_be_voters() -> None:
    assert status(healthy(3))["could_be_voters"] == []


@pytest.mark.kip("K008")
def test_a_change_of_voters_that_is_not_committed() -> None:
    assert status(voters_now(healthy(3), 1, 2, 3, 4))["pending_voters"]["added"][0]["id"] == 4
    assert status(voters_now(healthy(3), 1, 3))["pending_voters"]["removed"][0]["id"] == 2


@pytest.mark.parametrize(
    ("situation", "verdict", "flaws"),
    [
        (lambda quorum: quorum, "ok", []),
        (lambda quorum: name_gone(quorum, 2), "stale", ["name-gone"]),
        (lambda quorum: registered_elsewhere(quorum, 2), "stale", ["registration-differs"]),
        (lambda quorum: refuses(quorum, 2), "stale", ["refused-while-fetching"]),
        (lambda quorum: refuses(silent(quorum, 2), 2), "down", []),
        (lambda quorum: resolver_fails(quorum, 2), "unknown", []),
    ],
)
def test_each_endpoint_has_a_verdict(situation: Callable[[Quorum], Quorum], verdict: str, flaws: list[str]) -> None:
    of_2 = status(situation(healthy(3)))["endpoints"][1]

    assert (of_2["id"], of_2["recorded"]) == (2, "c2.test:9093")
    assert (of_2["verdict"], of_2["flaws"]) == (verdict, flaws)


def test_one_more_failure_would_end_it() -> None:
    said = status(silent(healthy(3), 2))

    assert (said["voters_fetching"], said["failures_tolerated"], said["failures_left"]) == (2, 1, 0)


def test_without_a_leader_nobody_is_named_as_one() -> None:
    said = status(leaderless(healthy(3), 1, 2))

    assert said["leader_id"] is None
    assert said["voters_fetching"] is None
    assert said["failing"] != []


def test_a_static_quorum_has_no_committed_voters_and_no_recorded_endpoints() -> None:
    said = status(static(healthy(3)))

    assert said["committed_voters"] is None
    assert said["pending_voters"] is None
    assert said["endpoints"] == []
    assert (said["voters"], said["votes_needed"]) == (3, 2)


def test_what_was_not_read_is_null_and_not_zero() -> None:
    said = status(replace(healthy(3), last_offset=None, poll=None, committed=None, leader_id=None))

    for name in ("recovering_partitions", "brokers", "voters", "max_follower_lag", "electable", "leader_id"):
        assert said[name] is None, name


@pytest.mark.kip("D099")
def test_replicas_stand_in_the_order_of_kafkas_own_tool() -> None:
    said: dict[str, Any] = overview.replication(glimpse(silent(healthy(3), 1, for_ms=60_000, end=9_000)))

    assert [(one["node_id"], one["status"]) for one in said["replicas"]] == [
        (3, "Leader"),
        (1, "Follower"),
        (2, "Follower"),
        (101, "Observer"),
        (102, "Observer"),
    ]
    of_1 = said["replicas"][1]
    assert (of_1["lag"], of_1["lag_time_ms"], of_1["fetch_age_ms"]) == (1_000, 60_000, 60_000)
    assert (of_1["liveness"], of_1["committed_voter"], of_1["endpoint"]) == ("silent", True, "c1.test:9093")


def test_recovering_partitions_name_who_is_alive_and_who_was_in_sync() -> None:
    stuck = recovering(recovering(healthy(3), 1, for_ms=5_000), 0, for_ms=75_000, replicas=(101, 103))

    said: dict[str, Any] = overview.partitions(glimpse(stuck))

    longest, other = said["recovering"]
    assert (longest["topic"], longest["partition"], longest["for_ms"]) == ("orders", 0, 75_000)
    assert longest["replicas_alive"] == [101], "broker 103 is not registered"
    assert longest["previous_isr"] == [101]
    assert other["for_ms"] == 5_000


def lost_committed(quorum: Quorum) -> Quorum:
    return name_gone(quorum, 1, 2, 3)


@pytest.mark.parametrize(
    ("situation", "verdict", "code"),
    [
        (lambda quorum: quorum, Health.HEALTHY, 0),
        (static, Health.HEALTHY, 0),
        (lambda quorum: name_gone(quorum, 2), Health.WARNING, 1),
        (lost_committed, Health.CRITICAL, 2),
        (lambda quorum: leaderless(quorum, 1, 2), Health.CRITICAL, 2),
        (all_refuse, Health.CRITICAL, 2),
        (lambda quorum: resolver_fails(quorum, 2), Health.UNKNOWN, 3),
        (lambda quorum: failing(unseen_for(quorum), Reason.TIMED_OUT, "c1.test:9093"), Health.UNKNOWN, 3),
        (lambda quorum: name_gone(resolver_fails(quorum, 2), 3), Health.WARNING, 1),
        # One spare observer gains nothing: that is information.
        (lambda quorum: observer(quorum, 4), Health.HEALTHY, 0),
    ],
)
def test_the_verdict_and_its_exit_code(situation: Callable[[Quorum], Quorum], verdict: Health, code: int) -> None:
    found = health(glimpse(situation(healthy(3))))

    assert (found, found.exit_code) == (verdict, code)


def test_what_was_not_seen_is_not_healthy() -> None:
    assert health(replace(glimpse(healthy(3)), missing=("DescribeQuorum was not answered",))) is Health.UNKNOWN


def test_of_several_clusters_the_one_to_act_on_first_decides() -> None:
    assert worst([Health.HEALTHY, Health.UNKNOWN, Health.WARNING, Health.CRITICAL]) is Health.CRITICAL
    assert worst([Health.HEALTHY, Health.UNKNOWN, Health.WARNING]) is Health.WARNING
    assert worst([Health.HEALTHY, Health.UNKNOWN]) is Health.UNKNOWN
    assert worst([Health.HEALTHY, Health.HEALTHY]) is Health.HEALTHY
    assert worst([]) is Health.UNKNOWN


def test_where_it_comes_from_and_how_old_it_is() -> None:
    old = unseen_for(healthy(3), log_ms=90_000, poll_ms=90_000)

    assert (glimpse(healthy(3)).source, glimpse(healthy(3)).age_ms) == ("live", 0)
    assert glimpse(old).source == "none"
    assert (glimpse(old, recorded_ago_ms=90_000).source, glimpse(old, recorded_ago_ms=90_000).age_ms) == (
        "journal",
        90_000,
    )
    assert glimpse(healthy(3), recorded_ago_ms=90_000, live=False).source == "journal", "nobody was asked"


SITUATIONS = {
    "healthy": healthy(3),
    "stale": name_gone(healthy(3), 1, 2),
    "leaderless": leaderless(healthy(3), 1),
    "static": static(healthy(3)),
    "recovering": recovering(healthy(3), 0, 1),
    "observer": observer(healthy(3), 4),
    "nothing seen": Quorum(cluster="prod", cluster_id=None, now_ms=Millis(0)),
}


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("what", ["status", "replication", "partitions"])
def test_it_can_be_shown_to_programs_and_to_people(name: str, what: str) -> None:
    seen = glimpse(SITUATIONS[name])
    said = getattr(overview, what)(seen)

    assert json.loads(json.dumps(said, allow_nan=False)) == said
    console = Console(width=220)
    with console.capture() as capture:
        console.print(getattr(status_tables, what)(said, health(seen)))
    shown = capture.get()
    assert "prod" in shown


def drawn(quorum: Quorum, what: str = "status", *, width: int = 220, **more: Any) -> str:
    seen = glimpse(quorum, **more)
    console = Console(width=width)
    with console.capture() as capture:
        console.print(getattr(status_tables, what)(getattr(overview, what)(seen), health(seen)))
    return capture.get()


def test_people_see_the_verdict_first_and_which_endpoint_it_is_about() -> None:
    shown = drawn(name_gone(healthy(3), 2))

    assert shown.splitlines()[0].startswith(" WARNING  prod")
    assert shown.splitlines()[1] == "  warning stale-voter-endpoint · voter 2"
    (of_2,) = (line for line in shown.splitlines() if "c2.test:9093" in line and " stale " in line)
    assert "the name is gone" in of_2
    assert "3 of 3 voters take part, 2 votes needed: 1 more may fail" in shown


def test_what_is_worst_comes_first() -> None:
    hurt = unclean(silent(healthy(3), 2), 0)

    said = [one["severity"] for one in status(hurt)["findings"]]
    assert said[-1] == "info"
    assert said == sorted(said, key=["critical", "warning", "info"].index)


def test_a_quorum_that_is_down_is_not_said_to_be_electable_without_those_that_refuse() -> None:
    down = leaderless(refuses(healthy(3), 1, 3), 2)
    shown = drawn(down)

    assert "only with 1 of the voters that refuse connections now: 1,3" in shown
    assert "Took part" in shown
    assert "nobody leads now" in drawn(down, "replication")
    assert "could be won" in drawn(refuses(healthy(3), 1))
    assert "could be won" in drawn(refuses(healthy(3), 1, 3)), "the leader tells that they live: they have only moved"


def test_people_see_that_a_state_is_recorded_and_how_old_it_is() -> None:
    old = unseen_for(healthy(3), log_ms=90_000, poll_ms=90_000)

    assert "recorded state, 1 min 30 s old" in drawn(old, recorded_ago_ms=90_000)


def test_what_to_do_is_told_by_a_verb_that_takes_the_same_options() -> None:
    hurt = name_gone(healthy(3), 2)
    assert "what to do: kraftwatch check, with the same options" in drawn(hurt)
    assert "what to do: kraftwatch explain RULE" in drawn(hurt, recorded_ago_ms=0, live=False), "check has no --journal"


def test_names_from_outside_are_data_and_no_control_codes() -> None:
    evil = recovering(healthy(3), 0, topic="\x1b[2J[bold]orders")

    shown = drawn(evil, "partitions")

    assert "\x1b" not in shown
    assert "[bold]orders" in shown


def test_a_poll_of_now_forgives_whoever_was_asked_before() -> None:
    quorum = healthy(3)
    early = failing(quorum, Reason.NO_LEADER, "c1.test:9093", sight=ObservationSource.QUORUM, ago_ms=2_000)
    late = failing(quorum, Reason.NO_LEADER, "c1.test:9093", sight=ObservationSource.QUORUM, ago_ms=0)

    assert status(early)["failing"] == []
    assert status(late)["failing"] != []
    assert NodeId(3) == status(late)["leader_id"]


@pytest.mark.parametrize("what", ["status", "replication"])
def test_a_narrow_terminal_costs_no_endpoint(what: str) -> None:
    shown = drawn(healthy(3), what, width=80)

    assert all(len(line) <= 80 for line in shown.splitlines())
    for node in (1, 2, 3):
        assert f"c{node}.test:9093" in shown


def test_where_a_controller_registered_is_shown_where_it_differs() -> None:
    assert "Registered at" not in drawn(healthy(3))
    assert "c2.test:19093" in drawn(registered_elsewhere(healthy(3), 2))


def test_what_cannot_be_told_for_one_reason_is_one_line() -> None:
    shown = " ".join(drawn(replace(healthy(3), last_offset=None)).split())

    (before, _) = shown.split("nothing of the metadata log has been read yet")
    _, _, rules = before.rpartition(" cannot tell ")
    assert rules.startswith("broker-fenced, ")
    assert rules.endswith(" more: ")
