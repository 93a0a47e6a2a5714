"""MetaProperties: `meta.properties` of a log directory, written when it was formatted (KIP-631, KIP-853).

Kafka's `MetaProperties`: version 0 (`broker.id`) and version 1 (`node.id`, and `directory.id` since 3.7).
"""

import re
from dataclasses import dataclass
from pathlib import Path

from connectors.logdir.log_dir_files import PARTITION
from rules.model.identifiers import DirectoryId, NodeId, ReplicaKey

META_PROPERTIES = "meta.properties"
_PAIR = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[=:]?\s*(.*)")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of `meta.properties`; None for missing properties."""

    version: int | None
    cluster_id: str | None
    node_id: NodeId | None
    directory_id: DirectoryId | None

    @property
    def key(self) -> ReplicaKey | None:
        """The replica's key; None if the file names no node."""
        return None if self.node_id is None else ReplicaKey(id=self.node_id, directory_id=self.directory_id)


def read_meta_properties(partition: Path) -> MetaProperties | None:
    """Reads the `meta.properties` of the partition's log directory; None if the file cannot be read."""
    folder = partition.parent if partition.name == PARTITION else partition
    try:
        text = (folder / META_PROPERTIES).read_text(encoding="latin-1")
    except OSError:
        return None
    properties = dict(pair for line in text.splitlines() if (pair := _pair(line)))
    directory = properties.get("directory.id")
    node = _number(properties.get("node.id", properties.get("broker.id")))
    return MetaProperties(
        version=_number(properties.get("version")),
        cluster_id=properties.get("cluster.id"),
        node_id=None if node is None else NodeId(node),
        directory_id=None if directory is None else DirectoryId(directory),
    )


def _pair(line: str) -> tuple[str, str] | None:
    """Returns key and value of one line of a Java properties file; None for a comment or an empty line."""
    found = _PAIR.fullmatch(line)
    return None if found is None else (found[1], _ESCAPED.sub(r"\1", found[2].rstrip()))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None
