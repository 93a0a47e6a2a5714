"""Adds a Kafka version (`make kafka VERSION=x`): prints what differs from the known one before it, and records it.

`python -m deploy.schemas.new_kafka 4.5.0` downloads its jars. A kafka-metadata jar, of a fork for example, is read as a
file, and only compared; for the RPCs, kafka-clients must be beside it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from deploy.lab import LabError, jars
from deploy.lab.child_process import command_output
from deploy.lab.jars import kafka_jars
from deploy.schemas import schema_file
from deploy.schemas.jar_lock import lock_jars
from deploy.schemas.jar_schemas import Description, jar_in, jar_schemas, message_files
from deploy.schemas.node_metrics import changed_metrics, node_metrics
from deploy.schemas.schema_file import KAFKA_VERSIONS

_FEATURES_S = 60.0
_PLACES = {
    Path(str(schema_file.__file__)): (r"(?m)^KAFKA_VERSIONS = \((.*)\)$", r'KAFKA_VERSIONS = (\1, "{}")'),
    Path(str(jars.__file__)): (r'(?m)^KAFKA_VERSION = ".*"$', r'KAFKA_VERSION = "{}"'),
}
"""Where the code names the known versions and the one of the lab: the line, and the line with a further version."""


def main(names: list[str]) -> int:
    """Prints the differences and adds a version that is not known; returns 2 with an error message if that fails."""
    if len(names) != 1:
        sys.stderr.write("usage: make kafka VERSION=x: a Kafka version, or a kafka-metadata jar\n")
        return 2
    (name,) = names
    is_jar = name.endswith(".jar")
    previous = KAFKA_VERSIONS[-1] if is_jar else previous_version(name)
    try:
        before = kafka_jars(previous)
        known = (jar_in(before, "kafka-metadata"), jar_in(before, "kafka-clients"))
        lines = [*differences(known, _jars(name))]
        if not is_jar:
            lines += changed_features(features(before), features(kafka_jars(name)))
        _print(lines or [f"nothing new since Kafka {previous}"])
        if not is_jar and name not in KAFKA_VERSIONS:
            _print(_add(name))
        if not is_jar:
            # Last: the lab downloads what is locked.
            _print(changed_metrics(node_metrics(previous), node_metrics(name)))
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def previous_version(name: str) -> str:
    """Returns the newest known version before this one; the oldest known one if there is none."""
    older = [version for version in KAFKA_VERSIONS if _numbers(version) < _numbers(name)]
    return max(older, key=_numbers, default=KAFKA_VERSIONS[0])


def _print(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _add(version: str) -> list[str]:
    """Makes a version the newest known one, and that of the lab; returns what was written."""
    if _numbers(version) < _numbers(KAFKA_VERSIONS[-1]):
        raise LabError(f"Kafka {version} is not added: it is older than the newest known one, {KAFKA_VERSIONS[-1]}")
    for file in _PLACES:
        file.write_text(with_version(file, version), encoding="utf-8")
    lock_jars([version], keep=True)
    schema_file.write_schemas((*KAFKA_VERSIONS, version))
    written = (*(file.name for file in _PLACES), jars.LOCK.name, schema_file.FILE.name)
    return [f"added Kafka {version} to {', '.join(written)}: review the differences, and extend version_table.py"]


def with_version(file: Path, version: str) -> str:
    """Returns the content of one of the files that name versions, with a further one."""
    pattern, line = _PLACES[file]
    text, count = re.subn(pattern, line.format(version), file.read_text(encoding="utf-8"))
    if count != 1:
        raise LabError(f"{file} does not name the known Kafka versions in one line: add {version} by hand")
    return text


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def features(folder: Path) -> dict[str, str]:
    """Returns the level of each feature that a new cluster of this Kafka has; none before Kafka 3.9."""
    tool = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*", "kafka.tools.StorageTool"]
    try:
        printed = command_output(
            [*tool, "version-mapping"], what="kafka-storage version-mapping", timeout_s=_FEATURES_S
        )
    except LabError:
        return {}
    return dict(re.findall(r"(?m)^([a-z.]+)=(.+)$", printed))


def changed_features(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Returns one line for each feature whose level in a new cluster differs between two Kafkas."""
    names = sorted(before.keys() | after.keys())
    pairs = ((name, before.get(name, "none"), after.get(name, "none")) for name in names)
    return [f"feature {name}: {old} before, {new} now" for name, old, new in pairs if old != new]


def differences(known: tuple[Path, Path | None], new: tuple[Path, Path | None]) -> Iterator[str]:
    """Yields one line for each record type, record version and RPC that differs between two pairs of jars.

    Args:
        known, new: the jars kafka-metadata and kafka-clients; without the second, control records and RPCs are skipped.
    """
    before, after = jar_schemas(*known), jar_schemas(*new)
    for kind, what in (("records", "record"), ("control", "control record")):
        if kind == "records" or new[1] is not None:
            yield from _changed(what, _versions(before[kind]), _versions(after[kind]))
    if known[1] is not None and new[1] is not None:
        yield from _changed("RPC", _rpcs(known[1]), _rpcs(new[1]))


def _jars(name: str) -> tuple[Path, Path | None]:
    if not name.endswith(".jar"):
        jars = kafka_jars(name)
        return jar_in(jars, "kafka-metadata"), jar_in(jars, "kafka-clients")
    clients = Path(name).with_name(Path(name).name.replace("kafka-metadata", "kafka-clients"))
    return Path(name), clients if clients != Path(name) and clients.exists() else None


Versions = dict[str, dict[str, object]]
"""The content of each version by its number, by type and name."""


def _versions(records: list[Description]) -> Versions:
    return {f"{record['type']} {record['name']}": record["versions"] for record in records}


def _rpcs(clients_jar: Path) -> Versions:
    """Returns the requests; two versions count as the same if both exist."""
    found: Versions = {}
    for message in message_files(clients_jar, "common/message/"):
        if message["type"] == "request" and message["validVersions"] != "none":
            first, _, last = message["validVersions"].partition("-")
            numbers = range(int(first), int(last or first) + 1)
            found[f"{message['apiKey']} {message['name']}"] = dict.fromkeys(map(str, numbers))
    return found


def _changed(what: str, before: Versions, after: Versions) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys(), key=lambda name: int(name.split()[0])):
        old, new = before.get(name, {}), after.get(name, {})
        for version in sorted(old.keys() | new.keys(), key=int):
            if version not in old:
                yield f"new: {what} {name} version {version}"
            elif version not in new:
                yield f"gone: {what} {name} version {version}"
            elif old[version] != new[version]:
                yield f"other fields: {what} {name} version {version}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
