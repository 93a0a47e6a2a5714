"""The Arrow schema of a schema of Spark: each schema is written once, in Spark's types.

pyspark has such a function too, but not in its public interface.
"""

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark expects for these columns; a timestamp is in UTC, in microseconds."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType), nullable=field.nullable) for field in schema])


def _arrow_type(type_: DataType) -> pa.DataType:
    match type_:
        case StringType():
            return pa.string()
        case BinaryType():
            return pa.binary()
        case BooleanType():
            return pa.bool_()
        case IntegerType():
            return pa.int32()
        case LongType():
            return pa.int64()
        case TimestampType():
            return pa.timestamp("us", tz="UTC")
        case ArrayType():
            return pa.list_(pa.field("element", _arrow_type(type_.elementType), nullable=type_.containsNull))
        case StructType():
            return pa.struct(list(arrow_schema(type_)))
        case _:
            raise TypeError(type_)
