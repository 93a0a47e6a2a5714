"""The log directories of the lab's nodes: format them with Kafka's tool, wipe them as if a disk was replaced."""

import base64
import shutil
import uuid
from collections.abc import Sequence

from deploy.lab.jvm import Jvm
from deploy.lab.node import Node


def format_disk(jvm: Jvm, node: Node, cluster_id: str, *, initial: Sequence[str] | None) -> None:
    """Runs `kafka-storage format`.

    `initial` lists the initial controllers (ID@HOST:PORT:DIRECTORY_ID); empty means --no-initial-controllers. None
    means a static quorum, whose log directories do not name its voters.
    """
    voters = ["--initial-controllers", ",".join(initial)] if initial else ["--no-initial-controllers"]
    if initial is None:
        voters = []
    jvm.tool("kafka-storage", ["format", "--config", str(node.properties_file), "--cluster-id", cluster_id, *voters])


def wipe_disk(jvm: Jvm, node: Node, cluster_id: str, *, static: bool) -> None:
    """Deletes a stopped node's log directory and formats a new one, which has another directory id."""
    shutil.rmtree(node.data)
    format_disk(jvm, node, cluster_id, initial=None if static else ())


def new_uuid() -> str:
    """Returns 22 characters of URL-safe base64 that do not start with `-`, which tools would parse as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
