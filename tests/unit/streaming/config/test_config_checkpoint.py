"""The keys `checkpoint` and `work_dir`: a folder of everything, or the place of Spark's files and a folder."""

from pathlib import Path
from typing import Any

import pytest

from connectors.errors import UsageError
from streaming.config import Config, checked

KAFKA = {"source": "kafka", "relay": {"bootstrap": ["k1:9092"], "topic": "observations"}}


def configured(**keys: Any) -> Config:
    return checked({"clusters": [{"name": "a", "bootstrap": ["h:1"]}], **keys}, "file.yaml")


def test_a_path_holds_everything_and_a_file_uri_is_the_path() -> None:
    for place in ("/var/lib/kraftwatch", "file:/var/lib/kraftwatch", "file:///var/lib/kraftwatch"):
        config = configured(checkpoint=place)

        assert (config.folder, config.spark_uri) == (Path("/var/lib/kraftwatch"), None)


@pytest.mark.parametrize(
    ("place", "uri"),
    [
        ("s3a://bucket/kraftwatch/", "s3a://bucket/kraftwatch"),
        ("hdfs://name:9000/kraftwatch", "hdfs://name:9000/kraftwatch"),
        ("hdfs:///kraftwatch", "hdfs:///kraftwatch"),
        ("file:/mnt/spark", "file:///mnt/spark"),
        ("/mnt/spark", "file:///mnt/spark"),
    ],
)
def test_with_a_work_dir_the_checkpoint_is_sparks_alone(place: str, uri: str) -> None:
    config = configured(checkpoint=place, work_dir="/var/lib/kraftwatch", **KAFKA)

    assert (config.folder, config.spark_uri) == (Path("/var/lib/kraftwatch"), uri)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"checkpoint": "gs://bucket/x"},
            "checkpoint: the scheme gs is not supported: give a local folder, hdfs://",
        ),
        ({"checkpoint": "file:x"}, "checkpoint: expected file:/PATH, or the path alone"),
        ({"checkpoint": "s3a://bucket"}, "checkpoint: expected a path below it, such as s3a://BUCKET/kraftwatch"),
        ({"checkpoint": "s3a:bucket/x"}, "checkpoint: expected a path below it"),
        ({"checkpoint": "s3a://b/x", **KAFKA}, "checkpoint: s3a://b/x is for Spark's files alone: set work_dir to a"),
        ({"checkpoint": "s3a://b/x", "work_dir": "/w"}, "work_dir: needs source: kafka, because a gatherer's"),
        ({"work_dir": "hdfs://name/w", **KAFKA}, "work_dir: expected a local folder, not a place in a file system of"),
        ({"relay": {**KAFKA["relay"], "folder": "s3a://b/x"}}, "relay.folder: expected a local folder"),  # type: ignore[dict-item]
    ],
)
def test_invalid_places_are_one_sentence(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        configured(**keys)

    assert sentence in str(refused.value)


def test_a_login_in_the_uri_is_refused_and_not_printed() -> None:
    with pytest.raises(UsageError, match=r"checkpoint: expected no login in it: set spark\.hadoop") as refused:
        configured(checkpoint="s3a://KEY:do-not-print-me@bucket/x", work_dir="/w", **KAFKA)

    assert "do-not-print-me" not in str(refused.value)
