"""The position that the records of a snapshot are given."""

from typing import NamedTuple

from rules.model.identifiers import Epoch, Millis, Offset


class SnapshotOrigin(NamedTuple):
    """The latest possible position of a snapshot's records: the snapshot's last contained offset."""

    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis
