"""The words with which a transcript prepares what a command finds. A function says in one line what its word takes."""

import errno
import gzip
import json
import os
import pwd
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import update

from connectors.delivery.ledger import Ledger
from connectors.errors import UsageError
from connectors.gather.node_directory import KnownEndpoints, endpoints_json
from connectors.logdir.log_dir_files import META_PROPERTIES, PARTITION
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.redaction import redact
from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.process import extras
from connectors.sinks.alert_json import to_line
from connectors.store.collection import quarantine_of
from connectors.store.journal_file import VERSION
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.revisions import REVISIONS
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.model.identifiers import Endpoint, Millis, NodeId
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from streaming import cli
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.output_rows import quarantined_rows
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from tests.cli.program import OTHER_USER, owned_by_another_user
from tests.commands import Commands, Words, milliseconds
from tests.kips.kip_records import voters_record
from tests.present import present
from tests.sinks.server import HttpReply, serving
from tests.unit.connectors.logdir.log_dirs import AT, noops, stopped_quorum, write_log_dir, write_quorum_state
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, control, data, noop, record, tagged, text
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.connectors.store import journal_rows
from tests.unit.streaming.data_quality.contract_rows import records
from tests.unit.streaming.query.status_journal import journal, observed, polled

if TYPE_CHECKING:
    from tests.cli.transcript import Session

setup: Commands["Session"] = Commands("a transcript: what is there before a command of kraftwatch")
BEGIN_MS = round(datetime(2026, 11, 20, 5, 10, tzinfo=UTC).timestamp() * 1_000)
"""Some minutes after the end of what is recorded."""
FAILED_FETCH = to_json(FailedObservation(source=ObservationSource.LOG, endpoint="", reason=Reason.TIMED_OUT, detail=""))


def run(session: "Session", line: str) -> None:
    """Runs one line."""
    setup.run(session, session.real(line))


@setup("new")
def _new(session: "Session", _: Words) -> None:
    """new: an empty folder."""
    session.begin()


@setup("file")
def _file(session: "Session", words: Words) -> None:
    """file kraftwatch.yaml mode 600: a file, whose lines follow."""
    mode = int(words.option("mode") or "600", 8)
    session.file = session.folder / words.word()
    session.file.write_text("")
    session.file.chmod(mode)


@setup("folder")
def _folder(session: "Session", words: Words) -> None:
    """folder NAME: an empty folder."""
    (session.folder / " ".join(words.rest())).mkdir(parents=True)


@setup("then")
def _then(session: "Session", words: Words) -> None:
    """then 4d: time passes."""
    session.now_ms += milliseconds(words.word())


@setup("of-another-user")
def _of_another_user(session: "Session", words: Words) -> None:
    """of-another-user job: this folder is, and the commands run as root."""
    folder = session.folder / words.word()
    owned_by_another_user(folder, session.monkeypatch)
    uid = folder.stat().st_uid
    session.other_user = f"#{uid}" if uid == OTHER_USER else pwd.getpwuid(uid).pw_name


@setup("environment")
def _environment(session: "Session", words: Words) -> None:
    """environment USER=kafka LOGNAME=: these variables, without those that have no value."""
    for one in words.rest():
        name, _, value = one.partition("=")
        if value:
            session.monkeypatch.setenv(name, value)
        else:
            session.monkeypatch.delenv(name, raising=False)


@setup("uid")
def _uid(session: "Session", words: Words) -> None:
    """uid 4242 of pager-1: the commands run as this user on this host."""
    uid, host = int(words.word()), words.option("of")
    session.monkeypatch.setattr("os.getuid", lambda: uid)
    session.monkeypatch.setattr("streaming.cli.options.gethostname", lambda: host)


@setup("recorded")
def _recorded(session: "Session", words: Words) -> None:
    """recorded job: the checkpoint of a job that recorded faults of the clusters prod and staging."""
    shutil.copytree(session.recorded(), session.folder / words.word())


@setup("stopped")
def _stopped(session: "Session", _: Words) -> None:
    """stopped: the disks of a real quorum, `node-1` to `node-3`, the last one is behind, and of broker `node-101`."""
    stopped_quorum(session.folder)


@setup("job")
def _job(session: "Session", words: Words) -> None:
    """job NAME prod=id-1: the checkpoint of a job that has begun to observe these clusters."""
    folder = session.folder / words.word()
    folder.mkdir(exist_ok=True)
    Checkpoint(folder=folder).record_cluster_ids(dict(one.split("=") for one in words.rest()))


