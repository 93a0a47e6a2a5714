"""The first contact with a cluster: wrong settings reach one node, and what is down does not hold up the others."""

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from connectors.errors import ObservationError
from connectors.gather.connectivity_check import check_connectivity
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.cluster_id_lookup import describe_cluster_request, identify
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.protocol_gate import ProtocolGate
from connectors.kafka.request_pacing import WRONG_PROTOCOL_S, AddressBackoff
from rules.model.monitoring import ObservationSource, Reason
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, GathererRun, run_gatherer
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority
from tests.unit.connectors.kafka.clients import client_of
from tests.unit.connectors.kafka.fake_node import (
    FakeNode,
    answer_api_versions,
    answers_describe_cluster,
    closes_after_api_versions,
    never_answers,
    read_request,
    send,
    sends_bytes,
)

Options = Mapping[str, str | int | bool | None]
TLS: Options = {"security_protocol": "SSL"}
PLAIN: Options = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "monitor",
    "sasl_plain_password": "secret",
}
_LARGEST_REQUEST = 100 * 1024 * 1024


@dataclass
class PlaintextController:
    """A plaintext listener: the length that it reads of a TLS ClientHello is 369 MB."""

    hellos: int = 0
    without_tls: int = 0
    """Connections with a request in plaintext."""

    def __post_init__(self) -> None:
        self._node = FakeNode(self._serve)

    def up(self) -> AbstractContextManager[int]:
        return self._node.up()

    def _serve(self, peer: socket.socket) -> None:
        if (first := peer.recv(4, socket.MSG_PEEK)) == b"":
            return
        if struct.unpack(">i", first)[0] <= _LARGEST_REQUEST:
            self.without_tls += 1
            answers_describe_cluster(b"the-cluster")(peer)
        self.hellos += 1


@dataclass
class Nodes:
    """Nodes on loopback."""

    ports: list[int]

    @property
    def addresses(self) -> list[Address]:
        return [Address("127.0.0.1", port) for port in self.ports]

    def cluster(self, options: Options) -> ClusterConnection:
        return ClusterConnection(
            name="a",
            bootstrap=tuple(("127.0.0.1", port) for port in self.ports),
            options=options,
            request_timeout_ms=3_000,
        )


@contextmanager
def up(nodes: Sequence[PlaintextController | FakeNode]) -> Iterator[Nodes]:
    with ExitStack() as opened:
        yield Nodes([opened.enter_context(node.up()) for node in nodes])


def outcomes(loop: EventLoop, client: Client, addresses: Sequence[Address]) -> list[Reason | None]:
    """Sends a request of each source to all nodes at once; returns the reasons of the failures, by address."""

    async def one(address: Address, source: ObservationSource) -> Reason | None:
        try:
            await client.send(address, describe_cluster_request(controllers=True), source=source)
        except ObservationError as problem:
            return problem.reason
        return None

    return loop.run(lambda: loop.gather(one(each, source) for source in ObservationSource for each in addresses))


def test_no_tls_handshake_reaches_controllers_without_tls_and_one_of_them_gets_one_request(loop: EventLoop) -> None:
    controllers = [PlaintextController() for _ in range(3)]
    with up(controllers) as nodes:
        client = client_of(loop, TLS, timeout_ms=3_000)
        assert set(outcomes(loop, client, nodes.addresses)) == {Reason.WRONG_PROTOCOL}
        assert set(outcomes(loop, client, nodes.addresses)) == {Reason.WRONG_PROTOCOL}

    assert [one.hellos for one in controllers] == [0, 0, 0]
    assert sum(one.without_tls for one in controllers) == 1


def test_neither_the_look_up_of_the_cluster_id_nor_the_doctor_sends_a_tls_handshake() -> None:
    controllers = [PlaintextController() for _ in range(3)]
    with up(controllers) as nodes:
        with pytest.raises(ObservationError) as problem:
            identify(nodes.cluster(TLS), 10)
        checks = check_connectivity(nodes.cluster(TLS))

    assert problem.value.reason is Reason.WRONG_PROTOCOL
    assert "security_protocol" in problem.value.detail
    assert {one.failure[1].reason for one in checks if one.failure is not None} == {Reason.WRONG_PROTOCOL}
    assert [one.hellos for one in controllers] == [0, 0, 0]
    assert sum(one.without_tls for one in controllers) == 2, "one request each"


