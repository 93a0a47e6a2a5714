"""KIP-853: endpoints of voters: several listeners, any port, or none; only a registration has the security protocol."""

from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumResponse

from connectors.kafka.cluster_connection import Address
from connectors.kafka.messages import parse_describe_quorum
from connectors.observations.log_event import VotersReplaced
from rules.model.identifiers import Endpoint
from rules.model.membership import ControllerRegistration
from tests.situation.commands import situation
from tests.unit.connectors.metadata.decoded_records import UUID, metadata, raft
from tests.unit.streaming.status.statuses import status

RANGE = {"min_supported_version": 0, "max_supported_version": 1}


def voters_of(*listeners: tuple[str, str, int]) -> dict[str, Any]:
    """Returns a VotersRecord's fields: one voter with these listeners."""
    endpoints = [{"name": name, "host": host, "port": port} for name, host, port in listeners]
    voter = {"voter_id": 1, "voter_directory_id": UUID, "endpoints": endpoints, "kraft_version_feature": RANGE}
    return {"version": 0, "voters": [voter]}


def test_a_voter_has_several_listeners_by_name_and_ports_above_32767() -> None:
    said = raft(6, 0, voters=voters_of(("CONTROLLER", "c1", 40_000), ("Secure", "c1s", 65_535))["voters"])

    assert isinstance(said, VotersReplaced)
    assert said.voters[0].endpoints == (
        Endpoint(listener="CONTROLLER", host="c1", port=40_000),
        Endpoint(listener="Secure", host="c1s", port=65_535),
    )


@pytest.mark.parametrize(
    ("number", "protocol"), [(0, "PLAINTEXT"), (1, "SSL"), (2, "SASL_PLAINTEXT"), (3, "SASL_SSL"), (9, None)]
)
def test_a_registration_has_kafkas_security_protocol_by_its_number(number: int, protocol: str | None) -> None:
    listener = {"name": "CONTROLLER", "host": "c1", "port": 9093, "security_protocol": number}

    said = metadata(27, 0, controller_id=1, incarnation_id=UUID, end_points=[listener])

    assert isinstance(said, ControllerRegistration)
    assert [one.protocol for one in said.endpoints] == [protocol]


def test_a_voter_without_endpoints_has_an_unknown_one() -> None:
    shown = status(situation("voter-set 60s 1@none 2 3"))["endpoints"][0]

    assert (shown["id"], shown["recorded"], shown["verdict"]) == (1, None, "unknown")


def test_the_leaders_and_the_logs_voter_endpoints_are_both_reported() -> None:
    """An uncommitted endpoint change: DescribeQuorum has the new endpoint, the log the old one."""
    said = status(situation("moving 1 c1:19093"))

    assert said["current_voters"][0]["endpoints"] == ["CONTROLLER://c1:19093"]
    assert said["committed_voters"]["voters"][0]["endpoints"] == ["CONTROLLER://c1:9093"]
    assert said["pending_voters"]["moved"] == [1]


@pytest.mark.parametrize(("listener", "moved"), [("controller", []), ("SECURE", [1])])
def test_a_voter_whose_listener_only_has_another_case_does_not_move(listener: str, moved: list[int]) -> None:
    assert status(situation(f"moving 1 {listener}://c1:9093"))["pending_voters"]["moved"] == moved


def test_an_ipv6_address_is_in_brackets_wherever_an_endpoint_is_printed() -> None:
    shown = status(situation("listens 1 [fd00::1]:9093"))

    of_first = shown["endpoints"][0]
    replica_endpoint = next(one["endpoint"] for one in shown["replicas"] if one["node_id"] == 1)
    assert [of_first["recorded"], of_first["registered"], replica_endpoint] == ["[fd00::1]:9093"] * 3
    for listed in (shown["current_voters"], shown["committed_voters"]["voters"]):
        assert listed[0]["endpoints"] == ["CONTROLLER://[fd00::1]:9093"]


def test_a_poll_has_every_listener_of_a_node() -> None:
    kind = DescribeQuorumResponse
    listeners = [
        kind.Node.Listener(name=name, host="c1", port=port) for name, port in (("CONTROLLER", 9093), ("SECURE", 40_000))
    ]
    partition = kind.TopicData.PartitionData(
        partition_index=0, leader_id=1, leader_epoch=1, high_watermark=1, current_voters=[], observers=[]
    )
    topic = kind.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    answer = kind(error_code=0, topics=[topic], nodes=[kind.Node(node_id=node, listeners=listeners) for node in (1, 2)])

    said = parse_describe_quorum(answer, cluster_id=None, address=Address("c1", 9093))

    listed = {node: [str(one) for one in endpoints] for node, endpoints in said.nodes.items()}
    assert listed == {node: ["c1:9093", "c1:40000"] for node in (1, 2)}
