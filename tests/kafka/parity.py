"""Parity: compares `kraftwatch data decode` with kafka-dump-log, record by record; replay with MetadataImage.

`make parity` lets each Kafka version, or those that are named, write every record it can, prints how many records were
compared and how many differ, and exits with 1 if any differs; then it does the same for the image
(`tests.kafka.metadata_image`). Two records are equal if offset, epoch, timestamp, type, version and the text of the
data are equal, including the order of keys, floats versus integers, and the sign of zero.
"""

import json
import lzma
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.lab.jars import kafka_jars
from deploy.schemas.schema_file import KAFKA_VERSIONS
from tests.kafka import metadata_image

EVERYTHING = Path(__file__).with_name("Everything.java")
DATA = Path(__file__).parents[1] / "data" / "metadata"
SEGMENT = "00000000000000000000.log"
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) CreateTime: (?P<timestamp>-?\d+) keySize: -?\d+ valueSize: \d+ sequence: -1 "
    r"headerKeys: \[\] +(?:payload: (?P<payload>\{.*\})|controlType: (?P<kind>\w+)\(\d+\)|"
    r"(?P<name>\w+):? (?P<data>\{.*\}))"
)
_BATCH = re.compile(r"baseOffset: .* partitionLeaderEpoch: (?P<epoch>\d+) .* isvalid: true")
_OTHER = re.compile(r"Dumping |Log starting offset: |Snapshot end offset: |KRaft bootstrap snapshot|converted: |$")

Record = tuple[int, int, int, str, int | None, str | None]
"""Offset, epoch, timestamp, type, version, data; the last two are None if an old Kafka does not print them."""


@dataclass(kw_only=True)
class DumpComparison:
    """The result of a comparison: the number of records and the differences."""

    records: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, what: str, kafkas: Sequence[Record], ours: Sequence[Record]) -> None:
        """Compares the records of one file."""
        self.records += len(kafkas)
        if len(kafkas) != len(ours):
            self.differences.append(f"{what}: {len(kafkas)} records for Kafka, {len(ours)} for us")
        for theirs, our in zip(kafkas, ours, strict=False):
            if theirs != ((*our[:4], None, None) if theirs[5] is None else our):
                self.differences.append(f"{what}:\n  Kafka {theirs}\n  ours  {our}")


def compare_everything(kafka: str, folder: Path, *others: Path) -> DumpComparison:
    """Lets one Kafka write every record it can; compares both decodings of these and of further files."""
    log, control = (folder / kafka / name / SEGMENT for name in ("printable", "control"))
    for path in (log, control):
        path.parent.mkdir(parents=True)
    output = _java(kafka, str(EVERYTHING), log, control, *others)
    compared = _compare_dump(kafka, output, (log, *others))
    converted = [_text(json.loads(line[11:])) for line in output.split("\n") if line.startswith("converted: ")]
    ours = decode_file(control, kafka)
    theirs = [(*record[:5], text) for record, text in zip(ours, converted, strict=True)]
    compared.add(f"Kafka {kafka}, control records", theirs, ours)
    if kafka != KAFKA_VERSIONS[-1]:
        # Decoding works without the Kafka version. The one key that Kafka renamed then has its new name.
        expected = [
            (*record[:5], (record[5] or "").replace("lastKnownELR", "lastKnownElr"))
            for record in decode_file(log, kafka)
        ]
        compared.add(f"Kafka {kafka}, decoded without its version", expected, decode_file(log))
    return compared


def compare_files(kafka: str, *paths: Path) -> DumpComparison:
    """Compares the output of one Kafka's kafka-dump-log with ours."""
    tool = "org.apache.kafka.tools.DumpLogSegments"
    return _compare_dump(
        kafka, _java(kafka, tool, "--cluster-metadata-decoder", "--files", ",".join(map(str, paths))), paths
    )


def _compare_dump(kafka: str, output: str, paths: Sequence[Path]) -> DumpComparison:
    compared = DumpComparison()
    dumped = list(_parse_dump(output))
    assert [name for name, _ in dumped] == list(map(str, paths)), "Kafka did not print every file"
    for name, records in dumped:
        compared.add(f"Kafka {kafka}, {name}", records, decode_file(Path(name), kafka))
    return compared


def decode_file(path: Path, kafka: str | None = None) -> list[Record]:
    """Returns the records that `kraftwatch data decode --json --show-secrets` prints. It must read the whole file."""
    as_kafka = [] if kafka is None or kafka == KAFKA_VERSIONS[-1] else ["--kafka", kafka]
    command = [sys.executable, "-m", "streaming", "data", "decode", str(path), "--json", "--show-secrets", *as_kafka]
    ran = subprocess.run(command, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b""), ran.stderr.decode()
    lines = map(json.loads, ran.stdout.splitlines())
    return [
        (line["offset"], line["epoch"], line["timestamp"], line["type"], line["version"], _text(line["data"]))
        for line in lines
    ]


def generated_files(folder: Path) -> list[Path]:
    """Returns the committed files, generated with Kafka's own classes, unpacked under the names that Kafka expects."""
    paths = []
    for packed in sorted(DATA.glob("*.xz")):
        name = json.loads(packed.with_suffix(".json").read_text())["file"]
        path = folder / packed.stem / name
        path.parent.mkdir(parents=True)
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        paths.append(path)
    return paths


def _java(kafka: str, main: str, *arguments: str | Path) -> str:
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    command += ["-Dstdout.encoding=UTF-8", "-cp", f"{kafka_jars(kafka)}/*", main, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _parse_dump(output: str) -> Iterator[tuple[str, list[Record]]]:
    """Parses the output of kafka-dump-log, file by file. Every line must match a known form."""
    records: list[Record] = []
    epoch = 0
    # Not splitlines: a string in a record may hold other line separators.
    for line in output.split("\n"):
        if line.startswith("Dumping "):
            records = []
            yield line.removeprefix("Dumping "), records
        elif batch := _BATCH.fullmatch(line):
            epoch = int(batch["epoch"])
        elif record := _RECORD.fullmatch(line):
            records.append((int(record["offset"]), epoch, int(record["timestamp"]), *_record_fields(record)))
        else:
            assert _OTHER.match(line), f"unknown line of kafka-dump-log: {line!r}"


def _record_fields(record: re.Match[str]) -> tuple[str, int | None, str | None]:
    """Returns type, version and data of a line."""
    if record["kind"]:
        return record["kind"].title().replace("_", ""), None, None
    if record["name"]:
        data = json.loads(record["data"])
        return record["name"], data["version"], _text(data)
    payload = json.loads(record["payload"])
    return payload["type"], payload["version"], _text(payload["data"])


def _text(data: object) -> str:
    return json.dumps(data)


def main(kafkas: Sequence[str]) -> int:
    """Compares with these Kafka versions; returns 1 if there are differences."""
    total = DumpComparison()
    with tempfile.TemporaryDirectory(prefix="kraftwatch-parity-") as name:
        folder = Path(name)
        for kafka in kafkas:
            others = generated_files(folder) if kafka == KAFKA_VERSIONS[-1] else []
            compared = compare_everything(kafka, folder, *others)
            sys.stdout.write(f"Kafka {kafka}: {compared.records} records, {len(compared.differences)} differences\n")
            sys.stdout.flush()
            total.records += compared.records
            total.differences += compared.differences
    for difference in total.differences[:20]:
        sys.stdout.write(f"{difference}\n")
    sys.stdout.write(f"parity: {total.records} records compared, {len(total.differences)} differences\n")
    sys.stdout.flush()
    return max(1 if total.differences else 0, metadata_image.main())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or KAFKA_VERSIONS))
