"""Records of a relay's topic."""

from dataclasses import replace

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import Baseline, RelayMessage

NOW_MS = 1_800_000_000_000


FIRST = Baseline(sequence=1_000, at_ms=NOW_MS)


def records(begin: int, end: int, *, high_watermark: int | None = None, at_ms: int = NOW_MS) -> Observation:
    """Returns a row with the records begin..end-1; without a payload if there are none."""
    return Observation(
        cluster="prod",
        kind=ObservationKind.RECORDS,
        observed_at_ms=at_ms,
        base_offset=begin,
        last_offset=end - 1,
        high_watermark=end if high_watermark is None else high_watermark,
        payload=b"batches" if end > begin else b"",
    )


def poll(at_ms: int) -> Observation:
    return Observation(cluster="prod", kind=ObservationKind.QUORUM, observed_at_ms=at_ms, payload=b"{}")


def failed(at_ms: int) -> Observation:
    return Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=at_ms, payload=b"{}")


def message(sequence: int, row: Observation, relay: str = "a", baseline: Baseline = FIRST) -> RelayMessage:
    return RelayMessage(observation=replace(row, sequence=sequence), cluster_id="id", baseline=baseline, relay=relay)