def test_a_gatherer_sends_no_tls_handshake_to_such_controllers_also_when_it_is_started_again(tmp_path: Path) -> None:
    controllers = [PlaintextController() for _ in range(3)]
    with up(controllers) as nodes:
        cluster = replace(nodes.cluster(TLS), name=NAME)
        for start in (1, 2):
            with run_gatherer(tmp_path, cluster) as gatherer:

                def every_address_is_reported(gatherer: GathererRun = gatherer, start: int = start) -> None:
                    polled = [one for _, one in gatherer.failures() if one.reason is Reason.WRONG_PROTOCOL]
                    assert {one.endpoint for one in polled} == {str(each) for each in nodes.addresses}
                    assert len(polled) > start * 10

                eventually(every_address_is_reported, within_s=60)
            assert sum(one.without_tls for one in controllers) == start

    assert [one.hellos for one in controllers] == [0, 0, 0]


def _has_no_sasl(peer: socket.socket) -> None:
    """A listener without SASL: it answers SaslHandshake with ILLEGAL_SASL_STATE."""
    answer_api_versions(peer)
    _, _, correlation = read_request(peer)
    send(peer, correlation, struct.pack(">hi", 34, 0), flexible=False)
    never_answers(peer)


@pytest.mark.parametrize(
    ("behaviour", "options", "text"),
    [
        (sends_bytes(bytes.fromhex("15030300020250")), {}, "uses TLS, but security_protocol does not"),
        (_has_no_sasl, PLAIN, "does not use SASL, but security_protocol does"),
        (closes_after_api_versions, {}, "uses SASL, but security_protocol does not"),
        (sends_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n"), TLS, "does not use TLS, but security_protocol does"),
    ],
    ids=["tls", "no-sasl", "sasl", "no-tls"],
)
def test_what_shows_another_protocol_is_not_tried_at_the_other_nodes(
    loop: EventLoop, behaviour: object, options: Options, text: str
) -> None:
    doubles = [FakeNode(behaviour) for _ in range(3)]  # type: ignore[arg-type]
    with up(doubles) as nodes:
        client = client_of(loop, options)
        assert set(outcomes(loop, client, nodes.addresses)) == {Reason.WRONG_PROTOCOL}
        contacts = [one.connections for one in doubles]
        assert len([count for count in contacts if count]) == 1
        assert set(outcomes(loop, client, [*nodes.addresses, Address("127.0.0.1", 1)])) == {Reason.WRONG_PROTOCOL}
        with pytest.raises(ObservationError) as problem:
            loop.run(lambda: client.send(nodes.addresses[2], None, source=ObservationSource.PROBE))

    assert [one.connections for one in doubles] == contacts, "also not at addresses that are learned later"
    assert text in problem.value.detail
    assert "no node gets a request for 5 minutes" in problem.value.detail


def test_nodes_that_are_down_do_not_hold_up_the_one_that_answers(loop: EventLoop) -> None:
    hanging, answering = FakeNode(never_answers), FakeNode(answers_describe_cluster(b"x"))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = Address("127.0.0.1", closed.getsockname()[1])
    with up([hanging, answering]) as nodes:
        client = client_of(loop, {})
        first, *_ = nodes.addresses

        async def answered_after() -> float:
            for each in (refusing, Address("no.such.host", 1), first):
                loop.spawn(client.send(each, describe_cluster_request(controllers=True), source=ObservationSource.LOG))
            began = loop.now()
            await client.send(
                nodes.addresses[1], describe_cluster_request(controllers=True), source=ObservationSource.QUORUM
            )
            return loop.now() - began

        assert loop.run(answered_after) < 10


@pytest.fixture
def ca(tmp_path: Path) -> CertificateAuthority:
    return authority(tmp_path / "ca")


def test_a_tls_cluster_is_observed_although_its_first_node_hangs(loop: EventLoop, ca: CertificateAuthority) -> None:
    hanging = FakeNode(never_answers)
    others = [FakeNode(answers_describe_cluster(b"x"), tls=ca.server(ca.issue("server"))) for _ in range(2)]
    with up([hanging, *others]) as nodes:
        client = client_of(loop, {**TLS, "ssl_cafile": ca.file}, timeout_ms=3_000)
        addresses = [Address("localhost", port) for port in nodes.ports]
        reasons = outcomes(loop, client, addresses)

    assert reasons[1:3] == [None, None]
    assert reasons[0] is Reason.TIMED_OUT


def test_one_node_of_a_tls_cluster_gets_one_request_without_tls(loop: EventLoop, ca: CertificateAuthority) -> None:
    doubles = [FakeNode(answers_describe_cluster(b"x"), tls=ca.server(ca.issue("server"))) for _ in range(3)]
    with up(doubles) as nodes:
        client = client_of(loop, {**TLS, "ssl_cafile": ca.file})
        assert set(outcomes(loop, client, [Address("localhost", port) for port in nodes.ports])) == {None}

    assert sum(one.connections for one in doubles) == 3 * len(ObservationSource) + 1


def test_one_node_that_uses_another_protocol_is_contacted_again_only_after_minutes(
    loop: EventLoop, ca: CertificateAuthority
) -> None:
    other = PlaintextController()
    proper = FakeNode(answers_describe_cluster(b"x"), tls=ca.server(ca.issue("server")))
    with up([proper, other]) as nodes:
        client = client_of(loop, {**TLS, "ssl_cafile": ca.file})
        first, second = (Address("localhost", port) for port in nodes.ports)
        assert set(outcomes(loop, client, [first])) == {None}
        assert Reason.WRONG_PROTOCOL in outcomes(loop, client, [second])
        contacts = other.hellos, other.without_tls
        assert set(outcomes(loop, client, [second, first])[::2]) == {Reason.WRONG_PROTOCOL}

    assert (other.hellos, other.without_tls) == contacts
    assert other.hellos <= len(ObservationSource), "those under way when the first one failed"


def test_a_wrong_protocol_is_remembered_for_minutes_and_then_tried_again(simulated_time_loop: EventLoop) -> None:
    loop = simulated_time_loop
    gate, address = ProtocolGate(loop), Address("c1", 9093)

    async def run() -> list[bool]:
        gate.fail(address, ObservationError(Reason.WRONG_PROTOCOL, "it uses TLS"))
        closed = [gate.problem() is not None]
        await loop.sleep(WRONG_PROTOCOL_S - 1)
        closed.append(gate.problem() is not None)
        await loop.sleep(2)
        return [*closed, gate.problem() is not None]

    assert loop.run(run) == [True, True, False]


def test_an_address_with_another_protocol_is_backed_off_for_minutes() -> None:
    now_s = [0.0]
    backoff = AddressBackoff(lambda: now_s[0])
    backoff.fail(("c1", 9093), ObservationError(Reason.WRONG_PROTOCOL, "no TLS"))
    now_s[0] = WRONG_PROTOCOL_S - 1
    assert backoff.problem(("c1", 9093)) is not None
    now_s[0] = WRONG_PROTOCOL_S + 1
    assert backoff.problem(("c1", 9093)) is None


def test_a_node_that_is_being_stopped_is_asked_again_within_seconds(loop: EventLoop) -> None:
    """It closes each connection after ApiVersions, as a listener that uses SASL does."""
    answering, stopping = FakeNode(answers_describe_cluster(b"x")), FakeNode(closes_after_api_versions)
    with up([answering, stopping]) as nodes:
        client = client_of(loop, {})
        request = describe_cluster_request(controllers=True)
        loop.run(lambda: client.send(nodes.addresses[0], request, source=ObservationSource.QUORUM))

        def asked_again() -> None:
            with pytest.raises(ObservationError) as problem:
                loop.run(lambda: client.send(nodes.addresses[1], request, source=ObservationSource.QUORUM))
            assert problem.value.reason is Reason.NOT_AUTHENTICATED
            assert stopping.connections >= 3

        eventually(asked_again, within_s=5)
