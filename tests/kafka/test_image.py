"""Compares our replay with Kafka's own MetadataImage, field by field.

The input is histories that Kafka's classes wrote, and the log and snapshots of a real quorum after injected faults.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from rules.evaluate import thresholds_for
from rules.model.ages import Ages
from tests.kafka.conftest import MakeLab
from tests.kafka.metadata_image import compare, differences, facts_by_key, write_history
from tests.kafka.parity import generated_files
from tests.kafka.replay_output import Fact, ReplayCase, replay_facts
from tests.kips.kafka_timers import BACKOFF_MAX_MS, ELECTION_TIMEOUT_MS, FETCH_TIMEOUT_MS

RECORDS = 8_000


def end_state(found: list[Fact]) -> list[Fact]:
    """Returns the facts of the end state, without the events that led to it."""
    return [fact for fact in found if fact["fact"] not in {"voters", "leader"}]


@pytest.mark.lab
def test_replaying_a_log_or_its_snapshot_with_the_rest_gives_kafkas_image(kafka_jars: Path, tmp_path: Path) -> None:
    log, snapshots = tmp_path / "00000000000000000000.log", tmp_path / "snapshots"
    snapshots.mkdir()
    write_history(log, seed=20, records=RECORDS)
    whole, resumed = ReplayCase(paths=(log,), snapshot=(snapshots, RECORDS // 2)), ReplayCase(paths=(snapshots, log))
    cases = [whole, resumed, *(ReplayCase(paths=(path,)) for path in generated_files(tmp_path))]
    assert compare(cases).differences == []

    ends = (facts_by_key(end_state(replay_facts(case))) for case in (whole, resumed))
    assert [*differences(*ends)] == [], "both replays end in the same state"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultedQuorum:
    """The files of a real quorum after a topic was removed, brokers were killed and its only controller restarted."""

    node_ids: list[int]
    log_dir: Path
    """The log, the snapshot from formatting, and the newest snapshot."""
    timers_ms: dict[str, int]
    """The values of controller.quorum.*.ms on its nodes; the quorum sets none, so these are the defaults."""


@pytest.fixture(scope="module")
def faulted_quorum(shared_lab: MakeLab) -> FaultedQuorum:
    properties = {"broker.session.timeout.ms": "6000", "metadata.log.max.record.bytes.between.snapshots": "3000"}
    quorum = shared_lab(controllers=1, brokers=2, properties=properties)
    quorum.create_topic("gone", partitions=3, replication=2)
    admin = AdminClient({"bootstrap.servers": ",".join(quorum.broker_bootstrap), "log_level": 0})
    admin.delete_topics(["gone"])["gone"].result(30)
    broker = ConfigResource(ResourceType.BROKER, str(quorum.brokers[0]))
    settings = admin.describe_configs([broker])[broker].result(30)
    quorum.leave_partitions_recovering("orders", partitions=2)
    quorum.stop(*quorum.controllers)
    quorum.start(*quorum.controllers)
    # It accepts connections before it leads. Wait until its second election is on disk, because it is killed next.
    quorum.await_state(lambda state: state.high_watermark >= 0, what="a commit of the second epoch")
    quorum.kill(*quorum.controllers)
    (controller,) = quorum.controllers
    return FaultedQuorum(
        node_ids=quorum.controllers,
        log_dir=quorum.node(controller).metadata_log,
        timers_ms={
            name: int(settings[name].value) for name in settings if re.fullmatch(r"controller\.quorum.*\.ms", name)
        },
    )


@pytest.mark.lab
def test_replaying_a_real_quorums_log_and_snapshots_gives_kafkas_image(faulted_quorum: FaultedQuorum) -> None:
    logs = sorted(faulted_quorum.log_dir.glob("0*.log"))
    formatted, *_, newest = sorted(faulted_quorum.log_dir.glob("0*.checkpoint"))
    cases = [ReplayCase(paths=(formatted, *logs)), ReplayCase(paths=(newest, *logs))]

    assert compare(cases).differences == []

    found = replay_facts(cases[0])
    assert {fact["name"] for fact in found if fact["fact"] == "topic"} == {"orders"}, "the other topic was removed"
    assert sum(fact["fact"] == "leader" for fact in found) == 2
    assert {fact["fenced"] for fact in found if fact["fact"] == "broker"} == {True, False}
    partitions = [fact for fact in found if fact["fact"] == "partition"]
    assert [fact["recovering"] for fact in partitions] == [True, True]
    assert all(fact["partition_epoch"] > fact["leader_epoch"] > 0 for fact in partitions)
    *_, voters = (fact["voters"] for fact in found if fact["fact"] == "voters")
    assert [voter["id"] for voter in voters] == faulted_quorum.node_ids, "the node id is the voter id"


@pytest.mark.lab
def test_a_failed_raft_request_and_its_retry_take_less_than_the_thresholds(
    faulted_quorum: FaultedQuorum,
) -> None:
    timers = faulted_quorum.timers_ms
    request_ms, retry_ms = timers["controller.quorum.request.timeout.ms"], timers["controller.quorum.retry.backoff.ms"]

    assert (request_ms, retry_ms) == (2_000, 20)
    assert timers["controller.quorum.fetch.timeout.ms"] == FETCH_TIMEOUT_MS
    assert timers["controller.quorum.election.timeout.ms"] == ELECTION_TIMEOUT_MS
    assert timers["controller.quorum.election.backoff.max.ms"] == BACKOFF_MAX_MS
    defaults = thresholds_for({})
    assert defaults["no-leader"].ms("hold") > request_ms + retry_ms
    assert Ages().fetch_ms > FETCH_TIMEOUT_MS + request_ms + retry_ms
