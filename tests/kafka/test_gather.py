"""The gatherer against a real quorum: it records the controllers' log and sends few requests."""

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from connectors.errors import ObservationError
from connectors.kafka.cluster_id_lookup import identify
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.redaction import redact
from connectors.observations.observation import Observation, ObservationKind
from rules.model.monitoring import (
    ConnectionResult,
    FailedObservation,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
)
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, GathererRun, cluster_of, run_gatherer
from tests.lab import Lab

pytestmark = pytest.mark.lab
SNAPSHOT_AFTER = {"metadata.log.max.record.bytes.between.snapshots": "20000"}


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=1, properties=SNAPSHOT_AFTER)


def stored(lab: Lab, node: int) -> bytes:
    """Returns the log as the controller stored it, from its first remaining segment."""
    return b"".join(path.read_bytes() for path in sorted(lab.node(node).metadata_log.glob("*.log")))


def records(gatherer: GathererRun) -> int:
    return len(gatherer.rows(ObservationKind.RECORDS))


def assert_without_gap(rows: list[Observation]) -> None:
    for before, after in pairwise(row for row in rows if row.payload):
        assert before.last_offset is not None
        assert after.base_offset == before.last_offset + 1


def test_recorded_log_equals_the_log_that_the_controllers_stored_also_after_an_election(
    lab: Lab, tmp_path: Path
) -> None:
    leader, (follower, _) = lab.leader, lab.followers
    cluster = cluster_of(lab, bootstrap=[lab.node(follower).endpoint])
    with run_gatherer(tmp_path, cluster) as gatherer:
        lab.create_topic("recorded", partitions=3)
        eventually(lambda: b"recorded" in gatherer.metadata, within_s=20)
        lab.kill(leader)
        try:
            lab.create_topic("after-the-election")
            eventually(lambda: b"after-the-election" in gatherer.metadata, within_s=20)
        finally:
            lab.start(leader)

    rows = gatherer.rows(ObservationKind.RECORDS)
    # On a slow machine the leader may already have a snapshot, which is fetched first.
    first_offset = next((piece.base_offset for piece in gatherer.rows(ObservationKind.SNAPSHOT)), 0)
    assert rows[0].base_offset == first_offset, (
        "the leader is found through a follower, and the log is read from its start"
    )
    assert_without_gap(rows)
    assert gatherer.log in redact(stored(lab, lab.leader)), "equal byte for byte"
    assert all(row.last_offset is None or row.last_offset < (row.high_watermark or 0) for row in rows if row.payload)


def test_request_of_an_ordinary_client_is_one_batch_of_the_log(lab: Lab) -> None:
    lab.create_topic("one-batch", partitions=3)

    log = stored(lab, lab.leader)
    batches = [batch for batch in scan(log) if isinstance(batch, RecordBatch)]
    (one,) = (batch for batch in batches if b"one-batch" in log[batch.position : batch.end])
    assert one.record_count >= 4, "the topic and its three partitions"


def test_polls_and_probes_report_all_controllers_with_few_requests_of_no_replica(lab: Lab, tmp_path: Path) -> None:
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:

        def all_controllers_are_probed() -> None:
            # The newest probe of each controller: on a stalled machine an earlier one may time out.
            newest = {event.node: event for event in gatherer.events(ObservationKind.PROBE) if isinstance(event, Probe)}
            assert set(newest) == set(lab.controllers)
            for event in newest.values():
                assert (event.resolution, event.connection) == (Resolution.RESOLVED, ConnectionResult.ACCEPTED)
                assert (event.answer, event.answered_by) == (ProbeAnswer.THIS_CLUSTER, event.node)
                assert str(event.endpoint) == lab.node(event.node).endpoint

        def quorum_is_polled() -> None:
            assert gatherer.polls()
            poll = gatherer.polls()[-1]
            assert (poll.cluster_id, poll.leader_id) == (lab.cluster_id, lab.leader)
            assert {replica.key.id: replica.key.directory_id for replica in poll.voters} == {
                id_: lab.node(id_).directory_id for id_ in lab.controllers
            }

        eventually(all_controllers_are_probed, within_s=20)
        eventually(quorum_is_polled, within_s=20)
        eventually(lambda: records(gatherer) >= 5, within_s=20)
        before, started = gatherer.requests["requests_sent"], time.monotonic()
        described = lab.describe_replication()
        eventually(lambda: gatherer.requests["requests_sent"] >= before + 40, within_s=30)
        rate = (gatherer.requests["requests_sent"] - before) / (time.monotonic() - started)
        busiest = gatherer.requests["busiest_second"]

    assert sorted(int(row["NodeId"]) for row in described) == sorted([*lab.controllers, *lab.brokers])
    assert rate <= 8
    assert busiest <= 20


