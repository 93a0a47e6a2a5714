"""Every kind of connection failure, against real sockets: its reason and detail, without secrets."""

import logging
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from connectors.errors import ObservationError
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address
from connectors.kafka.cluster_id_lookup import describe_cluster_request, parse_describe_cluster
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.messages import describe_quorum_request, fetch_request, parse_describe_quorum
from connectors.kafka.request_pacing import MAX_REQUESTS_PER_SECOND, RateLimiter
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.monitoring import ObservationSource, Reason
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority
from tests.unit.connectors.kafka.client_settings import PASSWORD, PLAIN
from tests.unit.connectors.kafka.clients import AMPLE_MS, ask, client_of
from tests.unit.connectors.kafka.descriptors import no_descriptor_leaks
from tests.unit.connectors.kafka.fake_node import (
    FakeNode,
    answer_api_versions,
    answers_describe_cluster,
    answers_describe_quorum_v0,
    closes_after_api_versions,
    closes_connection,
    never_answers,
    read_request,
    rejects_login,
    sends_bytes,
)
from tests.unit.connectors.observation_failure import failure_of

SHORT_MS = 400
"""Timeout for a response that never arrives."""


def cluster_id(loop: EventLoop, client: Client, port: int, *, host: str = "localhost") -> str:
    request = describe_cluster_request(controllers=True)
    return parse_describe_cluster(ask(loop, client, port, request, host=host)).cluster_id


def failure(loop: EventLoop, client: Client, port: int, *, host: str = "localhost") -> ObservationError:
    problem = failure_of(lambda: cluster_id(loop, client, port, host=host))
    assert PASSWORD not in str(problem)
    return problem


def tls(authority: CertificateAuthority, **more: str) -> dict[str, str | int | bool | None]:
    return {"security_protocol": "SSL", "ssl_cafile": authority.file, **more}


@pytest.fixture
def ca(tmp_path: Path) -> CertificateAuthority:
    return authority(tmp_path / "ca")


def test_connection_is_reused_for_the_next_request(loop: EventLoop) -> None:
    node, rate_limiter = FakeNode(answers_describe_cluster(b"the-cluster")), RateLimiter()
    client = client_of(loop, {}, rate_limiter=rate_limiter)
    with node.up() as port:
        assert [cluster_id(loop, client, port) for _ in range(3)] == ["the-cluster"] * 3
    assert node.connections == 1
    assert rate_limiter.requests_sent == 4, "ApiVersions is counted too"


def test_all_addresses_of_a_name_are_asked_in_turn(loop: EventLoop) -> None:
    """Each may be another node's: one that hangs, or does not lead, is not the only one that is asked."""
    hangs, first, second = FakeNode(never_answers), *(FakeNode(answers_describe_cluster(name)) for name in (b"1", b"2"))
    addresses = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
    client = client_of(loop, {}, timeout_ms=SHORT_MS, dns=lambda _: addresses)
    with ExitStack() as up:
        port = up.enter_context(hangs.up(host=addresses[0]))
        up.enter_context(first.up(port, host=addresses[1]))
        up.enter_context(second.up(port, host=addresses[2]))
        assert failure(loop, client, port).reason is Reason.TIMED_OUT
        loop.run(lambda: loop.sleep(1.5))  # the pause after a failure
        assert [cluster_id(loop, client, port) for _ in range(2)] == ["1", "1"], "it answers: the connection is kept"
        client.ask_another(ObservationSource.QUORUM, Address("localhost", port))
        assert cluster_id(loop, client, port) == "2"


def test_a_connection_that_served_requests_and_ended_is_noted(loop: EventLoop) -> None:
    client = client_of(loop, {})
    with FakeNode(answers_describe_cluster(b"abc", most=1)).up() as port:
        address = Address("localhost", port)
        cluster_id(loop, client, port)
        since = loop.now()
        assert not client.has_ended_since(address, since)
        with suppress(ObservationError):  # Another connection is opened if the end is known before the request.
            cluster_id(loop, client, port)
        assert client.has_ended_since(address, since)
        assert not client.has_ended_since(address, loop.now())


@pytest.mark.parametrize(("known", "sent"), [((0, 1), 1), ((0, 2), 2), ((0, 9), 2)])
def test_a_poll_is_sent_in_the_newest_version_that_both_know(
    loop: EventLoop, known: tuple[int, int], sent: int
) -> None:
    versions = []

    def answers_nothing(peer: socket.socket) -> None:
        answer_api_versions(peer, {18: (0, 4), 55: known})
        versions.append(read_request(peer)[1])

    client = client_of(loop, {})
    with FakeNode(answers_nothing).up() as port:
        failure_of(lambda: ask(loop, client, port, describe_quorum_request()))

    assert versions == [sent]


