"""BatchSummary: what all batches of an observation show, also those of NoOps, which make no event of their own."""

from connectors.metadata.batches import RecordBatch
from connectors.observations.log_event import EpochDrop
from rules.model.identifiers import Epoch, Millis, Offset


class BatchSummary:
    """The newest timestamp and the epochs of the readable batches, added in the order of the log."""

    def __init__(self) -> None:
        self.newest_timestamp_ms: Millis | None = None
        self.first_epoch: Epoch | None = None
        self.last_epoch: Epoch | None = None
        self.epoch_drop: EpochDrop | None = None
        """The first batch with a lower epoch than the batch before it."""

    def add(self, batch: RecordBatch) -> None:
        """Adds one batch."""
        epoch, before = Epoch(batch.leader_epoch), self.last_epoch
        if before is None:
            self.first_epoch = epoch
        elif epoch < before and self.epoch_drop is None:
            self.epoch_drop = EpochDrop(offset=Offset(batch.base_offset), epoch=epoch, before=before)
        self.last_epoch = epoch
        if self.newest_timestamp_ms is None or batch.max_timestamp > self.newest_timestamp_ms:
            self.newest_timestamp_ms = Millis(batch.max_timestamp)
