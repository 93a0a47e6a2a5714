"""A real controller is started with a record at the end of its log that the state refuses, for each condition."""

import shutil
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.logdir.log_dir_files import PARTITION
from rules.model.unreplayable import Refusal
from streaming.query.from_log_dir import replay_log_dir
from streaming.status.log_dir_status import LogDirContents
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.present import present
from tests.unit.connectors.metadata.metadata_bytes import batch
from tests.unit.connectors.metadata.metadata_record_schemas import metadata_value

pytestmark = [pytest.mark.lab, pytest.mark.live]
_ACTIVE = "Becoming the active controller"
_OTHER = bytes(range(16))
_ACL = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "principal": "User:alice", "host": "*"} | {
    "operation": 3,
    "permission_type": 3,
}


def records(read: LogDirContents) -> Iterator[tuple[Refusal | None, list[bytes]]]:
    """Yields records that the state of this log refuses, and one that it does not."""
    ((node, broker),) = read.machine.log.image.brokers.items()
    ((topic, _),) = read.machine.log.partitions.topics.items()
    epoch, topic_id, directory = present(broker.broker_epoch), uuid(topic), uuid(broker.log_dirs[0])
    of_topic = {"topic_id": topic_id, "replicas": [node], "isr": [node], "leader": node}
    yield None, [metadata_value(20, 0)]
    yield Refusal.TOPIC_NAME, [metadata_value(2, 0, name="t", topic_id=_OTHER)]
    yield Refusal.PARTITION_TOPIC, [metadata_value(3, 1, **{**of_topic, "topic_id": _OTHER})]
    yield Refusal.PARTITION, [metadata_value(5, 1, topic_id=topic_id, partition_id=7, isr=[node])]
    yield Refusal.DIRECTORIES, [metadata_value(3, 1, **of_topic, partition_id=1, directories=[_OTHER, _OTHER])]
    yield Refusal.TOPIC_REMOVED, [metadata_value(9, 0, topic_id=_OTHER)]
    yield Refusal.TOPIC_CLEARED, [metadata_value(28, 0, topic_name="none")]
    yield Refusal.BROKER, [metadata_value(1, 0, broker_id=77, broker_epoch=epoch)]
    yield Refusal.BROKER, [metadata_value(17, 1, broker_id=77, broker_epoch=epoch, fenced=1)]
    yield Refusal.BROKER_EPOCH, [metadata_value(7, 0, id=node, epoch=epoch + 1)]
    yield Refusal.DIRECTORY, [metadata_value(0, 3, broker_id=77, broker_epoch=99, log_dirs=[directory])]
    yield Refusal.CONTROLLER, [metadata_value(29, 0, controller_id=77)]
    yield Refusal.PRODUCER_ID, [metadata_value(15, 0, broker_id=node, next_producer_id=5_000)] * 2
    credential, removed = (metadata_value(kind, 0, name="alice", mechanism=1) for kind in (11, 22))
    yield None, [credential, removed]
    yield Refusal.CREDENTIAL, [credential, metadata_value(22, 0, name="alice", mechanism=2)]
    yield None, [acl := metadata_value(18, 0, id=_OTHER, **_ACL), metadata_value(19, 0, id=_OTHER)]
    yield Refusal.ACL, [acl, *[metadata_value(19, 0, id=_OTHER)] * 2]
    begin, end, abort = (metadata_value(kind, 0) for kind in (23, 24, 25))
    yield None, [begin, credential, abort, begin, end]
    yield Refusal.CREDENTIAL, [begin, credential, abort, removed]
    yield Refusal.TRANSACTION_OPEN, [begin] * 2
    yield Refusal.NO_TRANSACTION, [end]
    yield Refusal.NO_TRANSACTION, [begin, abort, abort]


def uuid(text: str) -> bytes:
    return urlsafe_b64decode(f"{text}==")


def test_kafka_ends_at_each_record_that_is_said_to_end_it(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=1, brokers=1)
    node = quorum.node(quorum.leader)
    quorum.create_topic("t")
    quorum.stop(*quorum.brokers)
    quorum.stop(node.id)
    sound = shutil.copytree(node.data, tmp_path / "sound")
    read = replay_log_dir(sound)
    assert not read.start_problems

    for refusal, refused in records(read):
        shutil.rmtree(node.data)
        shutil.copytree(sound, node.data)
        segment = max((node.data / PARTITION).glob("*.log"))
        end, epoch = read.end_offset, present(read.epoch)
        segment.write_bytes(segment.read_bytes() + batch(refused, base_offset=end, epoch=epoch))
        found = [record.refusal for record in replay_log_dir(node.data).machine.log.image.unreplayable]
        node.log_file.unlink()
        quorum.start(node.id, wait=False)
        eventually(lambda: not node.running or _ACTIVE in node.log_tail(10_000), within_s=60)

        assert found == ([] if refusal is None else [refusal])
        assert node.running is (refusal is None), (refusal, refused)
        if node.running:
            quorum.kill(node.id)
