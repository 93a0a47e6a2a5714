"""Recorded rows that keep, or break, a data contract."""

from typing import Any

from connectors.observations.observation import Observation, ObservationKind
from tests.unit.connectors.metadata.metadata_bytes import batch, noop

NOW = 1_800_000_000_000


def records(cluster: str, base: int, last: int, *, hw: int = 1_000, epoch: int = 3, **more: Any) -> Observation:
    payload = b"".join(batch([noop()], base_offset=offset, epoch=max(epoch, 0)) for offset in range(base, last + 1))
    stated: dict[str, Any] = {
        "cluster": cluster,
        "kind": ObservationKind.RECORDS,
        "observed_at_ms": NOW,
        "base_offset": base,
        "last_offset": last,
        "leader_epoch": epoch,
        "high_watermark": hw,
        "payload": payload,
    }
    return Observation(**{**stated, **more})
