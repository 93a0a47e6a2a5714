import socket
from pathlib import Path

import pytest

from deploy.lab import LabError
from deploy.lab.addresses import HostsFile, Ports
from deploy.lab.cluster_layout import ClusterLayout
from deploy.lab.node import Node, is_dynamic


def properties(node: Node) -> dict[str, str]:
    return dict(line.split("=", 1) for line in node.properties_file.read_text().splitlines())


def test_controllers_start_at_1_combined_nodes_follow_and_brokers_start_at_101(tmp_path: Path) -> None:
    layout = ClusterLayout(tmp_path, names=None, extra={})
    layout.populate(controllers=2, combined=1, brokers=2)

    assert [(node.id, properties(node)["process.roles"]) for node in layout] == [
        (1, "controller"),
        (2, "controller"),
        (3, "controller,broker"),
        (101, "broker"),
        (102, "broker"),
    ]
    assert [node.id for node in layout.controllers] == [1, 2, 3]
    assert [node.id for node in layout.brokers] == [3, 101, 102]


def test_every_configuration_lists_all_controllers_and_the_callers_properties(tmp_path: Path) -> None:
    layout = ClusterLayout(tmp_path, names=None, extra={"broker.session.timeout.ms": "3000", "num.io.threads": "4"})
    layout.populate(controllers=3, combined=0, brokers=1)
    layout.add_controller()

    assert len(layout.bootstrap) == 4
    for node in layout:
        assert properties(node)["controller.quorum.bootstrap.servers"] == ",".join(layout.bootstrap)
        assert properties(node)["broker.session.timeout.ms"] == "3000"
        assert properties(node)["num.io.threads"] == "4"


def test_static_quorum_is_listed_in_every_configuration_and_old_controllers_advertise_nothing(
    tmp_path: Path,
) -> None:
    layout = ClusterLayout(tmp_path, names=None, extra={}, version="3.6.2", static=True)
    layout.populate(controllers=1, combined=1, brokers=1)

    voters = f"1@localhost:{layout[1].controller_port},2@localhost:{layout[2].controller_port}"
    for node in layout:
        assert properties(node)["controller.quorum.voters"] == voters
        assert "controller.quorum.bootstrap.servers" not in properties(node)
    assert "advertised.listeners" not in properties(layout[1])
    assert properties(layout[2])["advertised.listeners"] == f"PLAINTEXT://{layout[2].broker_endpoint}"


@pytest.mark.parametrize(("version", "dynamic"), [("3.8.1", False), ("3.9.2", True), ("4.0.1", True), ("10.0", True)])
def test_dynamic_quorums_need_3_9(version: str, dynamic: bool) -> None:
    assert is_dynamic(version) is dynamic


def test_invalid_version_is_named_in_the_error() -> None:
    with pytest.raises(LabError, match=r"^'\.\./4' is not a Kafka version: expected one such as 4\.3\.1$"):
        is_dynamic("../4")


def test_moved_node_gets_new_ports_that_all_configurations_contain(tmp_path: Path) -> None:
    layout = ClusterLayout(tmp_path, names=None, extra={})
    layout.populate(controllers=1, combined=1, brokers=1)
    before = {port for node in layout for port in node.ports}
    layout.move([2, 101])

    assert before.isdisjoint({*layout[2].ports, *layout[101].ports})
    assert set(layout[1].ports) <= before
    assert layout[2].endpoint in properties(layout[101])["controller.quorum.bootstrap.servers"]


def test_named_controller_advertises_its_name_and_binds_loopback(tmp_path: Path) -> None:
    names = HostsFile(tmp_path / "hosts")
    layout = ClusterLayout(tmp_path, names=names, extra={})
    layout.populate(controllers=1, combined=0, brokers=1)
    port = layout[1].controller_port

    assert names._names == {"c1.kraftwatch.invalid"}
    assert properties(layout[1])["advertised.listeners"] == f"CONTROLLER://c1.kraftwatch.invalid:{port}"
    assert properties(layout[1])["listeners"] == f"CONTROLLER://127.0.0.1:{port}"

    layout.rename(1, "c1-new.kraftwatch.invalid")

    assert layout.bootstrap == [f"c1-new.kraftwatch.invalid:{port}"]
    assert properties(layout[101])["controller.quorum.bootstrap.servers"] == f"c1-new.kraftwatch.invalid:{port}"


def test_error_for_an_unknown_node_lists_the_known_ones(tmp_path: Path) -> None:
    layout = ClusterLayout(tmp_path, names=None, extra={})
    layout.populate(controllers=1, combined=0, brokers=1)

    with pytest.raises(LabError, match=r"^the lab has no node 7; it has 1, 101$"):
        layout[7]


def test_port_with_a_listener_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        monkeypatch.setattr("deploy.lab.addresses.FIRST", port)
        monkeypatch.setattr("deploy.lab.addresses.LAST", port + 1)

        with pytest.raises(LabError, match="no free port"):
            Ports().claim()


def test_port_of_another_lab_is_free_only_after_that_lab_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Ports()
    port = other.claim()
    monkeypatch.setattr("deploy.lab.addresses.FIRST", port)
    monkeypatch.setattr("deploy.lab.addresses.LAST", port + 1)
    with pytest.raises(LabError, match="no free port"):
        Ports().claim()

    del other

    assert Ports().claim() == port
