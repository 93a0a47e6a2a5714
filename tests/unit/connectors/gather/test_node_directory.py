from connectors.event import At, ControllerRegistered, NodeEndpoints, QuorumPolled, VotersSet
from connectors.gather.node_directory import Whereabouts
from connectors.kafka.client import Address
from connectors.kafka.messages import FetchAnswer
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.voter_set import Voter

AT = At(offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=Millis(1))


def endpoint(host: str, port: int = 9093, listener: str = "CONTROLLER") -> Endpoint:
    return Endpoint(listener=listener, host=host, port=port)


def voters(*hosts: str) -> VotersSet:
    listed = (
        Voter(key=ReplicaKey(id=NodeId(at)), endpoints=(endpoint(host), endpoint(host, 9094, "SASL")))
        for at, host in enumerate(hosts, start=1)
    )
    return VotersSet(at=AT, voters=tuple(listed))


def registered(node: int, *endpoints: Endpoint) -> ControllerRegistered:
    return ControllerRegistered(at=AT, id=NodeId(node), incarnation_id="x", endpoints=endpoints)


def polled(**nodes: str) -> QuorumPolled:
    listed = (NodeEndpoints(id=NodeId(int(id_[1:])), endpoints=(endpoint(host),)) for id_, host in nodes.items())
    return QuorumPolled(
        cluster_id=None,
        endpoint="",
        leader_id=NodeId(1),
        leader_epoch=Epoch(1),
        high_watermark=None,
        voters=(),
        observers=(),
        nodes=tuple(listed),
    )


def whereabouts(*configured: tuple[str, int]) -> Whereabouts:
    return Whereabouts(configured=tuple(Address(*one) for one in configured), cluster_id=None)


def hint(leader: int | None, *, epoch: int = 3, address: Address | None = None) -> FetchAnswer:
    return FetchAnswer(error=6, leader_id=leader, leader_epoch=epoch, leader=address)


def probed(where: Whereabouts) -> list[str]:
    return [f"{place.node}@{place.endpoint}" for place in where.places()]


def test_the_hint_tells_the_leader_and_is_remembered() -> None:
    where = whereabouts(("c1", 9093))
    assert where.heard(hint(2, address=Address("c2", 9093))) == Address("c2", 9093)
    assert where.leader_epoch == 3
    assert where.candidates() == (Address("c1", 9093), Address("c2", 9093))
    assert where.heard(hint(2)) == Address("c2", 9093), "an older Kafka names the node alone"


def test_a_leader_without_an_address_is_found_on_the_listener_we_were_given() -> None:
    where = whereabouts(("c1", 9094))
    where.learn(voters("c1", "c2"))
    assert where.leader_of(hint(2)) == Address("c2", 9094)
    assert where.leader_of(hint(None)) is None
    assert where.leader_of(hint(9)) is None


def test_each_voter_is_probed_where_the_others_dial_it() -> None:
    where = whereabouts(("c1", 9094))
    assert probed(where) == []
    where.learn(voters("c1", "c2"))
    assert probed(where) == ["1@c1:9093", "2@c2:9093"]
    where.learn(voters("c1"))
    assert probed(where) == ["1@c1:9093"], "the whole set is replaced"


def test_of_several_listeners_the_one_that_controllers_dial_is_probed() -> None:
    """A VotersRecord lists them in any order, a registration in that of controller.listener.names."""
    where = whereabouts(("c1", 9094))
    where.learn(voters("c1", "c2"))
    assert probed(where) == ["1@c1:9093", "2@c2:9093"]
    where.learn(registered(1, endpoint("c1", 9094, "SASL"), endpoint("c1")))
    assert probed(where) == ["1@c1:9094", "2@c2:9094"], "one that has not registered yet has the same listeners"


def test_a_registration_or_a_poll_is_probed_where_it_differs() -> None:
    where = whereabouts(("c1", 9093))
    where.learn(voters("c1", "c2"))
    where.learn(registered(1, endpoint("c1")))
    where.learn(registered(2, endpoint("new-c2"), endpoint("new-c2", 9094, "SASL")))
    where.learn(polled(n1="c1", n2="newer-c2"))
    assert probed(where) == ["1@c1:9093", "2@c2:9093", "2@new-c2:9093", "2@newer-c2:9093"]


def test_a_controller_that_only_waits_is_not_probed() -> None:
    where = whereabouts(("c1", 9093))
    where.learn(voters("c1"))
    where.learn(registered(7, endpoint("c7")))
    assert probed(where) == ["1@c1:9093"]


def test_a_static_quorum_is_probed_by_what_the_poll_lists() -> None:
    where = whereabouts(("c1", 9093))
    where.learn(polled(n1="c1", n2="c2"))
    assert probed(where) == ["1@c1:9093", "2@c2:9093"]
