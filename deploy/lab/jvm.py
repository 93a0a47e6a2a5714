"""How the lab starts Java: nodes and Kafka's tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.process import output_of

NODE = "kafka.Kafka"

TOOLS: Mapping[str, str] = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}
"""Kafka's scripts without `.sh`, and the class that each runs."""

# Small and quick to start; what a lab runs never gets hot enough for the second compiler.
_QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")

_LOG4J2 = """<Configuration status="ERROR">
  <Appenders>
    <Console name="out"><PatternLayout pattern="[%d{ISO8601}] %p %m (%c)%n"/></Console>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
# A name that vanishes must be gone at the next lookup. These two are security properties, not system properties:
# the JDK's own file sets the second to 10 s, and it wins over sun.net.inetaddr.negative.ttl.
_NO_DNS_CACHE = "networkaddress.cache.ttl=0\nnetworkaddress.cache.negative.ttl=0\n"

TOOL_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """The jars of one Kafka version, and what every JVM of one lab is told.

    With `hosts_file` Java asks that file for names, and nothing else: no DNS, no /etc/hosts.
    """

    jars: Path
    folder: Path
    """Where log4j2.xml and java.security are written."""
    hosts_file: Path | None = None

    def prepare(self) -> None:
        """Writes the files that the options point to."""
        (self.folder / "log4j2.xml").write_text(_LOG4J2, encoding="utf-8")
        (self.folder / "java.security").write_text(_NO_DNS_CACHE, encoding="utf-8")

    def node(self, properties: Path) -> list[str]:
        """The command that runs a broker or controller in the foreground, logging to its standard output."""
        log = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        return [*self._java(), log, "-XX:+ExitOnOutOfMemoryError", NODE, str(properties)]

    def tool(self, name: str, arguments: Sequence[str], *, timeout_s: float = TOOL_TIMEOUT_S) -> str:
        """Runs one of Kafka's tools, named as its script without `.sh`, and returns what it printed.

        Raises:
            LabError: no such tool here; it failed (with its last lines); or it took longer than `timeout_s`.
        """
        if name not in TOOLS:
            raise LabError(f"{name} is none of Kafka's tools in the lab, which are: {', '.join(sorted(TOOLS))}")
        told = f"{name} {' '.join(arguments)}"
        return output_of([*self._java(), TOOLS[name], *arguments], what=told, timeout_s=timeout_s)

    def _java(self) -> list[str]:
        names = [] if self.hosts_file is None else [
            f"-Djdk.net.hosts.file={self.hosts_file}",
            f"-Djava.security.properties={self.folder / 'java.security'}",
        ]  # fmt: skip
        return ["java", *_QUICK, *names, "-cp", f"{self.jars}/*"]
