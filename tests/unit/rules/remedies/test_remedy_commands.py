"""Commands name endpoints that probably answer, and can be pasted safely."""

import shlex
from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.facts.quorum import Facts
from rules.model.identifiers import Endpoint, NodeId
from rules.model.monitoring import Access, FailedObservation, ObservationSource, Reason
from rules.model.quorum import Quorum
from rules.remedies.bootstrap_address import controller_bootstrap
from rules.remedies.remedy_commands import (
    LEGEND,
    add_controller,
    allow,
    describe_features,
    describe_status,
    describe_topic,
    remove_controller,
    with_legend,
)
from tests.situation.commands import situation
from tests.situation.situation import controller_key

LOGIN = "--command-config $NODE_PROPERTIES"


def configuration_only() -> Quorum:
    """Returns a quorum of which only the configuration is known."""
    return replace(situation(), committed=None, poll=None, controllers={}, probes={}, addresses={}, leader_id=None)


def failing(quorum: Quorum, reason: Reason, address: str, source: ObservationSource = ObservationSource.LOG) -> Quorum:
    """Attempts at this address fail."""
    failure = FailedObservation(
        source=source, endpoint=address, reason=reason, detail="", first_at_ms=quorum.now_ms, last_at_ms=quorum.now_ms
    )
    return replace(quorum, failures=(*quorum.failures, failure))


@pytest.mark.parametrize(
    ("quorum", "address"),
    [
        (situation(), "c3:9093"),
        (situation("probe 3 refused"), "c1:9093"),
        (situation("probe 1,3 name-not-found"), "c2:9093"),
        (situation("probe 3 other-cluster"), "c1:9093"),
        (situation("probe 3 no-answer"), "c1:9093"),
        # The voter set is outdated; the registration has the leader's current endpoint.
        (situation("probe 1,2,3 refused", *(f"registers {n} at c{n}:19093 since 60s" for n in (1, 2, 3))), "c3:19093"),
        (situation("probe 1,2,3 name-not-found", "configured 10.9.9.9:9093"), "10.9.9.9:9093"),
        (situation("probe 1,2,3 name-not-found", "configured b101:9092"), "10.0.0.3:9093"),
        (replace(situation("probe 1,2,3 name-not-found"), addresses={"c2": ("fd00::2",)}), "'[fd00::2]:9093'"),
        (situation("probe 1,2,3 refused", "fails log no-leader at c2:19093"), "c2:19093"),
        # It reported no leader, and its name stopped to resolve afterwards.
        (situation("probe 1,2,3 name-not-found", "fails log no-leader 1"), "10.0.0.3:9093"),
        (situation("leaderless 1"), "c3:9093"),
        # The configured addresses are those that refuse: the recorded endpoint of the leader is used.
        (situation("probe 1,2,3 refused"), "c3:9093"),
        # A second listener of the leader, which no voter dials, may be open for others only.
        (situation("listens 3 c3:9093,SECOND://c3:19094", "probe 1,2,3 refused"), "c3:9093"),
        # Nothing answers: the leader will listen there when it is back.
        (situation("probe 1,2,3 refused", "all-refuse"), "c3:9093"),
        (configuration_only(), "c1:9093"),
        (failing(configuration_only(), Reason.TIMED_OUT, "c1:9093"), "c2:9093"),
        (replace(configuration_only(), bootstrap=()), "$BOOTSTRAP"),
    ],
)
def test_controller_bootstrap_is_one_that_probably_answers(quorum: Quorum, address: str) -> None:
    assert controller_bootstrap(Facts(quorum)) == address


def test_excluded_controller_is_not_used() -> None:
    assert controller_bootstrap(Facts(situation()), excluding=NodeId(3)) == "c1:9093"
    assert "c3" not in describe_status(Facts(situation("probe 1 name-not-found")), excluding=NodeId(3))


def test_values_from_the_cluster_are_quoted_for_the_shell() -> None:
    malicious = Endpoint(listener="CONTROLLER", host="x; rm -rf /", port=1)
    quorum = replace(configuration_only(), bootstrap=(str(malicious),))
    commands = [
        describe_status(Facts(quorum)),
        remove_controller(Facts(quorum), controller_key(2, "$(reboot)")),
        add_controller(Facts(quorum), NodeId(2))[1],
    ]
    for command in commands:
        assert str(malicious) in shlex.split(command)
    assert "$(reboot)" in shlex.split(commands[1])


def test_every_command_has_a_login_on_a_secured_cluster() -> None:
    unsecured = replace(situation(), access=Access())
    secured = replace(situation(), access=Access(protocol="SASL_SSL", principal="User:kraftwatch"))
    commands: list[Callable[[Facts], str]] = [
        describe_status,
        lambda facts: remove_controller(facts, controller_key(2)),
        lambda facts: describe_topic(facts, "orders", [NodeId(102)]),
        lambda facts: add_controller(facts, NodeId(2))[1],
    ]
    for command in commands:
        line = command(Facts(secured))
        assert line.count("--command-config $NODE_PROPERTIES") == 1
        assert with_legend(secured, (line,)) == (line, LEGEND)
    assert all("--command-config" not in command(Facts(unsecured)) for command in commands[:-1])
    assert with_legend(unsecured, (commands[-1](Facts(unsecured)),)) == (commands[-1](Facts(unsecured)),)
    assert with_legend(secured, ("# Start it",)) == ("# Start it",)


