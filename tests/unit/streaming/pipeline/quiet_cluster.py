"""Quiet clusters: the rows of a second of each, and the state that Spark keeps for one."""

from collections.abc import Iterator

from connectors.observations.observation import Observation, ObservationKind, to_json
from rules.model.identifiers import Millis, Offset
from rules.model.replica import Poll, Replica
from streaming.replay.cluster_settings import ClusterSettings
from tests.scripts.log_script import poll
from tests.situation.situation import controller_key
from tests.unit.connectors.metadata.metadata_bytes import batch, noop
from tests.unit.connectors.store.journal_rows import records

START_MS = 1_795_000_000_000
NODES = (1, 2, 3)
_FIRST_OFFSET = 3


def polled(cluster: str, second: int, now_ms: int) -> Poll:
    end = Offset(_FIRST_OFFSET + 2 * (second + 1))
    ago_ms = {node: 0 if node == 1 else 200 + 37 * (node + second) % 300 for node in NODES}
    rows = (
        Replica(key=controller_key(node), log_end_offset=end, last_fetch_ms=fetched_ms, last_caught_up_ms=fetched_ms)
        for node in NODES
        for fetched_ms in [Millis(now_ms - ago_ms[node])]
    )
    return poll(*rows, hw=end, cluster_id=f"id-of-{cluster}")


def quiet_second(cluster: str, second: int, start_ms: int = START_MS) -> Iterator[Observation]:
    now_ms = start_ms + 1_000 * second
    offset = _FIRST_OFFSET + 2 * second
    for half in (0, 1):
        at_ms, at = now_ms + 500 * half, offset + half
        payload = batch([noop()], base_offset=at, timestamp=at_ms)
        yield records(payload, base=at, last=at, at_ms=at_ms, cluster=cluster)
    at_ms = now_ms + 600
    payload = to_json(polled(cluster, second, at_ms))
    yield Observation(cluster=cluster, kind=ObservationKind.QUORUM, observed_at_ms=at_ms, payload=payload)


def cluster_names(clusters: int) -> list[str]:
    return [f"cluster-{number:04d}" for number in range(clusters)]


def settings_of(cluster: str) -> ClusterSettings:
    return ClusterSettings(
        name=cluster,
        cluster_id=f"id-of-{cluster}",
        bootstrap=tuple(f"c{node}:9093" for node in NODES),
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
