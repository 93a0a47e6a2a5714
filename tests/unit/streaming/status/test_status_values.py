"""The values of `status --json`, part by part; what a person reads of them is in `tables` (test_status_tables.py)."""

from dataclasses import replace
from typing import Any

import pytest

from rules.model.identifiers import Millis
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from tests.unit.rules.situation import NOW, failing, healthy, key, leaderless, observer, refuses, static
from tests.unit.streaming.status.status_situations import (
    SITUATIONS,
    five_voters,
    in_the_kips_sample,
    in_the_middle_of_everything,
    not_observed,
)
from tests.unit.streaming.status.statuses import partitions, replication, status

DIRECTORY = {node: key(node).directory_id for node in (1, 2, 3, 4, 6, 101, 102)}
NEW_DIRECTORY = key(2, "newDirOf2").directory_id


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """The status in the middle of everything."""
    return status(in_the_middle_of_everything())


def selected(of: dict[str, Any], names: str) -> dict[str, Any]:
    return {name: of[name] for name in names.split()}


def rows(of: list[dict[str, Any]], names: str) -> list[list[Any]]:
    """Returns the values with these names of each object of a list."""
    return [[each[name] for name in names.split()] for each in of]


def test_status_begins_with_its_cluster_source_and_time(shown: dict[str, Any]) -> None:
    assert selected(shown, "cluster cluster_id source age_ms observed_at missing") == {
        "cluster": "prod",
        "cluster_id": "Zm9yLXRlc3RzLW9ubHkhIQ",
        "source": "live",
        "age_ms": 0,
        "observed_at": "2026-09-21T14:13:20.000Z",
        "missing": [],
    }


def test_status_has_times_of_three_observations(shown: dict[str, Any]) -> None:
    assert selected(shown, "now_ms described_at_ms log_fetched_at_ms newest_timestamp_ms") == {
        "now_ms": NOW,
        "described_at_ms": NOW - 200,
        "log_fetched_at_ms": NOW - 100,
        "newest_timestamp_ms": NOW - 300,
    }
    idle = replace(in_the_middle_of_everything(), idle_ms=40)
    assert status(idle)["newest_timestamp_ms"] == NOW - 340, "of the newest record"


def test_status_has_leader_votes_and_versions(shown: dict[str, Any]) -> None:
    assert selected(shown, "leader_id leader_epoch leaderless high_watermark last_offset") == {
        "leader_id": 3,
        "leader_epoch": 8,
        "leaderless": False,
        "high_watermark": 9_950,
        "last_offset": 9_949,
    }
    assert selected(shown, "max_follower_lag max_follower_lag_time_ms") == {
        "max_follower_lag": 900,
        "max_follower_lag_time_ms": 120_000,
    }
    assert selected(shown, "voters votes_needed voters_fetching failures_tolerated failures_left electable") == {
        "voters": 3,
        "votes_needed": 2,
        "voters_fetching": 2,
        "failures_tolerated": 1,
        "failures_left": 0,
        "electable": True,
    }
    assert selected(shown, "mode kraft_version metadata_version brokers recovering_partitions") == {
        "mode": "dynamic",
        "kraft_version": 1,
        "metadata_version": 27,
        "brokers": {"registered": 2, "fenced": [101]},
        "recovering_partitions": 3,
    }


def test_lag_in_the_sample_of_kip_595_is_that_of_the_shortest_log() -> None:
    assert selected(status(in_the_kips_sample()), "leader_id max_follower_lag max_follower_lag_time_ms") == {
        "leader_id": 0,
        "max_follower_lag": 34,
        "max_follower_lag_time_ms": 15,
    }


def test_voters_are_those_of_the_leader_the_committed_ones_and_their_difference(shown: dict[str, Any]) -> None:
    assert rows(shown["current_voters"], "id directory_id endpoints") == [
        [1, DIRECTORY[1], ["CONTROLLER://c1.test:9093"]],
        [2, DIRECTORY[2], ["CONTROLLER://c2.test:9093"]],
        [3, DIRECTORY[3], ["CONTROLLER://c3.test:19093", "INTERNAL://[fd00:0:0:0:0:0:0:3]:40123"]],
        [4, DIRECTORY[4], []],
    ]
    assert shown["committed_voters"]["offset"] == 40
    assert rows(shown["committed_voters"]["voters"], "id directory_id endpoints") == [
        [node, DIRECTORY[node], [f"CONTROLLER://c{node}.test:9093"]] for node in (1, 2, 3)
    ]
    assert shown["pending_voters"] == {
        "added": [{"id": 4, "directory_id": DIRECTORY[4]}],
        "removed": [],
        "moved": [3],
    }
    assert shown["initial_controllers"] == ",".join(f"{node}@c{node}.test:9093:{DIRECTORY[node]}" for node in (1, 2, 3))