def test_unsupported_request_is_reported_and_other_requests_use_the_same_connection(
    loop: EventLoop,
) -> None:
    node = FakeNode(answers_describe_quorum_v0)
    client = client_of(loop, {})
    with node.up() as port:
        unsupported = failure(loop, client, port)
        answer = ask(loop, client, port, describe_quorum_request())
    poll = parse_describe_quorum(answer, cluster_id=None, address=Address("localhost", port))

    assert unsupported.reason is Reason.UNSUPPORTED
    assert node.connections == 1
    assert (poll.leader_id, poll.leader_epoch, poll.high_watermark, poll.nodes) == (1, 7, 39, {})
    one, two = poll.voters
    assert (one.key, one.log_end_offset) == (ReplicaKey(id=NodeId(1), directory_id=None), 40)
    assert (two.log_end_offset, two.last_fetch_ms, two.last_caught_up_ms) == (None, None, None)


def test_a_fetch_without_cluster_id_and_last_fetched_epoch_is_not_sent_to_an_older_node(loop: EventLoop) -> None:
    def knows_fetch_11(peer: socket.socket) -> None:
        answer_api_versions(peer, {1: (4, 11), 18: (0, 4)})
        read_request(peer)

    client = client_of(loop, {})
    with FakeNode(knows_fetch_11).up() as port:
        problem = failure_of(lambda: ask(loop, client, port, fetch_request(cluster_id="the-cluster")))

    assert problem.reason is Reason.UNSUPPORTED


def test_refused_connection_is_reported_as_refused(loop: EventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert failure(loop, client_of(loop, {}), port).reason is Reason.REFUSED


def test_full_accept_backlog_is_reported_as_timed_out(loop: EventLoop) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port))
        assert failure(loop, client_of(loop, {}, timeout_ms=SHORT_MS), port).reason is Reason.TIMED_OUT
        for caller in callers:
            caller.close()


