"""The metrics of a quorum that two or more polls give. Those of one poll are in `tests/unit/streaming/status/views`."""

from dataclasses import replace
from pathlib import Path

import pytest

from rules.model.history import Election
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from streaming.metrics.quorum_metrics import KIP_METRICS
from streaming.metrics.rates import ELECTIONS_MS, WINDOW_MS, Rates
from streaming.status.cluster_status import ClusterStatus
from streaming.status.voters import ReplicaRole
from tests.metric_page import HIDDEN_METRICS
from tests.present import present
from tests.situation.commands import situation
from tests.unit.streaming.metrics.exposition import MetricsFixture, names, reader
from tests.unit.streaming.status.statuses import NO_OBSERVATION, replica

METRICS_OF_A_POLL = {
    *("log_end_offset", "log_end_epoch", "replica_lag_records", "replica_lag_seconds", "replica_fetch_age_seconds"),
    *("number_of_observers", "number_of_possible_voters", "current_state", "is_observer", "voters_fetching"),
    *("failure_tolerance", "number_of_offline_voters", "uncommitted_voter_change", "current_leader"),
    *("pending_add_voter", "pending_remove_voter", "commit_latency_avg_seconds", "commit_latency_max_seconds"),
}


@pytest.mark.parametrize(
    ("outage", "leaderless"),
    [("leaderless 1,2 for 60s", 1), ("all-refuse for 60s", 1), ("unanswered 60s", None)],
    ids=["no leader", "all refuse", "time-outs"],
)
def test_metrics_of_a_poll_are_absent_without_a_leader(outage: str, leaderless: int | None, tmp_path: Path) -> None:
    samples = MetricsFixture(tmp_path).batch(situation()).batch(situation(outage)).samples()
    read = reader(samples)

    assert names(samples) & METRICS_OF_A_POLL == set()
    assert (read("number_of_voters"), read("votes_needed"), read("high_watermark")) == (3, 2, 9_880), (
        "the log holds them"
    )
    assert read("leaderless") == leaderless
    assert read("staleness_seconds") is not None


def test_cluster_without_an_observation_has_only_cluster_configured(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path, ("prod", "never")).batch(situation())

    exported = {name for name, labels in running.samples() if ("cluster", "never") in labels}
    assert exported == {"cluster_configured"}


def test_cluster_with_an_old_status_keeps_only_its_staleness(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path).batch(situation())
    running.now_ms += 61_000

    read = reader(running.samples())
    assert read("number_of_voters") is None
    assert (read("staleness_seconds"), read("status_age_seconds")) == (61, 61)


def test_age_of_a_status_is_that_of_the_newest_evaluation(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path).batch(situation())
    running.now_ms += 5_000
    running.store.put_evaluation("prod", at_ms=Millis(running.now_ms))
    running.now_ms += 500

    assert reader(running.samples())("status_age_seconds") == 0.5


def polled(second: int, *ends: int, leader: int = 3, lag_ms: int = 0) -> ClusterStatus:
    """The status at a second: voters 1 to 3 and the ends of their logs."""
    rows = tuple(
        replica(
            node,
            end=end,
            lag=ends[leader - 1] - end,
            lag_time_ms=0 if node == leader else lag_ms,
            leader=node == leader,
        )
        for node, end in enumerate(ends, start=1)
    )
    return replace(
        NO_OBSERVATION,
        described_at_ms=Millis(1_000 * second),
        replicas=rows,
        last_offset=Offset(min(ends)),
        newest_timestamp_ms=Millis(1_000 * second),
    )


def rates_of(*statuses: ClusterStatus) -> Rates:
    rates = Rates()
    for one in statuses:
        rates.add(one)
    return rates


