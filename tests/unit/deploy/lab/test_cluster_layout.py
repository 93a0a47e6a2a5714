import socket
from pathlib import Path

import pytest

from deploy.lab.cluster_layout import Roster
from deploy.lab.hosts_file import Names
from deploy.lab.kafka_versions import is_dynamic
from deploy.lab.lab_errors import LabError
from deploy.lab.node import Node
from deploy.lab.ports import Ports


def properties(node: Node) -> dict[str, str]:
    return dict(line.split("=", 1) for line in node.properties_file.read_text().splitlines())


def test_controllers_count_from_1_combined_nodes_follow_and_brokers_count_from_101(tmp_path: Path) -> None:
    roster = Roster(tmp_path, names=None, extra={})
    roster.populate(controllers=2, combined=1, brokers=2)

    assert [(node.id, properties(node)["process.roles"]) for node in roster] == [
        (1, "controller"),
        (2, "controller"),
        (3, "controller,broker"),
        (101, "broker"),
        (102, "broker"),
    ]
    assert [node.id for node in roster.controllers] == [1, 2, 3]
    assert [node.id for node in roster.brokers] == [3, 101, 102]


def test_every_configuration_lists_every_controller_and_takes_the_callers_properties(tmp_path: Path) -> None:
    roster = Roster(tmp_path, names=None, extra={"broker.session.timeout.ms": "3000", "num.io.threads": "4"})
    roster.populate(controllers=3, combined=0, brokers=1)
    roster.add_controller()

    assert len(roster.bootstrap) == 4
    for node in roster:
        assert properties(node)["controller.quorum.bootstrap.servers"] == ",".join(roster.bootstrap)
        assert properties(node)["broker.session.timeout.ms"] == "3000"
        assert properties(node)["num.io.threads"] == "4"


def test_a_static_quorum_is_named_in_every_configuration_and_an_old_controller_advertises_nothing(
    tmp_path: Path,
) -> None:
    roster = Roster(tmp_path, names=None, extra={}, version="3.6.2", static=True)
    roster.populate(controllers=1, combined=1, brokers=1)

    voters = f"1@localhost:{roster[1].controller_port},2@localhost:{roster[2].controller_port}"
    for node in roster:
        assert properties(node)["controller.quorum.voters"] == voters
        assert "controller.quorum.bootstrap.servers" not in properties(node)
    assert "advertised.listeners" not in properties(roster[1])
    assert properties(roster[2])["advertised.listeners"] == f"PLAINTEXT://{roster[2].broker_endpoint}"


@pytest.mark.parametrize(("version", "dynamic"), [("3.8.1", False), ("3.9.2", True), ("4.0.1", True), ("10.0", True)])
def test_voters_are_in_the_log_from_3_9_on(version: str, dynamic: bool) -> None:
    assert is_dynamic(version) is dynamic


def test_what_is_no_version_is_refused_by_name() -> None:
    with pytest.raises(LabError, match=r"^'\.\./4' is no version of Kafka: name one such as 4\.3\.1$"):
        is_dynamic("../4")


def test_a_moved_node_gets_a_port_that_nobody_had_and_the_others_learn_it(tmp_path: Path) -> None:
    roster = Roster(tmp_path, names=None, extra={})
    roster.populate(controllers=1, combined=1, brokers=1)
    before = {port for node in roster for port in node.ports}
    roster.move([2, 101])

    assert before.isdisjoint({*roster[2].ports, *roster[101].ports})
    assert set(roster[1].ports) <= before
    assert roster[2].endpoint in properties(roster[101])["controller.quorum.bootstrap.servers"]


def test_a_named_controller_advertises_its_name_and_binds_loopback(tmp_path: Path) -> None:
    names = Names(tmp_path / "hosts")
    roster = Roster(tmp_path, names=names, extra={})
    roster.populate(controllers=1, combined=0, brokers=1)
    port = roster[1].controller_port

    assert names.known == {"c1.kraftwatch.invalid"}
    assert properties(roster[1])["advertised.listeners"] == f"CONTROLLER://c1.kraftwatch.invalid:{port}"
    assert properties(roster[1])["listeners"] == f"CONTROLLER://127.0.0.1:{port}"

    roster.rename(1, "c1-new.kraftwatch.invalid")

    assert roster.bootstrap == [f"c1-new.kraftwatch.invalid:{port}"]
    assert properties(roster[101])["controller.quorum.bootstrap.servers"] == f"c1-new.kraftwatch.invalid:{port}"


def test_an_unknown_node_is_named_together_with_those_there_are(tmp_path: Path) -> None:
    roster = Roster(tmp_path, names=None, extra={})
    roster.populate(controllers=1, combined=0, brokers=1)

    with pytest.raises(LabError, match=r"^the lab has no node 7; it has 1, 101$"):
        roster[7]


def test_a_port_that_somebody_listens_on_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        monkeypatch.setattr("deploy.lab.ports.FIRST", port)
        monkeypatch.setattr("deploy.lab.ports.LAST", port + 1)

        with pytest.raises(LabError, match="no free port"):
            Ports().claim()


def test_a_port_that_another_lab_was_given_is_not_free_until_that_lab_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Ports()
    port = other.claim()
    monkeypatch.setattr("deploy.lab.ports.FIRST", port)
    monkeypatch.setattr("deploy.lab.ports.LAST", port + 1)
    with pytest.raises(LabError, match="no free port"):
        Ports().claim()

    del other

    assert Ports().claim() == port