@pytest.mark.parametrize(
    ("behaviour", "options", "reason", "text"),
    [
        (never_answers, {}, Reason.TIMED_OUT, "in time"),
        (never_answers, PLAIN, Reason.TIMED_OUT, "in time"),
        (closes_connection, {}, Reason.CLOSED, "closed"),
        (closes_after_api_versions, {}, Reason.WRONG_PROTOCOL, "uses SASL"),
        (sends_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n"), {}, Reason.UNDECODABLE, "does not speak the Kafka protocol"),
        (sends_bytes(bytes.fromhex("15030300020250")), {}, Reason.WRONG_PROTOCOL, "uses TLS"),
        (sends_bytes(b"\0\0\0\x05\0\0\0\x01x"), {}, Reason.INVALID_RESPONSE, "ApiVersions: the response cannot"),
        (rejects_login, PLAIN, Reason.NOT_AUTHENTICATED, "rejected the login"),
        (closes_connection, {"security_protocol": "SSL"}, Reason.TLS_FAILED, "plaintext"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:30],
)
def test_each_failure_is_classified(
    loop: EventLoop,
    behaviour: object,
    options: dict[str, str | int | bool | None],
    reason: Reason,
    text: str,
) -> None:
    timeout_ms = SHORT_MS if reason is Reason.TIMED_OUT else AMPLE_MS
    with FakeNode(behaviour).up() as port:  # type: ignore[arg-type]
        problem = failure(loop, client_of(loop, options, timeout_ms=timeout_ms), port)
    assert (problem.reason, text in problem.detail) == (reason, True), problem


@pytest.mark.parametrize("times", range(5))
def test_error_message_sent_before_the_end_of_the_stream_is_never_lost(loop: EventLoop, times: int) -> None:
    with FakeNode(rejects_login).up() as port:
        assert failure(loop, client_of(loop, PLAIN), port).reason is Reason.NOT_AUTHENTICATED


@pytest.mark.parametrize(
    ("issued", "text"),
    [
        ({"host": "other.test"}, "for another host name"),
        ({"from_day": -3, "to_day": -2}, "has expired"),
        ({"from_day": 2, "to_day": 3}, "not yet valid"),
    ],
    ids=["name", "expired", "early"],
)
def test_invalid_server_certificate_is_reported_with_its_defect(
    loop: EventLoop, ca: CertificateAuthority, issued: dict[str, int | str], text: str
) -> None:
    context = ca.server(ca.issue("server", **issued))  # type: ignore[arg-type]
    with FakeNode(answers_describe_cluster(b"x"), tls=context).up() as port:
        problem = failure(loop, client_of(loop, tls(ca)), port)
    assert problem.reason is Reason.TLS_FAILED
    assert text in problem.detail


def test_certificate_of_an_unknown_authority_is_not_trusted(
    loop: EventLoop, ca: CertificateAuthority, tmp_path: Path
) -> None:
    unknown_ca = authority(tmp_path / "unknown_ca")
    with FakeNode(answers_describe_cluster(b"x"), tls=ca.server(ca.issue("server"))).up() as port:
        problem = failure(loop, client_of(loop, tls(unknown_ca)), port)
    assert (problem.reason, "not trusted" in problem.detail) == (Reason.TLS_FAILED, True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_missing_client_certificate_is_reported(
    loop: EventLoop, ca: CertificateAuthority, version: ssl.TLSVersion
) -> None:
    context = ca.server(ca.issue("server"), client_certificates=True)
    context.maximum_version = version
    with FakeNode(answers_describe_cluster(b"x"), tls=context).up() as port:
        problem = failure(loop, client_of(loop, tls(ca)), port)
        assert (problem.reason, "client certificate" in problem.detail) == (Reason.TLS_FAILED, True), problem
        client_certificate = ca.issue("client")
        assert cluster_id(loop, client_of(loop, tls(ca, ssl_certfile=client_certificate)), port) == "x"


def test_certificate_is_verified_against_the_host_name_not_the_address(
    loop: EventLoop, ca: CertificateAuthority
) -> None:
    context = ca.server(ca.issue("server", host="c1.test"))
    client = client_of(loop, tls(ca))
    with FakeNode(answers_describe_cluster(b"x"), tls=context).up() as port:
        assert cluster_id(loop, client, port, host="c1.test") == "x"
        assert failure(loop, client, port, host="c2.test").reason is Reason.TLS_FAILED


def test_unanswered_tls_handshake_times_out_and_leaks_no_descriptor(loop: EventLoop, ca: CertificateAuthority) -> None:
    """Otherwise it would wait forever, also after the node recovers."""
    with no_descriptor_leaks(), FakeNode(never_answers).up() as port:
        client = client_of(loop, tls(ca), timeout_ms=SHORT_MS)
        assert failure(loop, client, port).reason is Reason.TIMED_OUT
        client.close()


def test_failed_login_is_retried_after_a_pause(loop: EventLoop) -> None:
    """A connection at each call may lock the account."""
    node = FakeNode(rejects_login)
    client = client_of(loop, PLAIN)
    with node.up() as port:
        began = time.monotonic()
        reasons = {failure(loop, client, port).reason for _ in range(20)}
        seconds = time.monotonic() - began
    assert reasons == {Reason.NOT_AUTHENTICATED}, "the reason stays the same during the backoff"
    assert node.connections <= 1 + seconds, "retried after one second at the earliest"


def test_kafka_python_logs_nothing_at_any_verbosity(loop: EventLoop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeNode(rejects_login).up() as port:
        failure(loop, client_of(loop, PLAIN), port)
    assert not [record for record in caplog.records if record.name.startswith("kafka")]
    assert PASSWORD not in caplog.text


def test_rate_limit_holds_when_paused_nodes_resume_and_all_logins_start(loop: EventLoop) -> None:
    paused = threading.Event()

    def rejects_login_after_pause(peer: socket.socket) -> None:
        paused.wait(60)
        rejects_login(peer)

    rate_limiter = RateLimiter()
    client = client_of(loop, PLAIN, rate_limiter=rate_limiter)

    async def send_to_all(addresses: list[Address]) -> None:
        futures = [
            loop.spawn(client.send(one, describe_cluster_request(controllers=True), source=ObservationSource.LOG))
            for one in addresses
        ]
        await loop.sleep(3.8)
        paused.set()
        await loop.wait_until(lambda: all(one.done() for one in futures), futures, 60)

    with ExitStack() as nodes:
        ports = [nodes.enter_context(FakeNode(rejects_login_after_pause).up()) for _ in range(14)]
        loop.run(lambda: send_to_all([Address("localhost", port) for port in ports]))

    assert rate_limiter.requests_sent >= 3 * 10
    assert rate_limiter.busiest_second <= MAX_REQUESTS_PER_SECOND


def test_closed_client_opens_no_connection_and_drops_pending_ones(loop: EventLoop) -> None:
    client = client_of(loop, {})

    async def close_while_connecting(port: int) -> None:
        request = describe_cluster_request(controllers=True)
        pending = loop.spawn(client.send(Address("localhost", port), request, source=ObservationSource.LOG))
        await loop.sleep(0)
        client.close()
        await pending

    with FakeNode(answers_describe_cluster(b"x")).up() as port:
        with pytest.raises(ObservationError) as interrupted:
            loop.run(lambda: close_while_connecting(port))
        after_close = failure(loop, client, port)

    assert interrupted.value.detail == after_close.detail == "kraftwatch closed the connection"
    assert after_close.reason is Reason.CLOSED
