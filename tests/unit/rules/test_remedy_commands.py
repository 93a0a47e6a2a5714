"""Commands name endpoints that probably answer, and can be pasted safely."""

import shlex
from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.formatting import and_join, first_values, ms_text
from rules.model.identifiers import Endpoint, NodeId, host_of
from rules.model.monitoring import Access, Answer, ObservationSource, Reason
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
from tests.unit.rules.situation import (
    all_refuse,
    endpoint,
    failing,
    healthy,
    key,
    leaderless,
    name_not_found,
    probed,
    refuses,
    registered_elsewhere,
    with_broker,
    with_committed,
    with_controller,
)
from tests.unit.rules.situation import with_protocols as with_controller_protocols

LOGIN = "--command-config $NODE_PROPERTIES"


def configuration_only() -> Quorum:
    """Returns a quorum of which only the configuration is known."""
    return replace(healthy(), committed=None, poll=None, controllers={}, probes={}, addresses={}, leader_id=None)


def with_second_listener(quorum: Quorum, node: int) -> Quorum:
    """A controller has a second listener, in the voter set and in its registration."""
    both = (endpoint(node), replace(endpoint(node, port=19094), listener="SECOND"))
    voters = tuple(replace(one, endpoints=both) if one.key.id == node else one for one in quorum.voters)
    registered = replace(quorum.controllers[NodeId(node)], endpoints=both)
    return with_controller(with_committed(quorum, voters=voters), registered)


@pytest.mark.parametrize(
    ("quorum", "address"),
    [
        (healthy(), "c3.test:9093"),
        (refuses(healthy(), 3), "c1.test:9093"),
        (name_not_found(healthy(), 3, 1), "c2.test:9093"),
        (probed(healthy(), 3, answer=Answer.OTHER_CLUSTER), "c1.test:9093"),
        (probed(healthy(), 3, answer=Answer.NO_ANSWER), "c1.test:9093"),
        # The voter set is outdated; the registration has the leader's current endpoint.
        (refuses(registered_elsewhere(healthy(), 1, 2, 3), 1, 2, 3), "c3.test:19093"),
        (replace(name_not_found(healthy(), 1, 2, 3), bootstrap=("10.9.9.9:9093",)), "10.9.9.9:9093"),
        (replace(name_not_found(healthy(), 1, 2, 3), bootstrap=("b101.test:9092",)), "10.0.0.3:9093"),
        (replace(name_not_found(healthy(), 1, 2, 3), addresses={"c2.test": ("fd00::2",)}), "'[fd00::2]:9093'"),
        (failing(refuses(healthy(), 1, 2, 3), Reason.NO_LEADER, "c2.test:19093"), "c2.test:19093"),
        # It reported no leader, and its name stopped to resolve afterwards.
        (failing(name_not_found(healthy(), 1, 2, 3), Reason.NO_LEADER, "c1.test:9093"), "10.0.0.3:9093"),
        (leaderless(healthy(), 1), "c3.test:9093"),
        # The configured addresses are those that refuse: the recorded endpoint of the leader is used.
        (refuses(healthy(), 1, 2, 3), "c3.test:9093"),
        # A second listener of the leader, which no voter dials, may be open for others only.
        (refuses(with_second_listener(healthy(), 3), 1, 2, 3), "c3.test:9093"),
        # Nothing answers: the leader will listen there when it is back.
        (all_refuse(refuses(healthy(), 1, 2, 3)), "c3.test:9093"),
        (configuration_only(), "c1.test:9093"),
        (failing(configuration_only(), Reason.TIMED_OUT, "c1.test:9093"), "c2.test:9093"),
        (replace(configuration_only(), bootstrap=()), "$BOOTSTRAP"),
    ],
)
def test_controller_bootstrap_is_one_that_probably_answers(quorum: Quorum, address: str) -> None:
    assert controller_bootstrap(quorum) == address


def test_excluded_controller_is_not_used() -> None:
    assert controller_bootstrap(healthy(), excluding=NodeId(3)) == "c1.test:9093"
    assert "c3.test" not in describe_status(name_not_found(healthy(), 1), excluding=NodeId(3))


def test_values_from_the_cluster_are_quoted_for_the_shell() -> None:
    malicious = Endpoint(listener="CONTROLLER", host="x; rm -rf /", port=1)
    quorum = replace(configuration_only(), bootstrap=(str(malicious),))
    commands = [
        describe_status(quorum),
        remove_controller(quorum, key(2, "$(reboot)")),
        add_controller(quorum, NodeId(2))[1],
    ]
    for command in commands:
        assert str(malicious) in shlex.split(command)
    assert "$(reboot)".ljust(22, "A") in shlex.split(commands[1])


def test_every_command_has_a_login_on_a_secured_cluster() -> None:
    unsecured = replace(healthy(), access=Access())
    secured = replace(healthy(), access=Access(protocol="SASL_SSL", principal="User:kraftwatch"))
    commands: list[Callable[[Quorum], str]] = [
        describe_status,
        lambda quorum: remove_controller(quorum, key(2)),
        lambda quorum: describe_topic(quorum, "orders", [NodeId(102)]),
        lambda quorum: add_controller(quorum, NodeId(2))[1],
    ]
    for command in commands:
        line = command(secured)
        assert line.count("--command-config $NODE_PROPERTIES") == 1
        assert with_legend(secured, (line,)) == (line, LEGEND)
    assert all("--command-config" not in command(unsecured) for command in commands[:-1])
    assert with_legend(unsecured, (commands[-1](unsecured),)) == (commands[-1](unsecured),)
    assert with_legend(secured, ("# Start it",)) == ("# Start it",)


