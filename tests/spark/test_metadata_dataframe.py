"""`spark.read.format("kraft-metadata")` on a real Spark: one row for each record, whatever the file contains."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from connectors.metadata.dump_log import DumpedRecord, dump_records
from streaming.dataframes.metadata_log_source import RECORD
from tests.spark.conftest import sentence_of
from tests.unit.connectors.logdir.log_dirs import AT, noops, stopped_quorum
from tests.unit.connectors.metadata.metadata_bytes import batch, data, tagged, text, tinylog

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

SECRET = "s3cr3t-value"


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("log") / "00000000000000000000.log", tinylog()[0])


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def load(session: SparkSession, *paths: Path, **options: object) -> DataFrame:
    reader = session.read.format("kraft-metadata").options(**{name: str(value) for name, value in options.items()})
    return reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))


def test_a_log_directory_has_a_row_for_each_record(session: SparkSession, tmp_path: Path) -> None:
    node = stopped_quorum(tmp_path) / "node-2"
    expected = [
        (str(file), file.suffix == ".checkpoint", one.offset, one.epoch, one.timestamp, one.type, one.version, one.data)
        for file in sorted((node / "__cluster_metadata-0").glob("0*"))
        for one in dump_records(file.read_bytes())
        if isinstance(one, DumpedRecord)
    ]

    rows = load(session, node).collect()

    found = [
        (row.file, row.snapshot, row.offset, row.leader_epoch, row.timestamp_ms, row.type, row.version, row.data)
        for row in rows
    ]
    assert [(*row[:-1], json.loads(row[-1])) for row in found] == expected
    assert {row.type for row in rows if row.control} == {
        "SnapshotHeader", "SnapshotFooter", "KRaftVersion", "KRaftVoters", "LeaderChange",
    }  # fmt: skip
    assert {row.reason for row in rows} == {None}
    assert all(round(row.timestamp.timestamp() * 1000) == row.timestamp_ms for row in rows)
    (partition, *_) = [row for row in rows if row.type == "PARTITION_RECORD"]
    assert (partition.topic, partition.partition, partition.leader, partition.replicas, partition.isr) == (
        "orders", 0, 101, [101], [101],
    )  # fmt: skip
    assert partition.leader_recovery_state == 0


def test_byte_ranges_of_a_segment_have_the_rows_of_the_file(session: SparkSession, segment: Path) -> None:
    sidecar = tinylog()[1]
    whole, divided = load(session, segment), load(session, segment, maxPartitionBytes=100_000)

    assert (whole.rdd.getNumPartitions(), divided.rdd.getNumPartitions()) == (1, 15)
    assert divided.collect() == whole.collect()
    by_type = Counter(
        {row["type"]: row["count"] for row in divided.where("not control").groupBy("type").count().collect()}
    )
    assert by_type == Counter(sidecar["by_type"])
    unclean = divided.where("type = 'PARTITION_CHANGE_RECORD' and leader_recovery_state = 1")
    assert unclean.count() == sidecar["unclean_elections"]
    # The topic of a change is known from another byte range.
    assert divided.where("partition is not null and topic is null").count() == 0


def test_credentials_appear_in_no_column(session: SparkSession, tmp_path: Path) -> None:
    value = text(SECRET)
    scram = text("alice") + b"\x01" + (bytes((len(SECRET) + 1,)) + SECRET.encode()) * 3 + bytes(4) + b"\0"
    config = b"\x02" + text("orders") + text("ssl.keystore.password") + value + b"\0"
    unknown = data(99, 1, SECRET.encode())
    damaged = data(11, 0, scram[:-1])
    content = batch([data(11, 0, scram), data(4, 0, config), unknown, damaged]) + SECRET.encode() * 9
    file = written(tmp_path / "00000000000000000000.log", content)

    rows = load(session, file).collect()

    assert SECRET not in str(rows)
    assert "czNjcjN0" not in str(rows), "in base64"
    assert [row.type for row in rows] == ["USER_SCRAM_CREDENTIAL_RECORD", "CONFIG_RECORD", "UNKNOWN", "USER_SCRAM_CREDENTIAL_RECORD", None]  # fmt: skip  # noqa: E501
    assert [row.reason is None for row in rows] == [True, True, False, False, False]


def test_what_cannot_be_read_is_a_row_with_a_reason(session: SparkSession, tmp_path: Path) -> None:
    intact = noops(0, 3)
    broken = bytearray(noops(3, 1))
    broken[-1] ^= 1
    unknown = batch([data(99, 1, b"x" + tagged())], base_offset=4, timestamp=AT)
    file = written(tmp_path / "00000000000000000000.log", intact + bytes(broken) + unknown + noops(8, 2)[:-5])

    rows = load(session, file, maxPartitionBytes=1).collect()

    assert [(row.offset, row.type, row.data is None) for row in rows] == [
        (0, "NO_OP_RECORD", False),
        (1, "NO_OP_RECORD", False),
        (2, "NO_OP_RECORD", False),
        (3, None, True),
        (4, "UNKNOWN", True),
        (8, None, True),
        (8, "NO_OP_RECORD", False),
        (9, None, True),
    ]
    reasons = [row.reason for row in rows if row.reason]
    assert reasons[0] == "position 216: the CRC-32C does not match: the batch is damaged"
    assert reasons[1].startswith("record type 99 is not known to")
    assert reasons[2].endswith("base offset 8, expected 5")
    assert reasons[3].endswith("the file is torn: 5 bytes of its last batch are missing")
    assert [row.timestamp for row in rows if row.type is None] == [None] * 3


def test_schema_is_the_documented_one_and_only_the_requested_columns_are_made(
    session: SparkSession, segment: Path
) -> None:
    assert load(session, segment).schema == RECORD
    by_schema = session.read.format("kraft-metadata").schema("offset bigint, type string").load(str(segment))

    assert by_schema.collect() == load(session, segment).select("offset", "type").collect()


def test_a_wrong_path_or_option_is_one_sentence(session: SparkSession, tmp_path: Path, segment: Path) -> None:
    other = written(tmp_path / "text.log", b"no log at all, but longer than the header of a record batch would be")
    options: list[tuple[Path, dict[str, Any], str]] = [
        (tmp_path / "missing", {}, "missing does not exist: name a metadata log directory"),
        (tmp_path, {}, "no metadata log is in"),
        (other, {}, "text.log is not a Kafka log: name a .log or .checkpoint file"),
    ]
    for path, more, sentence in options:
        assert sentence in sentence_of(lambda path=path, more=more: load(session, path, **more))  # type: ignore[misc]
    wrong_bytes = "invalid value '1MB' for maxPartitionBytes: expected a number of bytes"
    assert wrong_bytes in sentence_of(lambda: load(session, segment, maxPartitionBytes="1MB").count())
    assert "s3://bucket/x is not on a local" in sentence_of(
        lambda: session.read.format("kraft-metadata").load("s3://bucket/x")
    )
    schemas = {
        "offset string": "the column offset is of type bigint, not string",
        "leadr int": "there is no column leadr: the columns are file,",
    }
    for schema, sentence in schemas.items():
        log = session.read.format("kraft-metadata").schema(schema).load(str(segment))
        assert sentence in sentence_of(log.count)
    assert "no path is given" in sentence_of(session.read.format("kraft-metadata").load)
