"""`kraftwatch data decode`: text and JSON output, errors on stderr, exit codes."""

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from connectors.metadata.record_schemas import kafka_versions
from tests.cli.program import kraftwatch
from tests.kips.kip_records import voters_record
from tests.unit.connectors.metadata.metadata_bytes import DATA, batch, data, noop, tagged, text

SECRET = "hunter2-hunter2"
NAME = "00000000000000000000.log"


def decode(path: Path, *options: str) -> Result:
    return kraftwatch("data", "decode", path, *options)


def config(name: str, value: str) -> bytes:
    return data(4, 0, b"\4" + text("1") + text(name) + text(value) + tagged())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_bytes(batch([config("my.password", SECRET), noop(), data(99, 1, b"?"), config("\x1b[2J\x9b", "")]))
    return path


def test_json_output_is_one_line_per_record(log: Path) -> None:
    ended = decode(log, "--json")
    lines = [json.loads(line) for line in ended.stdout.splitlines()]

    assert (ended.exit_code, ended.stderr) == (0, "")
    assert lines[:3] == [
        {
            "offset": 0,
            "epoch": 1,
            "timestamp": 1_790_000_000_000,
            "type": "CONFIG_RECORD",
            "version": 0,
            "data": {"resourceType": 4, "resourceName": "1", "name": "my.password", "value": "(blanked)"},
        },
        {"offset": 1, "epoch": 1, "timestamp": 1_790_000_000_000, "type": "NO_OP_RECORD", "version": 0, "data": {}},
        {
            "offset": 2,
            "epoch": 1,
            "timestamp": 1_790_000_000_000,
            "type": "UNKNOWN",
            "version": 1,
            "data": None,
            "number": 99,
            "length": 4,
            "reason": "record type 99 is not known to any Kafka up to " + kafka_versions()[-1],
        },
    ]


def test_text_output_has_columns(log: Path) -> None:
    ended = decode(log)
    head, first, second, third, escaped = (line.split() for line in ended.stdout.splitlines())

    assert head == ["offset", "epoch", "time", "(UTC)", "type", "v", "data"]
    assert first[:5] == ["0", "1", "2026-09-21T14:13:20.000Z", "CONFIG_RECORD", "0"]
    assert first[-1] == 'value="(blanked)"'
    assert second[3:] == ["NO_OP_RECORD", "0"]
    assert third[3:6] == ["UNKNOWN", "99", "1"]
    assert "record type 99 is not known" in " ".join(third)
    assert "\\u001b[2J\\u009b" in escaped[-2]


def test_a_voter_set_is_printed_with_its_voters(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(batch([voters_record(2)]))

    assert 'voters=[{"voterId": 2, "voterDirectoryId": "AgICAgICAgICAgICAgICAg"' in decode(tmp_path / NAME).stdout


def test_secrets_are_printed_only_with_show_secrets(log: Path) -> None:
    for options in ([], ["--json"]):
        assert SECRET not in decode(log, *options).stdout
        assert SECRET in decode(log, *options, "--show-secrets").stdout


def test_each_damaged_part_is_reported_in_one_line_with_exit_code_1(tmp_path: Path) -> None:
    path = tmp_path / NAME
    damaged = bytearray(batch([noop()], base_offset=1))
    damaged[-1] ^= 1
    compressed = batch([noop()], base_offset=2, attributes=4)
    broken = batch([data(12, 0, b"")], base_offset=3)
    path.write_bytes(batch([noop()]) + damaged + compressed + broken + batch([noop()], base_offset=4)[:50])
    ended = decode(path, "--json")

    assert ended.exit_code == 1
    assert ended.stderr.replace(f"{path}: ", "").splitlines() == [
        "offset 1, position 72: the CRC-32C does not match: the batch is damaged (72 bytes skipped)",
        "offset 2, position 144: compressed with zstd, which KRaft never writes: not read (72 bytes skipped)",
        "offset 3: the record ends in the middle of a field",
        "offset 4, position 287: the file is torn: 22 bytes of its last batch are missing (50 bytes skipped)",
    ]
    assert [json.loads(line)["offset"] for line in ended.stdout.splitlines()] == [0, 3]


def test_kafka_option_decodes_with_older_schemas(log: Path) -> None:
    ended = decode(log, "--json", "--kafka", "3.3.2")

    assert json.loads(ended.stdout.splitlines()[2])["reason"] == "record type 99 is not known to Kafka 3.3.2"


@pytest.mark.parametrize(
    ("file", "name"), [("tinylog.log", NAME), ("tiny.checkpoint", "00000000000000024001-0000000042.checkpoint")]
)
def test_summary_has_the_counts_and_sums_of_the_generator(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(lzma.decompress((DATA / f"{file}.xz").read_bytes()))
    expected = json.loads((DATA / f"{file}.json").read_text())
    ended = decode(path, "--summary", "--json")
    summary = json.loads(ended.stdout)

    assert (ended.exit_code, ended.stderr) == (0, "")
    for key in ("file", "bytes", "data_records", "by_type", "control_records", "last_offset", "last_epoch"):
        assert summary[key] == expected.get(key, summary[key]), key
    sums = {key.removeprefix("final_"): value for key, value in expected.items() if key.startswith(("final_", "sum_"))}
    sums |= {key: expected[key] for key in ("topics", "partitions", "recovering", "no_leader") if key in expected}
    assert len(sums) >= 7
    assert summary.items() >= sums.items()
    assert summary["undecodable"] == 0


def test_summary_counts_what_cannot_be_decoded(tmp_path: Path) -> None:
    path = tmp_path / NAME
    damaged = bytearray(batch([noop()], base_offset=4))
    damaged[-1] ^= 1
    path.write_bytes(batch([noop(), data(99, 1, b"?"), data(12, 0, b""), config("a", "b")], base_offset=0) + damaged)
    ended = decode(path, "--summary")
    lines = {" ".join(line.split()) for line in ended.stdout.splitlines()}

    assert ended.exit_code == 1
    assert len(ended.stderr.splitlines()) == 2
    assert {"undecodable 3", "data records 4", "UNKNOWN 99 1", "NO_OP_RECORD 1", "partitions 0"} <= lines


def test_closed_pipe_prints_no_error(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(lzma.decompress((DATA / "tinylog.log.xz").read_bytes()))
    command = f"{sys.executable} -m streaming data decode {path} --json | head -1"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=180)

    assert ended.stderr == ""
    assert json.loads(ended.stdout)["offset"] == 0
