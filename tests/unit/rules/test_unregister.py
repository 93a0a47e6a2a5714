"""The steps that remove the registration of a node that no longer exists: which commands, in which situation."""

from dataclasses import replace

import pytest

from rules.analysis.registered_node import registered_nodes
from rules.model.monitoring import Access
from rules.model.quorum import Quorum
from rules.remedies.unregister import unregister_steps
from tests.unit.rules.situation import healthy, registered, static, upgraded, with_broker

KAFKA_4_4 = upgraded(healthy(), 33)
AT = "--bootstrap-controller c3.test:9093"
RAISE = f"kafka-features.sh {AT} upgrade --feature metadata.version=33"
START = "kafka-server-start.sh -daemon $NODE_PROPERTIES"


def unregister(node: int) -> str:
    return f"kafka-cluster.sh unregister-controller --id {node} {AT}"


def steps(quorum: Quorum, *gone: str) -> list[str]:
    return [*unregister_steps(quorum, [node for node in registered_nodes(quorum) if node.name in gone])]


def commands(quorum: Quorum, *gone: str) -> list[str]:
    return [step.partition(" --config")[0] for step in steps(quorum, *gone) if not step.startswith("#")]


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        # The level removes controllers.
        (replace(registered(KAFKA_4_4, 9), metadata_version=33), [unregister(9)]),
        (replace(registered(healthy(), 9), metadata_version=34), [unregister(9)]),
        # It does not yet, and every registration supports it.
        (upgraded(registered(healthy(), 9), 33), [RAISE, unregister(9)]),
        # The registration itself blocks it.
        (
            registered(KAFKA_4_4, 9),
            ["kafka-storage.sh format", START, RAISE, "kafka-server-stop.sh --node-id=9", unregister(9)],
        ),
        # Another one blocks it too: Kafka needs both for the level.
        (
            registered(upgraded(registered(healthy(), 9), 33), 8),
            ["kafka-storage.sh format", START, RAISE, "kafka-server-stop.sh --node-id=8", unregister(8), unregister(9)],
        ),
        # A node that runs does not support it, or the level is unknown.
        (registered(healthy(), 9), []),
        (registered(upgraded(healthy(), 33, 1, 2, 3, 101), 9), []),
    ],
)
def test_commands_that_remove_a_controller_by_levels(quorum: Quorum, expected: list[str]) -> None:
    assert commands(quorum, "controller 9") == expected


def test_a_stopped_broker_of_an_old_version_is_started_or_unregistered_first() -> None:
    quorum = registered(with_broker(KAFKA_4_4, 103, fenced=True), 9)
    first = "# First start broker 103 in Kafka 4.4 or newer, or unregister it if it no longer exists"
    assert steps(quorum, "controller 9")[0] == first
    broker = f"kafka-cluster.sh unregister --id 103 {AT}"
    assert commands(quorum, "controller 9", "broker 103")[0] == broker
    assert first not in steps(quorum, "controller 9", "broker 103")


def test_controller_of_a_static_quorum_is_started_with_the_list_of_voters() -> None:
    """In a static quorum a controller without that list does not find the active controller (RUN, Kafka 4.4)."""
    found = steps(registered(static(KAFKA_4_4), 9), "controller 9")
    (properties,) = (step for step in found if step.startswith("# $NODE_PROPERTIES"))
    assert "9@HOST:PORT of that port added to controller.quorum.voters, in this file only" in properties
    assert any(step.startswith("# Restart no other controller while") for step in found)
    (storage,) = (step for step in found if step.startswith("kafka-storage.sh"))
    assert "--no-initial-controllers" not in storage


def test_login_option_of_the_tool_is_the_one_of_the_version() -> None:
    """kafka-cluster has --command-config from Kafka 4.2 on (KIP-1147)."""
    stopped = replace(with_broker(healthy(), 103, fenced=True), access=Access(protocol="SASL_SSL"))
    old, new = (replace(stopped, metadata_version=level) for level in (27, 33))
    assert steps(old, "broker 103")[-1].endswith(" --config $NODE_PROPERTIES")
    assert steps(new, "broker 103")[-1].endswith(" --command-config $NODE_PROPERTIES")


def test_many_blocking_registrations_are_not_all_listed() -> None:
    quorum = registered(KAFKA_4_4, 9)
    for node in range(10, 16):
        quorum = registered(quorum, node)
    found = steps(quorum, "controller 9")
    assert found.count(START) == 4
    assert "# Do the same for the other 3" in found
