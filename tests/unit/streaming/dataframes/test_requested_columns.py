"""The option `columns`: the columns in its order, or one sentence."""

import pytest

from connectors.errors import UsageError
from streaming.dataframes.record_rows import RECORD
from streaming.dataframes.requested_columns import requested_schema


def test_the_option_gives_the_columns_in_its_order() -> None:
    assert requested_schema(RECORD, {"columns": "type, offset,"}).names == ["type", "offset"]
    assert requested_schema(RECORD, {}) == RECORD


def test_a_column_that_is_listed_twice_is_reported_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="the column offset is listed twice in columns: list each column once"):
        requested_schema(RECORD, {"columns": "offset,type,offset"})
