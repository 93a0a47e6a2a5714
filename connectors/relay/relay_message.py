"""A message of the relay's topic: one observation, its cluster's id, and where the cluster's log begins in the topic.

The key is the cluster's name, and the value the journal's frame of the row (`connectors.journal.frame`) with a sequence
that grows in the whole topic. Headers: `cluster_id`, and `baseline` = SEQUENCE of the row from which on the topic holds
the cluster's log from its start or snapshot, a space, and the time of that row in milliseconds since the epoch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO

from connectors.errors import UndecodableError
from connectors.journal import frame
from connectors.journal.frame import BadFrameError
from connectors.observation import Observation

CLUSTER_ID, BASELINE = "cluster_id", "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """From where on the topic holds everything about a cluster. A new state must begin there."""

    sequence: int
    """Of its first row."""
    at_ms: int
    """No row from there on is older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayMessage:
    """One message."""

    observation: Observation
    cluster_id: str
    baseline: Baseline

    @property
    def key(self) -> bytes:
        """The cluster's name."""
        return self.observation.cluster.encode()

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The headers, in order."""
        baseline = f"{self.baseline.sequence} {self.baseline.at_ms}"
        return (CLUSTER_ID, self.cluster_id.encode()), (BASELINE, baseline.encode())

    def value(self) -> bytes:
        """Returns the observation as a frame."""
        return frame.encode(self.observation)


def parse_message(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] | None
) -> RelayMessage:
    """Returns the message that a relay has written.

    Raises:
        UndecodableError: it is not a message of a relay, or damaged; the reason names the part.
    """
    given = {name: content for name, content in headers or () if content is not None}
    if not key or value is None:
        raise UndecodableError("the message has no key or no value: no relay wrote it")
    observation = _observation(value)
    if observation.cluster.encode() != key:
        raise UndecodableError("the message's key is not the cluster of its row")
    try:
        sequence, at_ms = given[BASELINE].split()
        baseline = Baseline(sequence=int(sequence), at_ms=int(at_ms))
        cluster_id = given[CLUSTER_ID].decode()
    except (KeyError, ValueError):
        raise UndecodableError(f"the message has no valid header {BASELINE} or {CLUSTER_ID}") from None
    return RelayMessage(observation=observation, cluster_id=cluster_id, baseline=baseline)


def _observation(value: bytes) -> Observation:
    try:
        found = frame.read(BytesIO(value), 0)
    except (BadFrameError, UnicodeDecodeError) as problem:
        raise UndecodableError(f"the message's value is not a row: {problem}") from None
    if found is None or found[1] != len(value):
        raise UndecodableError("the message's value is not a row: it is empty or has further bytes behind its row")
    row = found[0]
    if row.sequence >= 1 << 63 or row.observed_at_ms < 0:
        raise UndecodableError("the message's value is not a row: its sequence or its time is out of range")
    return row
