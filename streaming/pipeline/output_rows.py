"""The rows that the step yields and `deliver` reads: one kind each for alerts, quarantine, poll requests and status."""

from enum import StrEnum

from pydantic import TypeAdapter

from rules.alert import Alert

ALERT: TypeAdapter[Alert] = TypeAdapter(Alert)
"""The JSON form of an Alert between the step and `deliver`."""


class OutputKind(StrEnum):
    """The column `kind` of `schema.OUTPUT`, and what `name` and `body` hold."""

    ALERT = "alert"
    """name = fingerprint, body = the Alert as JSON."""
    QUARANTINE = "quarantine"
    """name = SEQUENCE-ORDINAL of what did not decode, body = its offset and the reason as JSON."""
    DUE = "due"
    """body = the time (ms since the epoch) at which a hold or clear time expires."""
    STATUS = "status"
    """body = the cluster's status as JSON (`streaming.status.cluster_status`)."""
