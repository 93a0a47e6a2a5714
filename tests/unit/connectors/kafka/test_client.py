"""Every way a node can fail us, against real sockets: each with its reason, its words, and no secret in them."""

import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError, UsageError
from connectors.event import QuorumPolled
from connectors.kafka.client import Address, Client
from connectors.kafka.cluster_id_lookup import cluster_described, describe_cluster
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import hush
from connectors.kafka.messages import describe_quorum, quorum_described
from connectors.kafka.rate_limiter import CEILING, Budget
from connectors.kafka.resolver import Resolver
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.monitoring import ObservationSource, Reason
from tests.eventually import eventually
from tests.unit.connectors.kafka.certificates import Authority, authority
from tests.unit.connectors.kafka.fake_node import (
    FakeNode,
    answer_api_versions,
    closing,
    closing_after_api_versions,
    describing_cluster,
    describing_quorum_v0,
    read_request,
    refusing_login,
    saying,
    silent,
)

PASSWORD = "never-to-be-seen"
PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "monitor",
    "sasl_plain_password": PASSWORD,
}


AMPLE_MS = 60_000
"""For an answer that comes, however busy the machine is."""
SHORT_MS = 400
"""For one that does not come."""

_OPEN: list[Client] = []


@pytest.fixture(autouse=True)
def _closed(loop: Loop) -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def client_of(
    loop: Loop,
    options: Mapping[str, str | int | bool | None],
    *,
    timeout_ms: int = AMPLE_MS,
    budget: Budget | None = None,
) -> Client:
    cluster = Cluster(name="a", bootstrap=(("localhost", 1),), options=options, request_timeout_ms=timeout_ms)
    resolver = Resolver(loop, resolve={}, hosts_file=None, dns=lambda _: ("127.0.0.1",))
    client = Client(loop, cluster, resolver=resolver, budget=budget or Budget())
    _OPEN.append(client)
    return client


def ask(loop: Loop, client: Client, port: int, *, host: str = "localhost") -> str:
    async def once() -> str:
        request = describe_cluster(controllers=True)
        return cluster_described(
            await client.ask(Address(host, port), request, lane=ObservationSource.QUORUM)
        ).cluster_id

    return loop.run(once)


def failure(loop: Loop, client: Client, port: int, *, host: str = "localhost") -> UnseenError:
    with pytest.raises(UnseenError) as problem:
        ask(loop, client, port, host=host)
    assert PASSWORD not in str(problem.value)
    return problem.value


def tls(authority: Authority, **more: str) -> dict[str, str | int | bool | None]:
    return {"security_protocol": "SSL", "ssl_cafile": authority.file, **more}


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ca")


def test_an_answer_is_an_answer_and_the_connection_is_kept(loop: Loop) -> None:
    node, budget = FakeNode(describing_cluster(b"the-cluster")), Budget()
    client = client_of(loop, {}, budget=budget)
    with node.up() as port:
        assert [ask(loop, client, port) for _ in range(3)] == ["the-cluster"] * 3
    assert node.connections == 1
    assert budget.requests_sent == 4, "ApiVersions is counted too"


@pytest.mark.kip("A097", "D085")
def test_what_an_older_kafka_does_not_know_is_said_and_the_rest_is_answered_on_the_same_connection(loop: Loop) -> None:
    node = FakeNode(describing_quorum_v0)
    client = client_of(loop, {})
    with node.up() as port:
        address = Address("localhost", port)

        async def polled() -> QuorumPolled:
            answer = await client.ask(address, describe_quorum(), lane=ObservationSource.QUORUM)
            return quorum_described(answer, cluster_id=None, address=address)

        unknown = failure(loop, client, port)
        poll = loop.run(polled)

    assert unknown.reason is Reason.UNSUPPORTED
    assert node.connections == 1
    assert (poll.leader_id, poll.leader_epoch, poll.high_watermark, poll.nodes) == (1, 7, 39, ())
    one, two = poll.voters
    assert (one.key, one.log_end_offset) == (ReplicaKey(id=NodeId(1), directory_id=None), 40)
    assert (two.log_end_offset, two.last_fetch_ms, two.last_caught_up_ms) == (None, None, None)


