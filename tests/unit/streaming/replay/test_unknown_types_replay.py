"""Unknown records cost no diagnosis, and a build that knows them ends in the state of a fresh replay."""

from dataclasses import replace
from pathlib import Path

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.redaction import redact
from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from rules.model.quorum import Quorum
from streaming.replay.decoded_row import decoded_row
from streaming.replay.machine import Machine
from tests.older_build import build_that_ends_at
from tests.scripts.log_script import again, machine
from tests.unit.connectors.metadata.metadata_bytes import batch, data, noop, tinylog
from tests.unit.connectors.metadata.metadata_record_schemas import metadata_value, raft_value

AUTOMQ = range(501, 535)
"""AutoMQ has 34 record types of its own."""
NOW_MS = 1_790_000_100_000
READ_AGAIN = FailedObservation(source=ObservationSource.LOG, endpoint="", reason=Reason.RECORDS_KNOWN, detail="")


def with_batches_between(log: bytes, *, unknown: bool) -> tuple[bytes, int]:
    """Returns a log with a batch of 34 records after every 40th of its own, and its last offset."""
    found, offset = b"", 0
    for number, item in enumerate(scan(log)):
        assert isinstance(item, RecordBatch)
        content = log[item.position : item.end]
        found += offset.to_bytes(8, "big") + content[8:]
        offset += item.last_offset_delta + 1
        if number % 40 == 7:
            values = [data(type_, type_ % 3, b"\7secret\0") if unknown else noop() for type_ in AUTOMQ]
            found += batch(values, base_offset=offset, epoch=item.leader_epoch, timestamp=item.base_timestamp)
            offset += len(values)
    return found, offset - 1


def records(log: bytes, last: int) -> Observation:
    return Observation(
        cluster="c",
        kind=ObservationKind.RECORDS,
        observed_at_ms=NOW_MS,
        base_offset=0,
        last_offset=last,
        leader_epoch=9,
        high_watermark=last + 1,
        payload=redact(log),
    )


def applied(to: Machine, *rows: Observation) -> Quorum:
    for row in rows:
        decoded = decoded_row(row)
        to.apply(decoded.events, sequence=decoded.sequence, observed_at_ms=decoded.observed_at_ms)
    return to.quorum()


def test_records_of_another_product_are_one_information_and_every_verdict_is_as_without_them() -> None:
    log, _ = tinylog()
    mixed, plain = (with_batches_between(log, unknown=unknown) for unknown in (True, False))

    of_mixed = applied(machine(), replace(records(*mixed), sequence=0))
    of_plain = applied(machine(), replace(records(*plain), sequence=0))

    assert replace(of_mixed, unknown_records=()) == of_plain
    assert of_mixed.contract_violations == (), "no row is put into quarantine"
    assert {one.name for one in of_mixed.unknown_records} == {
        f"record type {each} version {each % 3}" for each in AUTOMQ
    }
    mixed_results, plain_results = (evaluate(Facts(quorum), thresholds_for({})) for quorum in (of_mixed, of_plain))
    added = [one for one in mixed_results.findings if one not in plain_results.findings]
    assert [(str(one.subject), one.severity) for one in added] == [("records", "info")]
    assert [one for one in mixed_results.findings if one not in added] == list(plain_results.findings)


def log_with_a_ghost() -> tuple[bytes, int]:
    registered = [metadata_value(27, 0, controller_id=node) for node in (1, 2, 4)]
    level = metadata_value(12, 0, name="metadata.version", feature_level=33)
    leader = raft_value(2, leader_id=1, voters=[{"voter_id": node} for node in (1, 2)])
    batches: list[list[bytes | tuple[bytes, bytes]]] = [
        [leader],
        [level, *registered],
        [metadata_value(29, 0, controller_id=4), noop()],
    ]
    log, offset = b"", 0
    for values in batches:
        log += batch(values, base_offset=offset, epoch=9)
        offset += len(values)
    return log, offset - 1


def journaled(folder: Path, *rows: Observation) -> list[Observation]:
    """Writes rows as a gatherer does at its start, and returns them."""
    with JournalWriter(folder) as journal:
        progress = journal.follow_progress("c")
        if progress is not None and progress.lacks_known_records:
            journal.read_log_again("c")
        elif progress is not None:
            return []
        first = journal.published_end
        journal.append(rows)
        end = journal.publish()
    return list(JournalReader(folder).read(first, end))


def test_a_log_that_an_older_build_read_first_gives_the_state_of_a_fresh_replay(tmp_path: Path) -> None:
    log = log_with_a_ghost()
    with build_that_ends_at("4.3.1"):
        older = machine()
        before = applied(older, *journaled(tmp_path, records(*log)))
        state = older.to_bytes()
    assert [one.name for one in before.unknown_records] == ["record type 29 version 0"]
    assert {*before.controllers} == {1, 2, 4}, "the record that removes the ghost is unknown"

    upgraded = again(state)
    announced = Observation(
        cluster="c", kind=ObservationKind.FAILED, observed_at_ms=NOW_MS, payload=to_json(READ_AGAIN)
    )
    rows = journaled(tmp_path, announced, records(*log))
    assert {*applied(upgraded, rows[0]).controllers} == {1, 2, 4}, "rules see the state from before until then"
    found = applied(upgraded, *rows[1:])

    fresh = applied(machine(), replace(records(*log), sequence=rows[-1].sequence))
    assert found == fresh
    assert {*found.controllers} == {NodeId(1), NodeId(2)}
    assert found.unknown_records == ()
    assert journaled(tmp_path, announced) == [], "the log is read again once"


def test_the_unknown_types_that_are_counted_one_by_one_are_limited() -> None:
    types = 1_000
    log = batch([data(1_000 + each, 0, b"\0") for each in range(types)])

    quorum = applied(machine(), replace(records(log, types - 1), sequence=0))

    assert len(quorum.unknown_records) == 65
    further = next(one for one in quorum.unknown_records if one.name == "further types")
    assert further.count == 930, "936, rounded down"
