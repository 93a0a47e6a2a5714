"""Disks of the lab's nodes: formatted by Kafka's own tool, wiped like a disk that was replaced."""

import shutil
from collections.abc import Sequence

from deploy.lab.jvm import Jvm
from deploy.lab.node import Node


def format_disk(jvm: Jvm, node: Node, cluster_id: str, *, initial: Sequence[str] | None) -> None:
    """`kafka-storage format`: with these initial controllers (ID@HOST:PORT:DIRECTORY_ID), or without any.

    None: the quorum is static, so that no disk tells of it.
    """
    voters = ["--initial-controllers", ",".join(initial)] if initial else ["--no-initial-controllers"]
    if initial is None:
        voters = []
    jvm.tool("kafka-storage", ["format", "--config", str(node.properties_file), "--cluster-id", cluster_id, *voters])


def wipe_disk(jvm: Jvm, node: Node, cluster_id: str, *, static: bool) -> None:
    """Removes everything from a stopped node's disk and formats it anew: it gets another directory id."""
    shutil.rmtree(node.data)
    format_disk(jvm, node, cluster_id, initial=None if static else ())
