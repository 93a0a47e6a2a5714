"""The stored form of an alert: between the cluster processor and the driver, and in the job's database.

A module of its own: pydantic needs 50 ms to build the adapters, which commands without alerts are spared.
"""

from typing import Final

from pydantic import TypeAdapter

from rules.alert import Alert
from rules.firing import Firing

ALERT: Final[TypeAdapter[Alert]] = TypeAdapter(Alert)
FIRING: Final[TypeAdapter[Firing]] = TypeAdapter(Firing)
