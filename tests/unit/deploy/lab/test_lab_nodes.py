"""The lab without Kafka: versions, ports, a broker with a stuck registration, remedies."""

import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.lab import LabError
from deploy.lab.addresses import Ports
from deploy.lab.cluster_layout import ClusterLayout
from deploy.lab.jvm import Jvm
from deploy.lab.lab import Lab
from deploy.lab.node import Node, is_dynamic


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


UNSENT = "INFO Unable to register the broker because the RPC got timed out before it could be sent. (org.apache…)\n"


@pytest.mark.parametrize(
    ("log", "starts"),
    [("INFO begins\n" + 8 * UNSENT, 2), ("", 1), (7 * UNSENT, 1), (8 * UNSENT + "INFO registered\n", 1)],
    ids=["stuck", "just started", "it may still register", "registered"],
)
def test_only_a_broker_with_a_stuck_registration_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, starts: int
) -> None:
    """It accepts requests after its second start."""
    node = Node(id=101, folder=tmp_path, controller_port=None, broker_port=9092)
    node.log_file.write_text(log)
    launched = ["once"]
    monkeypatch.setattr(Node, "accepts_requests", lambda *_: len(launched) > 1)
    monkeypatch.setattr(Node, "running_process", lambda _: SimpleNamespace(kill=lambda: None))
    monkeypatch.setattr(Node, "launch", lambda *_, **__: launched.append("again"))
    nothing: Any = None

    with nullcontext() if starts > 1 else pytest.raises(LabError, match="waiting for node 101"):
        node.wait_for_start(nothing, nothing, supervised=True, timeout_s=5 if starts > 1 else 0.2)

    assert len(launched) == starts


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab without nodes and jars."""
    monkeypatch.setattr(Lab, "jvm", Jvm(jars=tmp_path, folder=tmp_path))
    return Lab(tmp_path)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would run."""
    found: list[list[str]] = []
    monkeypatch.setattr(Jvm, "tool", lambda _, name, arguments: found.append([name, *arguments]))
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "bin/kafka-metadata-quorum.sh --bootstrap-controller a:1 remove-controller --controller-id 2",
            [["kafka-metadata-quorum", "--bootstrap-controller", "a:1", "remove-controller", "--controller-id", "2"]],
        ),
        (
            "kafka-metadata-quorum.sh --command-config $NODE_PROPERTIES add-controller",
            [["kafka-metadata-quorum", "--command-config", "/with space/server.properties", "add-controller"]],
        ),
        ("# Run this on the node itself, only once.", []),
        ("  # indented", []),
        ("", []),
    ],
)
def test_commands_are_run_as_they_are_printed(
    lab: Lab, commands: list[list[str]], line: str, expected: list[list[str]]
) -> None:
    lab.run_remedy(line, node_properties=Path("/with space/server.properties"))
    assert commands == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kafka-storage.sh format --config $NODE_PROPERTIES", "node_properties is required for $NODE_PROPERTIES"),
        ("kafka-topics.sh --bootstrap-server $BOOTSTRAP --list", "contains the unknown placeholder $BOOTSTRAP"),
    ],
)
def test_placeholder_without_a_value_is_named_in_the_error(
    lab: Lab, commands: list[list[str]], line: str, message: str
) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        lab.run_remedy(line, node_properties=None)
    assert commands == []


def test_command_that_is_not_a_kafka_tool_is_refused(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"^rm is not one of the lab's Kafka tools: kafka-acls, "):
        lab.run_remedy("rm -rf /", node_properties=None)
