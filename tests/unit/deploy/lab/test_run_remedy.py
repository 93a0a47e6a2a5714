import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.lab import LabError
from deploy.lab.jvm import Jvm
from deploy.lab.lab import Lab


@dataclass(frozen=True, kw_only=True)
class RecordingJvm(Jvm):
    """Records the commands instead of running them."""

    commands: list[list[str]] = field(default_factory=list)

    def tool(self, name: str, arguments: Sequence[str]) -> str:
        self.commands.append([name, *arguments])
        return "done"


@pytest.fixture
def jvm(tmp_path: Path) -> RecordingJvm:
    return RecordingJvm(jars=tmp_path, folder=tmp_path)


class UnstartedLab(Lab):
    """A lab without nodes."""

    def __init__(self, folder: Path, jvm: Jvm) -> None:
        super().__init__(folder)
        self._given_jvm = jvm

    @property
    def jvm(self) -> Jvm:
        return self._given_jvm


@pytest.fixture
def lab(jvm: RecordingJvm, tmp_path: Path) -> Lab:
    return UnstartedLab(tmp_path, jvm)


@pytest.mark.parametrize(
    ("line", "commands"),
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
    lab: Lab, jvm: RecordingJvm, line: str, commands: list[list[str]]
) -> None:
    lab.run_remedy(line, node_properties=Path("/with space/server.properties"))
    assert jvm.commands == commands


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kafka-storage.sh format --config $NODE_PROPERTIES", "node_properties is required for $NODE_PROPERTIES"),
        ("kafka-topics.sh --bootstrap-server $BOOTSTRAP --list", "contains the unknown placeholder $BOOTSTRAP"),
    ],
)
def test_placeholder_without_a_value_is_named_in_the_error(
    lab: Lab, jvm: RecordingJvm, line: str, message: str
) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        lab.run_remedy(line, node_properties=None)
    assert jvm.commands == []


def test_command_that_is_not_a_kafka_tool_is_refused(tmp_path: Path) -> None:
    lab = UnstartedLab(tmp_path, Jvm(jars=tmp_path, folder=tmp_path))

    with pytest.raises(LabError, match=r"^rm is not one of the lab's Kafka tools: kafka-acls, "):
        lab.run_remedy("rm -rf /", node_properties=None)