def test_rates_cover_the_last_minute() -> None:
    rates = rates_of(polled(0, 0, 0, 0), polled(10, 80, 90, 100), polled(70, 720, 700, 760))

    assert rates.append_rate() == (760 - 100) / 60, f"polls older than {WINDOW_MS} ms do not count"
    assert rates.fetch_rates() == {("1", ""): (720 - 80) / 60, ("2", ""): (700 - 90) / 60}
    uneven = rates_of(polled(0, 0, 0, 0), polled(10, 10, 0, 100), polled(20, 500, 0, 110))
    assert uneven.fetch_rates() == {("1", ""): 25, ("2", ""): 0}, "of the whole minute, not of the last two polls"
    assert uneven.append_rate() == 5.5
    half = rates_of(polled(0, 0, 0, 0), polled(30, 300, 300, 300))
    assert half.append_rate() == 10, "of the time that was observed"
    assert half.fetch_rates() == {("1", ""): 10, ("2", ""): 10}, "followers that have every record"


def test_one_poll_or_a_new_leader_or_a_truncated_log_has_no_rate() -> None:
    one = rates_of(polled(0, 5, 5, 5))
    other = rates_of(polled(0, 5, 5, 5), polled(1, 6, 6, 6, leader=2))
    cut = rates_of(polled(0, 9, 9, 9), polled(1, 3, 9, 10))

    assert (one.append_rate(), one.fetch_rates()[("1", "")]) == (None, None)
    assert other.append_rate() is None
    assert (cut.append_rate(), cut.fetch_rates()[("1", "")], cut.fetch_rates()[("2", "")]) == (1, None, 0)


def test_append_and_fetch_rates_are_exported(tmp_path: Path) -> None:
    """Two records are appended in each of two seconds; voter 2 was twenty records behind, and caught up."""
    before, now = situation("unanswered 2s", "stuck 2 since 12s"), situation()

    running = MetricsFixture(tmp_path).batch(before).batch(now)
    read = reader(running.samples())

    assert read("append_records_rate") == 2
    assert read("fetch_records_rate", node_id="1", directory_id="dir1") == 2
    assert read("fetch_records_rate", node_id="2", directory_id="dir2") == 12
    unanswered = names(running.batch(situation("leaderless 1,2")).samples())
    assert not unanswered & {"append_records_rate", "fetch_records_rate"}, "without polls there are no rates"


def test_commit_waits_for_the_voter_that_completes_the_majority() -> None:
    none_lagging = rates_of(polled(0, 9, 9, 9, lag_ms=400), polled(1, 10, 10, 10, lag_ms=450))
    one_lagging = rates_of(polled(0, 9, 9, 9), polled(1, 5, 10, 10, lag_ms=8_000))
    two_lagging = rates_of(polled(0, 9, 9, 9), polled(1, 5, 8, 10, lag_ms=8_000))

    assert none_lagging.commit_waits_s() == (0, 0), "a voter with every record does not lag"
    assert one_lagging.commit_waits_s() == (0, 0)
    assert two_lagging.commit_waits_s() == (4, 8)
    pending = replace(polled(1, 10, 5, 10, lag_ms=8_000), votes_needed=2)
    added = replace(replica(4, end=5, lag=5, lag_time_ms=9_000), committed_voter=False)
    pending = replace(pending, replicas=(*pending.replicas, added))
    assert rates_of(pending).commit_waits_s() == (8, 8), "three of the leader's four voters, not two of three"
    one, two, leader = polled(1, 5, 10, 10, lag_ms=8_000).replicas
    rows = (one, two, replace(leader, status=ReplicaRole.OBSERVER))
    leaves = replace(pending, leader_id=NodeId(3), replicas=rows)
    assert rates_of(leaves).commit_waits_s() == (8, 8), "a leader that is no voter does not count itself"
    some = replace(pending, replicas=(replace(one, lag=None, lag_time_ms=None), two, added, leader))
    assert rates_of(some).commit_waits_s() == (9, 9), "three of four voters, not two of the three whose lag is known"
    caught_up = rates_of(polled(0, 5, 8, 10, lag_ms=8_000), polled(1, 10, 10, 10))
    assert caught_up.commit_waits_s() == (4, 8), "the longest, also if it was not the last"
    two_lagging.add(replace(polled(2, 9, 9, 9), replicas=()))
    assert two_lagging.commit_waits_s() == (4, 8), "a poll without a known lag does not count"
    new_leader = polled(0, 5, 8, 10)
    unknown = tuple(replace(row, lag_time_ms=None) if row.lag else row for row in new_leader.replicas)
    assert rates_of(replace(new_leader, replicas=unknown)).commit_waits_s() is None, "one of three lags is known"


