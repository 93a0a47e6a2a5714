"""`ClusterStatus` as JSON: of `status`, `replication` and `partitions --json`, `/api/clusters` and the step's output.

The schema of the whole object is docs/status.schema.json.
"""

from collections.abc import Iterable
from functools import cache

from pydantic import TypeAdapter

from connectors.sinks.alert_json import iso
from rules.finding import Plain
from streaming.status.cluster_status import ClusterStatus

_HEAD = ("cluster", "cluster_id", "source", "age_ms", "observed_at_ms", "missing")
"""Fields of `ClusterStatus` that `replication` and `partitions` share with `status`."""


@cache
def status_adapter() -> TypeAdapter[ClusterStatus]:
    """Returns pydantic's adapter of `ClusterStatus`; making it takes some tens of milliseconds."""
    return TypeAdapter(ClusterStatus)


def status_json(status: ClusterStatus) -> dict[str, Plain]:
    """Returns the whole status as plain data: `status --json` and `/api/clusters/NAME`."""
    plain: dict[str, Plain] = status_adapter().dump_python(status, mode="json")
    return plain


def selected_json(status: ClusterStatus, fields: Iterable[str]) -> dict[str, Plain]:
    """Returns some fields of the status as plain data."""
    plain: dict[str, Plain] = status_adapter().dump_python(status, mode="json", include=set(fields))
    return plain


def replication_json(status: ClusterStatus) -> dict[str, Plain]:
    """Returns the fields of `replication --json`."""
    described_at_ms = status.described_at_ms
    return {
        **selected_json(status, (*_HEAD, "leader_id", "leader_epoch")),
        "described_at": None if described_at_ms is None else iso(described_at_ms),
        **selected_json(status, ("replicas",)),
    }


def partitions_json(status: ClusterStatus) -> dict[str, Plain]:
    """Returns the fields of `partitions --json`."""
    return selected_json(status, (*_HEAD, "recovering"))


def to_bytes(status: ClusterStatus) -> bytes:
    """Returns the whole status as UTF-8 JSON."""
    return status_adapter().dump_json(status)


def from_json(body: str | bytes) -> ClusterStatus:
    """Returns the status that `to_bytes` wrote.

    Raises:
        pydantic.ValidationError: it is not such an object.
    """
    return status_adapter().validate_json(body)