def test_refused(loop: Loop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert failure(loop, client_of(loop, {}), port).reason is Reason.REFUSED


def test_a_full_backlog_is_nobody_there(loop: Loop) -> None:
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
    ("behaviour", "options", "reason", "words"),
    [
        (silent, {}, Reason.TIMED_OUT, "in time"),
        (silent, PLAIN, Reason.TIMED_OUT, "in time"),
        (closing, {}, Reason.CLOSED, "closed"),
        (closing_after_api_versions, {}, Reason.NOT_AUTHENTICATED, "SASL"),
        (saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), {}, Reason.UNDECODABLE, "does not speak Kafka"),
        (saying(bytes.fromhex("15030300020250")), {}, Reason.TLS_FAILED, "speaks TLS"),
        (saying(b"\0\0\0\x05\0\0\0\x01x"), {}, Reason.UNDECODABLE, "cannot be decoded"),
        (refusing_login, PLAIN, Reason.NOT_AUTHENTICATED, "refused our login"),
        (closing, {"security_protocol": "SSL"}, Reason.TLS_FAILED, "plaintext"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:30],
)
def test_each_failure_has_its_reason(
    loop: Loop,
    behaviour: object,
    options: dict[str, str | int | bool | None],
    reason: Reason,
    words: str,
) -> None:
    timeout_ms = SHORT_MS if reason is Reason.TIMED_OUT else AMPLE_MS
    with FakeNode(behaviour).up() as port:  # type: ignore[arg-type]
        problem = failure(loop, client_of(loop, options, timeout_ms=timeout_ms), port)
    assert (problem.reason, words in problem.detail) == (reason, True), problem


@pytest.mark.parametrize("times", range(5))
def test_the_words_before_the_end_of_the_stream_are_never_lost(loop: Loop, times: int) -> None:
    """Stock kafka-python says "socket disconnected" to most wrong passwords."""
    with FakeNode(refusing_login).up() as port:
        assert failure(loop, client_of(loop, PLAIN), port).reason is Reason.NOT_AUTHENTICATED


@pytest.mark.parametrize(
    ("issued", "words"),
    [
        ({"host": "other.test"}, "for another host name"),
        ({"from_day": -3, "to_day": -2}, "has expired"),
        ({"from_day": 2, "to_day": 3}, "not yet valid"),
    ],
    ids=["name", "expired", "early"],
)
def test_a_certificate_says_what_is_wrong_with_it(
    loop: Loop, ca: Authority, issued: dict[str, int | str], words: str
) -> None:
    context = ca.server(ca.issue("server", **issued))  # type: ignore[arg-type]
    with FakeNode(describing_cluster(b"x"), tls=context).up() as port:
        problem = failure(loop, client_of(loop, tls(ca)), port)
    assert problem.reason is Reason.TLS_FAILED
    assert words in problem.detail


