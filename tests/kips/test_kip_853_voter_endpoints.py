"""KIP-853, voter endpoints: several listeners, any port, or none; only a registration has the security protocol."""

from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumResponse

from connectors.kafka.cluster_connection import Address
from connectors.kafka.messages import parse_describe_quorum
from connectors.metadata.dump_log import DumpedRecord, dump_records
from connectors.observations.log_event import VotersReplaced
from rules.analysis.endpoint_status import endpoint_statuses
from rules.evaluate import thresholds_for
from rules.model.identifiers import Endpoint, ReplicaKey
from rules.model.membership import ControllerRegistration
from rules.model.quorum import Quorum
from tests.kips.test_kip_856_gauges import status
from tests.unit.connectors.metadata.metadata_bytes import batch
from tests.unit.connectors.metadata.test_record_to_event import UUID, metadata, raft
from tests.unit.rules.situation import (
    endpoint,
    finding_lines,
    findings,
    healthy,
    present,
    registered_elsewhere,
    registration,
    unknown,
    with_committed,
    with_controller,
    with_poll,
)
from tests.unit.streaming.replay.log_script import apply, begun, poll, replica

RULE = "stale-voter-endpoint"
RANGE = {"min_supported_version": 0, "max_supported_version": 1}


def voters_of(*listeners: tuple[str, str, int]) -> dict[str, Any]:
    """Returns a VotersRecord's fields: one voter with these listeners."""
    endpoints = [{"name": name, "host": host, "port": port} for name, host, port in listeners]
    voter = {"voter_id": 1, "voter_directory_id": UUID, "endpoints": endpoints, "kraft_version_feature": RANGE}
    return {"version": 0, "voters": [voter]}


def decoded(value: bytes | tuple[bytes, bytes]) -> dict[str, Any]:
    """Returns one record as `kraftwatch data decode` prints it."""
    (entry,) = (one for one in dump_records(batch([value])) if isinstance(one, DumpedRecord))
    assert entry.data is not None
    return dict(entry.data)


def test_a_voter_has_several_listeners_by_name_and_ports_above_32767() -> None:
    said = raft(6, 0, voters=voters_of(("CONTROLLER", "c1", 40_000), ("Secure", "c1s", 65_535))["voters"])

    assert isinstance(said, VotersReplaced)
    assert said.voters[0].endpoints == (
        Endpoint(listener="CONTROLLER", host="c1", port=40_000),
        Endpoint(listener="Secure", host="c1s", port=65_535),
    )


def without_endpoints(quorum: Quorum, node: int) -> Quorum:
    voters = tuple(
        replace(one, endpoints=()) if one.key.id == node else one for one in present(quorum.committed).voters
    )
    return with_committed(quorum, voters=voters)


@pytest.mark.parametrize(
    ("number", "protocol"), [(0, "PLAINTEXT"), (1, "SSL"), (2, "SASL_PLAINTEXT"), (3, "SASL_SSL"), (9, None)]
)
def test_a_registration_has_kafkas_security_protocol_by_its_number(number: int, protocol: str | None) -> None:
    listener = {"name": "CONTROLLER", "host": "c1", "port": 9093, "security_protocol": number}

    said = metadata(27, 0, controller_id=1, incarnation_id=UUID, end_points=[listener])

    assert isinstance(said, ControllerRegistration)
    assert [one.protocol for one in said.endpoints] == [protocol]


def test_a_voter_without_endpoints_is_unknown_and_not_stale() -> None:
    quorum = without_endpoints(registered_elsewhere(healthy(), 1), 1)

    assert findings(quorum, RULE) == []
    assert (RULE, "voter 1") in unknown(quorum)
    first = endpoint_statuses(quorum, quorum.poll, thresholds_for({})[RULE])[0]
    assert first.verdict == "unknown"
    shown = status(quorum)["endpoints"][0]
    assert (shown["id"], shown["recorded"], shown["verdict"]) == (1, None, "unknown")


