"""Reads the record schemas of a Kafka version from the JSON files in its jars.

Kafka generates its classes from these files: `common/metadata` in kafka-metadata holds the metadata records,
`common/message` in kafka-clients the control records and the RPCs. A fork's jars hold its own records too.
"""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from deploy.lab import LabError

Description = dict[str, Any]
"""The records of one Kafka version, one record, or one record version."""

_CONTROL: Final = {
    "LeaderChangeMessage": 2,
    "SnapshotHeaderRecord": 3,
    "SnapshotFooterRecord": 4,
    "KRaftVersionRecord": 5,
    "VotersRecord": 6,
}
"""KRaft's control records and their types (ControlRecordType); older Kafkas have fewer."""
_NUMBERS: Final = {
    "int8": "int8",
    "int16": "int16",
    "uint16": "uint16",
    "int32": "int32",
    "uint32": "unsigned_int32",
    "int64": "int64",
    "float64": "float64",
}
"""Numeric types in the notation of Kafka's schemas, and in ours."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')
_VERSIONS = re.compile(r"(?P<first>\d+)(?:-(?P<last>\d+)|(?P<on>\+))?")
_NO_VERSION: Final = range(0)
_ANY_VERSION: Final = 1 << 15


def jar_schemas(metadata_jar: Path, clients_jar: Path | None) -> Description:
    """Returns the records that the jars of one Kafka version describe.

    Args:
        metadata_jar: `kafka-metadata-VERSION.jar`, of Kafka or of a fork.
        clients_jar: `kafka-clients-VERSION.jar`, which has the control records; None: return none.
    """
    version = metadata_jar.stem.removeprefix("kafka-metadata-")
    records = [
        _record(found["apiKey"], found, constant=_snake(found["name"]).upper())
        for found in message_files(metadata_jar, "common/metadata/")
        if found["type"] == "metadata"
    ]
    messages = () if clients_jar is None else message_files(clients_jar, "common/message/")
    control = [_record(_CONTROL[found["name"]], found) for found in messages if found["name"] in _CONTROL]
    if not records:
        raise LabError(f"{metadata_jar} holds no record schemas (common/metadata/*.json): name a kafka-metadata jar.")
    return {"kafka": version, "records": records, "control": control}


def folder_schemas(jars: Path) -> Description:
    """Returns the records that the Kafka in a folder of jars can write."""
    return jar_schemas(jar_in(jars, "kafka-metadata"), jar_in(jars, "kafka-clients"))


def jar_in(jars: Path, name: str) -> Path:
    """Returns a jar of a folder by the name of its module."""
    for jar in sorted(jars.glob(f"{name}-[0-9]*.jar")):
        return jar
    raise LabError(f"{jars} holds no {name} jar: name a folder with all of Kafka's jars.")


def message_files(jar: Path, folder: str) -> Iterator[Description]:
    """Yields the content of each schema file in a folder of a jar, sorted by its name."""
    try:
        with zipfile.ZipFile(jar) as files:
            for name in sorted(files.namelist()):
                if name.startswith(folder) and name.endswith(".json"):
                    yield json.loads(_without_comments(files.read(name).decode()))
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise LabError(f"{jar} cannot be read: {error}") from None


def _without_comments(text: str) -> str:
    return _TOKEN.sub(lambda token: "" if token[0].startswith("//") else token[0], text)


def _record(type_: int, file: Mapping[str, Any], constant: str | None = None) -> Description:
    valid, name = _range(file["validVersions"]), file["name"]
    if not {*valid} <= {*_range(file["flexibleVersions"])}:
        raise LabError(f"{name} has a version without tagged fields, which no reader of this program supports")
    structs = {each["name"]: each["fields"] for each in file.get("commonStructs", ())}
    defaults: Description = {}
    versions = {str(version): _fields(file["fields"], version, "", structs, defaults) for version in valid}
    identity = {"type": type_} if constant is None else {"type": type_, "constant": constant}
    return {**identity, "name": name, "defaults": defaults, "versions": versions}


def _fields(
    described: list[Description],
    version: int,
    path: str,
    structs: Mapping[str, list[Description]],
    defaults: Description,
) -> list[Description]:
    """Returns the fields of a struct in one version, in the order in which Kafka declares and prints them.

    Default values, of fields in any version, go into `defaults` under the struct's path.
    """
    defaults[path] = dict(sorted((_snake(field["name"]), _default(field)) for field in described))
    found = []
    for field in described:
        if version in _range(field["versions"]):
            name, json_name = _snake(field["name"]), field["name"][0].lower() + field["name"][1:]
            renamed = {} if json_name == _camel(name) else {"json": json_name}
            tag = {"tag": int(field["tag"])} if version in _range(field.get("taggedVersions", "none")) else {}
            inside = f"{path}.{name}" if path else name
            found.append({"name": name, **renamed, **_type(field, version, inside, structs, defaults), **tag})
    return found


def _type(
    field: Description, version: int, path: str, structs: Mapping[str, list[Description]], defaults: Description
) -> Description:
    name: str = field["type"]
    nullable = "nullable_" if version in _range(field.get("nullableVersions", "none")) else ""
    if name.startswith("[]"):
        element = {**field, "type": name[2:], "nullableVersions": "none"}
        return {"type": f"compact_{nullable}array", "of": _type(element, version, path, structs, defaults)}
    if name in ("string", "bytes"):
        return {"type": f"compact_{nullable}{name}"}
    if name in ("bool", "uuid"):
        return {"type": "boolean" if name == "bool" else name}
    if name in _NUMBERS:
        return {"type": _NUMBERS[name]}
    inner = field.get("fields") or structs.get(name)
    if inner is None or nullable:
        raise LabError(f"the field {path} has type {name}, which no reader of this program supports")
    return {"type": "struct", "fields": _fields(inner, version, path, structs, defaults)}


def _default(field: Description) -> object:
    """Returns the value of a field that a version or a writer omits; None for a UUID, for bytes and for a struct."""
    type_, default = field["type"], field.get("default")
    if default == "null":
        return None
    if type_.startswith("[]"):
        return []
    if type_ == "string":
        return default or ""
    if type_ == "bool":
        return str(default).lower() == "true"
    if type_ in _NUMBERS:
        return float(default or 0) if type_ == "float64" else int(str(default or 0), 0)
    return None


def _range(text: str) -> range:
    """Returns versions: `0-2`, `3`, `1+` or `none`."""
    found = _VERSIONS.fullmatch(text)
    if found is None:
        return _NO_VERSION
    last = _ANY_VERSION if found["on"] else int(found["last"] or found["first"])
    return range(int(found["first"]), last + 1)


def _snake(name: str) -> str:
    """Returns a name as Kafka's generator does (`MessageGenerator.toSnakeCase`): KRaftVersion is kraft_version."""
    return re.sub(r"(?<=[^A-Z])(?=[A-Z])", "_", name).lower()


def _camel(snake: str) -> str:
    """Returns the usual name of a field in Kafka's JSON."""
    first, *rest = snake.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