@setup("journal")
def _journal(session: "Session", words: Words) -> None:
    """journal job prod lab:probe: a failed observation of each of these clusters; what it holds is no `probe`."""
    with JournalWriter(session.folder / words.word() / "journal") as writer:
        for one in words.rest():
            name, _, kind = one.partition(":")
            row = Observation(cluster=name, kind=ObservationKind[(kind or "failed").upper()], observed_at_ms=BEGIN_MS)
            writer.append([replace(row, payload=FAILED_FETCH)])
        writer.publish()


@setup("log-rows")
def _log_rows(session: "Session", words: Words) -> None:
    """log-rows job prod 0-9 epoch 1: a row with these records of the log; `again`: the logs are read again."""
    folder, cluster, (first, last) = words.word(), words.word(), words.word().split("-")
    with JournalWriter(session.folder / folder / "journal") as writer:
        if words.flag("again"):
            writer.read_logs_again()
        writer.append([records(cluster, int(first), int(last), epoch=present(words.number("epoch")))])
        writer.publish()


@setup("database")
def _database(session: "Session", words: Words) -> None:
    """database job: the tables of a job that has started."""
    job_database(session.folder / words.word()).create()


@setup("undecodable")
def _undecodable(session: "Session", words: Words) -> None:
    """undecodable job: rows 0 and 2 have records that do not decode, and row 1 is an invalid poll; in quarantine."""
    job = Checkpoint(folder=session.folder / words.word())
    topic = data(2, 0, text("orders") + bytes(range(16)) + b"\0")
    # A TopicRecord that ends after its name, and one as recorded by a kraftwatch that does not know TopicRecord.
    ends, blank = data(2, 0, text("secret topic")), data(2, 0, bytes(24))
    polled = Observation(cluster="prod", kind=ObservationKind.QUORUM, observed_at_ms=BEGIN_MS, payload=b"{")
    with JournalWriter(job.journal) as writer:
        writer.append([_redacted(10, noop(), ends, topic), polled, _redacted(20, topic, blank)])
        writer.publish()
    store = quarantine_of(job_database(job.folder))
    for row in JournalReader(job.journal).read(0, 3):
        for refused in ClusterMonitor(ClusterSettings(name="prod")).apply((row,)).undecodable:
            ((_, cluster, name, body),) = quarantined_rows("prod", [refused])
            store.put({f"{cluster}-{name}": json.loads(body)})


def _redacted(base: int, *values: bytes) -> Observation:
    written = redact(b"".join(batch([value], base_offset=base + at) for at, value in enumerate(values)))
    return journal_rows.records(written, base=base, last=base + len(values) - 1, at_ms=BEGIN_MS, cluster="prod")


@setup("quarantined")
def _quarantined(session: "Session", words: Words) -> None:
    """quarantined job row 2 offset 20: an item of an older kraftwatch, which knew fewer records."""
    item = {
        "cluster": "prod",
        "sequence": words.number("row"),
        "observed_at_ms": BEGIN_MS,
        "offset": words.number("offset"),
        "length": 40,
        "reason": "record type 2 version 0 is not known to any Kafka up to 3.3.2",
    }
    folder = session.folder / words.word()
    folder.mkdir(exist_ok=True)
    quarantine_of(job_database(folder)).put({f"prod-{item['sequence']}-0": item})


@setup("batch")
def _batch(session: "Session", words: Words) -> None:
    """batch FILE [at OFFSET] [damaged|zstd|cut] RECORD ...: a batch at the end of a log.

    Records: noop, unknown, empty, leader, voters, `config:NAME=VALUE`, remove-topic (one that does not exist), order,
    unknown-control, kraft-2.
    """
    base, flags = words.number("at") or 0, {flag for flag in ("damaged", "zstd", "cut") if words.flag(flag)}
    path = session.folder / words.word()
    values = [_record(one.encode().decode("unicode_escape")) for one in words.rest()]
    written = bytearray(batch(values, base_offset=base, attributes=4 if "zstd" in flags else 0))
    written[-1] ^= "damaged" in flags
    with path.open("ab") as file:
        file.write(written[:50] if "cut" in flags else written)


