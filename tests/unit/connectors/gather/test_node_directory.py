from dataclasses import replace
from pathlib import Path

import pytest

from connectors.gather.node_directory import (
    MAX_NODES,
    KnownEndpoints,
    NodeDirectory,
    ProbeTarget,
    endpoints_json,
    stored_endpoints,
)
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.messages import FetchResult
from connectors.observations.log_event import VotersReplaced
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import ControllerRegistration, RecordPosition, Voter
from rules.model.replica import Poll
from tests.scripts import log_script
from tests.unit.connectors.store.journal_rows import poll

AT = RecordPosition(offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=Millis(1))


def endpoint(host: str, port: int = 9093, listener: str = "CONTROLLER") -> Endpoint:
    return Endpoint(listener=listener, host=host, port=port)


def voters(*hosts: str) -> VotersReplaced:
    listed = (
        Voter(key=ReplicaKey(id=NodeId(at)), endpoints=(endpoint(host), endpoint(host, 9094, "SASL")))
        for at, host in enumerate(hosts, start=1)
    )
    return VotersReplaced(at=AT, voters=tuple(listed))


def registered(node: int, *endpoints: Endpoint) -> ControllerRegistration:
    return ControllerRegistration(at=AT, id=NodeId(node), incarnation_id="x", endpoints=endpoints)


def polled(**nodes: str) -> Poll:
    return log_script.poll(nodes={NodeId(int(id_[1:])): (endpoint(host),) for id_, host in nodes.items()})


def node_directory(*configured: tuple[str, int]) -> NodeDirectory:
    return NodeDirectory(configured=tuple(Address(*one) for one in configured), cluster_id=None)


def fetch_result(leader: int | None, *, epoch: int = 3, address: Address | None = None) -> FetchResult:
    reported = None if leader is None else NodeId(leader)
    return FetchResult(
        error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=reported, leader_epoch=Epoch(epoch), leader=address
    )


def probe_targets(nodes: NodeDirectory) -> list[str]:
    return [f"{target.node}@{target.endpoint}" for target in nodes.probe_targets()]


def test_reported_leader_is_returned_and_kept() -> None:
    nodes = node_directory(("c1", 9093))
    assert nodes.update_from_fetch(fetch_result(2, address=Address("c2", 9093))) == Address("c2", 9093)
    assert nodes.leader_epoch == 3
    assert nodes.candidates() == (Address("c1", 9093), Address("c2", 9093))
    assert nodes.update_from_fetch(fetch_result(2)) == Address("c2", 9093), (
        "an older Kafka reports the node id without an address"
    )


@pytest.mark.parametrize("leader", [0, 7])
def test_a_leader_that_one_node_names_with_its_address_is_found_when_another_names_it_without(leader: int) -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_fetch(fetch_result(leader, address=Address("c7", 9093)))

    assert nodes.update_from_fetch(fetch_result(leader, epoch=4)) == Address("c7", 9093)
    assert nodes.candidates() == (Address("c1", 9093), Address("c7", 9093))


def test_address_of_a_reported_leader_is_at_the_configured_listener() -> None:
    nodes = node_directory(("c1", 9094))
    nodes.update_from_event(voters("c1", "c2"))
    assert nodes.leader_address(fetch_result(2)) == Address("c2", 9094)
    assert nodes.leader_address(fetch_result(None)) is None
    assert nodes.leader_address(fetch_result(9)) is None


def test_a_configured_ip_address_names_the_listener_by_its_port() -> None:
    nodes = node_directory(("10.0.0.1", 9094))
    nodes.update_from_event(voters("c1", "c2"))
    assert nodes.leader_address(fetch_result(2)) == Address("c2", 9094)
    assert nodes.candidates() == (Address("10.0.0.1", 9094), Address("c1", 9094), Address("c2", 9094))


def test_each_voter_is_probed_at_the_endpoint_that_voters_use() -> None:
    nodes = node_directory(("c1", 9094))
    assert probe_targets(nodes) == []
    nodes.update_from_event(voters("c1", "c2"))
    assert probe_targets(nodes) == ["1@c1:9093", "2@c2:9093"]
    nodes.update_from_event(voters("c1"))
    assert probe_targets(nodes) == ["1@c1:9093"], "the whole set is replaced"
    without = replace(voters("c1").voters[0], endpoints=())
    nodes.update_from_event(replace(voters(), voters=(without, *voters("c1", "c2").voters[1:])))
    assert probe_targets(nodes) == ["2@c2:9093"], "of a voter without endpoints there is none to probe"


def test_of_several_listeners_the_one_that_controllers_use_is_probed() -> None:
    """A VotersRecord lists them in any order, a registration in the order of controller.listener.names."""
    nodes = node_directory(("c1", 9094))
    nodes.update_from_event(voters("c1", "c2"))
    assert probe_targets(nodes) == ["1@c1:9093", "2@c2:9093"]
    nodes.update_from_event(registered(1, endpoint("c1", 9094, "SASL"), endpoint("c1")))
    assert probe_targets(nodes) == ["1@c1:9094", "2@c2:9094"], (
        "an unregistered voter is assumed to have the same listeners"
    )


def test_differing_endpoint_of_a_registration_or_poll_is_probed_too() -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(voters("c1", "c2"))
    nodes.update_from_event(registered(1, endpoint("c1")))
    nodes.update_from_event(registered(2, endpoint("new-c2"), endpoint("new-c2", 9094, "SASL")))
    nodes.update_from_event(polled(n1="c1", n2="newer-c2"))
    assert probe_targets(nodes) == ["1@c1:9093", "2@c2:9093", "2@new-c2:9093", "2@newer-c2:9093"]


