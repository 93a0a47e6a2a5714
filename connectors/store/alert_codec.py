"""The stored form of an alert: between Spark's step and the driver, and in the job's database."""

from typing import Final

from pydantic import TypeAdapter

from rules.alert import Alert

ALERT: Final[TypeAdapter[Alert]] = TypeAdapter(Alert)