def test_observers_that_could_be_voters_have_a_lag(shown: dict[str, Any]) -> None:
    assert rows(shown["current_observers"], "id directory_id") == [
        [101, DIRECTORY[101]],
        [102, DIRECTORY[102]],
        [2, NEW_DIRECTORY],
        [6, DIRECTORY[6]],
    ]
    assert rows(shown["could_be_voters"], "id directory_id liveness lag_time_ms") == [
        [2, NEW_DIRECTORY, "fetching", 0],
        [6, DIRECTORY[6], "fetching", 900],
    ]


def test_registered_controllers_that_are_no_voters_are_listed_with_their_record(shown: dict[str, Any]) -> None:
    assert rows(shown["registrations_without_voter"], "id endpoints offset observer") == [
        [4, ["CONTROLLER://c4.test:9093"], 54, False],
        [6, ["CONTROLLER://c6.test:9093"], 56, True],
        [9, ["CONTROLLER://c9.test:9093"], 59, False],
    ]
    assert shown["registered_at_ms"] == dict.fromkeys("123469", NOW - 80_000_000)


def test_endpoint_of_a_voter_is_shown_as_recorded_registered_and_probed() -> None:
    names = "id directory_id recorded registered verdict probe_result faults liveness addresses"

    assert rows(status(five_voters())["endpoints"], names)[1:4] == [
        [2, DIRECTORY[2], "c2.test:9093", "c2.test:9093", "ok", "accepts connections", [], "fetching", ["10.0.0.2"]],
        [
            *(3, DIRECTORY[3], "c3.test:9093", "c3.test:9093", "stale", "the name does not resolve (NXDOMAIN)"),
            *(["name-gone"], "fetching", []),
        ],
        [
            *(4, DIRECTORY[4], "c4.test:9093", "c4.test:19093", "stale", "accepts connections"),
            *(["registration-differs"], "fetching", ["10.0.0.4"]),
        ],
    ]


def test_endpoint_of_a_voter_on_a_new_disk_is_not_registered(shown: dict[str, Any]) -> None:
    assert rows(shown["endpoints"], "id registered liveness")[1] == [2, None, "silent"]


def test_certificates_are_shown_with_their_end(shown: dict[str, Any]) -> None:
    assert rows(shown["certificates"], "id endpoint expires_at fault")[:2] == [
        [1, "c1.test:9093", "2026-10-01T02:13:20.000Z", None],
        [2, "c2.test:9093", "2027-07-18T14:13:20.000Z", None],
    ]


def test_elections_and_voter_changes_are_listed_oldest_first(shown: dict[str, Any]) -> None:
    names = "leader_id leader_epoch voter_ids granting_voter_ids offset at"
    assert rows(shown["elections"], names) == [
        [2, 5, [1, 2, 3], [1, 2], 8_001, "2026-09-21T14:03:20.000Z"],
        [3, 7, [1, 2, 3], [1, 3], 9_002, "2026-09-21T14:08:20.000Z"],
    ]
    assert shown["voter_changes"] == [
        {
            "added": [{"id": 3, "directory_id": DIRECTORY[3]}],
            "removed": [],
            "moved": [1],
            "leader_epoch": 6,
            "offset": 9_003,
            "at": "2026-09-21T14:09:10.000Z",
        },
        {
            "added": [{"id": node, "directory_id": DIRECTORY[node]} for node in (2, 3)],
            "removed": [{"id": 4, "directory_id": DIRECTORY[4]}],
            "moved": [],
            "leader_epoch": 7,
            "offset": 9_000,
            "at": "2026-09-21T14:12:19.700Z",
        },
    ]


def test_forced_changes_starts_and_unclean_elections_are_listed_with_their_time(shown: dict[str, Any]) -> None:
    assert shown["reconfigurations"] == [{"at_ms": NOW - 60_300, "offset": 9_000, "before": [1, 4], "after": [1, 2, 3]}]
    assert shown["starts"] == [{"at_ms": NOW - 200_000, "offset": 9_004, "id": 1}]
    times = {"first_at_ms": NOW - 45_300, "last_at_ms": NOW - 45_300}
    topic = {"topic": "orders", "topic_id": "dG9waWMtb3JkZXJzAAAAAA"}
    assert shown["unclean"] == [{**topic, "elections": 2, **times}]


