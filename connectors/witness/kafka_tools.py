"""Dials a voter with Kafka's own tools of this host, the node's Java, its -D options and its properties.

`kafka-cluster.sh cluster-id` shows whether the name, the connection, TLS and the login are as the node needs them
(DescribeCluster of KIP-919, Kafka 3.7). It needs ALTER, which a peer does not: whether a peer is permitted shows a
Fetch, or where kraftwatch cannot log in, that the principal has ALTER by no ACL, so that it is a super user.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.errors import UsageError
from connectors.process.kafka_home import class_path_of
from connectors.process.wall_clock import wall_ms
from connectors.witness.key_stores import written
from connectors.witness.node_jvm import NodeJvm
from rules.model.identifiers import DirectoryId, NodeId
from rules.model.witness import DialStep, Reached

_TOOLS: Final = "org.apache.kafka.tools."
_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Duser.language=en")
_ITS_OWN: Final = ("com.sun.management.", "java.rmi.", "log4j", "kafka.logs.dir", "user.language")
"""The -D options of the node that decide nothing of its dials, and would take its ports and its log files."""
_JVM_STARTS_S: Final = 20.0
_CLUSTER_ID = re.compile(r"^Cluster ID: (\S+)$", re.MULTILINE)
_EXCEPTION = re.compile(
    r"^(?:Caused by: )?(?:[\w$]+\.)+(?P<name>\w+(?:Exception|Error))(?:: (?P<text>.*))?$", re.MULTILINE
)
_GRANTS_ALTER = re.compile(r"operation=(?:ALTER|ALL), permissionType=ALLOW")
_ENDS: Final[Mapping[str, DialStep]] = {
    "SslAuthenticationException": DialStep.TLS,
    "SaslAuthenticationException": DialStep.LOGIN,
    "UnsupportedSaslMechanismException": DialStep.LOGIN,
    "IllegalSaslStateException": DialStep.LOGIN,
    "MismatchedEndpointTypeException": DialStep.NODE,
    "UnsupportedEndpointTypeException": DialStep.NODE,
}
"""The exceptions that say at which step a dial ended."""
_DENIED = "ClusterAuthorizationException"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What a dial showed."""

    reached: Reached
    step: DialStep | None = None
    """The step that failed; of an unknown outcome, the one that shows nothing."""
    why: str = ""

    @property
    def logs_in(self) -> bool:
        """Whether the voter accepted the login, or no less."""
        return self.reached is Reached.YES or self.step in (DialStep.PERMISSION, DialStep.NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSaid:
    """What the leader says of itself and of a node."""

    ahead_ms: int
    """How far its clock is ahead of this host's."""
    directory_ids: tuple[DirectoryId, ...]
    """With which it lists the node as a voter."""


class KafkaTools:
    """The tools of one installation, as one node would dial."""

    def __init__(self, home: Path, scratch: Path, *, client: Mapping[str, str], jvm: NodeJvm, timeout_s: float) -> None:
        """Writes what the tools need into a folder that nobody else can read; starts nothing yet.

        Raises:
            UsageError: there is no such installation, or no Java.
        """
        classes = class_path_of(home, "--kafka")
        java = jvm.program("java")
        if java is None:
            raise UsageError("--kafka needs Java: the command java is not found in the PATH")
        self._java, self._environment, self._timeout_s = java, jvm.environment, timeout_s
        millis = str(round(timeout_s * 1_000))
        bounded = {"request.timeout.ms": millis, "default.api.timeout.ms": millis}
        properties = "".join(f"{name}={_escaped(value)}\n" for name, value in {**client, **bounded}.items())
        self._config = written(scratch / "client.properties", properties.encode("ascii"))
        kept = [f"-D{name}={value}" for name, value in jvm.settings.items() if not name.startswith(_ITS_OWN)]
        # As kafka-run-class.sh: callback handlers and providers may be there.
        added = jvm.environment.get("CLASSPATH", "")
        options = [*_JVM, *kept, "-cp", f"{classes}:{added}" if added else classes]
        quoted = (one.replace("\\", "\\\\").replace('"', '\\"') for one in options)
        # A file, and no arguments: an option of the node may be a secret.
        self._options = written(scratch / "java.options", "".join(f'"{one}"\n' for one in quoted).encode())

    def dial(self, endpoint: str, cluster_id: str | None) -> ToolOutcome:
        """Returns how far a dial of this address gets: up to the login."""
        code, text = self._run(
            "ClusterTool", "cluster-id", "--bootstrap-controller", endpoint, "--config", self._config
        )
        named = _CLUSTER_ID.search(text)
        if code == 0 and named is not None:
            if cluster_id is None or named[1] == cluster_id:
                return ToolOutcome(reached=Reached.YES)
            return ToolOutcome(reached=Reached.NO, step=DialStep.NODE, why="the node belongs to another cluster")
        return _ended(code, text)

    def proved(self, endpoint: str, node: NodeId) -> ToolOutcome:
        """Returns whether this node answers the login and permits what a peer sends, where no Fetch can show it."""
        at = ("--bootstrap-controller", endpoint, "--command-config", self._config)
        described = ("--describe", "--entity-type", "brokers", "--entity-name", str(node))
        code, text = self._run("ConfigCommand", *at, *described)
        if "Unexpected broker id" in text:
            return ToolOutcome(reached=Reached.NO, step=DialStep.NODE, why="another node answers there")
        if code != 0 or f"configs for broker {node} are" not in text:
            return ToolOutcome(reached=Reached.UNKNOWN, why="whether this node answers there is not known")
        code, text = self._run("AclCommand", *at, "--list", "--cluster")
        if "No Authorizer is configured" in text or (code == 0 and not _GRANTS_ALTER.search(text)):
            return ToolOutcome(reached=Reached.YES)
        why = "an ACL grants ALTER, so nothing shows whether this login may send what a peer sends (CLUSTER_ACTION)"
        return ToolOutcome(
            reached=Reached.UNKNOWN, step=DialStep.PERMISSION, why=why if code == 0 else _ended(code, text).why
        )

    def leader(self, endpoints: Sequence[str], node: NodeId) -> LeaderSaid | None:
        """Returns what the leader says; None if it does not answer."""
        at = ("--bootstrap-controller", ",".join(endpoints), "--command-config", self._config)
        code, text = self._run("MetadataQuorumCommand", *at, "describe", "--replication")
        now_ms = wall_ms()
        heading, *rows = [line.split() for line in text.splitlines() if line.strip()] or [[]]
        found = [dict(zip(heading, row, strict=False)) for row in rows]
        leader_ms = next((one.get("LastCaughtUpTimestamp", "") for one in found if one.get("Status") == "Leader"), "")
        if code != 0 or not leader_ms.isdigit():
            return None
        voters = (one for one in found if one.get("Status") in ("Leader", "Follower"))
        own = {DirectoryId(one.get("DirectoryId", "")) for one in voters if one.get("NodeId") == str(node)}
        return LeaderSaid(ahead_ms=int(leader_ms) - now_ms, directory_ids=tuple(sorted(filter(None, own))))

    def _run(self, tool: str, *arguments: str) -> tuple[int | None, str]:
        """Returns the exit code of a tool, None if it did not end in time, and what it printed."""
        try:
            ended = subprocess.run(
                [self._java, f"@{self._options}", _TOOLS + tool, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_JVM_STARTS_S + 3 * self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, ""
        except OSError as problem:
            raise UsageError(f"--kafka: cannot run {self._java}: {problem.strerror}") from None
        return ended.returncode, ended.stdout.decode("utf-8", "replace")


def _ended(code: int | None, text: str) -> ToolOutcome:
    """Returns what the output of a tool that failed shows."""
    found = [(one["name"], (one["text"] or "").strip()) for one in _EXCEPTION.finditer(text)]
    names = [name for name, _ in found]
    if _DENIED in names:
        why = "Kafka's tool logs in, and is denied ALTER: nothing shows whether CLUSTER_ACTION is too"
        return ToolOutcome(reached=Reached.UNKNOWN, step=DialStep.PERMISSION, why=why)
    if "No resolvable bootstrap urls" in text:
        return ToolOutcome(reached=Reached.NO, step=DialStep.NAME, why="Java does not resolve the name")
    # The last one is the cause of the others.
    why = next((said for _, said in reversed(found) if said), "")
    step = next((_ENDS[name] for name in names if name in _ENDS), None)
    if step is not None:
        return ToolOutcome(reached=Reached.NO, step=step, why=why)
    if code is None or "TimeoutException" in names:
        return ToolOutcome(reached=Reached.UNKNOWN, why="Kafka's tool had no answer in time")
    said = why or next(iter(names or text.strip().splitlines()), "it printed nothing")
    return ToolOutcome(reached=Reached.UNKNOWN, why=f"Kafka's tool cannot dial: {said}")


def _escaped(value: str) -> str:
    """Returns a value as a line of a Java properties file has it (Properties.store)."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    text = "\\" + text if text.startswith((" ", "\t")) else text
    encoded = text.encode("utf-16-be")
    units = (int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2))
    return "".join(chr(one) if one < 0x7F else f"\\u{one:04x}" for one in units)
