"""`rescue plan` without a list: what answers at the proposed endpoints, against real sockets."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka.protocol.admin import DescribeConfigsResponse

from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey
from rules.model.membership import Voter
from streaming.rescue.plan_output import EndpointResult, ProbedEndpoint, probed_endpoints
from tests.cli.program import free_port, json_lines, kraftwatch, log_dirs
from tests.farm.farm_answers import DESCRIBE_CONFIGS, FETCH
from tests.unit.connectors.kafka.fake_node import (
    Behaviour,
    FakeNode,
    answer_api_versions,
    never_answers,
    read_request,
    send,
    sends_bytes,
)
from tests.unit.connectors.kafka.kafka_answers import fetch_answer

CLUSTER_ID = "ProbedClusterIdXXXXXXX"
Listen = Callable[[Behaviour], int]


def node(requested_is_mine: bool, own: int = 9) -> Behaviour:
    """A controller that says whether it has the requested node id, or which one it has."""

    result = DescribeConfigsResponse.DescribeConfigsResult(
        error_code=0 if requested_is_mine else 42,
        error_message=None if requested_is_mine else f"Unexpected broker id, expected {own} but received 1",
        resource_type=4,
        resource_name="1",
        configs=[],
    )
    answers = {
        FETCH: fetch_answer(leader=1, high_watermark=0, log_start_offset=0),
        DESCRIBE_CONFIGS: DescribeConfigsResponse(results=[result]),
    }

    def behaviour(peer: socket.socket) -> None:
        answer_api_versions(peer)
        while True:
            key, version, correlation = read_request(peer)
            send(peer, correlation, bytes(answers[key].encode(version=version)), flexible=True)

    return behaviour


@pytest.fixture
def listen() -> Iterator[Listen]:
    with ExitStack() as stack:
        yield lambda behaviour: stack.enter_context(FakeNode(behaviour).up())


def voter(number: int, port: int, host: str = "127.0.0.1") -> Voter:
    endpoint = Endpoint(listener="CONTROLLER", host=host, port=port)
    return Voter(key=ReplicaKey(id=NodeId(number), directory_id=DirectoryId("d")), endpoints=(endpoint,))


def probed(*voters: Voter, within_s: float = 30.0) -> list[ProbedEndpoint]:
    return [*probed_endpoints(voters, CLUSTER_ID, say=lambda _: None, within_s=within_s)]


def test_what_answers_at_each_endpoint_is_distinguished(listen: Listen) -> None:
    found = probed(
        voter(1, listen(node(requested_is_mine=True))),
        voter(2, listen(node(requested_is_mine=False))),
        voter(3, listen(sends_bytes(b"SSH-2.0-OpenSSH_9.2\r\n"))),
        voter(4, free_port()),
        voter(5, 9093, "c5.invalid"),
    )

    assert [one.result for one in found] == [
        EndpointResult.AS_PROPOSED,
        EndpointResult.ANOTHER,
        EndpointResult.ANOTHER,
        EndpointResult.NO_ANSWER,
        EndpointResult.NO_ANSWER,
    ]
    texts = [one.text.partition(" of ")[2] for one in found]
    assert texts == [
        "1 answers as node 1 of this cluster, as it should",
        "2 answers as node 9: do not use this endpoint",
        "3 is served by something that does not speak Kafka: do not use this endpoint",
        "4 refuses connections: normal while the controller is stopped",
        "5 does not resolve on this host: no other node could reach it either",
    ]


def test_listeners_that_hang_are_probed_at_the_same_time(listen: Listen) -> None:
    """One after the other they would need 2 s each: the last ones would be out of time."""
    said: list[str] = []

    found = probed_endpoints(
        [voter(number, listen(never_answers)) for number in range(1, 8)], CLUSTER_ID, say=said.append, within_s=10.0
    )

    assert [one.result for one in found] == [EndpointResult.NOT_IDENTIFIED] * 7
    assert said == ["probing 7 endpoints for up to 10 s; --no-probe leaves this out"]


def rescue_plan(stopped: Path, *more: str) -> tuple[dict[str, object], str]:
    command = ("rescue", "plan", *log_dirs(stopped, 1, 2, 3), *more)
    text = kraftwatch(*command)
    assert text.exit_code == 0, text.output
    (found,) = json_lines(kraftwatch(*command, "--json"))
    return found, " ".join(text.stdout.split())


def test_plan_without_a_list_prints_what_answers_at_each_proposed_endpoint(stopped: Path) -> None:
    plan, text = rescue_plan(stopped)

    probes = plan["probes"]
    assert isinstance(probes, list)
    assert [one["node_id"] for one in probes] == [1, 2, 3]
    proposed = plan["proposed_initial_controllers"] or plan["initial_controllers"]
    assert [f"{one['node_id']}@{one['endpoint']}:" in str(proposed) for one in probes] == [True] * 3
    assert text.count("probe: 127.0.0.1:") == 3
    for more in (("--no-probe",), ("--initial-controllers", str(plan["initial_controllers"]))):
        unprobed, text = rescue_plan(stopped, *more)
        assert (unprobed["probes"], "probe:" in text) == ([], False)
