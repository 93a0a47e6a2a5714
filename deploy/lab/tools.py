"""Kafka's own tools, run against the lab: what an operator would type, and what a remedy says to type."""

import re
import shlex
from pathlib import Path

from deploy.lab.cluster_layout import Roster
from deploy.lab.jvm import Jvm
from deploy.lab.kafka_versions import tells_its_cluster
from deploy.lab.lab_errors import LabError
from deploy.lab.node import Node

NODE_PROPERTIES = "$NODE_PROPERTIES"
"""A remedy's placeholder for the configuration file of the node that it is run on."""


class Tools:
    """Each call starts one JVM: about a second and a half."""

    def __init__(self, *, jvm: Jvm, roster: Roster, command_config: Path | None = None) -> None:
        """`command_config` is what the tools need to reach a secured quorum."""
        self._jvm = jvm
        self._roster = roster
        self._login = [] if command_config is None else ["--command-config", str(command_config)]

    def describe_status(self) -> dict[str, str]:
        """`describe --status`: its lines as name -> value, such as LeaderId, LeaderEpoch, CurrentVoters."""
        printed = self._jvm.tool(
            "kafka-metadata-quorum", [*self._login, *self._at_controllers(), "describe", "--status"]
        )
        pairs = (line.partition(":") for line in printed.splitlines() if ":" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def describe_replication(self) -> list[dict[str, str]]:
        """`describe --replication`: its rows as column -> value, such as NodeId, DirectoryId, Lag, Status."""
        printed = self._jvm.tool(
            "kafka-metadata-quorum", [*self._login, *self._at_controllers(), "describe", "--replication"]
        )
        heading, *rows = [line.split() for line in printed.splitlines() if line.strip()]
        return [dict(zip(heading, row, strict=True)) for row in rows]

    def add_controller(self, node: Node) -> None:
        """`add-controller`, told who to add by the node's own configuration and disk."""
        self._jvm.tool(
            "kafka-metadata-quorum",
            ["--command-config", str(node.properties_file), *self._at_controllers(), "add-controller"],
        )

    def remove_controller(self, id_: int, directory_id: str) -> None:
        """`remove-controller` of this voter."""
        who = ["--controller-id", str(id_), "--controller-directory-id", directory_id]
        self._jvm.tool("kafka-metadata-quorum", [*self._login, *self._at_controllers(), "remove-controller", *who])

    def upgrade_features(self, *options: str) -> str:
        """`kafka-features upgrade` with these options."""
        return self._jvm.tool("kafka-features", [*self._at_controllers(), "upgrade", *options])

    def dump_log(self, node: Node) -> str:
        """Every snapshot and segment of its metadata log, decoded, oldest first."""
        files = sorted(file for file in node.metadata_log.iterdir() if file.suffix in {".log", ".checkpoint"})
        return self._jvm.tool("kafka-dump-log", ["--cluster-metadata-decoder", "--files", ",".join(map(str, files))])

    def run_remedy(self, line: str, *, node_properties: Path | None) -> str | None:
        """Executes one printed command; None for a sentence (`# ...`).

        Raises:
            LabError: it is no command of Kafka's, names a placeholder that was not given, or failed.
        """
        if not line.strip() or line.lstrip().startswith("#"):
            return None
        if NODE_PROPERTIES in line:
            if node_properties is None:
                raise LabError(f"which node's configuration is {NODE_PROPERTIES} in this remedy: {line}")
            line = line.replace(NODE_PROPERTIES, shlex.quote(str(node_properties)))
        if left := re.search(r"\$\w+", line):
            raise LabError(f"the remedy still holds the placeholder {left.group()}: {line}")
        script, *arguments = shlex.split(line)
        return self._jvm.tool(Path(script).name.removesuffix(".sh"), arguments)

    def _at_controllers(self) -> list[str]:
        running = [node for node in self._roster.controllers if node.running]
        if not running:
            raise LabError("no controller of the lab runs, so there is nobody for Kafka's tool to ask")
        if not tells_its_cluster(running[0].version):
            return ["--bootstrap-server", ",".join(node.broker_endpoint for node in self._roster.brokers)]
        return ["--bootstrap-controller", ",".join(node.endpoint for node in running)]
