"""LogSummary: how many records of each type one file of the metadata log holds."""

from collections import Counter
from dataclasses import dataclass, field

from connectors.metadata.dump_log import CONTROL_NAMES, DumpedRecord, DumpGap, RecordText

_CONTROL: frozenset[str | None] = frozenset(CONTROL_NAMES.values())
_SNAPSHOT_HEADER = "SnapshotHeader"


@dataclass(slots=True, kw_only=True)
class LogSummary:
    """Counts of one file; complete when all its entries are added."""

    records: Counter[str] = field(default_factory=Counter)
    """Metadata records by type, undecodable ones included; `UNKNOWN 99` for a type that no known Kafka has."""
    control_records: Counter[str] = field(default_factory=Counter)
    undecodable: int = 0
    """Records that cannot be decoded, those of an unknown type or version included, and unreadable batches."""
    first_offset: int | None = None
    last_offset: int | None = None
    last_epoch: int | None = None

    def add(self, entry: DumpedRecord | RecordText | DumpGap) -> None:
        """Adds a record or a gap; a gap without bytes is not counted."""
        if isinstance(entry, DumpGap):
            self.undecodable += entry.size > 0
            return
        type_ = entry.type or "unreadable"
        if isinstance(entry, DumpedRecord):
            self.undecodable += entry.data is None
            if entry.number is not None:
                type_ = f"{type_} {entry.number}"
        (self.control_records if type_ in _CONTROL else self.records)[type_] += 1
        if self.first_offset is None:
            self.first_offset = entry.offset
        self.last_offset, self.last_epoch = entry.offset, entry.epoch

    @property
    def is_snapshot(self) -> bool:
        """Whether the file is a `.checkpoint`."""
        return self.control_records[_SNAPSHOT_HEADER] > 0
