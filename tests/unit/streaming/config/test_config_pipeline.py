"""`pipeline`: how the work is divided."""

import pytest
from pydantic import ValidationError

from connectors.errors import UsageError
from streaming.config import Config, checked


def configured(**more: object) -> Config:
    return Config.model_validate({"clusters": [{"name": "a", "bootstrap": ["c1:9093"]}], **more})


def test_one_partition_is_the_default() -> None:
    assert configured().pipeline.spark_settings() == {"spark.sql.shuffle.partitions": "1"}
    assert configured(pipeline={"partitions": 4}).pipeline.spark_settings() == {"spark.sql.shuffle.partitions": "4"}


@pytest.mark.parametrize("partitions", [0, 257, "many"])
def test_an_impossible_number_is_refused(partitions: object) -> None:
    with pytest.raises(ValidationError, match=r"pipeline\.partitions"):
        configured(pipeline={"partitions": partitions})


def test_sparks_own_setting_is_refused_with_the_key_to_use() -> None:
    given = {"clusters": [{"name": "a", "bootstrap": ["c1:9093"]}], "spark": {"spark.sql.shuffle.partitions": "4"}}
    with pytest.raises(UsageError, match=r"^test: spark: .* set pipeline\.partitions instead$"):
        checked(given, "test")