def with_protocols(quorum: Quorum, *, controllers: str, brokers: str) -> Quorum:
    """Returns the quorum with these security protocols in its nodes' registrations."""

    secured = {
        node: replace(one, endpoints=tuple(replace(each, protocol=brokers) for each in one.endpoints))
        for node, one in quorum.brokers.items()
    }
    listeners = {
        node: replace(one, endpoints=tuple(replace(each, protocol=controllers) for each in one.endpoints))
        for node, one in quorum.controllers.items()
    }
    return replace(quorum, controllers=listeners, brokers=secured)


@pytest.mark.parametrize(
    ("controllers", "brokers", "access"),
    [
        ("SASL_SSL", "PLAINTEXT", Access(protocol="SASL_SSL")),
        ("PLAINTEXT", "SASL_SSL", Access()),
        # The monitor uses another listener of the controllers than the controllers themselves.
        ("SASL_PLAINTEXT", "PLAINTEXT", Access()),
        ("PLAINTEXT", "SSL", Access(protocol="SASL_SSL")),
    ],
)
def test_login_is_given_if_the_listener_requires_one(controllers: str, brokers: str, access: Access) -> None:
    quorum = with_protocols(replace(situation(), access=access), controllers=controllers, brokers=brokers)
    to_controllers, to_brokers = describe_status(Facts(quorum)), describe_topic(Facts(quorum), "orders", [NodeId(102)])
    assert (LOGIN in to_controllers, LOGIN in to_brokers) == (controllers != "PLAINTEXT", brokers != "PLAINTEXT")
    for line in (to_controllers, to_brokers):
        assert with_legend(quorum, (line,)) == ((line, LEGEND) if LOGIN in line else (line,))


def test_broker_is_used_if_only_brokers_can_be_reached() -> None:
    quorum = failing(situation("probe 1,2,3 refused", "configured b101:9092"), Reason.UNSUPPORTED, "b101:9092")
    assert describe_status(Facts(quorum)) == "kafka-metadata-quorum.sh --bootstrap-server b101:9092 describe --status"
    # A broker that does not answer polls is not used.
    neither = failing(quorum, Reason.TIMED_OUT, "b101:9092", source=ObservationSource.QUORUM)
    assert "--bootstrap-controller c3:9093" in describe_status(Facts(neither))
    assert "--bootstrap-server b101:9092" in describe_status(
        Facts(failing(quorum, Reason.DENIED, "b101:9092", source=ObservationSource.QUORUM))
    )
    assert "$BOOTSTRAP" in describe_status(Facts(replace(neither, committed=None, poll=None, controllers={})))
    # A controller that was not probed yet may answer.
    assert "--bootstrap-controller c3:9093" in describe_status(Facts(replace(quorum, probes={})))


@pytest.mark.parametrize(
    ("metadata_version", "quorum_tool", "acls_tool"),
    [
        (14, "--bootstrap-server b101:9092", "--bootstrap-server b101:9092"),
        (15, "--bootstrap-controller c3:9093", "--bootstrap-server b101:9092"),
        (21, "--bootstrap-controller c3:9093", "--bootstrap-server b101:9092"),
        (22, "--bootstrap-controller c3:9093", "--bootstrap-controller c3:9093"),
    ],
)
def test_broker_is_used_if_the_tool_does_not_reach_controllers(
    metadata_version: int, quorum_tool: str, acls_tool: str
) -> None:
    """--bootstrap-controller came with 3.7 (KIP-919), to kafka-acls with 4.0."""
    quorum = replace(situation(), metadata_version=metadata_version, access=Access(principal="User:kraftwatch"))
    (acls,) = allow(Facts(quorum), ["Describe"])
    assert quorum_tool in describe_status(Facts(quorum))
    assert quorum_tool in describe_features(Facts(quorum))
    assert acls_tool in acls
    # No broker is alive: an operator with newer tools can use the controller.
    fenced = replace(quorum, brokers={node: replace(one, fenced=True) for node, one in quorum.brokers.items()})
    assert "--bootstrap-controller c3:9093" in describe_status(Facts(fenced))


def test_removed_controller_does_not_serve_the_command() -> None:
    """Controller 3 leads, and is asked first."""
    assert "--bootstrap-controller c1:9093 " in remove_controller(Facts(situation()), controller_key(3))


def test_controller_that_denies_the_monitor_is_used() -> None:
    assert controller_bootstrap(Facts(failing(configuration_only(), Reason.DENIED, "c1:9093"))) == "c1:9093"
