from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from connectors.errors import ObservationError
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.cluster_id_lookup import identify
from connectors.kafka.error_code import ErrorCode
from rules.model.monitoring import ObservationSource, Reason
from tests.unit.connectors.kafka.descriptors import no_descriptor_leaks
from tests.unit.connectors.kafka.fake_node import (
    FakeNode,
    answers_describe_cluster,
    answers_describe_quorum_v0,
    closes_connection,
    never_answers,
)
from tests.unit.connectors.kafka.kafka_answers import fetch_answer


def cluster(*ports: int, cluster_id: str | None = None) -> ClusterConnection:
    return ClusterConnection(
        name="a",
        bootstrap=tuple(("127.0.0.1", port) for port in ports),
        cluster_id=cluster_id,
        request_timeout_ms=300,
    )


def test_first_answer_is_used_and_no_socket_leaks() -> None:
    with (
        no_descriptor_leaks(),
        FakeNode(never_answers).up() as unresponsive,
        FakeNode(answers_describe_cluster(b"the-cluster")).up() as responsive,
    ):
        assert identify(cluster(unresponsive, responsive), 60) == "the-cluster"


def test_other_cluster_id_is_reported() -> None:
    with (
        FakeNode(answers_describe_cluster(b"another")).up() as port,
        pytest.raises(ObservationError, match="another") as problem,
    ):
        identify(cluster(port, cluster_id="expected"), 60)
    assert problem.value.reason is Reason.WRONG_CLUSTER


def test_the_configured_id_counts_if_a_node_that_names_none_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(_: Client, __: object, request: Any, *, source: ObservationSource) -> Any:
        if not isinstance(request, FetchRequest):
            raise ObservationError(Reason.UNSUPPORTED, f"{source} of a Kafka before 3.7")
        return fetch_answer(top=0 if request.cluster_id == "right" else ErrorCode.INCONSISTENT_CLUSTER_ID)

    monkeypatch.setattr(Client, "send", send)

    assert identify(cluster(1, cluster_id="right"), 60) == "right"
    with pytest.raises(ObservationError, match="another cluster") as problem:
        identify(cluster(1, cluster_id="wrong"), 60)
    assert problem.value.reason is Reason.WRONG_CLUSTER


def test_a_node_that_rejects_the_id_does_not_end_the_look_up_while_another_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting = [True]

    async def send(_: Client, address: Address, __: object, *, source: ObservationSource) -> Any:
        if address.port == 1:
            raise ObservationError(Reason.WRONG_CLUSTER, f"{source} of another cluster")
        if starting:
            starting.clear()
            raise ObservationError(Reason.CLOSED, "starts")
        return SimpleNamespace(error_code=0, cluster_id="right", brokers=())

    monkeypatch.setattr(Client, "send", send)

    assert identify(cluster(1, 2, cluster_id="right"), 60) == "right"


def test_unsupported_request_is_not_retried() -> None:
    node = FakeNode(answers_describe_quorum_v0)
    with node.up() as port, pytest.raises(ObservationError, match="does not support this request") as problem:
        identify(cluster(port), 60)
    assert problem.value.reason is Reason.UNSUPPORTED


def test_most_specific_reason_is_reported_after_the_timeout() -> None:
    with (
        FakeNode(never_answers).up() as unresponsive,
        FakeNode(closes_connection).up() as closing_node,
        pytest.raises(ObservationError) as problem,
    ):
        identify(cluster(unresponsive, closing_node), 3)
    assert problem.value.reason is Reason.CLOSED