def test_recovering_partitions_are_listed_longest_first(shown: dict[str, Any]) -> None:
    first, second, third = shown["recovering"]

    assert first == {
        "topic": None,
        "topic_id": "b3RoZXItdG9waWMtaWQhIQ",
        "partition": 7,
        "since": "2026-09-21T14:12:04.700Z",
        "since_offset": 9_507,
        "at_least": True,
        "for_ms": 75_000,
        "leader": None,
        "leader_epoch": 5,
        "partition_epoch": 8,
        "leader_changes": 0,
        "isr": [],
        "replicas": [101, 102],
        "replicas_alive": [102],
        "previous_isr": None,
        "previous_elr": None,
    }
    assert second == {
        **first,
        "topic": "orders",
        "topic_id": "dG9waWMtb3JkZXJzAAAAAA",
        "partition": 0,
        "since": "2026-09-21T14:12:18.700Z",
        "since_offset": 9_500,
        "at_least": False,
        "for_ms": 61_000,
        "leader": 102,
        "isr": [102],
        "replicas": [101, 102, 103],
        "previous_isr": [101],
        "previous_elr": [],
    }
    assert (third["topic"], third["partition"], third["since_offset"]) == ("orders", 3, 9_503)


def test_recovering_partitions_are_counted_by_topic(shown: dict[str, Any]) -> None:
    assert rows(shown["recoveries"], "topic topic_id since_ms at_least partitions") == [
        [None, "b3RoZXItdG9waWMtaWQhIQ", NOW - 75_300, True, 1],
        ["orders", "dG9waWMtb3JkZXJzAAAAAA", NOW - 61_300, False, 2],
    ]


def test_replicas_are_the_leader_then_voters_then_observers(shown: dict[str, Any]) -> None:
    names = "node_id directory_id status committed_voter endpoint log_end_offset log_end_epoch lag liveness"

    assert rows(shown["replicas"], names) == [
        [3, DIRECTORY[3], "Leader", True, "c3.test:9093", 10_000, 7, 0, "fetching"],
        [1, DIRECTORY[1], "Follower", True, "c1.test:9093", 10_000, 7, 0, "fetching"],
        [2, DIRECTORY[2], "Follower", True, "c2.test:9093", 9_100, 5, 900, "silent"],
        [4, DIRECTORY[4], "Follower", False, None, 10_000, None, 0, "fetching"],
        [101, DIRECTORY[101], "Observer", False, None, 10_000, None, 0, "fetching"],
        [102, DIRECTORY[102], "Observer", False, None, 10_000, None, 0, "fetching"],
        [2, NEW_DIRECTORY, "Observer", False, None, 10_000, 7, 0, "fetching"],
        [6, DIRECTORY[6], "Observer", False, None, 10_000, 7, 0, "fetching"],
    ]


def test_replica_has_its_times_and_ages_by_the_leaders_clock(shown: dict[str, Any]) -> None:
    names = "node_id last_fetch_timestamp_ms fetch_age_ms last_caught_up_timestamp_ms lag_time_ms"

    leader, _, lagging, *_, observer = rows(shown["replicas"], names)
    assert leader == [3, NOW, 0, NOW, 0]
    assert lagging == [2, NOW - 120_000, 120_000, NOW - 120_000, 120_000]
    assert observer == [6, NOW - 400, 400, NOW - 900, 900]
    never = next(row for row in rows(status(five_voters())["replicas"], f"{names} log_end_offset lag") if row[0] == 4)
    assert never == [4, *[None] * 6]


def test_log_end_epoch_of_a_replica_is_kept_while_its_log_end_is_unknown() -> None:
    (row,) = (one for one in status(five_voters())["replicas"] if one["node_id"] == 4)

    assert (row["log_end_epoch"], row["liveness"]) == (6, "fetching")


def test_findings_are_listed_most_severe_first_with_their_hold(shown: dict[str, Any]) -> None:
    assert rows(shown["findings"], "severity rule subject hold_s")[::3] == [
        ["critical", "broker-fenced", "broker 101", 300.0],
        ["warning", "certificate-expiring", "certificates", 60.0],
        ["warning", "voter-disk-replaced", "controller 2", 60.0],
        ["info", "observer-could-be-voter", "observer 6-dirOf6AAAAAAAAAAAAAAAA", 300.0],
    ]
    assert shown["findings"][0]["summary"].startswith("Broker 101 is fenced:")


