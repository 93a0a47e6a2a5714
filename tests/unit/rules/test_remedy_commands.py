"""Commands are filled in with what is known to answer, and are safe to paste."""

import shlex
from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.formatting import and_join, ms_text
from rules.model.identifiers import Endpoint, NodeId
from rules.model.monitoring import Access, Answer, ObservationSource, Reason
from rules.model.quorum import Quorum
from rules.remedy_commands import (
    LEGEND,
    add_controller,
    allow,
    broker_bootstrap,
    controller_bootstrap,
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
)

LOGIN = "--command-config $NODE_PROPERTIES"


def bare() -> Quorum:
    """Nothing is known but the configuration."""
    return replace(healthy(), committed=None, poll=None, controllers={}, probes={}, addresses={}, leader_id=None)


@pytest.mark.parametrize(
    ("quorum", "address"),
    [
        (healthy(), "c3.test:9093"),
        (refuses(healthy(), 3), "c1.test:9093"),
        (name_not_found(healthy(), 3, 1), "c2.test:9093"),
        (probed(healthy(), 3, answer=Answer.OTHER_CLUSTER), "c1.test:9093"),
        (probed(healthy(), 3, answer=Answer.NO_ANSWER), "c1.test:9093"),
        # The voter set is outdated, and the registration names where the leader is now.
        (refuses(registered_elsewhere(healthy(), 1, 2, 3), 1, 2, 3), "c3.test:19093"),
        (replace(name_not_found(healthy(), 1, 2, 3), bootstrap=("10.9.9.9:9093",)), "10.9.9.9:9093"),
        (replace(name_not_found(healthy(), 1, 2, 3), bootstrap=("b101.test:9092",)), "10.0.0.3:9093"),
        (replace(name_not_found(healthy(), 1, 2, 3), addresses={"c2.test": ("fd00::2",)}), "'[fd00::2]:9093'"),
        (failing(refuses(healthy(), 1, 2, 3), Reason.NO_LEADER, "c2.test:19093"), "c2.test:19093"),
        # It knew no leader once, and its name is gone since.
        (failing(name_not_found(healthy(), 1, 2, 3), Reason.NO_LEADER, "c1.test:9093"), "10.0.0.3:9093"),
        (leaderless(healthy(), 1), "c3.test:9093"),
        # Nothing answers anywhere: it will be there when it is back.
        (all_refuse(refuses(healthy(), 1, 2, 3)), "c3.test:9093"),
        (bare(), "c1.test:9093"),
        (failing(bare(), Reason.TIMED_OUT, "c1.test:9093"), "c2.test:9093"),
        (replace(bare(), bootstrap=()), "$BOOTSTRAP"),
    ],
)
def test_a_controller_that_answers(quorum: Quorum, address: str) -> None:
    assert controller_bootstrap(quorum) == address


def test_not_the_one_that_is_being_mended() -> None:
    assert controller_bootstrap(healthy(), excluding=NodeId(3)) == "c1.test:9093"
    assert "c3.test" not in describe_status(name_not_found(healthy(), 1), excluding=NodeId(3))


def test_a_broker_that_lives() -> None:
    assert broker_bootstrap(healthy(), (NodeId(102),)) == "b102.test:9092"
    assert broker_bootstrap(with_broker(healthy(), 102, fenced=True), (NodeId(102),)) == "b101.test:9092"
    assert broker_bootstrap(replace(healthy(), brokers={})) == "$BOOTSTRAP"


def test_what_comes_from_the_cluster_is_quoted() -> None:
    evil = Endpoint(listener="CONTROLLER", host="x; rm -rf /", port=1)
    quorum = replace(bare(), bootstrap=(str(evil),))
    commands = [
        describe_status(quorum),
        remove_controller(quorum, key(2, "$(reboot)")),
        add_controller(quorum, NodeId(2))[1],
    ]
    for command in commands:
        assert str(evil) in shlex.split(command)
    assert "$(reboot)".ljust(22, "A") in shlex.split(commands[1])


def test_on_a_secured_cluster_every_command_has_its_login() -> None:
    open_ones = replace(healthy(), access=Access())
    secured = replace(healthy(), access=Access(secured=True, principal="User:kraftwatch"))
    asked: list[Callable[[Quorum], str]] = [
        describe_status,
        lambda quorum: remove_controller(quorum, key(2)),
        lambda quorum: describe_topic(quorum, "orders", [NodeId(102)]),
        lambda quorum: add_controller(quorum, NodeId(2))[1],
    ]
    for command in asked:
        line = command(secured)
        assert line.count("--command-config $NODE_PROPERTIES") == 1
        assert with_legend(secured, (line,)) == (line, LEGEND)
    assert all("--command-config" not in command(open_ones) for command in asked[:-1])
    assert with_legend(open_ones, (asked[-1](open_ones),)) == (asked[-1](open_ones),)
    assert with_legend(secured, ("# Start it",)) == ("# Start it",)


