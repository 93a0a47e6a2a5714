"""The Arrow schemas are those that pyspark itself makes of the same types."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, StructField, StructType

from streaming.dataframes.cluster_states import CLUSTER_STATE
from streaming.dataframes.job_tables import SCHEMAS
from streaming.dataframes.metadata_log_source import RECORD
from streaming.pipeline.arrow_schema import arrow_schema
from streaming.pipeline.schema import PACKED


@pytest.mark.parametrize("schema", [*SCHEMAS.values(), PACKED, RECORD, CLUSTER_STATE])
def test_a_schema_is_that_of_pyspark(schema: StructType) -> None:
    assert arrow_schema(schema) == to_arrow_schema(schema, timezone="UTC")


def test_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="DoubleType"):
        arrow_schema(StructType([StructField("ratio", DoubleType())]))
