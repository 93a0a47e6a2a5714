"""The results of the endpoint probe, against real sockets."""

import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.consumer import FetchRequest

from connectors.errors import ObservationError
from connectors.gather import endpoint_probe
from connectors.gather.endpoint_probe import EndpointProbe
from connectors.gather.node_directory import KnownEndpoints, NodeDirectory
from connectors.kafka.client import Client
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from rules.model.identifiers import Endpoint, NodeId
from rules.model.monitoring import CertificateFault, ConnectionResult, Probe, ProbeAnswer, Reason, Resolution
from tests.eventually import eventually
from tests.unit.connectors.gather.scripted_cluster import RecordedOutput, run_until
from tests.unit.connectors.kafka.certificates import authority
from tests.unit.connectors.kafka.clients import client_of
from tests.unit.connectors.kafka.descriptors import no_descriptor_left
from tests.unit.connectors.kafka.fake_node import (
    Behaviour,
    FakeNode,
    answers_versions_alone,
    closes_connection,
    never_answers,
    rejects_login,
    sends_bytes,
)
from tests.unit.connectors.kafka.kafka_answers import fetch_answer


class ProbeRunner:
    """Probes one voter's endpoint."""

    def __init__(self, loop: EventLoop) -> None:
        self.loop = loop
        self.output = RecordedOutput()

    def __call__(self, port: int, *, count: int = 1, **more: Any) -> Probe:
        """Returns the last one of this many probes."""
        self.until(lambda: len(self.output.probes) >= count, port, **more)
        return self.output.probes[-1]

    def until(
        self,
        condition: Callable[[], bool],
        port: int,
        *,
        interval_ms: int = 50,
        options: Mapping[str, str] | None = None,
        cluster_id: str | None = "the-cluster",
        **more: Any,
    ) -> None:
        client = client_of(self.loop, options or {}, **more)
        endpoint = Endpoint(listener="CONTROLLER", host="c1.test", port=port)
        nodes = NodeDirectory(
            configured=(),
            cluster_id=cluster_id,
            known_endpoints=KnownEndpoints(voters={NodeId(1): (endpoint,)}),
        )
        task = EndpointProbe(client, nodes).run(self.output, interval_ms=interval_ms)  # type: ignore[arg-type]
        run_until(self.loop, task, condition, within_s=60)


@pytest.fixture
def run_probe(loop: EventLoop) -> ProbeRunner:
    return ProbeRunner(loop)


def test_unresolvable_name_is_a_probe_result_and_no_failure(run_probe: ProbeRunner) -> None:
    def not_found(host: str) -> tuple[str, ...]:
        raise ObservationError(Reason.UNRESOLVABLE, host)

    output = run_probe(1, dns=not_found)
    assert (output.resolution, output.connection, output.addresses) == (
        Resolution.NAME_NOT_FOUND,
        ConnectionResult.NOT_TRIED,
        (),
    )
    assert run_probe.output.failures == []


def test_resolver_failure_is_recorded_as_a_failed_observation(run_probe: ProbeRunner) -> None:
    def failing(host: str) -> tuple[str, ...]:
        raise ObservationError(Reason.RESOLVER_FAILED, host)

    assert run_probe(1, dns=failing).resolution is Resolution.RESOLVER_FAILED
    assert run_probe.output.failures[0].reason is Reason.RESOLVER_FAILED
    assert run_probe.output.failures[0].node == 1


