"""`make kafka`: where a further version is written, and which features a new Kafka has."""

from pathlib import Path

import pytest

from deploy.lab import LabError, jars
from deploy.schemas import new_kafka, schema_file
from deploy.schemas.node_metrics import changed_metrics, parsed_metrics


def test_further_version_is_the_newest_known_one_and_that_of_the_lab() -> None:
    found: dict[str, object] = {}
    for file in (Path(str(schema_file.__file__)), Path(str(jars.__file__))):
        before, after = file.read_text().splitlines(), new_kafka.with_version(file, "9.9.9").splitlines()
        (line,) = (new for old, new in zip(before, after, strict=True) if old != new)
        exec(line, found)

    assert found["KAFKA_VERSIONS"] == (*schema_file.KAFKA_VERSIONS, "9.9.9")
    assert found["KAFKA_VERSION"] == "9.9.9"


def test_file_that_names_the_versions_in_another_way_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "jars.py"
    file.write_text("KAFKA_VERSION = newest()\n")
    monkeypatch.setattr(new_kafka, "_PLACES", {file: (r'(?m)^KAFKA_VERSION = ".*"$', 'KAFKA_VERSION = "{}"')})

    with pytest.raises(LabError, match=r"jars\.py does not name the known Kafka versions in one line: add 9\.9\.9 by"):
        new_kafka.with_version(file, "9.9.9")


def test_features_that_differ_are_printed() -> None:
    before = {"metadata.version": "30 (4.3-IV0)", "share.version": "1", "group.version": "1"}
    after = {"metadata.version": "33 (4.4-IV2)", "group.version": "1", "new.version": "2"}

    assert new_kafka.changed_features(before, after) == [
        "feature metadata.version: 30 (4.3-IV0) before, 33 (4.4-IV2) now",
        "feature new.version: none before, 2 now",
        "feature share.version: 1 before, none now",
    ]


def test_older_version_is_not_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def compared(*_: object) -> list[str]:
        return []

    monkeypatch.setattr(new_kafka, "kafka_jars", lambda _: tmp_path)
    monkeypatch.setattr(new_kafka, "jar_in", lambda *_: tmp_path)
    monkeypatch.setattr(new_kafka, "differences", compared)
    monkeypatch.setattr(new_kafka, "features", lambda _: {})

    assert new_kafka.main(["3.4.0"]) == 2


def test_a_known_version_is_compared_with_the_one_before_it() -> None:
    assert new_kafka.previous_version("4.4.0") == "4.3.1"
    assert new_kafka.previous_version("9.9.9") == schema_file.KAFKA_VERSIONS[-1]


PRINTED = """\
java.lang:type=Memory:Verbose=false
kafka.controller:type=KafkaController,name=ActiveControllerCount:Value=1
kafka.server:type=raft-metrics:current-leader=1
kafka.server:type=socket-server-metrics,listener=CONTROLLER,networkProcessor=0:io-ratio=0.1
"""
SHARES = "kafka.server:type=Shares:a=1\nkafka.server:type=Shares:b=1\n"


def test_metrics_that_differ_are_printed_and_a_new_type_of_them_as_one_line() -> None:
    before = parsed_metrics(PRINTED)
    assert before == {
        "kafka.controller:type=KafkaController,name=ActiveControllerCount",
        "kafka.server:type=raft-metrics current-leader",
        "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=* io-ratio",
    }

    after = parsed_metrics(PRINTED.replace("current-leader", "current-epoch").replace("CONTROLLER", "B") + SHARES)

    assert changed_metrics(before, after) == [
        "new: metrics kafka.server:type=Shares (2)",
        "new: metric kafka.server:type=raft-metrics current-epoch",
        "gone: metric kafka.server:type=raft-metrics current-leader",
    ]
