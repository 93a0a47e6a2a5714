"""Pieces of a snapshot that a micro-batch reads."""

from itertools import pairwise

from connectors.observations.observation import ObservationKind
from tests.spark.pipeline_run import PipelineRun
from tests.unit.connectors.metadata.metadata_bytes import tinysnapshot

END_OFFSET = 24_001


EPOCH = 42


PIECES = 3


def snapshot_pieces() -> list[bytes]:
    """Returns the snapshot in pieces that end with a batch."""
    content, _ = tinysnapshot()
    ends = [0]
    while ends[-1] < len(content):
        ends.append(ends[-1] + 12 + int.from_bytes(content[ends[-1] + 8 : ends[-1] + 12], "big"))
    edges = [ends[number * (len(ends) - 1) // PIECES] for number in range(PIECES + 1)]
    return [content[start:end] for start, end in pairwise(edges)]


def read_piece(run: PipelineRun, number: int) -> None:
    row = run.row(
        ObservationKind.SNAPSHOT,
        snapshot_pieces()[number],
        base_offset=END_OFFSET,
        last_offset=number,
        leader_epoch=EPOCH,
    )
    run.write(row)
