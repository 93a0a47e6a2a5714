"""The stored form of an alert: between Spark's step and the driver, and in the job's database."""

from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter

from rules.alert import Alert

ALERT: Final[TypeAdapter[Alert]] = TypeAdapter(Alert)
ALERTS: Final[TypeAdapter[Sequence[Alert]]] = TypeAdapter(Sequence[Alert])
