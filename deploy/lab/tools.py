"""Runs Kafka's own tools against the lab, and the commands of a remedy."""

import re
import shlex
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.cluster_layout import ClusterLayout
from deploy.lab.jvm import Jvm
from deploy.lab.node import Node, controllers_accept_clients

NODE_PROPERTIES = "$NODE_PROPERTIES"
"""The placeholder in a remedy for the configuration file of the node on which the command runs."""


class Tools:
    """Each call starts one JVM: about a second and a half."""

    def __init__(self, *, jvm: Jvm, layout: ClusterLayout, command_config: Path | None = None) -> None:
        """`command_config` contains the login for a secured quorum."""
        self._jvm = jvm
        self._layout = layout
        self._login = [] if command_config is None else ["--command-config", str(command_config)]

    def describe_status(self) -> dict[str, str]:
        """Returns the lines of `describe --status` as name -> value, such as LeaderId, LeaderEpoch, CurrentVoters."""
        output = self._jvm.tool(
            "kafka-metadata-quorum", [*self._login, *self._at_controllers(), "describe", "--status"]
        )
        pairs = (line.partition(":") for line in output.splitlines() if ":" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def describe_replication(self) -> list[dict[str, str]]:
        """Returns the rows of `describe --replication` as column -> value, such as NodeId, DirectoryId, Lag, Status."""
        output = self._jvm.tool(
            "kafka-metadata-quorum", [*self._login, *self._at_controllers(), "describe", "--replication"]
        )
        heading, *rows = [line.split() for line in output.splitlines() if line.strip()]
        return [dict(zip(heading, row, strict=True)) for row in rows]

    def add_controller(self, node: Node) -> None:
        """Runs `add-controller` with the node's configuration, which names the node and its log directory."""
        self._jvm.tool(
            "kafka-metadata-quorum",
            ["--command-config", str(node.properties_file), *self._at_controllers(), "add-controller"],
        )

    def remove_controller(self, id_: int, directory_id: str) -> None:
        """Runs `remove-controller` for this voter."""
        voter = ["--controller-id", str(id_), "--controller-directory-id", directory_id]
        self._jvm.tool("kafka-metadata-quorum", [*self._login, *self._at_controllers(), "remove-controller", *voter])

    def upgrade_features(self, *options: str) -> str:
        """Runs `kafka-features upgrade` with these options and returns its output."""
        return self._jvm.tool("kafka-features", [*self._at_controllers(), "upgrade", *options])

    def dump_log(self, node: Node) -> str:
        """Returns every decoded snapshot and segment of its metadata log, oldest first."""
        files = sorted(file for file in node.metadata_log.iterdir() if file.suffix in {".log", ".checkpoint"})
        return self._jvm.tool("kafka-dump-log", ["--cluster-metadata-decoder", "--files", ",".join(map(str, files))])

    def run_remedy(self, line: str, *, node_properties: Path | None) -> str | None:
        """Runs one command of a remedy and returns its output; returns None for a comment (`# ...`).

        Raises:
            LabError: the command is not one of Kafka's tools, contains an unknown placeholder, or failed.
        """
        if not line.strip() or line.lstrip().startswith("#"):
            return None
        if NODE_PROPERTIES in line:
            if node_properties is None:
                raise LabError(f"node_properties is required for {NODE_PROPERTIES} in this remedy: {line}")
            line = line.replace(NODE_PROPERTIES, shlex.quote(str(node_properties)))
        if placeholder := re.search(r"\$\w+", line):
            raise LabError(f"the remedy contains the unknown placeholder {placeholder.group()}: {line}")
        script, *arguments = shlex.split(line)
        return self._jvm.tool(Path(script).name.removesuffix(".sh"), arguments)

    def _at_controllers(self) -> list[str]:
        running = [node for node in self._layout.controllers if node.running]
        if not running:
            raise LabError("no controller of the lab is running, so Kafka's tool cannot connect")
        if not controllers_accept_clients(running[0].version):
            return ["--bootstrap-server", ",".join(node.broker_endpoint for node in self._layout.brokers)]
        return ["--bootstrap-controller", ",".join(node.endpoint for node in running)]