def test_refused_connection_is_a_probe_result(run_probe: ProbeRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    output = run_probe(port)
    assert (output.resolution, output.addresses) == (Resolution.RESOLVED, ("127.0.0.1",))
    assert (output.connection, output.answer) == (ConnectionResult.REFUSED, ProbeAnswer.NOT_ASKED)


def test_an_endpoint_that_accepts_connections_for_a_moment_is_met_between_two_probes(run_probe: ProbeRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    def listens_for_a_moment() -> None:
        time.sleep(0.5)
        with socket.create_server(("127.0.0.1", port)):
            time.sleep(0.2)

    def found() -> list[ConnectionResult]:
        return [one.connection for one in run_probe.output.probes]

    starts = Thread(target=listens_for_a_moment)
    starts.start()
    run_probe.until(lambda: len(found()) == 3, port, interval_ms=60_000)
    starts.join()
    assert found() == [ConnectionResult.REFUSED, ConnectionResult.ACCEPTED, ConnectionResult.REFUSED]
    assert [one.answer for one in run_probe.output.probes] == [
        ProbeAnswer.NOT_ASKED,
        ProbeAnswer.NO_ANSWER,
        ProbeAnswer.NOT_ASKED,
    ]


def test_an_endpoint_that_has_refused_connections_for_long_is_only_probed(
    run_probe: ProbeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_probe, "_AGAIN_FOR_S", 0.05)
    attempts = 0

    async def refused(*_: object, **__: object) -> Any:
        nonlocal attempts
        attempts += 1
        raise ObservationError(Reason.REFUSED, "refused")

    monkeypatch.setattr(endpoint_probe, "connect", refused)
    run_probe.until(lambda: len(run_probe.output.probes) == 4, 1, interval_ms=500)

    assert 4 < attempts <= 4 + 4, "the first probe alone is followed by more attempts, four in half a second"


def test_what_starts_at_an_endpoint_is_identified_before_the_next_probe(run_probe: ProbeRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    def starts() -> None:
        time.sleep(0.5)
        with FakeNode(sends_bytes(b"SSH-2.0-OpenSSH_9.2\r\n")).up(port):
            time.sleep(1)

    thread = Thread(target=starts)
    thread.start()
    run_probe.until(lambda: len(run_probe.output.probes) == 2, port, interval_ms=60_000)
    thread.join()
    assert [one.answer for one in run_probe.output.probes] == [ProbeAnswer.NOT_ASKED, ProbeAnswer.NOT_KAFKA]


@pytest.mark.parametrize(
    ("behaviour", "answer"),
    [
        (never_answers, ProbeAnswer.NO_ANSWER),
        (answers_versions_alone, ProbeAnswer.LATE),
        (closes_connection, ProbeAnswer.NO_ANSWER),
        (sends_bytes(b"SSH-2.0-OpenSSH_9.2\r\n"), ProbeAnswer.NOT_KAFKA),
        (sends_bytes(bytes.fromhex("15030300020250")), ProbeAnswer.NOT_ALLOWED),
    ],
    ids=["never_answers", "answers_versions_alone", "closes_connection", "ssh", "tls"],
)
def test_listener_that_does_not_answer_as_kafka_is_classified(
    run_probe: ProbeRunner, behaviour: Behaviour, answer: ProbeAnswer
) -> None:
    with FakeNode(behaviour).up() as port:
        output = run_probe(port, timeout_ms=300 if answer in (ProbeAnswer.NO_ANSWER, ProbeAnswer.LATE) else 60_000)
    assert (output.connection, output.answer) == (ConnectionResult.ACCEPTED, answer)


@pytest.mark.parametrize(
    ("days", "host", "fault"),
    [
        ((-2, 20), "c1.test", None),
        ((-20, -2), "c1.test", CertificateFault.EXPIRED),
        ((2, 20), "c1.test", CertificateFault.NOT_YET_VALID),
        ((-2, 20), "c9.test", CertificateFault.WRONG_HOST),
        ((-2, 20), None, CertificateFault.UNTRUSTED),
    ],
    ids=str,
)
def test_presented_certificate_is_recorded_with_its_dates_and_fault(
    run_probe: ProbeRunner, tmp_path: Path, days: tuple[int, int], host: str | None, fault: CertificateFault | None
) -> None:
    trusted, other = authority(tmp_path / "trusted"), authority(tmp_path / "other")
    issuer = other if host is None else trusted
    file = issuer.issue("node", host=host or "c1.test", from_day=days[0], to_day=days[1])
    # A login that is rejected comes after the handshake.
    with FakeNode(rejects_login, tls=issuer.server(file)).up() as port:
        tls = {"security_protocol": "SASL_SSL", "ssl_cafile": trusted.file}
        login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "a", "sasl_plain_password": "b"}
        output = run_probe(port, options={**tls, **login})

    certificate = output.certificate
    assert output.answer is ProbeAnswer.NOT_ALLOWED
    assert certificate is not None
    assert (certificate.fault, certificate.verified) == (fault, fault is None)
    now = time.time() * 1000
    assert [round(((at or 0) - now) / 86_400_000) for at in (certificate.valid_from_ms, certificate.expires_at_ms)] == [
        *days
    ]
    assert (certificate.key, certificate.usages) == ("EC secp256r1", ("client", "server"))
    # Its file has the authority's certificate too, and all of it is sent.
    assert certificate.chain == (str(certificate.authority).partition(" (key")[0],)
    assert (certificate.suite or "").startswith("TLSv1.3 ")


def test_probe_between_two_identifications_only_connects(run_probe: ProbeRunner) -> None:
    node = FakeNode(rejects_login)
    with node.up() as port:
        run_probe(port, count=4)
        # Each probe connects again; the node is identified once. It may accept the last one later.
        eventually(lambda: node.connections >= 4 + 1, within_s=5)
    assert len({probe.answer for probe in run_probe.output.probes}) == 1


def test_a_probe_between_two_identifications_has_the_addresses_in_their_present_order(run_probe: ProbeRunner) -> None:
    def lookup(_: str) -> tuple[str, ...]:
        addresses = ("127.0.0.1", "127.0.0.2")
        return addresses if len(run_probe.output.probes) < 3 else addresses[::-1]

    with FakeNode(rejects_login).up() as port:
        assert run_probe(port, count=4, dns=lookup).addresses == ("127.0.0.2", "127.0.0.1")


@pytest.mark.parametrize(("ended", "identified"), [(False, 1), (True, 4)])
def test_a_node_is_identified_again_when_a_connection_to_it_has_ended(
    run_probe: ProbeRunner, monkeypatch: pytest.MonkeyPatch, ended: bool, identified: int
) -> None:
    """Its process may be another one, with another certificate, role or list of voters."""
    sent: list[Any] = []

    async def send(_: Client, __: object, request: Any, **___: object) -> Any:
        sent.append(request)
        raise ObservationError(Reason.WRONG_CLUSTER, "")

    monkeypatch.setattr(Client, "send", send)
    monkeypatch.setattr(Client, "has_ended_since", lambda *_: ended)
    with FakeNode(never_answers).up() as port:
        run_probe(port, count=4)
    assert len(sent) == identified


def assert_connections(node: FakeNode, count: int) -> None:
    """Each probe connects; the first two also identify the node, which may accept the last connection later."""
    assert node.connections == count


def test_inconclusive_answer_is_asked_for_again_at_once_and_then_after_a_pause(run_probe: ProbeRunner) -> None:
    node = FakeNode(closes_connection)
    with node.up() as port:
        run_probe(port, count=4, interval_ms=1_000)  # longer than the pause after a failed connection
        eventually(lambda: assert_connections(node, 4 + 2), within_s=10)
    assert {probe.answer for probe in run_probe.output.probes} == {ProbeAnswer.NO_ANSWER}


@pytest.mark.parametrize(
    ("cluster_id", "node", "answer", "answered_by"),
    [
        ("another", 1, ProbeAnswer.OTHER_CLUSTER, None),
        ("the-cluster", 2, ProbeAnswer.OTHER_NODE, 2),
        ("the-cluster", 0, ProbeAnswer.OTHER_NODE, 0),
        ("the-cluster", 1, ProbeAnswer.THIS_CLUSTER, 1),
    ],
)
def test_what_answers_is_identified_by_its_cluster_id_and_node_id(
    run_probe: ProbeRunner,
    monkeypatch: pytest.MonkeyPatch,
    cluster_id: str,
    node: int,
    answer: ProbeAnswer,
    answered_by: int | None,
) -> None:
    async def send(_: Client, __: object, request: Any, **___: object) -> Any:
        if isinstance(request, FetchRequest):
            return fetch_answer(top=0 if request.cluster_id == cluster_id else ErrorCode.INCONSISTENT_CLUSTER_ID)
        asked = request.resources[0].resource_name
        why = None if asked == str(node) else f"Unexpected broker id, expected {node} but received {asked}"
        result = DescribeConfigsResponse.DescribeConfigsResult(error_code=42 if why else 0, error_message=why)
        return DescribeConfigsResponse(results=[result])

    monkeypatch.setattr(Client, "send", send)
    with FakeNode(closes_connection).up() as port:
        probe = run_probe(port)
    assert (probe.answer, probe.answered_by) == (answer, answered_by)


def test_a_node_is_of_no_known_cluster_while_the_cluster_id_is_unknown(
    run_probe: ProbeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(_: Client, __: object, request: Any, **___: object) -> Any:
        assert request.cluster_id is None, "a null cluster id is not checked"
        return fetch_answer()

    monkeypatch.setattr(Client, "send", send)
    with FakeNode(never_answers).up() as port:
        output = run_probe(port, cluster_id=None)
    assert (output.connection, output.answer) == (ConnectionResult.ACCEPTED, ProbeAnswer.NOT_ASKED)


def test_missing_file_descriptor_is_recorded_and_not_blamed_on_the_endpoint(run_probe: ProbeRunner) -> None:
    output, port = run_probe.output, 9093

    def is_recorded() -> bool:
        take_freed()
        if not output.failures:
            output.probes.clear()
        return bool(output.failures)

    with no_descriptor_left() as take_freed:
        run_probe.until(is_recorded, port)
    (failed, *_) = output.failures
    assert (failed.reason, failed.detail) == (
        Reason.TOO_FEW_DESCRIPTORS,
        f"127.0.0.1:{port}: this process has no file descriptor left for a socket: raise its limit "
        "(ulimit -n, LimitNOFILE) (EMFILE)",
    )
    assert output.probes == []