def _record(word: str) -> bytes | tuple[bytes, bytes]:
    kind, _, of_kind = word.partition(":")
    match kind:
        case "noop":
            return noop()
        case "unknown":
            return data(99, 1, b"?")
        case "empty":
            return data(12, 0, b"")
        case "leader":
            return control(2, b"\0\0" + (1).to_bytes(4, "big") + b"\1\1\0")
        case "voters":
            return voters_record(2)
        case "unknown-control":
            return control(44, b"\0\0")
        case "kraft-2":
            return control(5, b"\0\0\0\2\0")
        case "remove-topic":
            return data(9, 0, bytes(range(16)) + b"\0")
        case "order":
            return b'{"order": 1}'
        case _:
            name, _, value = of_kind.partition("=")
            return data(4, 0, b"\4" + text("1") + text(name) + text(value) + tagged())


@setup("server")
def _server(session: "Session", words: Words) -> None:
    """server answers 403: the HTTP double does, on loopback."""
    status = present(words.number("answers"))
    if session.server is None:
        session.server = session.stack.enter_context(serving())
    session.server.behave = lambda _: HttpReply(status=status)


@setup("base-package")
def _base_package(session: "Session", _: Words) -> None:
    """base-package: no extra is installed."""
    session.monkeypatch.setattr(extras, "find_spec", lambda _: None)


@setup("every-command-fails")
def _every_command_fails(session: "Session", words: Words) -> None:
    """every-command-fails full FILE, every-command-fails usage TEXT: as the disk is full, or with a sentence."""
    kind, rest = words.word(), " ".join(words.rest()).encode().decode("unicode_escape")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), rest)

    def fail(**_: object) -> None:
        raise full if kind == "full" else UsageError(rest)

    session.monkeypatch.setattr(cli, "app", fail)


@setup("newer")
def _newer(session: "Session", words: Words) -> None:
    """newer tables job, newer journal job: a newer kraftwatch has changed them."""
    what, folder = words.word(), session.folder / words.word()
    if what == "tables":
        with closing(job_database(folder)) as database, database.transaction() as connection:
            connection.execute(update(REVISIONS).values(version_num="9999"))
    else:
        with closing(sqlite3.connect(folder / "journal" / "observations.db")) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")


@setup("held")
def _held(session: "Session", words: Words) -> None:
    """held job: another kraftwatch uses this checkpoint."""
    session.stack.enter_context(Checkpoint(folder=session.folder / words.word()).held())


@setup("election")
def _election(session: "Session", words: Words) -> None:
    """election 1 epoch 2 leader 2: of which this controller knew when it stopped."""
    epoch, leader = words.number("epoch"), words.number("leader")
    folder = session.folder / f"node-{words.word()}"
    vote = {"votedId": -1, "votedDirectoryId": "A" * 22}
    write_quorum_state(folder, leaderId=leader, leaderEpoch=epoch, **vote, data_version=1)


@setup("appended")
def _appended(session: "Session", words: Words) -> None:
    """appended node-3 57 count 1 epoch 2: records at the end of its log; `gzip`: they are compressed."""
    epoch, count, gzipped = words.number("epoch") or 1, words.number("count") or 1, words.flag("gzip")
    log, first = session.folder / words.word() / PARTITION / f"{0:020}.log", int(words.word())
    more = batch_of(gzip.compress(record(noop(), 0)), 1, base_offset=first, attributes=1) if gzipped else b""
    log.write_bytes(log.read_bytes() + (more or noops(first, count, epoch=epoch)))


@setup("damaged")
def _damaged(session: "Session", words: Words) -> None:
    """damaged node-2 length, damaged node-2 offset: of a batch in the middle of its log."""
    segment = session.folder / words.word() / PARTITION / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    one = [each for each in scan(bytes(content)) if isinstance(each, RecordBatch)][-4]
    of_length = words.word() == "length"
    at = one.position + 8 if of_length else one.position
    content[at : at + 4] = bytes(4) if of_length else b"\x7f" * 4
    segment.write_bytes(content)


@setup("static-disk")
def _static_disk(session: "Session", words: Words) -> None:
    """static-disk 1 end 40 voters 1,2: as Kafka 3.7 writes it: the log has no voters, quorum-state the configured."""
    end, voters, node = present(words.number("end")), words.nodes("voters") or (1, 2, 3), words.word()
    folder = write_log_dir(session.folder / f"node-{node}", {0: noops(0, end)})
    (folder / "meta.properties").write_text(f"version=1\ncluster.id=the-cluster\nnode.id={node}\n")
    write_quorum_state(
        folder,
        clusterId="",
        leaderId=1,
        leaderEpoch=1,
        votedId=-1,
        appliedOffset=0,
        currentVoters=[{"voterId": one} for one in voters],
        data_version=0,
    )


