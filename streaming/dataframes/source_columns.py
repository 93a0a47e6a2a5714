"""What the columns of the data sources have in common.

PySpark's data source API passes no column choice, so `.schema(...)` names the columns of a query.
"""

from pyspark.sql.types import StructType

from connectors.errors import UsageError
from connectors.sinks.sink import LATEST_MS


def require_columns(full: StructType, requested: StructType) -> None:
    """Raises UsageError if a schema of `.schema(...)` has a column that does not exist or has another type."""
    for field in requested:
        if field.name not in full.names:
            raise UsageError(f"there is no column {field.name}: the columns are {', '.join(full.names)}")
        expected = full[field.name].dataType
        if field.dataType != expected:
            raise UsageError(
                f"the column {field.name} is of type {expected.simpleString()}, not {field.dataType.simpleString()}"
            )


def timestamp_us(milliseconds: int | None) -> int | None:
    """Returns a time in microseconds, as Spark stores it; None if not in the years 1970 to 9999, which Spark prints."""
    return milliseconds * 1000 if milliseconds is not None and 0 <= milliseconds <= LATEST_MS else None
