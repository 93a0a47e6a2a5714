"""One file of every Kafka's layouts: a new Kafka is a difference that can be read."""

from typing import Any

import pytest

from deploy.schemas.merging import ContradictionError, known_to, merged, text


def a_kafka(name: str, absent: int = 0, **versions: list[str]) -> dict[str, Any]:
    fields = {version[1:]: [{"name": field, "type": "int32"} for field in names] for version, names in versions.items()}
    record = {"type": 7, "constant": "A_RECORD", "name": "ARecord", "defaults": {"": {"a": absent}}, "versions": fields}
    return {"kafka": name, "records": [record] if versions else [], "control": []}


def spans(whole: dict[str, Any]) -> list[tuple[int, str, str | None]]:
    (record,) = whole["records"]
    return [(line["version"], line["since"], line.get("until")) for line in record["versions"]]


def test_a_version_that_every_kafka_knows_is_said_once() -> None:
    assert spans(merged([a_kafka("1", v0=["a"]), a_kafka("2", v0=["a"])])) == [(0, "1", None)]


def test_a_version_that_came_later_says_since_when() -> None:
    assert spans(merged([a_kafka("1", v0=["a"]), a_kafka("2", v0=["a"], v1=["a", "b"])])) == [
        (0, "1", None),
        (1, "2", None),
    ]


def test_a_version_that_was_laid_out_anew_is_said_twice() -> None:
    assert spans(merged([a_kafka("1", v0=["a"]), a_kafka("2", v0=["b"]), a_kafka("3", v0=["b"])])) == [
        (0, "1", "1"),
        (0, "2", None),
    ]


def test_a_version_that_was_gone_for_a_while_is_said_twice() -> None:
    assert spans(merged([a_kafka("1", v0=["a"]), a_kafka("2"), a_kafka("3", v0=["a"])])) == [
        (0, "1", "1"),
        (0, "3", None),
    ]


def test_a_new_kafka_that_changes_nothing_changes_one_line() -> None:
    old = text(merged([a_kafka("1", v0=["a"])])).splitlines()
    new = text(merged([a_kafka("1", v0=["a"]), a_kafka("2", v0=["a"])])).splitlines()

    assert [line for line in new if line not in old] == ['{"kafka": ["1", "2"],']


def test_one_kafkas_part_is_what_that_kafka_says() -> None:
    both = merged([a_kafka("1", v0=["a"]), a_kafka("2", v0=["b"], v1=["a"])])

    assert known_to(both, "1") == merged([a_kafka("1", v0=["a"])])
    assert known_to(both, "2") == merged([a_kafka("2", v0=["b"], v1=["a"])])


def test_a_default_that_changed_is_no_matter_to_pass_over() -> None:
    with pytest.raises(ContradictionError, match="ARecord  a is 0 or 1 when absent"):
        merged([a_kafka("1", v0=["a"]), a_kafka("2", absent=1, v0=["a"])])
