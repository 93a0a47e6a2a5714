"""An ObservationWriter for tests: a subclass records what its test expects, and any other write fails the test."""

from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.observation_writer import ObservationWriter, RedactedBatches
from connectors.observations.observation import EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled
from rules.model.identifiers import SnapshotId


class UnusedOutput(ObservationWriter):
    """Raises AssertionError on each write."""

    def __init__(self) -> None:
        pass

    def write_records(self, records: CommittedRecords, batches: RedactedBatches) -> None:
        raise AssertionError(records, batches)

    def write_snapshot_piece(self, snapshot: SnapshotId, number: int, batches: RedactedBatches) -> None:
        raise AssertionError(snapshot, number, batches)

    def write_poll(self, event: QuorumPolled) -> None:
        raise AssertionError(event)

    def write_probe(self, event: EndpointProbed) -> None:
        raise AssertionError(event)

    def write_leader_view(self, event: LeaderViewPolled) -> None:
        raise AssertionError(event)

    def write_failure(self, event: ObservationFailed) -> None:
        raise AssertionError(event)
