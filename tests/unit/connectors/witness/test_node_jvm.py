"""The JVM of a node, as the processes of its host show it."""

import os
import time
from pathlib import Path

import pytest

from connectors.witness import node_jvm as module
from connectors.witness.node_jvm import NodeJvm, node_jvm


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    monkeypatch.setattr(module, "_PROCESSES", folder)
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    return folder


def process(processes: Path, number: int, *words: str, environment: tuple[str, ...] = (), cwd: Path) -> None:
    folder, java = processes / str(number), processes.parent / "jdk" / "bin" / "java"
    folder.mkdir()
    java.parent.mkdir(parents=True, exist_ok=True)
    java.touch(mode=0o755)
    for name, target in (("exe", java), ("cwd", cwd), ("root", Path("/"))):
        (folder / name).symlink_to(target)
    (folder / "cmdline").write_bytes("\0".join(["java", *words, ""]).encode())
    (folder / "environ").write_bytes("\0".join([*environment, ""]).encode())


def test_it_is_the_process_that_runs_with_the_file(processes: Path, tmp_path: Path) -> None:
    own, other = tmp_path / "own.properties", tmp_path / "other.properties"
    for file in (own, other):
        file.touch()
    agent = "JAVA_TOOL_OPTIONS=-javaagent:jmx.jar=7071 -Dof.agent=1"
    process(processes, 7, "-Da=1", "kafka.Kafka", str(other), cwd=tmp_path)
    process(
        processes, 8, "-Db=2=3", "-Xmx1g", "kafka.Kafka", "own.properties", environment=("HOME=/k", agent), cwd=tmp_path
    )
    (processes / "self").mkdir()

    found = node_jvm(own)
    assert (found.settings, found.environment, found.unknown) == ({"of.agent": "1", "b": "2=3"}, {"HOME": "/k"}, "")
    assert found.program("java") == tmp_path / "jdk" / "bin" / "java"


def test_a_node_in_another_network_dials_from_elsewhere(processes: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.properties"
    file.touch()
    process(processes, 9, "kafka.Kafka", str(file), cwd=tmp_path)
    for name, network in (("9", "net:[1]"), ("self", "net:[2]")):
        (processes / name / "ns").mkdir(parents=True)
        (processes / name / "ns" / "net").symlink_to(network)

    assert "nsenter --target 9 --net --mount" in node_jvm(file).unknown


def test_without_the_process_its_options_are_those_of_kafka_opts_or_unknown(
    processes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.properties"
    file.touch()

    assert "no process that kraftwatch sees runs with this file" in node_jvm(file).unknown
    monkeypatch.setenv("KAFKA_OPTS", "-Dc='a b' -javaagent:x.jar")
    assert (node_jvm(file).settings, node_jvm(file).unknown) == ({"c": "a b"}, "")


@pytest.mark.parametrize(
    ("name", "value", "decides"),
    [
        ("jdk.net.hosts.file", "/hosts", False),
        ("java.security.egd", "file:/dev/urandom", False),
        ("log4j2.configurationFile", "x", False),
        ("jdk.tls.ephemeralDHKeySize", "2048", False),
        ("jdk.tls.namedGroups", "secp521r1", True),
        ("javax.net.ssl.trustStore", "/store", True),
        ("java.security.properties", "/nowhere", True),
    ],
)
def test_an_option_that_decides_how_java_dials_leaves_it_to_java(name: str, value: str, decides: bool) -> None:
    unlike = NodeJvm(settings={name: value}).unlike

    assert unlike == (
        f"the node's JVM has -D{name}, which decides how it dials: give --kafka DIR, Kafka's folder" if decides else ""
    )


def test_a_security_file_that_sets_caches_alone_decides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "java.security"
    file.write_text("networkaddress.cache.ttl=0\n")
    assert NodeJvm(settings={"java.security.properties": str(file)}).unlike == ""
    file.write_text("networkaddress.cache.ttl=0\njdk.tls.disabledAlgorithms=none\n")
    assert NodeJvm(settings={"java.security.properties": str(file)}).unlike != ""


def test_it_is_known_since_when_the_process_runs(processes: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.properties"
    file.touch()
    process(processes, 9, "kafka.Kafka", str(file), cwd=tmp_path)
    (processes / "self").mkdir()
    assert node_jvm(file).since_ms is None, "its host does not show it"

    ticks, booted = os.sysconf("SC_CLK_TCK"), 1_790_000_000
    (processes / "stat").write_text(f"cpu  1 2 3\nbtime {booted}\n")
    values = [*map(str, range(4, 22)), str(90 * ticks), "23"]
    (processes / "9" / "stat").write_text(f"9 (java (x) y) S {' '.join(values)}\n")
    assert node_jvm(file).since_ms == (booted + 90) * 1_000


def test_the_process_of_this_test_began_before_now() -> None:
    now_ms, began_ms = time.time() * 1_000, module._began_ms(Path("/proc/self"))
    assert began_ms is not None
    assert now_ms - 3_600_000 < began_ms < now_ms + 1_000
