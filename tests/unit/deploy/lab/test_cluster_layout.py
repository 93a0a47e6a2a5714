from pathlib import Path

import pytest

from deploy.lab import LabError
from deploy.lab.addresses import Ports
from deploy.lab.cluster_layout import ClusterLayout
from deploy.lab.node import is_dynamic


@pytest.mark.parametrize(("version", "dynamic"), [("3.8.1", False), ("3.9.2", True), ("4.0.1", True), ("10.0", True)])
def test_dynamic_quorums_need_3_9(version: str, dynamic: bool) -> None:
    assert is_dynamic(version) is dynamic


def test_invalid_version_is_named_in_the_error() -> None:
    with pytest.raises(LabError, match=r"^'\.\./4' is not a Kafka version: expected one such as 4\.3\.1$"):
        is_dynamic("../4")


def test_error_for_an_unknown_node_lists_the_known_ones(tmp_path: Path) -> None:
    layout = ClusterLayout(folder=tmp_path)
    layout.populate(controllers=1, combined=0, brokers=1)

    with pytest.raises(LabError, match=r"^the lab has no node 7; it has 1, 101$"):
        layout[7]


def test_port_of_another_lab_is_free_only_after_that_lab_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Ports()
    port = other.claim()
    monkeypatch.setattr("deploy.lab.addresses.FIRST", port)
    monkeypatch.setattr("deploy.lab.addresses.LAST", port + 1)
    with pytest.raises(LabError, match="no free port"):
        Ports().claim()

    del other

    assert Ports().claim() == port