def test_killed_gatherer_resumes_after_its_last_row(lab: Lab, tmp_path: Path) -> None:
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:
        eventually(lambda: records(gatherer) >= 3, within_s=20)
        gatherer.kill()
    rows_before, killed_at_ms = len(gatherer.rows()), time.time_ns() // 1_000_000
    lab.create_topic("meanwhile")
    with run_gatherer(tmp_path, cluster_of(lab)) as restarted:
        eventually(lambda: b"meanwhile" in restarted.metadata, within_s=20)

    # Rows that were written but not published when the gatherer was killed are kept and come first.
    first = next(row for row in restarted.rows()[rows_before:] if row.observed_at_ms > killed_at_ms)
    assert first.kind is ObservationKind.FAILED
    assert b"interrupted" in first.payload
    assert_without_gap(restarted.rows(ObservationKind.RECORDS))
    times = [row.observed_at_ms for row in restarted.rows()]
    assert times == sorted(times)


def test_snapshot_is_fetched_in_pieces_and_the_log_continues_after_it(lab: Lab, tmp_path: Path) -> None:
    for at in range(4):
        lab.create_topic(f"many-{at}", partitions=100)
    leader = lab.leader

    def leader_has_a_snapshot() -> None:
        checkpoints = sorted(lab.node(leader).metadata_log.glob("*.checkpoint"))
        assert [path for path in checkpoints if not path.name.startswith("0" * 20)]

    eventually(leader_has_a_snapshot, within_s=30)
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:
        eventually(lambda: records(gatherer) >= 3, within_s=30)

    pieces = gatherer.rows(ObservationKind.SNAPSHOT)
    assert pieces
    assert [piece.last_offset for piece in pieces] == list(range(len(pieces)))
    name = f"{pieces[0].base_offset:020d}-{pieces[0].leader_epoch:010d}.checkpoint"
    # Each controller writes its own snapshots; the leader at that time has this one.
    files = [lab.node(node).metadata_log / name for node in lab.controllers]
    assert b"".join(piece.payload for piece in pieces) in [redact(one.read_bytes()) for one in files if one.exists()]
    assert gatherer.rows(ObservationKind.RECORDS)[0].base_offset == pieces[0].base_offset
    assert_without_gap(gatherer.rows(ObservationKind.RECORDS))


def test_stopped_majority_is_recorded_each_second_for_every_endpoint(lab: Lab, tmp_path: Path) -> None:
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:
        eventually(lambda: records(gatherer) >= 3, within_s=20)
        leader, followers = lab.leader, lab.followers
        lab.pause(*followers)
        try:

            def failures_are_recorded() -> None:
                failed = {(event.endpoint, event.reason) for _, event in failed_polls(gatherer)}
                assert (lab.node(leader).endpoint, Reason.NO_LEADER) in failed
                assert {(lab.node(id_).endpoint, Reason.TIMED_OUT) for id_ in followers} <= failed

            eventually(failures_are_recorded, within_s=40)
            before = len(gatherer.rows(ObservationKind.FAILED))
            eventually(lambda: len(gatherer.rows(ObservationKind.FAILED)) >= before + 15, within_s=20)
        finally:
            lab.resume(*followers)
        recorded = len(gatherer.rows(ObservationKind.RECORDS))
        eventually(lambda: records(gatherer) >= recorded + 3, within_s=30)
        assert gatherer.requests["busiest_second"] <= 20

    assert_without_gap(gatherer.rows(ObservationKind.RECORDS))
    assert {endpoint for endpoint, interval in poll_intervals_ms(gatherer).items() if interval < 3_000} == set(
        lab.bootstrap
    )


def failed_polls(gatherer: GathererRun) -> list[tuple[int, FailedObservation]]:
    return [(at, event) for at, event in gatherer.failures() if event.source is ObservationSource.QUORUM]


def poll_intervals_ms(gatherer: GathererRun) -> dict[str, float]:
    """Returns the median interval between failed polls per endpoint; the median, because a machine may stall."""
    times: dict[str, list[int]] = {}
    for at_ms, event in failed_polls(gatherer):
        times.setdefault(event.endpoint, []).append(at_ms)
    return {
        endpoint: statistics.median(after - before for before, after in pairwise(at)) for endpoint, at in times.items()
    }


def test_cluster_id_is_reported_by_controllers_and_brokers_and_no_log_of_another_cluster_is_recorded(
    lab: Lab, tmp_path: Path
) -> None:
    assert identify(cluster_of(lab, cluster_id=None), 60) == lab.cluster_id
    assert identify(cluster_of(lab, cluster_id=None, bootstrap=lab.broker_bootstrap), 60) == lab.cluster_id
    another = cluster_of(lab, cluster_id="another-cluster-id-000")
    with pytest.raises(ObservationError, match=lab.cluster_id) as problem:
        identify(another, 60)
    assert problem.value.reason is Reason.WRONG_CLUSTER
    with run_gatherer(tmp_path, another) as gatherer:
        wrong = (ObservationSource.LOG, Reason.WRONG_CLUSTER)
        eventually(lambda: wrong in {(one.source, one.reason) for _, one in gatherer.failures()}, within_s=20)
    assert not gatherer.rows(ObservationKind.RECORDS)


def test_brokers_answer_polls_and_report_the_controllers(lab: Lab, tmp_path: Path) -> None:
    with run_gatherer(tmp_path, cluster_of(lab, bootstrap=lab.broker_bootstrap)) as gatherer:
        eventually(lambda: records(gatherer) >= 1 and gatherer.polls() != [], within_s=20)
    assert {event.cluster for event in gatherer.rows()} == {NAME}
