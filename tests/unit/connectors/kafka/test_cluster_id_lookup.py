from pathlib import Path

import pytest

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError
from connectors.kafka.cluster_id_lookup import identify
from rules.model.monitoring import Reason
from tests.eventually import eventually
from tests.unit.connectors.kafka.fake_node import FakeNode, closing, describing_cluster, describing_quorum_v0, silent


def cluster(*ports: int, cluster_id: str | None = None) -> Cluster:
    return Cluster(
        name="a",
        bootstrap=tuple(("127.0.0.1", port) for port in ports),
        cluster_id=cluster_id,
        request_timeout_ms=300,
    )


def test_the_first_answer_counts_and_no_socket_stays_behind() -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    with FakeNode(silent).up() as mute, FakeNode(describing_cluster(b"the-cluster")).up() as talker:
        assert identify(cluster(mute, talker), 60) == "the-cluster"

    def nothing_is_left() -> None:
        assert open_files() <= before

    eventually(nothing_is_left, within_s=5)


def test_another_cluster_is_named() -> None:
    with FakeNode(describing_cluster(b"theirs")).up() as port, pytest.raises(UnseenError, match="theirs") as problem:
        identify(cluster(port, cluster_id="ours"), 60)
    assert problem.value.reason is Reason.WRONG_CLUSTER


def test_a_kafka_that_cannot_tell_is_not_asked_again_until_time_is_up() -> None:
    node = FakeNode(describing_quorum_v0)
    with node.up() as port, pytest.raises(UnseenError, match="does not offer this request") as problem:
        identify(cluster(port), 60)
    assert problem.value.reason is Reason.UNSUPPORTED


def test_the_most_telling_reason_is_given_when_time_is_up() -> None:
    with (
        FakeNode(silent).up() as mute,
        FakeNode(closing).up() as rude,
        pytest.raises(UnseenError) as problem,
    ):
        identify(cluster(mute, rude), 3)
    assert problem.value.reason is Reason.CLOSED
