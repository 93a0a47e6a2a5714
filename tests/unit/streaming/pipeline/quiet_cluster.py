"""Quiet clusters: the rows of a second of each, and the state that Spark keeps for one."""

import base64
from collections.abc import Iterator

from connectors.observations.observation import (
    Event,
    NodeEndpoints,
    Observation,
    ObservationKind,
    QuorumPolled,
    to_json,
)
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.quorum import Replica
from streaming.replay.cluster_settings import ClusterSettings
from tests.unit.connectors.metadata.metadata_bytes import batch, noop

START_MS = 1_795_000_000_000
NODES = (1, 2, 3)
_FIRST_OFFSET = 3


def endpoint(node: int) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{node}.kafka.example", port=9093)


def uuid(node: int) -> bytes:
    return bytes([*range(1, 15), node // 256, node % 256])


def key(node: int) -> ReplicaKey:
    text = base64.urlsafe_b64encode(uuid(node)).decode().rstrip("=")
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(text))


def log_row(cluster: str, offset: int, payload: bytes, now_ms: int) -> Observation:
    return Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=now_ms,
        base_offset=offset,
        last_offset=offset,
        leader_epoch=1,
        high_watermark=offset + 1,
        payload=payload,
    )


def event_row(cluster: str, kind: ObservationKind, event: Event, now_ms: int) -> Observation:
    return Observation(cluster=cluster, kind=kind, observed_at_ms=now_ms, payload=to_json(event))


def poll(cluster: str, second: int, now_ms: int) -> QuorumPolled:
    end = Offset(_FIRST_OFFSET + 2 * (second + 1))

    def row(node: int) -> Replica:
        ago = 0 if node == 1 else 200 + 37 * (node + second) % 300
        return Replica(
            key=key(node),
            log_end_offset=end,
            last_fetch_ms=Millis(now_ms - ago),
            last_caught_up_ms=Millis(now_ms - ago),
        )

    return QuorumPolled(
        cluster_id=f"id-of-{cluster}",
        endpoint=str(endpoint(1)),
        leader_id=NodeId(1),
        leader_epoch=Epoch(1),
        high_watermark=end,
        voters=tuple(map(row, NODES)),
        observers=(),
        nodes=tuple(NodeEndpoints(id=NodeId(node), endpoints=(endpoint(node),)) for node in NODES),
    )


def quiet_second(cluster: str, second: int, start_ms: int = START_MS) -> Iterator[Observation]:
    now_ms = start_ms + 1_000 * second
    offset = _FIRST_OFFSET + 2 * second
    for half in (0, 1):
        at_ms = now_ms + 500 * half
        yield log_row(cluster, offset + half, batch([noop()], base_offset=offset + half, timestamp=at_ms), at_ms)
    at_ms = now_ms + 600
    yield event_row(cluster, ObservationKind.QUORUM, poll(cluster, second, at_ms), at_ms)


def cluster_names(clusters: int) -> list[str]:
    return [f"cluster-{number:04d}" for number in range(clusters)]


def settings_of(cluster: str) -> ClusterSettings:
    return ClusterSettings(
        name=cluster,
        cluster_id=f"id-of-{cluster}",
        bootstrap=tuple(f"c{node}.kafka.example:9093" for node in NODES),
    )


class OneState:
    """Holds the value of a group of clusters, as Spark's GroupState does."""

    value: bytes | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[bytes | None]:
        return (self.value,)

    def update(self, value: tuple[bytes]) -> None:
        (self.value,) = value