def test_registered_controller_that_is_not_a_voter_is_not_probed() -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(voters("c1"))
    nodes.update_from_event(registered(7, endpoint("c7")))
    assert probe_targets(nodes) == ["1@c1:9093"]


def test_static_quorum_is_probed_at_the_polled_endpoints() -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(polled(n1="c1", n2="c2"))
    assert probe_targets(nodes) == ["1@c1:9093", "2@c2:9093"]


def test_a_node_that_polls_no_longer_list_is_not_probed_any_more() -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(polled(n1="c1", n2="c2"))
    nodes.update_from_event(polled(n1="c1"))
    assert probe_targets(nodes) == ["1@c1:9093"]


def test_a_moved_node_is_contacted_where_the_newest_poll_else_its_registration_says() -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(voters("c1", "c2"))
    for event, host in (
        (registered(2, endpoint("c2-b")), "c2-b"),
        (registered(2, endpoint("c2-c")), "c2-c"),
        (polled(n2="c2-d"), "c2-d"),
        (polled(n2="c2-e"), "c2-e"),
    ):
        nodes.update_from_event(event)
        assert nodes.leader_address(fetch_result(2)) == Address(host, 9093)
    here = Address("c2-f", 9093)
    assert nodes.leader_address(fetch_result(2, address=here)) == here, "its address in the response is the newest"


def test_another_port_of_the_same_host_is_another_endpoint() -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(voters("c1"))
    nodes.update_from_event(registered(1, endpoint("c1", 9193)))
    assert probe_targets(nodes) == ["1@c1:9093", "1@c1:9193"]


def test_the_registration_of_a_voter_that_only_polls_list_yet_is_probed() -> None:
    """The leader uses a new voter set before its VotersRecord is committed."""
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(voters("c1"))
    nodes.update_from_event(polled(n1="c1", n7="c7"))
    nodes.update_from_event(registered(7, endpoint("new-c7")))
    assert probe_targets(nodes) == ["1@c1:9093", "7@c7:9093", "7@new-c7:9093"]


def test_the_newest_registrations_are_kept() -> None:
    nodes = node_directory(("c1", 9093))
    for node in range(MAX_NODES + 1):
        nodes.update_from_event(registered(node, endpoint(f"r{node}")))
    nodes.update_from_event(registered(5, endpoint("moved")))
    known = nodes.known_endpoints.registered
    assert (known[NodeId(5)], 0 in known, MAX_NODES in known) == ((endpoint("moved"),), False, True)


def test_number_of_contacted_nodes_is_bounded_and_configured_ones_come_first() -> None:
    nodes = node_directory(("c1", 9093))
    listed = {f"n{node}": f"host-{node}" for node in range(1, 201)}
    for round_ in range(3):
        nodes.update_from_event(polled(**{node: f"{host}.{round_}" for node, host in listed.items()}))
        for node in range(200):
            nodes.update_from_event(registered(node * 3 + round_, endpoint(f"r{node}.{round_}")))
            nodes.update_from_fetch(fetch_result(node * 3 + round_, address=Address(f"l{node}.{round_}", 9093)))

    assert nodes.candidates()[0] == Address("c1", 9093)
    assert len(nodes.candidates()) == MAX_NODES
    assert Address("c1", 9093) in nodes.controllers()
    assert len(nodes.controllers()) == MAX_NODES + 1
    assert len(nodes.probe_targets()) == MAX_NODES
    assert len(nodes.known_endpoints.registered) == MAX_NODES


KNOWN = KnownEndpoints(
    voters={NodeId(1): (endpoint("c1"),)},
    registered={NodeId(1): (endpoint("c1"),), NodeId(2): (endpoint("c2"),)},
    polled={NodeId(1): (endpoint("c1"),)},
)


def test_stored_endpoints_are_read_back_and_kept_for_clusters_that_are_not_monitored_now(tmp_path: Path) -> None:
    for cluster, known in (("prod", KNOWN), ("other", KnownEndpoints())):
        with JournalWriter(tmp_path) as writer:
            writer.note_endpoints({cluster: endpoints_json().dump_json(known).decode()})
            writer.append([poll()])

    assert {name: stored_endpoints(text) for name, text in JournalReader(tmp_path).endpoints().items()} == {
        "prod": KNOWN,
        "other": KnownEndpoints(),
    }
    with JournalWriter(tmp_path) as writer:
        assert stored_endpoints(writer.endpoints("prod")) == KNOWN
        assert writer.endpoints("absent") is None


def test_damaged_or_missing_endpoints_are_unknown() -> None:
    assert stored_endpoints("{") == stored_endpoints('{"voters": 1}') == stored_endpoints(None) == KnownEndpoints()


def test_restarted_gatherer_probes_the_cached_voters_at_once() -> None:
    nodes = NodeDirectory(configured=(), cluster_id=None, known_endpoints=KNOWN)

    assert nodes.probe_targets() == (ProbeTarget(node=NodeId(1), endpoint=endpoint("c1")),)
    assert nodes.known_endpoints == KNOWN


def test_endpoints_to_store_are_the_same_object_until_one_changes() -> None:
    nodes = node_directory(("c1", 9093))
    nodes.update_from_event(polled(n1="c1"))
    known = nodes.known_endpoints
    nodes.update_from_event(polled(n1="c1"))
    assert nodes.known_endpoints is known
    for change in (polled(n1="moved"), voters("c1"), registered(1, endpoint("c1"))):
        nodes.update_from_event(change)
        assert nodes.known_endpoints is not known
        known = nodes.known_endpoints