def with_protocols(quorum: Quorum, *, controllers: str, brokers: str) -> Quorum:
    """Returns the quorum with these security protocols in its nodes' registrations."""

    secured = {
        node: replace(one, endpoints=tuple(replace(each, protocol=brokers) for each in one.endpoints))
        for node, one in quorum.brokers.items()
    }
    return replace(with_controller_protocols(quorum, *[controllers] * 3), brokers=secured)


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
    quorum = with_protocols(replace(healthy(), access=access), controllers=controllers, brokers=brokers)
    to_controllers, to_brokers = describe_status(quorum), describe_topic(quorum, "orders", [NodeId(102)])
    assert (LOGIN in to_controllers, LOGIN in to_brokers) == (controllers != "PLAINTEXT", brokers != "PLAINTEXT")
    for line in (to_controllers, to_brokers):
        assert with_legend(quorum, (line,)) == ((line, LEGEND) if LOGIN in line else (line,))


def test_broker_is_used_if_only_brokers_can_be_reached() -> None:
    quorum = failing(
        replace(refuses(healthy(), 1, 2, 3), bootstrap=("b101.test:9092",)), Reason.UNSUPPORTED, "b101.test:9092"
    )
    assert describe_status(quorum) == "kafka-metadata-quorum.sh --bootstrap-server b101.test:9092 describe --status"
    # A broker that does not answer polls is not used.
    neither = failing(quorum, Reason.TIMED_OUT, "b101.test:9092", source=ObservationSource.QUORUM)
    assert "--bootstrap-controller c3.test:9093" in describe_status(neither)
    assert "--bootstrap-server b101.test:9092" in describe_status(
        failing(quorum, Reason.DENIED, "b101.test:9092", source=ObservationSource.QUORUM)
    )
    assert "$BOOTSTRAP" in describe_status(replace(neither, committed=None, poll=None, controllers={}))
    # A controller that was not probed yet may answer.
    assert "--bootstrap-controller c3.test:9093" in describe_status(replace(quorum, probes={}))


@pytest.mark.parametrize(
    ("metadata_version", "quorum_tool", "acls_tool"),
    [
        (14, "--bootstrap-server b101.test:9092", "--bootstrap-server b101.test:9092"),
        (15, "--bootstrap-controller c3.test:9093", "--bootstrap-server b101.test:9092"),
        (21, "--bootstrap-controller c3.test:9093", "--bootstrap-server b101.test:9092"),
        (22, "--bootstrap-controller c3.test:9093", "--bootstrap-controller c3.test:9093"),
    ],
)
def test_broker_is_used_if_the_tool_does_not_reach_controllers(
    metadata_version: int, quorum_tool: str, acls_tool: str
) -> None:
    """--bootstrap-controller came with 3.7 (KIP-919), to kafka-acls with 4.0."""
    quorum = replace(healthy(), metadata_version=metadata_version, access=Access(principal="User:kraftwatch"))
    (acls,) = allow(quorum, ["Describe"])
    assert quorum_tool in describe_status(quorum)
    assert quorum_tool in describe_features(quorum)
    assert acls_tool in acls
    # No broker is alive: an operator with newer tools can use the controller.
    fenced = with_broker(with_broker(quorum, 101, fenced=True), 102, fenced=True)
    assert "--bootstrap-controller c3.test:9093" in describe_status(fenced)


def test_removed_controller_does_not_serve_the_command() -> None:
    """Controller 3 leads, and is asked first."""
    assert "--bootstrap-controller c1.test:9093 " in remove_controller(healthy(), key(3))


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (850, "850 ms"),
        (1_000, "1 s"),
        (75_999, "75 s"),
        (120_000, "2 min"),
        (7_199_000, "119 min"),
        (7_200_000, "2 h"),
        (172_800_000, "2 days"),
    ],
)
def test_durations_as_text(duration: int, text: str) -> None:
    assert ms_text(duration) == text


@pytest.mark.parametrize(
    ("host", "address"), [("c1", "c1:9093"), ("10.0.0.1", "10.0.0.1:9093"), ("fd00::1", "[fd00::1]:9093")]
)
def test_an_address_of_version_6_is_in_brackets_and_a_host_is_not(host: str, address: str) -> None:
    assert str(Endpoint(listener="CONTROLLER", host=host, port=9093)) == address
    assert host_of(address) == host


def test_lists_as_text() -> None:
    assert and_join([]) == "none"
    assert and_join([1]) == "1"
    assert and_join([1, 2]) == "1 and 2"
    assert and_join("abc") == "a, b and c"
    assert and_join(range(20), 3) == "0, 1, 2 and 17 more"


@pytest.mark.parametrize(("count", "more"), [(0, 0), (99, 0), (100, 0), (101, 1), (250, 150)])
def test_a_hundred_entries_are_listed_and_the_others_counted(count: int, more: int) -> None:
    names = [f"n{number}" for number in range(count)]
    listed = names[:100]
    assert first_values([*names]) == [*listed, *[f"{more} more"] * bool(more)]


def test_controller_that_denies_the_monitor_is_used() -> None:
    assert controller_bootstrap(failing(configuration_only(), Reason.DENIED, "c1.test:9093")) == "c1.test:9093"
