"""Parity: `kraftwatch decode` against kafka-dump-log, record by record; then replay against Kafka's MetadataImage.

`make parity` has each Kafka write everything it can, prints how many records were compared and how many differ, and
ends with 1 if any does; then the same for the image (`tests.kafka.metadata_image`). Two records are the same if offset,
epoch, timestamp, type, version and the text of the data are: the order of its keys, floats and integers, and the sign
of zero included.
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

from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from deploy.schemas.reflection import KAFKAS
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
"""Offset, epoch, timestamp, type, version, data; the last two are None where an old Kafka does not print them."""


@dataclass(kw_only=True)
class Compared:
    """What a comparison came to."""

    records: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, what: str, kafkas: Sequence[Record], ours: Sequence[Record]) -> None:
        """Compare the records of one file."""
        self.records += len(kafkas)
        if len(kafkas) != len(ours):
            self.differences.append(f"{what}: {len(kafkas)} records for Kafka, {len(ours)} for us")
        for theirs, our in zip(kafkas, ours, strict=False):
            if theirs != ((*our[:4], None, None) if theirs[5] is None else our):
                self.differences.append(f"{what}:\n  Kafka {theirs}\n  ours  {our}")


def everything(kafka: str, folder: Path, *more: Path) -> Compared:
    """Have one Kafka write all it can; compare what it and we make of that, and of further files of its own."""
    log, control = (folder / kafka / name / SEGMENT for name in ("printable", "control"))
    for path in (log, control):
        path.parent.mkdir(parents=True)
    said = _java(kafka, str(EVERYTHING), log, control, *more)
    compared = _files(kafka, said, (log, *more))
    converted = [_text(json.loads(line[11:])) for line in said.split("\n") if line.startswith("converted: ")]
    ours = decoded(control, kafka)
    theirs = [(*record[:5], text) for record, text in zip(ours, converted, strict=True)]
    compared.add(f"Kafka {kafka}, control records", theirs, ours)
    if kafka != KAFKAS[-1]:
        # Who looks at a file need not know which Kafka wrote it; the one key that was renamed has its new name then.
        known = [
            (*record[:5], (record[5] or "").replace("lastKnownELR", "lastKnownElr")) for record in decoded(log, kafka)
        ]
        compared.add(f"Kafka {kafka}, not told that it is that one", known, decoded(log))
    return compared


def files(kafka: str, *paths: Path) -> Compared:
    """Compare what a Kafka and we make of its files."""
    tool = "org.apache.kafka.tools.DumpLogSegments"
    return _files(kafka, _java(kafka, tool, "--cluster-metadata-decoder", "--files", ",".join(map(str, paths))), paths)


def _files(kafka: str, said: str, paths: Sequence[Path]) -> Compared:
    compared = Compared()
    dumped = list(_dumped(said))
    assert [name for name, _ in dumped] == list(map(str, paths)), "Kafka did not print every file"
    for name, records in dumped:
        compared.add(f"Kafka {kafka}, {name}", records, decoded(Path(name), kafka))
    return compared


def decoded(path: Path, kafka: str | None = None) -> list[Record]:
    """What `kraftwatch decode --json --show-secrets` says of a file, all of which it must be able to read."""
    as_kafka = [] if kafka is None or kafka == KAFKAS[-1] else ["--kafka", kafka]
    command = [sys.executable, "-m", "streaming", "decode", str(path), "--json", "--show-secrets", *as_kafka]
    ran = subprocess.run(command, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b""), ran.stderr.decode()
    lines = map(json.loads, ran.stdout.splitlines())
    return [
        (line["offset"], line["epoch"], line["timestamp"], line["type"], line["version"], _text(line["data"]))
        for line in lines
    ]


def made_files(folder: Path) -> list[Path]:
    """The committed files that a seeded generator made with Kafka's own classes, under the names Kafka wants."""
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


def _dumped(said: str) -> Iterator[tuple[str, list[Record]]]:
    """What kafka-dump-log printed, file by file. Every line must be one that is understood."""
    records: list[Record] = []
    epoch = 0
    # Not splitlines: a string in a record may hold other separators of lines.
    for line in said.split("\n"):
        if line.startswith("Dumping "):
            records = []
            yield line.removeprefix("Dumping "), records
        elif batch := _BATCH.fullmatch(line):
            epoch = int(batch["epoch"])
        elif record := _RECORD.fullmatch(line):
            records.append((int(record["offset"]), epoch, int(record["timestamp"]), *_said(record)))
        else:
            assert _OTHER.match(line), f"kafka-dump-log said {line!r}"


def _said(record: re.Match[str]) -> tuple[str, int | None, str | None]:
    """Type, version and data of a line."""
    if record["kind"]:
        return record["kind"].title().replace("_", ""), None, None
    if record["name"]:
        data = json.loads(record["data"])
        return record["name"], data["version"], _text(data)
    payload = json.loads(record["payload"])
    return payload["type"], payload["version"], _text(payload["data"])


def _text(data: object) -> str:
    return json.dumps(data)


def main() -> int:
    """Compare on every Kafka; the exit code says whether all is the same."""
    whole = Compared()
    with tempfile.TemporaryDirectory(prefix="kraftwatch-parity-") as name:
        folder = Path(name)
        for kafka in KAFKAS:
            more = made_files(folder) if kafka == KAFKA_VERSION else []
            compared = everything(kafka, folder, *more)
            sys.stdout.write(f"Kafka {kafka}: {compared.records} records, {len(compared.differences)} differences\n")
            sys.stdout.flush()
            whole.records += compared.records
            whole.differences += compared.differences
    for difference in whole.differences[:20]:
        sys.stdout.write(f"{difference}\n")
    sys.stdout.write(f"parity: {whole.records} records compared, {len(whole.differences)} differences\n")
    sys.stdout.flush()
    return max(1 if whole.differences else 0, metadata_image.main())


if __name__ == "__main__":
    sys.exit(main())
