"""The columns that a user requests: PySpark's data source API passes no column choice, so an option names them."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from connectors.errors import UsageError

LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the latest that Spark prints."""


def requested_schema(full: StructType, options: Mapping[str, str]) -> StructType:
    """Returns the columns that the option `columns` lists (`offset,type`), in its order; without it, all columns.

    Raises:
        UsageError: there is no such column, or it is listed twice.
    """
    names = [name.strip() for name in options.get("columns", "").split(",") if name.strip()]
    for name in names:
        if name not in full.names:
            raise UsageError(f"there is no column {name}: the columns are {', '.join(full.names)}")
        if names.count(name) > 1:
            raise UsageError(f"the column {name} is listed twice in columns: list each column once")
    return StructType([full[name] for name in names]) if names else full


def require_columns(full: StructType, requested: StructType) -> None:
    """Checks a schema that the user has set with `.schema(...)`.

    Raises:
        UsageError: it has a column that does not exist or that has another type.
    """
    for field in requested:
        if field.name not in full.names:
            raise UsageError(f"there is no column {field.name}: the columns are {', '.join(full.names)}")
        expected = full[field.name].dataType
        if field.dataType != expected:
            raise UsageError(
                f"the column {field.name} is of type {expected.simpleString()}, not {field.dataType.simpleString()}"
            )


def timestamp_us(milliseconds: int | None) -> int | None:
    """Returns a time in microseconds, as Spark stores it; None if it is not in the years 1970 to 9999."""
    return milliseconds * 1000 if milliseconds is not None and 0 <= milliseconds <= LATEST_MS else None


def arrow_batch(values: Mapping[str, list[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Returns columns of Python values as one Arrow batch."""
    return pa.RecordBatch.from_arrays(
        [pa.array(values[field.name], type=field.type) for field in schema], schema=schema
    )