@setup("empty-disk")
def _empty_disk(session: "Session", words: Words) -> None:
    """empty-disk node-3 new, formatted or started: what is on it without a log."""
    folder, kind = session.folder / words.word(), words.word()
    shutil.rmtree(folder / PARTITION)
    if kind == "started":
        (folder / PARTITION).mkdir()
        (folder / PARTITION / f"{0:020}.log").touch()
        (folder / PARTITION / "quorum-state").touch()
    if kind == "new":
        for file in folder.iterdir():
            file.unlink()
        (folder / "lost+found").mkdir()


@setup("directory")
def _directory(session: "Session", words: Words) -> None:
    """directory node-1 [ID]: its directory id in meta.properties becomes this one; without ID the line is removed."""
    file = session.folder / words.word() / META_PROPERTIES
    kept = [line for line in file.read_text().splitlines() if not line.startswith("directory.id")]
    file.write_text("\n".join([*kept, *(f"directory.id={directory}" for directory in words.rest())]) + "\n")


@setup("grow")
def _grow(session: "Session", words: Words) -> None:
    """grow node-101 61-64 [epoch 2] [leader 2]: NoOpRecords are appended to its log; each leader writes other ones."""
    folder, (first, last) = session.folder / words.word() / PARTITION, map(int, words.word().split("-"))
    leader, epoch = int(words.option("leader") or "1"), int(words.option("epoch") or "1")
    with max(folder.glob("*.log")).open("ab") as log:
        for offset in range(first, last + 1):
            log.write(batch([noop()], base_offset=offset, epoch=epoch, timestamp=AT + 1_000 * offset + leader))


@setup("move")
def _move(session: "Session", words: Words) -> None:
    """move NAME NAME: a file or a folder gets another name."""
    (session.folder / words.word()).rename(session.folder / words.word())


@setup("remove")
def _remove(session: "Session", words: Words) -> None:
    """remove NAME: a file is no longer there."""
    (session.folder / words.word()).unlink()


@setup("alerts")
def _alerts(session: "Session", words: Words) -> None:
    """alerts job: three fire, of two clusters; one has resolved."""
    voters = [
        alert(f"voter {node}", rule="voter-lagging", cluster="prod", severity=Severity.WARNING) for node in (1, 2)
    ]
    over = [alert("broker 4", rule="broker-fenced", cluster="prod", resolved=one) for one in (False, True)]
    folder = session.folder / words.word()
    folder.mkdir(exist_ok=True)
    Ledger(job_database(folder)).record([*voters, alert("cluster", cluster="lab"), *over], NOON_MS)


@setup("sent")
def _sent(session: "Session", words: Words) -> None:
    """sent alerts.jsonl: the file of a sink with one alert; its other lines follow."""
    session.file = session.folder / words.word()
    session.file.write_bytes(to_line(alert(), Millis(NOON_MS + 9_000)))


@setup("led")
def _led(session: "Session", _: Words) -> None:
    """led: the default checkpoint of a job, of whose cluster `a` controller 1 led in epoch 7 two seconds ago."""
    checkpoint = Checkpoint(folder=session.folder / "kraftwatch-checkpoint")
    journal(checkpoint.journal, [observed(_ANSWER, Millis(session.now_ms - 2_000))])
    checkpoint.record_cluster_ids({"a": "cluster-id"})


@setup("endpoints")
def _endpoints(session: "Session", words: Words) -> None:
    """endpoints job: its journal holds where the nodes of cluster `a` listen."""
    known = KnownEndpoints(polled=_ANSWER.nodes)
    with JournalWriter(session.folder / words.word() / "journal") as writer:
        writer.append([observed(_ANSWER, Millis(session.now_ms - 1_000))])
        writer.note_endpoints({"a": endpoints_json().dump_json(known).decode()})
        writer.publish()


@setup("answers-as")
def _answers_as(session: "Session", words: Words) -> None:
    """answers-as ID: the nodes report this cluster id."""
    cluster_id = words.word()
    session.monkeypatch.setattr("streaming.query.live.identify", lambda *_: cluster_id)


_ANSWER = replace(
    polled(7),
    nodes={NodeId(node): (Endpoint(listener="CONTROLLER", host="127.0.0.1", port=node),) for node in (1, 2)},
)
