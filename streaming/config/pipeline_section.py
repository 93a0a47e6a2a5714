"""How the work is divided over Spark's tasks."""

from collections.abc import Mapping

from pydantic import Field

from connectors.settings import Section

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


class PipelineSection(Section):
    """How the work is divided."""

    partitions: int = Field(default=1, ge=1, le=256)
    """How many of Spark's tasks evaluate at once. `kraftwatch checkpoint repartition` changes it for a checkpoint."""

    def spark_settings(self) -> Mapping[str, str]:
        """Returns the settings of Spark that follow from it."""
        return {SHUFFLE_PARTITIONS: str(self.partitions)}