def registered(quorum: Quorum, *, controllers: str, brokers: str) -> Quorum:
    """Every node's registration tells what its listener speaks."""

    def speaking(endpoints: tuple[Endpoint, ...], protocol: str) -> tuple[Endpoint, ...]:
        return tuple(replace(each, protocol=protocol) for each in endpoints)

    return replace(
        quorum,
        controllers={
            node: replace(one, endpoints=speaking(one.endpoints, controllers))
            for node, one in quorum.controllers.items()
        },
        brokers={
            node: replace(one, endpoints=speaking(one.endpoints, brokers)) for node, one in quorum.brokers.items()
        },
    )


@pytest.mark.parametrize(
    ("controllers", "brokers", "ours"),
    [
        ("SASL_SSL", "PLAINTEXT", Access(secured=True)),
        ("PLAINTEXT", "SASL_SSL", Access()),
        # We come in by another listener of the controllers than they dial each other at.
        ("SASL_PLAINTEXT", "PLAINTEXT", Access()),
        ("PLAINTEXT", "SSL", Access(secured=True)),
    ],
)
def test_a_command_takes_a_login_where_the_listener_that_it_goes_to_wants_one(
    controllers: str, brokers: str, ours: Access
) -> None:
    quorum = registered(replace(healthy(), access=ours), controllers=controllers, brokers=brokers)
    to_controllers, to_brokers = describe_status(quorum), describe_topic(quorum, "orders", [NodeId(102)])
    assert (LOGIN in to_controllers, LOGIN in to_brokers) == (controllers != "PLAINTEXT", brokers != "PLAINTEXT")
    for line in (to_controllers, to_brokers):
        assert with_legend(quorum, (line,)) == ((line, LEGEND) if LOGIN in line else (line,))


def test_where_only_brokers_can_be_reached_they_are_asked() -> None:
    quorum = failing(
        replace(refuses(healthy(), 1, 2, 3), bootstrap=("b101.test:9092",)), Reason.UNSUPPORTED, "b101.test:9092"
    )
    assert describe_status(quorum) == "kafka-metadata-quorum.sh --bootstrap-server b101.test:9092 describe --status"
    # A broker that does not answer polls either is no way in.
    neither = failing(quorum, Reason.TIMED_OUT, "b101.test:9092", source=ObservationSource.QUORUM)
    assert "--bootstrap-controller c3.test:9093" in describe_status(neither)
    assert "--bootstrap-server b101.test:9092" in describe_status(
        failing(quorum, Reason.DENIED, "b101.test:9092", source=ObservationSource.QUORUM)
    )
    assert "$BOOTSTRAP" in describe_status(replace(neither, committed=None, poll=None, controllers={}))
    # Nothing speaks against a controller that nobody has looked at yet.
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
def test_a_tool_of_a_kafka_that_does_not_reach_controllers_is_sent_to_a_broker(
    metadata_version: int, quorum_tool: str, acls_tool: str
) -> None:
    """--bootstrap-controller came with 3.7 (KIP-919), to kafka-acls with 4.0."""
    quorum = replace(healthy(), metadata_version=metadata_version, access=Access(principal="User:kraftwatch"))
    (acls,) = allow(quorum, ["Describe"])
    assert quorum_tool in describe_status(quorum)
    assert quorum_tool in describe_features(quorum)
    assert acls_tool in acls
    # No broker lives: whoever has newer tools can use what we know.
    fenced = with_broker(with_broker(quorum, 101, fenced=True), 102, fenced=True)
    assert "--bootstrap-controller c3.test:9093" in describe_status(fenced)


def test_whoever_turns_us_away_does_answer() -> None:
    assert controller_bootstrap(failing(bare(), Reason.DENIED, "c1.test:9093")) == "c1.test:9093"


def test_the_placeholder_of_the_node_is_left_to_the_shell() -> None:
    remark, command = add_controller(healthy(), NodeId(4))
    assert remark.startswith("# On controller 4's host")
    assert shlex.split(command)[3:] == ["--command-config", "$NODE_PROPERTIES", "add-controller"]
    assert str(endpoint(3)) in command


@pytest.mark.parametrize(
    ("duration", "words"),
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
def test_durations(duration: int, words: str) -> None:
    assert ms_text(duration) == words


def test_lists() -> None:
    assert and_join([]) == "none"
    assert and_join([1]) == "1"
    assert and_join([1, 2]) == "1 and 2"
    assert and_join("abc") == "a, b and c"
    assert and_join(range(20), 3) == "0, 1, 2 and 17 more"
