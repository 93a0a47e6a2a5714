"""Prints what a Kafka version's records and RPCs have that the newest known Kafka's lack (`make kafka VERSION=x`).

`python -m deploy.schemas.new_kafka 4.5.0` downloads its jars. A kafka-metadata jar, of a fork for example, is read as a
file; for the RPCs, kafka-clients must be beside it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.jars import kafka_jars
from deploy.schemas.jar_schemas import Description, jar_in, jar_schemas, message_files
from deploy.schemas.schema_file import KAFKA_VERSIONS


def main(names: list[str]) -> int:
    """Prints the differences; returns 2 with an error message if a jar cannot be read."""
    if len(names) != 1:
        sys.stderr.write("usage: make kafka VERSION=x: a Kafka version, or a kafka-metadata jar\n")
        return 2
    try:
        before = kafka_jars(KAFKA_VERSIONS[-1])
        known = (jar_in(before, "kafka-metadata"), jar_in(before, "kafka-clients"))
        lines = [*differences(known, _jars(names[0]))]
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in lines or [f"nothing new since Kafka {KAFKA_VERSIONS[-1]}"]))
    return 0


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