def test_commit_latency_is_exported(tmp_path: Path) -> None:
    before, now = situation("unanswered 1s"), situation("stuck 1,2 since 8s", "stalled 8s")
    read = reader(MetricsFixture(tmp_path).batch(before).batch(now).samples())

    assert read("commit_latency_max_seconds") == 8
    assert read("commit_latency_avg_seconds") == 4


def with_election(status: ClusterStatus, *, at_ms: int, offset: int) -> ClusterStatus:
    election = Election(leader_id=NodeId(2), leader_epoch=Epoch(8), offset=Offset(offset), timestamp_ms=Millis(at_ms))
    return replace(status, elections=(election,))


def test_election_lasts_from_the_last_record_before_it() -> None:
    rates = rates_of(
        polled(10, 100, 100, 100),
        with_election(polled(14, 102, 102, 102, leader=2), at_ms=13_200, offset=101),
        with_election(polled(15, 103, 103, 103, leader=2), at_ms=13_200, offset=101),
    )

    assert rates.elections_s() == (3.2, 3.2), "counted once, although the next status holds it too"
    rates.add(with_election(polled(20, 105, 105, 105, leader=3), at_ms=15_800, offset=104))
    assert rates.elections_s() == (2, 3.2), "the longest, also if it was not the last"
    newer = with_election(polled(30, 108, 108, 108), at_ms=26_000, offset=106)
    next_one = replace(newer.elections[0], offset=Offset(107), timestamp_ms=Millis(29_000))
    rates.add(replace(newer, elections=(*newer.elections, next_one)))
    average, longest = present(rates.elections_s())
    assert (round(average, 3), longest) == (3.333, 6), "of two at once, only the first: it began at a known time"


def test_election_without_a_known_record_before_it_has_no_duration() -> None:
    first = rates_of(with_election(polled(14, 102, 102, 102), at_ms=13_200, offset=101))
    away = rates_of(
        polled(10, 100, 100, 100), with_election(polled(900, 2_000, 2_000, 2_000), at_ms=890_000, offset=1_980)
    )

    assert first.elections_s() is None
    assert away.elections_s() is None


def test_elections_count_for_ten_minutes() -> None:
    rates = rates_of(polled(10, 100, 100, 100), with_election(polled(14, 102, 102, 102), at_ms=13_200, offset=101))
    rates.add(polled(14 + ELECTIONS_MS // 1_000, 2_000, 2_000, 2_000))

    assert rates.elections_s() is None


def test_election_latency_is_exported(tmp_path: Path) -> None:
    """The newest records before the elections were read 8 s and 5 s ago."""
    one, other = "append leader 2 epoch 8 since 6500ms", "append leader 3 epoch 9 since 3s"
    running = MetricsFixture(tmp_path).batch(situation("unanswered 8s"))
    running.batch(situation(one, "unanswered 5s")).batch(situation(one, other))
    read = reader(running.samples())

    assert (read("election_latency_avg_seconds"), read("election_latency_max_seconds")) == (1.75, 2)


NAMES_IN_THE_KIPS = """
current-leader current-epoch current-vote log-end-offset log-end-epoch high-watermark current-state
number-unknown-voter-connections election-latency-max election-latency-avg commit-latency-max commit-latency-avg
fetch-records-rate append-records-rate poll-idle-ratio-avg
number-of-voters number-of-possible-voters pending-add-voter pending-remove-voter
number-of-observers number-of-offline-voters uncommitted-voter-change ignored-static-voters
"""
"""KIP-595's table, KIP-856's, and what KAFKA-16524 lists for KIP-853."""


@pytest.mark.parametrize("name", NAMES_IN_THE_KIPS.split())
def test_every_metric_of_the_kips_is_exported_or_listed_as_hidden(name: str) -> None:
    exported = [spec for spec in KIP_METRICS if spec.name.removesuffix("_seconds") == name.replace("-", "_")]

    assert len(exported) + (name.replace("-", "_") in HIDDEN_METRICS) == 1
