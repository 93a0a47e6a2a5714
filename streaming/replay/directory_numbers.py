"""DirectoryNumbers: the log directories of replicas (KIP-858) as small numbers.

A broker's directories are numbered in the order in which they appear. So the directories of nearly all partitions are
one of few tuples, such as (0, 0, 0) where each broker has one directory.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Final, TypeAlias

from connectors.metadata.value_limits import MOST_LOG_DIRECTORIES
from connectors.observations.partition_run import Directories
from rules.model.identifiers import DirectoryId, NodeId

Numbers: TypeAlias = tuple[int, ...]
"""The number of each replica's directory; empty if the record names none."""
MIGRATING: Final = -1
"""The zero UUID (DirectoryId.MIGRATING); also a directory beyond the limit. No broker registers it."""
UNASSIGNED: Final = -2
"""The broker has not reported yet in which directory its replica is."""
UNASSIGNED_ID: Final = DirectoryId("AAAAAAAAAAAAAAAAAAAAAQ")
_RESERVED: Final[Mapping[DirectoryId | None, int]] = {None: MIGRATING, UNASSIGNED_ID: UNASSIGNED}
_MOST_KNOWN: Final = 1 << 15


class DirectoryNumbers:
    """The directories of the brokers of one log, in which its partitions are."""

    def __init__(self, stored: bytes = b"") -> None:
        """`stored` is what `to_bytes` returned.

        Raises:
            ValueError: it is damaged.
        """
        listed = json.loads(zlib.decompress(stored)) if stored else {}
        self.of_broker: dict[NodeId, dict[DirectoryId, int]] = {
            NodeId(int(node)): {DirectoryId(one): number for number, one in enumerate(ids)}
            for node, ids in listed.items()
        }
        """The number of each directory, by broker; in the order of the numbers."""
        self.count = sum(map(len, self.of_broker.values()))
        self.added = False
        """Whether one was added since the caller has set it to False."""
        self._known: dict[tuple[tuple[NodeId, ...], Directories], Numbers] = {}
        self._same: dict[Numbers, Numbers] = {}

    def to_json(self) -> bytes:
        """Returns the directories, uncompressed."""
        return json.dumps({node: [*ids] for node, ids in self.of_broker.items()}, separators=(",", ":")).encode()

    def numbers(self, replicas: tuple[NodeId, ...], directories: Directories) -> Numbers:
        """Returns the numbers of the directories of these replicas."""
        known = self._known.get((replicas, directories))
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
                self._same.clear()
            found = tuple(map(self._number, replicas, directories))
            known = self._known[replicas, directories] = self._same.setdefault(found, found)
        return known

    def directory(self, broker: NodeId, number: int) -> DirectoryId | None:
        """Returns the id of a directory; None if it is reserved."""
        return next((one for one, each in self.of_broker.get(broker, {}).items() if each == number), None)

    def _number(self, broker: NodeId, directory: DirectoryId | None) -> int:
        if directory is None or directory in _RESERVED:
            return _RESERVED[directory]
        ids = self.of_broker.setdefault(broker, {})
        if directory not in ids:
            if len(ids) >= MOST_LOG_DIRECTORIES:
                return MIGRATING
            ids[directory] = len(ids)
            self.count += 1
            self.added = True
        return ids[directory]
