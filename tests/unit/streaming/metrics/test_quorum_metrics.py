"""What /metrics says of a quorum in many situations: what is known, and nothing of what is not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rules.model.history import Election, RecentHistory
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.quorum import Quorum
from streaming.metrics.kip_metrics import HIDDEN, OF_KIPS
from streaming.metrics.metric_spec import Origin
from streaming.metrics.rates import ELECTIONS_MS, WINDOW_MS, Rates
from tests.kips.test_kip_856_gauges import voting
from tests.unit.rules.situation import (
    NOW,
    all_refuse,
    behind,
    healthy,
    key,
    leaderless,
    name_gone,
    observer,
    recovering,
    silent,
    static,
    unseen_for,
)
from tests.unit.streaming.metrics.exposition import Running, names, reader


@pytest.mark.kip("A099", "A100", "A101", "A102", "A103", "D102", "D103", "D105", "D106", "D107", "D108")
def test_a_healthy_quorum_has_every_gauge_that_the_texts_name_and_that_can_be_seen(tmp_path: Path) -> None:
    read = reader(Running(tmp_path).batch(healthy(3)).samples())

    assert (read("current_leader"), read("current_epoch"), read("high_watermark")) == (3, 7, 10_000)
    assert (read("number_of_voters"), read("number_of_observers"), read("number_of_possible_voters")) == (3, 2, 0)
    assert (read("pending_add_voter"), read("pending_remove_voter"), read("uncommitted_voter_change")) == (0, 0, 0)
    assert (read("number_of_offline_voters"), read("ignored_static_voters"), read("leaderless")) == (0, 1, 0)
    node = {"node_id": "3", "directory_id": key(3).directory_id}
    assert read("log_end_offset", **node, role="voter") == 10_000
    assert read("log_end_epoch", **node, role="voter") == 7
    assert read("current_state", **node, state="leader") == 1
    assert (read("votes_needed"), read("failure_tolerance"), read("electable")) == (2, 1, 1)
    assert (read("recovering_partitions"), read("voter_endpoint_ok", **node), read("is_observer", **node)) == (0, 1, 0)


@pytest.mark.kip("A101", "A102")
def test_a_voter_change_that_is_not_committed_is_pending(tmp_path: Path) -> None:
    adding = reader(Running(tmp_path).batch(voting(healthy(3), 1, 2, 3, 4)).samples())
    removing = reader(Running(tmp_path).batch(voting(healthy(3), 2, 3)).samples())

    pending = ("pending_add_voter", "pending_remove_voter", "uncommitted_voter_change")
    assert [adding(name) for name in pending] == [1, 0, 1]
    assert [removing(name) for name in pending] == [0, 1, 1]


def test_a_controller_that_waits_is_a_possible_voter_and_an_observer(tmp_path: Path) -> None:
    read = reader(Running(tmp_path).batch(observer(healthy(3), 4)).samples())

    assert (read("number_of_voters"), read("number_of_observers"), read("number_of_possible_voters")) == (3, 3, 1)
    assert read("is_observer", node_id="4", directory_id=key(4).directory_id) == 1


def test_a_silent_voter_costs_tolerance_and_its_lag_is_told(tmp_path: Path) -> None:
    read = reader(Running(tmp_path).batch(silent(healthy(3), 2, end=9_000)).samples())

    replica = {"node_id": "2", "directory_id": key(2).directory_id, "role": "voter"}
    assert (read("number_of_offline_voters"), read("voters_fetching"), read("failure_tolerance")) == (1, 2, 0)
    assert (read("replica_lag_records", **replica), read("replica_lag_seconds", **replica)) == (1_000, 120)
    assert read("findings", rule="failure-tolerance", severity="warning") == 1


def test_a_name_that_is_gone_makes_an_endpoint_that_leads_nowhere(tmp_path: Path) -> None:
    read = reader(Running(tmp_path).batch(name_gone(healthy(3), 1)).samples())

    assert read("voter_endpoint_ok", node_id="1", directory_id=key(1).directory_id) == 0
    assert read("voter_endpoint_ok", node_id="2", directory_id=key(2).directory_id) == 1


def test_thousands_of_recovering_partitions_are_one_number(tmp_path: Path) -> None:
    (one,) = recovering(healthy(3), 0).recovering
    many = tuple(replace(one, partition=number) for number in range(5_000))
    running = Running(tmp_path).batch(replace(healthy(3), recovering=many))

    assert reader(running.samples())("recovering_partitions") == 5_000
    assert len(running.samples()) < 250, "no series for each of them"


OF_A_POLL = {
    *("log_end_offset", "log_end_epoch", "replica_lag_records", "replica_lag_seconds", "replica_fetch_age_seconds"),
    *("number_of_observers", "number_of_possible_voters", "current_state", "is_observer", "voters_fetching"),
    *("failure_tolerance", "number_of_offline_voters", "uncommitted_voter_change", "current_leader"),
    *("pending_add_voter", "pending_remove_voter"),
}


def later(quorum: Quorum) -> Quorum:
    return replace(quorum, now_ms=Millis(NOW + 60_000))


@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (later(leaderless(healthy(3), 1, 2)), 1),
        (later(all_refuse(healthy(3))), 1),
        (later(unseen_for(healthy(3))), None),
    ],
    ids=["nobody leads", "all refuse", "time-outs"],
)
def test_what_no_leader_says_any_more_is_absent_and_not_0(quorum: Quorum, said: int | None, tmp_path: Path) -> None:
    now = replace(quorum, failures=tuple(replace(one, last_at_ms=quorum.now_ms) for one in quorum.failures))
    samples = Running(tmp_path).batch(now).samples()
    read = reader(samples)

    assert names(samples) & OF_A_POLL == set()
    assert (read("number_of_voters"), read("votes_needed"), read("high_watermark")) == (3, 2, 10_000), "the log's word"
    assert read("leaderless") == said
    assert read("staleness_seconds") is not None


def test_of_a_cluster_that_was_never_seen_only_its_name_is_told(tmp_path: Path) -> None:
    running = Running(tmp_path, ("prod", "never")).batch(healthy(3))

    told = {name for name, labels in running.samples() if ("cluster", "never") in labels}
    assert told == {"cluster_configured"}


def test_a_cluster_that_the_job_judges_no_more_loses_its_values_but_not_its_staleness(tmp_path: Path) -> None:
    running = Running(tmp_path).batch(healthy(3))
    running.now_ms += 61_000

    read = reader(running.samples())
    assert read("number_of_voters") is None
    assert (read("staleness_seconds"), read("portrait_age_seconds")) == (61.1, 61)


def test_a_static_quorum_has_no_pending_voters_and_its_voters_are_the_configurations(tmp_path: Path) -> None:
    read = reader(Running(tmp_path).batch(static(healthy(3))).samples())

    assert (read("ignored_static_voters"), read("number_of_voters")) == (0, 3)
    assert read("uncommitted_voter_change") is None


def test_nothing_of_a_quorum_that_nobody_described_yet_is_made_up(tmp_path: Path) -> None:
    empty = Quorum(cluster="prod", cluster_id=None, now_ms=NOW)
    samples = Running(tmp_path).batch(empty).samples()

    of_kips = {measure.name for measure in OF_KIPS}
    assert names(samples) & of_kips == set()
    assert reader(samples)("recovering_partitions") is None


def looked(second: int, *ends: int, leader: int = 3, lag_ms: int = 0) -> dict[str, Any]:
    """A portrait at a second: voters 1 to 3 and where their logs end."""
    rows = [
        {
            "node_id": node,
            "directory_id": None,
            "status": "Leader" if node == leader else "Follower",
            "log_end_offset": end,
            "lag": ends[leader - 1] - end,
            "lag_time_ms": 0 if node == leader else lag_ms,
        }
        for node, end in enumerate(ends, start=1)
    ]
    return {
        "described_at_ms": 1_000 * second,
        "replicas": rows,
        "last_offset": min(ends),
        "newest_timestamp_ms": 1_000 * second,
        "elections": [],
    }


def paced(*portraits: dict[str, Any]) -> Rates:
    pace = Rates()
    for one in portraits:
        pace.take(one)
    return pace


@pytest.mark.kip("D112", "D113", "D116")
def test_rates_are_those_of_the_last_minute() -> None:
    pace = paced(looked(0, 0, 0, 0), looked(10, 80, 90, 100), looked(70, 720, 700, 760))

    assert pace.append_rate() == (760 - 100) / 60, f"what is older than {WINDOW_MS} ms does not count"
    assert pace.fetch_rates() == {("1", ""): (720 - 80) / 60, ("2", ""): (700 - 90) / 60}


def test_one_look_gives_no_rate_and_neither_does_another_leader_or_a_log_that_was_cut_back() -> None:
    one = paced(looked(0, 5, 5, 5))
    other = paced(looked(0, 5, 5, 5), looked(1, 6, 6, 6, leader=2))
    cut = paced(looked(0, 9, 9, 9), looked(1, 3, 9, 10))

    assert (one.append_rate(), one.fetch_rates()[("1", "")]) == (None, None)
    assert other.append_rate() is None
    assert (cut.append_rate(), cut.fetch_rates()[("1", "")], cut.fetch_rates()[("2", "")]) == (1, None, 0)


@pytest.mark.kip("D111")
def test_a_commit_waits_for_the_voter_that_makes_the_majority() -> None:
    nobody_behind = paced(looked(0, 9, 9, 9, lag_ms=400), looked(1, 10, 10, 10, lag_ms=450))
    one_behind = paced(looked(0, 9, 9, 9), looked(1, 5, 10, 10, lag_ms=8_000))
    two_behind = paced(looked(0, 9, 9, 9), looked(1, 5, 8, 10, lag_ms=8_000))

    assert nobody_behind.commit_waits_s() == (0, 0), "who has every record waits for none"
    assert one_behind.commit_waits_s() == (0, 0)
    assert two_behind.commit_waits_s() == (4, 8)


@pytest.mark.kip("D111")
def test_commit_latency_reaches_the_page(tmp_path: Path) -> None:
    before = replace(healthy(3), now_ms=Millis(NOW - 1_000))
    assert before.poll is not None
    before = replace(before, poll=replace(before.poll, observed_at_ms=Millis(before.poll.observed_at_ms - 1_000)))
    read = reader(Running(tmp_path).batch(before).batch(behind(healthy(3), 1, 2, for_ms=8_000)).samples())

    assert read("commit_latency_max_seconds") == 8
    assert read("commit_latency_avg_seconds") == 4


def won(portrait: dict[str, Any], *, at_ms: int, offset: int) -> dict[str, Any]:
    return {**portrait, "elections": [{"at_ms": at_ms, "offset": offset, "leader_id": 2, "leader_epoch": 8}]}


@pytest.mark.kip("D110")
def test_an_election_takes_from_the_newest_record_before_it() -> None:
    pace = paced(
        looked(10, 100, 100, 100),
        won(looked(14, 102, 102, 102, leader=2), at_ms=13_200, offset=101),
        won(looked(15, 103, 103, 103, leader=2), at_ms=13_200, offset=101),
    )

    assert pace.elections_s() == (3.2, 3.2), "once, though it stands in the next portrait too"


def test_an_election_of_which_we_do_not_know_the_record_before_is_not_timed() -> None:
    first = paced(won(looked(14, 102, 102, 102), at_ms=13_200, offset=101))
    away = paced(looked(10, 100, 100, 100), won(looked(900, 2_000, 2_000, 2_000), at_ms=890_000, offset=1_980))

    assert first.elections_s() is None
    assert away.elections_s() is None


def test_elections_are_forgotten_after_ten_minutes() -> None:
    pace = paced(looked(10, 100, 100, 100), won(looked(14, 102, 102, 102), at_ms=13_200, offset=101))
    pace.take(looked(14 + ELECTIONS_MS // 1_000, 2_000, 2_000, 2_000))

    assert pace.elections_s() is None


@pytest.mark.kip("D110")
def test_election_latency_reaches_the_page(tmp_path: Path) -> None:
    quorum = replace(healthy(3), last_offset=Offset(9_990), newest_timestamp_ms=Millis(NOW - 3_000))
    one = Election(leader_id=NodeId(3), leader_epoch=Epoch(8), offset=Offset(9_991), timestamp_ms=Millis(NOW - 500))
    after = replace(quorum, last_offset=Offset(9_999), newest_timestamp_ms=NOW, history=RecentHistory(elections=(one,)))
    read = reader(Running(tmp_path).batch(quorum).batch(after).samples())

    assert (read("election_latency_avg_seconds"), read("election_latency_max_seconds")) == (2.5, 2.5)


def test_nothing_is_called_hidden_that_is_told() -> None:
    assert {measure.origin for measure in OF_KIPS} == {Origin.SEEN, Origin.DERIVED}
    assert not {measure.name for measure in OF_KIPS} & set(HIDDEN)


OF_THE_TEXTS = """
current-leader current-epoch current-vote log-end-offset log-end-epoch high-watermark current-state
number-unknown-voter-connections election-latency-max election-latency-avg commit-latency-max commit-latency-avg
fetch-records-rate append-records-rate poll-idle-ratio-avg
number-of-voters number-of-possible-voters pending-add-voter pending-remove-voter
number-of-observers number-of-offline-voters uncommitted-voter-change ignored-static-voters
"""
"""KIP-595's table, KIP-856's, and what KAFKA-16524 lists for KIP-853."""


@pytest.mark.parametrize("name", OF_THE_TEXTS.split())
def test_every_metric_of_the_texts_is_told_or_said_to_be_out_of_sight(name: str) -> None:
    told = [measure for measure in OF_KIPS if measure.name.removesuffix("_seconds") == name.replace("-", "_")]

    assert len(told) + (name.replace("-", "_") in HIDDEN) == 1
    assert all(name in measure.of for measure in told)
