import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.lab.cluster_layout import Roster
from deploy.lab.jvm import Jvm
from deploy.lab.lab_errors import LabError
from deploy.lab.tools import Tools


@dataclass(frozen=True, kw_only=True)
class Recorded(Jvm):
    """Notes what would be run; Kafka's own answers are the business of tests/kafka."""

    ran: list[tuple[str, list[str]]] = field(default_factory=list)

    def tool(self, name: str, arguments: Sequence[str], *, timeout_s: float = 0.0) -> str:
        self.ran.append((name, list(arguments)))
        return "done"


@pytest.fixture
def jvm(tmp_path: Path) -> Recorded:
    return Recorded(jars=tmp_path, folder=tmp_path)


@pytest.fixture
def tools(jvm: Recorded, tmp_path: Path) -> Tools:
    return Tools(jvm=jvm, roster=Roster(tmp_path, names=None, extra={}))


def test_a_printed_command_is_run_as_it_stands(tools: Tools, jvm: Recorded) -> None:
    line = "bin/kafka-metadata-quorum.sh --bootstrap-controller a:1,b:2 remove-controller --controller-id 2"

    assert tools.run_remedy(line, node_properties=None) == "done"
    assert jvm.ran == [
        ("kafka-metadata-quorum", ["--bootstrap-controller", "a:1,b:2", "remove-controller", "--controller-id", "2"])
    ]


def test_the_nodes_configuration_takes_its_place_as_one_word(tools: Tools, jvm: Recorded) -> None:
    tools.run_remedy(
        "kafka-metadata-quorum.sh --command-config $NODE_PROPERTIES add-controller",
        node_properties=Path("/with space/server.properties"),
    )

    assert jvm.ran[0][1] == ["--command-config", "/with space/server.properties", "add-controller"]


@pytest.mark.parametrize("line", ["# On the node itself, never twice.", "  # the same", ""])
def test_a_sentence_is_read_and_not_run(tools: Tools, jvm: Recorded, line: str) -> None:
    assert tools.run_remedy(line, node_properties=None) is None
    assert jvm.ran == []


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("kafka-storage.sh format --config $NODE_PROPERTIES", "which node's configuration is $NODE_PROPERTIES"),
        ("kafka-topics.sh --bootstrap-server $BOOTSTRAP --list", "still holds the placeholder $BOOTSTRAP"),
    ],
)
def test_a_placeholder_that_nobody_filled_is_named(tools: Tools, jvm: Recorded, line: str, sentence: str) -> None:
    with pytest.raises(LabError, match=re.escape(sentence)):
        tools.run_remedy(line, node_properties=None)
    assert jvm.ran == []


def test_what_is_none_of_kafkas_tools_is_refused_by_name(tmp_path: Path) -> None:
    jvm = Jvm(jars=tmp_path, folder=tmp_path)
    tools = Tools(jvm=jvm, roster=Roster(tmp_path, names=None, extra={}))

    with pytest.raises(LabError, match=r"^rm is none of Kafka's tools in the lab, which are: kafka-acls, "):
        tools.run_remedy("rm -rf /", node_properties=None)
