"""What a look at an endpoint says, against real sockets."""

import socket
from collections.abc import Iterator

import pytest

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError
from connectors.event import At, EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled, VotersSet
from connectors.gather.commit_buffer import Release
from connectors.gather.endpoint_probe import Probe
from connectors.gather.node_directory import Whereabouts
from connectors.kafka.client import Client
from connectors.kafka.event_loop import Loop
from connectors.kafka.messages import SnapshotId
from connectors.kafka.rate_limiter import Budget
from connectors.kafka.resolver import Lookup, Resolver
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Answer, Connection, Reason, Resolution
from rules.model.voter_set import Voter
from tests.unit.connectors.kafka.fake_node import Behaviour, FakeNode, closing, refusing_login, saying, silent

AT = At(offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=Millis(1))


class Seen:
    """An Output that keeps probes."""

    def __init__(self) -> None:
        self.probes: list[EndpointProbed] = []
        self.failures: list[ObservationFailed] = []

    def release(self, release: Release) -> None:
        raise AssertionError(release)

    def piece(self, snapshot: SnapshotId, number: int, batches: bytes) -> None:
        raise AssertionError(snapshot, number, batches)

    def polled(self, event: QuorumPolled) -> None:
        raise AssertionError(event)

    def probed(self, event: EndpointProbed) -> None:
        self.probes.append(event)

    def viewed(self, event: LeaderViewPolled) -> None:
        raise AssertionError(event)

    def unseen(self, event: ObservationFailed) -> None:
        self.failures.append(event)


class Look:
    """A probe of one voter's endpoint, as often as it is wanted."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.seen = Seen()
        self.client: Client | None = None

    def __call__(
        self, port: int, *, dns: Lookup = lambda _: ("127.0.0.1",), looks: int = 1, timeout_ms: int = 60_000
    ) -> EndpointProbed:
        cluster = Cluster(name="a", bootstrap=(("c1.test", port),), request_timeout_ms=timeout_ms)
        resolver = Resolver(self.loop, resolve={}, hosts_file=None, dns=dns)
        self.client = Client(self.loop, cluster, resolver=resolver, budget=Budget())
        where = Whereabouts(configured=(), cluster_id="the-cluster")
        voter = Voter(
            key=ReplicaKey(id=NodeId(1)), endpoints=(Endpoint(listener="CONTROLLER", host="c1.test", port=port),)
        )
        where.learn(VotersSet(at=AT, voters=(voter,)))
        probe = Probe(
            self.loop, self.client, where, self.seen, resolver=resolver, interval_ms=50, timeout_ms=timeout_ms
        )

        async def until_looked() -> None:
            self.loop.spawn(probe.run())
            while len(self.seen.probes) < looks:
                await self.loop.sleep(0.01)

        self.loop.run(until_looked)
        return self.seen.probes[-1]


@pytest.fixture
def look(loop: Loop) -> Iterator[Look]:
    made = Look(loop)
    yield made
    if made.client is not None:
        made.client.close()


def test_a_name_that_is_gone_counts_against_the_endpoint(look: Look) -> None:
    def gone(host: str) -> tuple[str, ...]:
        raise UnseenError(Reason.UNRESOLVABLE, host)

    seen = look(1, dns=gone)
    assert (seen.resolution, seen.connection, seen.addresses) == (Resolution.NAME_GONE, Connection.NOT_TRIED, ())
    assert look.seen.failures == []


@pytest.mark.kip("E073")
def test_a_resolver_that_fails_counts_against_our_sight(look: Look) -> None:
    def failing(host: str) -> tuple[str, ...]:
        raise UnseenError(Reason.RESOLVER_FAILED, host)

    assert look(1, dns=failing).resolution is Resolution.RESOLVER_FAILED
    assert look.seen.failures[0].reason is Reason.RESOLVER_FAILED
    assert look.seen.failures[0].node == 1


def test_a_refused_connection_is_refused(look: Look) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    seen = look(port)
    assert (seen.resolution, seen.addresses) == (Resolution.RESOLVED, ("127.0.0.1",))
    assert (seen.connection, seen.answer) == (Connection.REFUSED, Answer.NOT_ASKED)


@pytest.mark.parametrize(
    ("behaviour", "answer"),
    [
        (silent, Answer.NO_ANSWER),
        (closing, Answer.NO_ANSWER),
        (saying(b"SSH-2.0-OpenSSH_9.2\r\n"), Answer.NOT_KAFKA),
        (saying(bytes.fromhex("15030300020250")), Answer.NOT_ALLOWED),
    ],
    ids=["silent", "closing", "ssh", "tls"],
)
def test_who_accepts_and_does_not_answer_as_kafka(look: Look, behaviour: Behaviour, answer: Answer) -> None:
    with FakeNode(behaviour).up() as port:
        seen = look(port, timeout_ms=300 if behaviour is silent else 60_000)
    assert (seen.connection, seen.answer) == (Connection.ACCEPTED, answer)


def test_between_two_answers_a_look_is_a_connection_without_a_request(look: Look) -> None:
    node = FakeNode(refusing_login)
    with node.up() as port:
        look(port, looks=4)
    assert len({probe.answer for probe in look.seen.probes}) == 1
    assert node.connections >= 4 + 1, "each look dials anew; who answers was asked once"