def test_a_strange_authority_is_not_trusted(loop: Loop, ca: Authority, tmp_path: Path) -> None:
    strange = authority(tmp_path / "strange")
    with FakeNode(describing_cluster(b"x"), tls=ca.server(ca.issue("server"))).up() as port:
        problem = failure(loop, client_of(loop, tls(strange)), port)
    assert (problem.reason, "not trusted" in problem.detail) == (Reason.TLS_FAILED, True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_missing_client_certificate_is_named(loop: Loop, ca: Authority, version: ssl.TLSVersion) -> None:
    context = ca.server(ca.issue("server"), client_certificates=True)
    context.maximum_version = version
    with FakeNode(describing_cluster(b"x"), tls=context).up() as port:
        problem = failure(loop, client_of(loop, tls(ca)), port)
        assert (problem.reason, "client certificate" in problem.detail) == (Reason.TLS_FAILED, True), problem
        ours = ca.issue("client")
        assert ask(loop, client_of(loop, tls(ca, ssl_certfile=ours)), port) == "x"


def test_the_name_is_checked_whatever_address_it_leads_to(loop: Loop, ca: Authority) -> None:
    context = ca.server(ca.issue("server", host="c1.test"))
    client = client_of(loop, tls(ca))
    with FakeNode(describing_cluster(b"x"), tls=context).up() as port:
        assert ask(loop, client, port, host="c1.test") == "x"
        assert failure(loop, client, port, host="c2.test").reason is Reason.TLS_FAILED


def test_a_silent_tls_handshake_ends_by_its_deadline_and_leaks_nothing(loop: Loop, ca: Authority) -> None:
    """Stock kafka-python waits for ever, and after the peer is back still does."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    with FakeNode(silent).up() as port:
        client = client_of(loop, tls(ca), timeout_ms=SHORT_MS)
        assert failure(loop, client, port).reason is Reason.TIMED_OUT
        client.close()

    def nothing_is_left() -> None:
        assert len(list(Path("/proc/self/fd").iterdir())) <= before

    eventually(nothing_is_left, within_s=5)


def test_a_certificate_file_that_is_not_there_is_named(loop: Loop, tmp_path: Path) -> None:
    options = {"security_protocol": "SSL", "ssl_cafile": str(tmp_path / "gone.pem")}
    with FakeNode(silent).up() as port:
        problem = failure(loop, client_of(loop, options), port)
    assert (problem.reason, "gone.pem" in problem.detail) == (Reason.TLS_FAILED, True)


def test_a_replaced_certificate_file_is_read_at_the_next_connection(loop: Loop, ca: Authority, tmp_path: Path) -> None:
    ours = tmp_path / "ours.pem"
    ours.write_text(Path(authority(tmp_path / "strange").file).read_text())
    client = client_of(loop, {"security_protocol": "SSL", "ssl_cafile": str(ours)})
    with FakeNode(describing_cluster(b"x"), tls=ca.server(ca.issue("server"))).up() as port:
        failure(loop, client, port)
        ours.write_text(Path(ca.file).read_text())

        async def later() -> str:
            while True:
                await loop.sleep(0.1)
                try:
                    request = describe_cluster(controllers=True)
                    return cluster_described(
                        await client.ask(Address("localhost", port), request, lane=ObservationSource.QUORUM)
                    ).cluster_id
                except UnseenError:
                    continue

        assert loop.run(later) == "x"


@pytest.mark.parametrize("behaviour", [refusing_login, closing_after_api_versions], ids=lambda one: one.__name__)
def test_a_failed_login_is_not_tried_again_at_once(loop: Loop, behaviour: object) -> None:
    """Stock kafka-python dials at each of these calls, and may lock the account."""
    node = FakeNode(behaviour)  # type: ignore[arg-type]
    options = PLAIN if behaviour is refusing_login else {}
    client = client_of(loop, options)
    with node.up() as port:
        began = time.monotonic()
        reasons = {failure(loop, client, port).reason for _ in range(20)}
        seconds = time.monotonic() - began
    assert reasons == {Reason.NOT_AUTHENTICATED}, "the cause stays the same while we wait"
    assert node.connections <= 1 + seconds, "a second later at the earliest"


def test_an_established_connection_that_falls_silent_is_given_up(loop: Loop) -> None:
    def once(peer: socket.socket) -> None:
        answer_api_versions(peer)
        read_request(peer)
        silent(peer)

    with FakeNode(once).up() as port:
        assert failure(loop, client_of(loop, {}, timeout_ms=SHORT_MS), port).reason is Reason.TIMED_OUT


def test_kafka_pythons_loggers_stay_shut_whatever_the_verbosity(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger().setLevel(logging.DEBUG)
    hush()
    with FakeNode(refusing_login).up() as port:
        failure(loop, client_of(loop, PLAIN), port)
    assert not [record for record in caplog.records if record.name.startswith("kafka")]
    assert PASSWORD not in caplog.text


def test_an_unknown_option_is_refused_without_its_value(loop: Loop) -> None:
    with pytest.raises(UsageError, match="unknown option 'sasl_password'") as problem:
        client_of(loop, {"sasl_password": PASSWORD})
    assert PASSWORD not in str(problem.value)


def test_a_token_file_is_read_at_each_login(loop: Loop, tmp_path: Path) -> None:
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_file": str(tmp_path / "token"),
    }
    with FakeNode(refusing_login).up() as port:
        problem = failure(loop, client_of(loop, options), port)
    assert problem.reason is Reason.NOT_AUTHENTICATED


def test_the_ceiling_holds_when_paused_nodes_go_on_and_every_login_with_them(loop: Loop) -> None:
    paused = threading.Event()

    def refusing_login_later(peer: socket.socket) -> None:
        paused.wait(60)
        refusing_login(peer)

    budget = Budget()
    client = client_of(loop, PLAIN, budget=budget)

    async def ask_all(addresses: list[Address]) -> None:
        asked = [
            loop.spawn(client.ask(one, describe_cluster(controllers=True), lane=ObservationSource.LOG))
            for one in addresses
        ]
        await loop.sleep(3.8)
        paused.set()
        await loop.until(lambda: all(one.done for one in asked), asked, 60)

    with ExitStack() as nodes:
        ports = [nodes.enter_context(FakeNode(refusing_login_later).up()) for _ in range(14)]
        loop.run(lambda: ask_all([Address("localhost", port) for port in ports]))

    assert budget.requests_sent >= 3 * 10
    assert budget.busiest_second <= CEILING


def test_a_client_that_was_closed_opens_nothing_more_and_keeps_nothing_that_was_on_its_way(loop: Loop) -> None:
    client = client_of(loop, {})

    async def closed_meanwhile(port: int) -> None:
        request = describe_cluster(controllers=True)
        asked = loop.spawn(client.ask(Address("localhost", port), request, lane=ObservationSource.LOG))
        await loop.sleep(0)
        client.close()
        await asked.get()

    with FakeNode(describing_cluster(b"x")).up() as port:
        with pytest.raises(UnseenError) as under_way:
            loop.run(lambda: closed_meanwhile(port))
        afterwards = failure(loop, client, port)

    assert under_way.value.detail == afterwards.detail == "we hung up"
    assert afterwards.reason is Reason.CLOSED