@pytest.mark.parametrize(("listener", "stale"), [("CONTROLLER", 1), ("controller", 1), ("SECURE", 0)])
def test_only_the_listener_of_the_same_name_is_compared(listener: str, stale: int) -> None:
    moved = replace(registration(1), endpoints=(Endpoint(listener=listener, host="moved", port=1),))
    quorum = replace(healthy(), controllers={**healthy().controllers, moved.id: moved})

    assert len(findings(quorum, RULE)) == stale


def test_the_leaders_and_the_logs_voter_endpoints_are_both_reported() -> None:
    """An uncommitted endpoint change: DescribeQuorum has the new endpoint, the log the old one."""
    quorum = healthy()
    moved = Endpoint(listener="CONTROLLER", host="c1.test", port=19093)
    nodes = {**present(quorum.poll).nodes, registration(1).id: (moved,)}
    said = status(with_poll(quorum, nodes=nodes))

    assert said["current_voters"][0]["endpoints"] == ["CONTROLLER://c1.test:19093"]
    assert said["committed_voters"]["voters"][0]["endpoints"] == ["CONTROLLER://c1.test:9093"]
    assert said["pending_voters"]["moved"] == [1]


@pytest.mark.parametrize(("listener", "moved"), [("controller", []), ("SECURE", [1])])
def test_a_voter_whose_listener_only_has_another_case_does_not_move(listener: str, moved: list[int]) -> None:
    quorum = healthy()
    nodes = {**present(quorum.poll).nodes, registration(1).id: (replace(endpoint(1), listener=listener),)}

    assert status(with_poll(quorum, nodes=nodes))["pending_voters"]["moved"] == moved


def test_an_ipv6_address_is_in_brackets_wherever_an_endpoint_is_printed() -> None:
    quorum, at = healthy(), endpoint(1, host="fd00::1")
    voters = tuple(
        replace(one, endpoints=(at,)) if one.key.id == 1 else one for one in present(quorum.committed).voters
    )
    quorum = with_controller(with_committed(quorum, voters=voters), registration(1, at))
    shown = status(with_poll(quorum, nodes={**present(quorum.poll).nodes, registration(1).id: (at,)}))

    of_first = shown["endpoints"][0]
    replica_endpoint = next(one["endpoint"] for one in shown["replicas"] if one["node_id"] == 1)
    assert [of_first["recorded"], of_first["registered"], replica_endpoint] == ["[fd00::1]:9093"] * 3
    for of_part in ("current_voters", "committed_voters"):
        listed = shown[of_part] if of_part == "current_voters" else shown[of_part]["voters"]
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


def test_a_static_quorum_has_the_voters_of_the_polls_and_a_dynamic_one_those_of_its_record() -> None:
    script, replay = begun()
    configured = poll(*map(replica, ("1", "2", "3")), nodes={})
    static = status(apply(replay, [script.read(), script.row(configured)]))
    assert (static["mode"], static["voters"], static["committed_voters"]) == ("static", 3, None)

    script.kraft(1)
    script.voters("1-a", "2-b")
    leaders = poll(*map(replica, ("1-a", "2-b", "3-c")))
    dynamic = status(apply(replay, [script.read(), script.row(leaders)]))

    assert (dynamic["mode"], dynamic["voters"]) == ("dynamic", 2)
    recorded = dynamic["committed_voters"]["voters"]
    assert [(one["id"], one["endpoints"]) for one in recorded] == [
        (1, ["CONTROLLER://c1:9093"]),
        (2, ["CONTROLLER://c2:9093"]),
    ]


def test_a_first_directory_id_is_not_a_replaced_disk() -> None:
    """After an upgrade the voter set has only ids, and the polls have directory ids."""
    quorum = healthy()
    voters = tuple(replace(voter, key=ReplicaKey(id=voter.key.id)) for voter in present(quorum.committed).voters)

    assert finding_lines(with_committed(quorum, voters=voters)) == []

    script, replay = begun()
    script.kraft(1)
    for names in (("1-a", "2-b", "3"), ("1-a", "2-b")):
        script.voters(*names)
        apply(replay, [script.read()])
    removed = replace(poll(*map(replica, ("1-a", "2-b"))), observers=(replica("3-c"),))
    assert findings(apply(replay, [script.row(removed)]), "voter-disk-replaced") == [], "it may be the removed one"
