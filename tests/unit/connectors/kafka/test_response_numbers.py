"""Numbers that Kafka cannot write: the response is refused with the field's name and value."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterResponse, DescribeConfigsResponse

from connectors.kafka.cluster_connection import Address
from connectors.kafka.cluster_id_lookup import parse_describe_cluster
from connectors.kafka.messages import (
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
    parse_node_id,
    parse_settings,
)
from connectors.kafka.response_limits import known, optional
from connectors.kafka.schemas import FetchSnapshotResponse
from rules.model.identifiers import Epoch
from rules.model.membership import MOST_VOTERS
from rules.model.monitoring import Reason
from tests.unit.connectors.kafka.kafka_answers import (
    PARTITION,
    fetch_answer,
    node_row,
    piece_answer,
    quorum_answer,
    replica_row,
)
from tests.unit.connectors.observation_failure import failure_of

YEAR_10000_MS = 253_402_300_800_000


def poll(
    *, ids: Sequence[int] = (1, 2), host: str = "c1", replica: Mapping[str, Any] | None = None, **more: Any
) -> None:
    voters = [replica_row(node, **(replica or {})) for node in ids]
    answer = quorum_answer(voters=voters, nodes=[node_row(1, ("CONTROLLER", host, 9093))], **more)
    parse_describe_quorum(answer, cluster_id=None, address=Address("c1", 1))


def fetch(*, port: int = 9093, **more: Any) -> None:
    parse_fetch(fetch_answer(**{"leader": 1, "at": Address("c1", port), **more}))


def piece(**numbers: int) -> None:
    parse_fetch_snapshot(piece_answer(b"", **numbers))


def cluster(*, port: int = 9093, cluster_id: str | None = "x", host: str | None = "c1") -> None:
    node = DescribeClusterResponse.DescribeClusterBroker(broker_id=1, host=host, port=port)
    parse_describe_cluster(
        DescribeClusterResponse(error_code=0, endpoint_type=2, cluster_id=cluster_id, brokers=[node])
    )


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (lambda: poll(high_watermark=2**63 - 1), "DescribeQuorum: high_watermark is 9223372036854775807"),
        (lambda: poll(high_watermark=-2), "DescribeQuorum: high_watermark is -2"),
        (lambda: poll(epoch=-1), "DescribeQuorum: leader_epoch is -1"),
        (lambda: poll(replica={"end": 2**62 + 1}), "DescribeQuorum: log_end_offset is 4611686018427387905"),
        (lambda: poll(replica={"fetched": YEAR_10000_MS}), "DescribeQuorum: last_fetch_timestamp is 2534"),
        (lambda: poll(replica={"caught_up": -5}), "DescribeQuorum: last_caught_up_timestamp is -5"),
        (lambda: poll(ids=(1, -7)), "DescribeQuorum: replica_id is -7"),
        (lambda: poll(ids=(1, 2, 1)), "DescribeQuorum: current_voters lists node 1 twice"),
        (lambda: fetch(high_watermark=2**63 - 1), "Fetch: high_watermark is 9223372036854775807"),
        (lambda: fetch(log_start_offset=2**62 + 1), "Fetch: log_start_offset is 4611686018427387905"),
        (lambda: fetch(leader=-2), "Fetch: leader_id is -2"),
        (lambda: fetch(epoch=-9), "Fetch: leader_epoch is -9"),
        (lambda: fetch(port=65_536), "Fetch: port is 65536"),
        (
            lambda: fetch(snapshot_id=PARTITION.SnapshotId(end_offset=2**62 + 1, epoch=1)),
            "Fetch: snapshot_id.end_offset is 4611686018427387905",
        ),
        (
            lambda: fetch(diverging_epoch=PARTITION.EpochEndOffset(end_offset=5, epoch=-3)),
            "Fetch: diverging_epoch.epoch is -3",
        ),
        (lambda: piece(size=-1), "FetchSnapshot: size is -1"),
        (lambda: piece(position=-1), "FetchSnapshot: position is -1"),
        (lambda: cluster(port=70_000), "DescribeCluster: port is 70000"),
        (lambda: cluster(cluster_id=None), "DescribeCluster: cluster_id is missing"),
        (lambda: cluster(cluster_id="x" * 256), "DescribeCluster: cluster_id has 256 characters"),
        (lambda: cluster(host=None), "DescribeCluster: host is missing"),
        (lambda: poll(host="c" * 256), "DescribeQuorum: host is a string of 256 characters"),
        (lambda: poll(ids=tuple(range(MOST_VOTERS + 1))), f"DescribeQuorum: {MOST_VOTERS + 1} voters and 1 nodes"),
    ],
)
def test_number_that_kafka_cannot_write_is_refused_with_its_field(parse: Callable[[], None], text: str) -> None:
    problem = failure_of(parse)
    assert (problem.reason, problem.detail[: len(text)]) == (Reason.INVALID_RESPONSE, text)


def test_largest_numbers_of_kafka_are_accepted() -> None:
    poll(high_watermark=2**62, replica={"fetched": YEAR_10000_MS - 1, "end": -1})
    fetch(port=65_535)
    fetch(leader=2**31 - 1, epoch=2**31 - 1)
    fetch(leader=-1, epoch=-1, high_watermark=-1, log_start_offset=-1)


@pytest.mark.parametrize("topics", [[], [FetchSnapshotResponse.TopicSnapshot(name="x", partitions=[])]], ids=len)
def test_fetch_snapshot_response_without_the_partition_is_refused(topics: list[Any]) -> None:
    answer = FetchSnapshotResponse(throttle_time_ms=0, error_code=0, topics=topics)
    problem = failure_of(lambda: parse_fetch_snapshot(answer))
    assert problem.reason is Reason.INVALID_RESPONSE
    assert problem.detail == "FetchSnapshot: the response does not contain the partition"


@pytest.mark.parametrize(
    ("digits", "node"), [("2", 2), ("2147483647", 2**31 - 1), ("2147483648", None), ("9" * 10_000, None)]
)
def test_node_that_refuses_another_id_says_its_own_within_32_bits(digits: str, node: int | None) -> None:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        error_code=42, error_message=f"Unexpected broker id, expected {digits} but received 1"
    )
    assert parse_node_id(DescribeConfigsResponse(results=[result]), requested=1) == node


def configs(*pairs: tuple[str, str | None], hidden: bool = False, error_code: int = 0) -> DescribeConfigsResponse:
    entry = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
    entries = [entry(name=name, value=value, is_sensitive=hidden) for name, value in pairs]
    result = DescribeConfigsResponse.DescribeConfigsResult(error_code=error_code, configs=entries)
    return DescribeConfigsResponse(results=[result])


VOTERS, LOGIN, AUTH = "controller.quorum.voters", "sasl.mechanism.controller.protocol", "ssl.client.auth"
OF_LISTENER = f"listener.name.controller.{AUTH}"


@pytest.mark.parametrize(
    ("response", "found"),
    [
        (configs(("node.id", "1"), (VOTERS, "1@c1:9093"), (LOGIN, "PLAIN")), {VOTERS: "1@c1:9093", LOGIN: "PLAIN"}),
        (configs((VOTERS, "")), {VOTERS: ""}),
        (configs((AUTH, "none"), (OF_LISTENER, "required")), {AUTH: "required"}),
        (configs((AUTH, "none"), (f"listener.name.other.{AUTH}", "required")), {AUTH: "none"}),
        # Kafka shows the value to nobody.
        (configs(("super.users", None), hidden=True), {"super.users": "hidden"}),
        # What no Kafka node has.
        (configs((VOTERS, None)), {}),
        (configs((VOTERS, "1@c:1," * 10_000)), {}),
        (configs((VOTERS, "1@c1:9093\x1b[2J")), {}),
        (configs((VOTERS, "1@c1:9093"), error_code=31), None),
        (DescribeConfigsResponse(results=[]), None),
    ],
)
def test_settings_of_a_node_are_read_if_they_are_known(
    response: DescribeConfigsResponse, found: dict[str, str] | None
) -> None:
    assert parse_settings(response, "CONTROLLER") == found


def test_minus_one_is_no_epoch_and_zero_is_the_first() -> None:
    assert (optional(Epoch, -1, "leader_epoch"), optional(Epoch, 0, "leader_epoch")) == (None, 0)
    assert failure_of(lambda: known(Epoch, -1, "leader_epoch")).reason is Reason.INVALID_RESPONSE
