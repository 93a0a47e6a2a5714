"""One file of what every Kafka's jars say: each record type and version once, with the Kafkas that know it.

A new Kafka adds its name to the first line and a line for each version of a record that is new or laid out anew;
what it no longer knows gets an `until`. So the difference that a new Kafka makes is what a reader sees.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Described = dict[str, Any]
"""What Reflect.java says of one Kafka, one record, or one of its versions."""


class ContradictionError(Exception):
    """Two Kafkas disagree in what this form cannot tell apart."""


def merged(kafkas: Sequence[Described]) -> Described:
    """What several Kafkas say, in one.

    Args:
        kafkas: what Reflect.java said of each, oldest first.

    Raises:
        ContradictionError: a field that is absent means one thing to one Kafka, another to the next.
    """
    names = [kafka["kafka"] for kafka in kafkas]
    whole: Described = {"kafka": names}
    for kind in ("records", "control"):
        records: dict[tuple[int, str], Described] = {}
        for place, kafka in enumerate(kafkas):
            for record in kafka[kind]:
                _add(records, record, place, names)
        whole[kind] = [_finished(records[key], names) for key in sorted(records)]
    return whole


def known_to(whole: Described, kafka: str) -> Described:
    """What one of the Kafkas says, as `merged` gives it for that Kafka alone; its defaults may say more."""
    place = whole["kafka"].index(kafka)
    alone: Described = {"kafka": [kafka]}
    for kind in ("records", "control"):
        alone[kind] = []
        for record in whole[kind]:
            versions = [
                {"version": line["version"], "since": kafka, "fields": line["fields"]}
                for line in record["versions"]
                if _place(whole, line["since"]) <= place <= _place(whole, line.get("until", whole["kafka"][-1]))
            ]
            if versions:
                alone[kind].append({**record, "versions": versions})
    return alone


def text(whole: Described) -> str:
    """The file: JSON with one version of a record a line."""
    kinds = (
        f'"{kind}": [\n' + ",\n".join(_record_text(record) for record in whole[kind]) + "\n]"
        for kind in ("records", "control")
    )
    return "{" + ",\n".join((f'"kafka": {json.dumps(whole["kafka"])}', *kinds)) + "}\n"


def _add(records: dict[tuple[int, str], Described], record: Described, place: int, names: Sequence[str]) -> None:
    """One Kafka's record to what the older ones say of it."""
    said: Described = {key: record[key] for key in ("type", "constant", "name") if key in record}
    fresh: Described = {**said, "defaults": {}, "versions": []}
    known = records.setdefault((record["type"], record["name"]), fresh)
    for path, defaults in record["defaults"].items():
        old = known["defaults"].setdefault(path, {})
        for field, value in defaults.items():
            if old.setdefault(field, value) != value:
                raise ContradictionError(f"{record['name']} {path} {field} is {old[field]} or {value} when absent")
        known["defaults"][path] = dict(sorted(old.items()))
    for version, fields in record["versions"].items():
        _extend(known["versions"], int(version), fields, place)


def _extend(lines: list[Described], version: int, fields: object, place: int) -> None:
    """One version of a record: the line of the Kafka before goes on, or there is a new one."""
    for line in lines:
        if line["version"] == version and line["fields"] == fields and line["last"] == place - 1:
            line["last"] = place
            return
    lines.append({"version": version, "first": place, "last": place, "fields": fields})


def _finished(record: Mapping[str, Any], names: Sequence[str]) -> Described:
    versions = []
    for line in sorted(record["versions"], key=lambda line: (line["version"], line["first"])):
        until = {} if line["last"] == len(names) - 1 else {"until": names[line["last"]]}
        versions.append({"version": line["version"], "since": names[line["first"]], **until, "fields": line["fields"]})
    return {**record, "versions": versions}


def _place(whole: Described, kafka: str) -> int:
    place: int = whole["kafka"].index(kafka)
    return place


def _record_text(record: Mapping[str, Any]) -> str:
    head = {key: value for key, value in record.items() if key != "versions"}
    lines = ",\n ".join(_compact(line) for line in record["versions"])
    return f'{_compact(head)[:-1]},"versions":[\n {lines}]}}'


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