def test_unknown_results_name_the_rule_the_subject_and_why(shown: dict[str, Any]) -> None:
    assert rows(shown["unknown"], "rule subject why") == [
        ["failure-tolerance", "quorum", f"only voters whose disk was replaced are missing: {key(2)}"],
        ["quorum-shape", None, "inhibited by voter-disk-replaced"],
        ["voter-lagging", "voter 2", f"its log directory was replaced: {key(2, 'newDirOf2')} fetches instead"],
    ]


def test_status_without_a_leader_keeps_what_the_log_holds() -> None:
    without = status(leaderless(refuses(healthy(3), 1, 3), 2))

    assert selected(without, "leader_id leader_epoch leaderless high_watermark source") == {
        "leader_id": None,
        "leader_epoch": 7,
        "leaderless": True,
        "high_watermark": 10_000,
        "source": "none",
    }
    assert selected(without, "voters votes_needed voters_fetching failures_left electable") == {
        "voters": 3,
        "votes_needed": 2,
        "voters_fetching": None,
        "failures_left": None,
        "electable": False,
    }
    assert without["failing"] == [{"source": "log", "endpoint": "c2.test:9093", "reason": "no-leader"}]
    nowhere = failing(healthy(3), Reason.UNRESOLVABLE, "")
    assert [one["endpoint"] for one in status(nowhere)["failing"]] == [None]


def test_status_of_a_static_quorum_has_the_leaders_voters_and_no_committed_ones() -> None:
    without = status(static(healthy(3)))

    assert selected(without, "mode kraft_version voters votes_needed committed_voters pending_voters") == {
        "mode": "static",
        "kraft_version": 0,
        "voters": 3,
        "votes_needed": 2,
        "committed_voters": None,
        "pending_voters": None,
    }
    assert without["initial_controllers"] is None
    assert {one["committed_voter"] for one in without["replicas"]} == {None}


def test_endpoints_of_a_static_quorum_are_those_that_the_leader_has_configured() -> None:
    shown, unknown = status(static(healthy(3))), status(SITUATIONS["static-before-kafka-3.9"])

    assert [one["recorded"] for one in shown["endpoints"]] == ["c1.test:9093", "c2.test:9093", "c3.test:9093"]
    assert (shown["electable"], unknown["electable"], unknown["endpoints"]) == (True, None, [])


def test_status_of_a_cluster_that_was_never_observed_is_unknown() -> None:
    shown = status(not_observed())

    lists = {name: value for name, value in shown.items() if isinstance(value, list | dict)}
    assert {name for name, value in lists.items() if value} == {"unknown", "findings"}
    assert {name for name, value in shown.items() if name not in lists and value is not None} == {
        *("cluster", "source", "age_ms", "now_ms", "leaderless")
    }
    assert selected(shown, "source now_ms leaderless") == {"source": "none", "now_ms": 0, "leaderless": False}


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_replication_and_partitions_have_the_values_of_the_whole_status(situation: Quorum) -> None:
    whole = status(situation)
    head = ["cluster", "cluster_id", "source", "age_ms", "observed_at", "missing"]

    for of_part, own in (
        (replication(situation), ["leader_id", "leader_epoch", "described_at", "replicas"]),
        (partitions(situation), ["recovering"]),
    ):
        assert [*of_part] == [*head, *own]
        assert {name: value for name, value in of_part.items() if name != "described_at"}.items() <= whole.items()


def test_replication_has_the_time_of_its_poll() -> None:
    polled = in_the_middle_of_everything()

    assert replication(polled)["described_at"] == "2026-09-21T14:13:19.800Z"
    assert replication(replace(polled, poll=None, now_ms=Millis(NOW)))["described_at"] is None


def test_a_lost_directory_that_is_still_listed_could_not_be_a_voter() -> None:
    """The disk of controller 4 was replaced: the leader lists the former directory for five minutes more."""
    both = observer(observer(healthy(), 4, directory="lost", fetched_ago_ms=60_000, lags=(60_000,) * 30), 4)
    assert rows(status(both)["could_be_voters"], "id directory_id") == [[4, DIRECTORY[4]]]
    alone = observer(healthy(), 4, fetched_ago_ms=60_000)
    assert rows(status(alone)["could_be_voters"], "id directory_id") == [[4, DIRECTORY[4]]], "it may come back"
