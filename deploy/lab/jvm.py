"""The Java commands that run nodes and Kafka's tools."""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.child_process import command_output
from deploy.lab.jars import class_archive

NODE = "kafka.Kafka"

TOOLS: Mapping[str, tuple[str, ...]] = {
    "kafka-acls": ("org.apache.kafka.tools.AclCommand", "kafka.admin.AclCommand"),
    "kafka-broker-api-versions": (
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "kafka.admin.BrokerApiVersionsCommand",
    ),
    "kafka-cluster": ("org.apache.kafka.tools.ClusterTool",),
    "kafka-configs": ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-dump-log": ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "kafka-features": ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand"),
    "kafka-jmx": ("org.apache.kafka.tools.JmxTool", "kafka.tools.JmxTool"),
    "kafka-leader-election": ("org.apache.kafka.tools.LeaderElectionCommand", "kafka.admin.LeaderElectionCommand"),
    "kafka-log-dirs": ("org.apache.kafka.tools.LogDirsCommand", "kafka.admin.LogDirsCommand"),
    "kafka-metadata-quorum": ("org.apache.kafka.tools.MetadataQuorumCommand", "kafka.admin.MetadataQuorumCommand"),
    "kafka-reassign-partitions": (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "kafka-storage": ("kafka.tools.StorageTool",),
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
}
"""Kafka's scripts without `.sh`, and the class that each runs: the newest name first."""

# Small and quick to start; the lab's processes are too short-lived to profit from the second compiler.
_QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")

_LOG4J2 = """<Configuration status="ERROR">
  <Appenders>
    <Console name="out"><PatternLayout pattern="[%d{ISO8601}] %p %m (%c)%n"/></Console>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
# Kafka before 4.0 logs with reload4j to the output of the tools too, so the tools run with logging off.
_LOG4J = """log4j.rootLogger=${lab.log.level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
# A removed name must not resolve at the next lookup. Both are security properties, not system properties: the JDK's
# own file sets the second to 10 s, which overrides sun.net.inetaddr.negative.ttl.
_NO_DNS_CACHE = "networkaddress.cache.ttl=0\nnetworkaddress.cache.negative.ttl=0\n"

TOOL_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """The jars of one Kafka version, and the options of every JVM of one lab.

    With `hosts_file` Java resolves names from that file only, without DNS and /etc/hosts.
    """

    jars: Path
    folder: Path
    """Contains log4j2.xml, log4j.properties and java.security."""
    hosts_file: Path | None = None
    options: tuple[str, ...] = ()
    """Additional options of the JVMs that run nodes."""
    written_archive: Path | None = None
    """The class archive that a node writes when it ends; without it every JVM reads that of its version."""

    def prepare(self) -> None:
        """Writes the files that the options name."""
        (self.folder / "log4j2.xml").write_text(_LOG4J2, encoding="utf-8")
        (self.folder / "log4j.properties").write_text(_LOG4J, encoding="utf-8")
        (self.folder / "java.security").write_text(_NO_DNS_CACHE, encoding="utf-8")

    def node(self, properties: Path) -> list[str]:
        """Returns the command that runs a broker or controller in the foreground, logging to standard output."""
        log = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        options = [log, *self._log4j("INFO"), "-XX:+ExitOnOutOfMemoryError", *self.options]
        if self.written_archive is not None:
            options.append(f"-XX:ArchiveClassesAtExit={self.written_archive}")
        return [*self._java(), *options, NODE, str(properties)]

    def tool(self, name: str, arguments: Sequence[str]) -> str:
        """Runs one of Kafka's tools, named as its script without `.sh`, and returns its output."""
        return command_output(
            self.tool_command(name, arguments), what=f"{name} {' '.join(arguments)}", timeout_s=TOOL_TIMEOUT_S
        )

    def tool_command(self, name: str, arguments: Sequence[str]) -> list[str]:
        """Returns the command that runs one of Kafka's tools."""
        if name not in TOOLS:
            raise LabError(f"{name} is not one of the lab's Kafka tools: {', '.join(sorted(TOOLS))}")
        return [*self._java(), *self._log4j("OFF"), self._main_class(name), *arguments]

    def _main_class(self, tool: str) -> str:
        return next((name for name in TOOLS[tool] if self._contains(name)), TOOLS[tool][0])

    def _contains(self, class_name: str) -> bool:
        entry = class_name.replace(".", "/") + ".class"
        for jar in (*self.jars.glob("kafka-tools-*.jar"), *self.jars.glob("kafka_2.13-*.jar")):
            with zipfile.ZipFile(jar) as archive:
                if entry in archive.NameToInfo:
                    return True
        return False

    def _log4j(self, level: str) -> list[str]:
        # Log4j 2 would read this option too, and report the file as invalid.
        if not any(self.jars.glob("slf4j-reload4j-*.jar")):
            return []
        return [f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}", f"-Dlab.log.level={level}"]

    def _java(self) -> list[str]:
        names = [] if self.hosts_file is None else [
            f"-Djdk.net.hosts.file={self.hosts_file}",
            f"-Djava.security.properties={self.folder / 'java.security'}",
        ]  # fmt: skip
        archive = class_archive(self.jars)
        # An archive of another Java is ignored; what Java says about it would be in the output of the tools.
        classes = [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"]
        return ["java", *_QUICK, *names, *(classes if archive.exists() else []), "-cp", f"{self.jars}/*"]
