"""The gatherer against a real quorum: what it records is what the controllers wrote, and they do not notice."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from connectors.errors import UnseenError
from connectors.event import EndpointProbed, ObservationFailed, QuorumPolled, from_json
from connectors.gather.gatherer_settings import Settings, to_line
from connectors.kafka.cluster_id_lookup import identify
from connectors.metadata.batches import Batch, scan
from connectors.metadata.redaction import blanked
from connectors.observation import Kind, Observation
from deploy.lab.lab import Lab
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, Resolution
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, Gathering, cluster_of, gathering

pytestmark = pytest.mark.lab
PASSWORD = "planted-keystore-password"
SNAPSHOT_AFTER = {"metadata.log.max.record.bytes.between.snapshots": "20000"}


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=1, properties=SNAPSHOT_AFTER)


def leader_of(lab: Lab) -> int:
    return lab.await_state(lambda state: state.leader_id in lab.controllers, what="a leader").leader_id


def stored(lab: Lab, node: int) -> bytes:
    """The log as a controller stored it, from its first segment that is left."""
    return b"".join(path.read_bytes() for path in sorted(lab.node(node).metadata_log.glob("*.log")))


def requires(gathered: Gathering, count: int) -> None:
    assert len(gathered.rows(Kind.RECORDS)) >= count


def without_gap(rows: list[Observation]) -> None:
    for before, after in pairwise(row for row in rows if row.payload):
        assert before.last_offset is not None
        assert after.base_offset == before.last_offset + 1


def seen_up_to(gathered: Gathering, marker: bytes) -> None:
    assert marker in gathered.told


def test_what_is_recorded_is_what_the_controllers_stored(lab: Lab, tmp_path: Path) -> None:
    leader = leader_of(lab)
    follower = next(id_ for id_ in lab.controllers if id_ != leader)
    cluster = cluster_of(lab, bootstrap=[lab.node(follower).endpoint])
    with gathering(tmp_path, cluster) as gathered:
        lab.create_topic("told", partitions=3)
        eventually(lambda: seen_up_to(gathered, b"told"), within_s=20)

    rows = gathered.rows(Kind.RECORDS)
    # On a machine that takes minutes to come here the leader has a snapshot already, and sends that first.
    begins_at = next((piece.base_offset for piece in gathered.rows(Kind.SNAPSHOT)), 0)
    assert rows[0].base_offset == begins_at, "found from a follower, read from the beginning"
    without_gap(rows)
    assert gathered.log in blanked(stored(lab, leader)), "byte by byte, as far as we have read"
    assert all(row.last_offset is None or row.last_offset < (row.high_watermark or 0) for row in rows if row.payload)


@pytest.mark.kip("D117")
def test_what_an_ordinary_client_asks_for_is_one_batch_of_the_log(lab: Lab) -> None:
    lab.create_topic("asked-for", partitions=3)

    log = stored(lab, leader_of(lab))
    written = [batch for batch in scan(log) if isinstance(batch, Batch)]
    (one,) = (batch for batch in written if b"asked-for" in log[batch.position : batch.end])
    assert one.record_count >= 4, "the topic and its three partitions"


def test_polls_and_probes_say_who_is_there(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab)) as gathered:

        def all_probed() -> None:
            # The newest look at each: a machine that stands still lets one time out.
            newest = {event.node: event for event in gathered.events(Kind.PROBE) if isinstance(event, EndpointProbed)}
            assert set(newest) == set(lab.controllers)
            for event in newest.values():
                assert (event.resolution, event.connection) == (Resolution.RESOLVED, Connection.ACCEPTED)
                assert (event.answer, event.answered_by) == (Answer.THIS_CLUSTER, event.node)
                assert str(event.endpoint) == lab.node(event.node).endpoint

        def polled() -> None:
            newest = [event for event in gathered.events(Kind.QUORUM) if isinstance(event, QuorumPolled)][-1:]
            assert [event.cluster_id for event in newest] == [lab.cluster_id]
            assert [event.leader_id for event in newest] == [leader_of(lab)]
            assert {replica.key.id: replica.key.directory_id for replica in newest[0].voters} == {
                id_: lab.node(id_).directory_id for id_ in lab.controllers
            }

        eventually(all_probed, within_s=20)
        eventually(polled, within_s=20)


def test_the_quorum_does_not_notice(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab)) as gathered:
        eventually(lambda: requires(gathered, 5), within_s=20)
        before, started = gathered.requests["requests_sent"], time.monotonic()
        described = lab.describe_replication()
        eventually(lambda: _grown(gathered, before + 40), within_s=30)
        rate = (gathered.requests["requests_sent"] - before) / (time.monotonic() - started)
        busiest = gathered.requests["busiest_second"]

    assert sorted(int(row["NodeId"]) for row in described) == sorted([*lab.controllers, *lab.brokers])
    assert rate <= 8
    assert busiest <= 20


def _grown(gathered: Gathering, beyond: int) -> None:
    assert gathered.requests["requests_sent"] >= beyond


def test_a_killed_leader_costs_no_record(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab)) as gathered:
        eventually(lambda: requires(gathered, 3), within_s=20)
        leader = leader_of(lab)
        lab.kill(leader)
        try:
            lab.create_topic("after-the-election")
            eventually(lambda: seen_up_to(gathered, b"after-the-election"), within_s=20)
        finally:
            lab.start(leader)

    without_gap(gathered.rows(Kind.RECORDS))
    assert gathered.log in blanked(stored(lab, leader_of(lab)))


def test_a_killed_gatherer_goes_on_behind_its_last_row(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab)) as gathered:
        eventually(lambda: requires(gathered, 3), within_s=20)
        gathered.kill()
    seen, killed_at_ms = len(gathered.rows()), time.time_ns() // 1_000_000
    lab.create_topic("meanwhile")
    with gathering(tmp_path, cluster_of(lab)) as again:
        eventually(lambda: seen_up_to(again, b"meanwhile"), within_s=20)

    # What was on the disk and not yet published when it was killed is not lost, and comes before that.
    first = next(row for row in again.rows()[seen:] if row.observed_at_ms > killed_at_ms)
    assert first.kind is Kind.UNSEEN
    assert b"interrupted" in first.payload
    without_gap(again.rows(Kind.RECORDS))
    clocks = [row.observed_at_ms for row in again.rows()]
    assert clocks == sorted(clocks)


def test_a_second_gatherer_says_why_it_cannot(lab: Lab, tmp_path: Path) -> None:

    with gathering(tmp_path, cluster_of(lab)):
        settings = Settings(clusters=(cluster_of(lab),), journal=str(tmp_path / "journal"), lock_timeout_s=0.2)
        second = subprocess.run(
            [sys.executable, "-m", "connectors.gather"], input=to_line(settings), capture_output=True, timeout=120
        )
    assert second.returncode == 3
    assert second.stdout.count(b"\n") == 1
    assert b"journal" in second.stdout


def test_no_secret_of_the_log_reaches_the_disk(lab: Lab, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": lab.broker_bootstrap[0]})
    broker = str(lab.brokers[0])
    secret = ConfigEntry("my.custom.password", PASSWORD, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[secret])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)
    scram = UserScramCredentialUpsertion(
        "planted-user",
        ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
        b"planted-scram-password",
        b"planted-salt",
    )
    for future in admin.alter_user_scram_credentials([scram]).values():
        future.result(60)
    lab.create_topic("after-the-secrets")
    with gathering(tmp_path, cluster_of(lab)) as gathered:
        eventually(lambda: seen_up_to(gathered, b"after-the-secrets"), within_s=20)

    log = stored(lab, leader_of(lab))
    assert PASSWORD.encode() in log, "the log itself holds it in plain text"
    assert b"planted-salt" in log
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert PASSWORD.encode() not in content, path
        assert b"planted-salt" not in content, path
        assert b"planted-scram-password" not in content, path
    assert b"my.custom.password" in gathered.told, "the record itself is there"


def test_a_snapshot_is_taken_piece_by_piece_and_the_log_goes_on_behind_it(lab: Lab, tmp_path: Path) -> None:
    for at in range(4):
        lab.create_topic(f"many-{at}", partitions=100)
    leader = leader_of(lab)

    def log_begins_later() -> None:
        checkpoints = sorted(lab.node(leader).metadata_log.glob("*.checkpoint"))
        assert [path for path in checkpoints if not path.name.startswith("0" * 20)]

    eventually(log_begins_later, within_s=30)
    with gathering(tmp_path, cluster_of(lab)) as gathered:
        eventually(lambda: requires(gathered, 3), within_s=30)

    pieces = gathered.rows(Kind.SNAPSHOT)
    assert pieces
    assert [piece.last_offset for piece in pieces] == list(range(len(pieces)))
    name = f"{pieces[0].base_offset:020d}-{pieces[0].leader_epoch:010d}.checkpoint"
    # Each controller takes its own: whoever led then has this one.
    files = [lab.node(node).metadata_log / name for node in lab.controllers]
    assert b"".join(piece.payload for piece in pieces) in [blanked(one.read_bytes()) for one in files if one.exists()]
    assert gathered.rows(Kind.RECORDS)[0].base_offset == pieces[0].base_offset
    without_gap(gathered.rows(Kind.RECORDS))


def test_a_stopped_majority_is_told_each_second_by_every_endpoint(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab)) as gathered:
        eventually(lambda: requires(gathered, 3), within_s=20)
        leader = leader_of(lab)
        followers = [id_ for id_ in lab.controllers if id_ != leader]
        lab.pause(*followers)
        try:

            def told() -> None:
                failed = {
                    (event.endpoint, event.reason)
                    for event in gathered.events(Kind.UNSEEN)
                    if isinstance(event, ObservationFailed) and event.sight is ObservationSource.QUORUM
                }
                assert (lab.node(leader).endpoint, Reason.NO_LEADER) in failed
                assert {(lab.node(id_).endpoint, Reason.TIMED_OUT) for id_ in followers} <= failed

            eventually(told, within_s=40)
            before = len(gathered.rows(Kind.UNSEEN))
            eventually(lambda: _more_unseen(gathered, before + 15), within_s=20)
        finally:
            lab.resume(*followers)
        recorded = len(gathered.rows(Kind.RECORDS))
        eventually(lambda: requires(gathered, recorded + 3), within_s=30)
        assert gathered.requests["busiest_second"] <= 20

    without_gap(gathered.rows(Kind.RECORDS))
    assert {endpoint for endpoint, pace in paces_ms(gathered).items() if pace < 3_000} == set(lab.bootstrap)


def paces_ms(gathered: Gathering) -> dict[str, float]:
    """How long from one failed poll of an endpoint to the next: the median, because a machine may stand still."""
    moments: dict[str, list[int]] = {}
    for row in gathered.rows(Kind.UNSEEN):
        event = from_json(row.payload)
        if isinstance(event, ObservationFailed) and event.sight is ObservationSource.QUORUM:
            moments.setdefault(event.endpoint, []).append(row.observed_at_ms)
    return {
        endpoint: statistics.median(after - before for before, after in pairwise(at))
        for endpoint, at in moments.items()
    }


def _more_unseen(gathered: Gathering, count: int) -> None:
    assert len(gathered.rows(Kind.UNSEEN)) >= count


def test_the_cluster_is_identified_by_a_controller_or_a_broker(lab: Lab) -> None:
    assert identify(cluster_of(lab, cluster_id=None), 60) == lab.cluster_id
    assert identify(cluster_of(lab, cluster_id=None, bootstrap=lab.broker_bootstrap), 60) == lab.cluster_id
    with pytest.raises(UnseenError, match=lab.cluster_id) as problem:
        identify(cluster_of(lab, cluster_id="another-cluster-id-000"), 60)
    assert problem.value.reason is Reason.WRONG_CLUSTER


def test_another_clusters_id_is_never_mixed_in(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab, cluster_id="AAAAAAAAAAAAAAAAAAAAAA")) as gathered:
        eventually(lambda: _said(gathered, ObservationSource.LOG, Reason.WRONG_CLUSTER), within_s=20)
    assert not gathered.rows(Kind.RECORDS)


def test_brokers_alone_serve_polls_and_lead_to_the_controllers(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab, bootstrap=lab.broker_bootstrap)) as gathered:
        eventually(lambda: requires(gathered, 1), within_s=20)
    assert [event for event in gathered.events(Kind.QUORUM) if isinstance(event, QuorumPolled)]
    assert {event.cluster for event in gathered.rows()} == {NAME}


def _said(gathered: Gathering, sight: ObservationSource, reason: Reason) -> None:
    events = gathered.events(Kind.UNSEEN)
    assert [one for one in events if isinstance(one, ObservationFailed) and (one.sight, one.reason) == (sight, reason)]
