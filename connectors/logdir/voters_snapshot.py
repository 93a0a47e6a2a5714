"""Writes a replica's whole log as one snapshot with other voter endpoints, as KIP-1347 describes (Snapshot Creation).

The snapshot is not compacted: it holds every record of the log in order. Kafka replays a snapshot record by record, so
this is valid, and no record is interpreted on the way. Its first batch holds SnapshotHeader, KRaftVersion and Voters
records, its last one the SnapshotFooter (Kafka's `RecordsSnapshotWriter`). Offsets count within the snapshot; all
batches have the snapshot's epoch.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from connectors.logdir.complete_log import CompleteLog
from connectors.metadata.batch_writer import ControlRecordType, control_record, with_position, write_batch
from connectors.metadata.field_readers import Values
from rules.model.identifiers import Endpoint, NodeId

_VERSION: Final = 0


def with_endpoints(voters: Values, endpoints: Mapping[NodeId, Endpoint]) -> Values:
    """Returns a VotersRecord in which these voters have exactly these endpoints; everything else is unchanged.

    Args:
        voters: the record's fields by name.
        endpoints: one endpoint for each voter that gets another one.
    """
    changed = []
    for voter in voters["voters"]:
        endpoint = endpoints.get(NodeId(voter["voter_id"]))
        if endpoint is None:
            changed.append(voter)
        else:
            recorded = {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port}
            changed.append(voter | {"endpoints": [recorded]})
    return voters | {"voters": changed}


def snapshot_batches(log: CompleteLog, voters: Values) -> Iterator[bytes]:
    """Yields the batches of the snapshot `{end offset}-{epoch}.checkpoint`, in order.

    Args:
        log: what the replica holds.
        voters: the VotersRecord to write instead of the log's.
    """
    header: list[tuple[ControlRecordType, Mapping[str, Any]]] = [
        (
            ControlRecordType.SNAPSHOT_HEADER,
            {"version": _VERSION, "last_contained_log_timestamp": log.newest_ms},
        ),
        (ControlRecordType.KRAFT_VERSION, {"version": _VERSION, "kraft_version": log.kraft_version}),
        (ControlRecordType.VOTERS, voters),
    ]
    offset = 0

    def control(records: list[tuple[ControlRecordType, Mapping[str, Any]]]) -> bytes:
        return write_batch(
            [control_record(type_, values) for type_, values in records],
            base_offset=offset,
            leader_epoch=log.epoch,
            timestamp_ms=log.newest_ms,
            control=True,
        )

    yield control(header)
    offset += len(header)
    for batch in log.batches:
        yield with_position(batch.content, base_offset=offset, leader_epoch=log.epoch)
        offset += batch.records
    yield control([(ControlRecordType.SNAPSHOT_FOOTER, {"version": _VERSION})])
