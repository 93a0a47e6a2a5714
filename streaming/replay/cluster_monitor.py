"""A Watch: observations in, alerts out. The whole pure path: apply, judge, advance, once for each observation.

The Spark step and `kraftwatch replay` both are this, so both tell the same. What is judged when depends on the
observations alone: never on how many of them come in one batch.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import NamedTuple

from connectors.errors import UsageError
from connectors.event import Event
from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Evaluation, Severity, Thresholds
from rules.lifecycle import Book, Standing, advance
from rules.model.identifiers import Millis
from rules.model.monitoring import PLAINTEXT, Access, Vantage
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine

MAGIC = b"kww"
VERSION = 1


class Row(NamedTuple):
    """One observation, decoded: its place in the order, the gatherer's time, and its events, whole."""

    sequence: int
    observed_at_ms: Millis
    events: Iterable[Event]


class Watch:
    """One watched cluster: its machine and its book, kept together because one is true only with the other."""

    def __init__(self, machine: Machine, book: Book, thresholds: Mapping[str, Thresholds]) -> None:
        self.machine = machine
        self.book = book
        self.thresholds = thresholds
        self._judged: tuple[Quorum, Evaluation] | None = None

    @classmethod
    def of(
        cls,
        blob: bytes | None,
        *,
        cluster: str,
        cluster_id: str | None,
        bootstrap: tuple[str, ...],
        vantage: Vantage,
        thresholds: Mapping[str, Thresholds],
        access: Access = PLAINTEXT,
    ) -> "Watch":
        """The watch that `to_bytes` wrote; a new one when there is no blob.

        Raises:
            UsageError: the blob is of a newer kraftwatch, of another cluster, or damaged.
        """
        if blob is None:
            book, machine = Book(), Machine(cluster, cluster_id, bootstrap, vantage)
        else:
            book, memory = _read(cluster, blob)
            machine = Machine.from_bytes(
                memory, cluster=cluster, cluster_id=cluster_id, bootstrap=bootstrap, vantage=vantage
            )
        machine.access = access
        return cls(machine, book, thresholds)

    def observe(self, rows: Iterable[Row]) -> tuple[Alert, ...]:
        """Apply each observation to the machine, judge the quorum after it, and advance the alerts' life.

        Args:
            rows: in the order of their sequence; those applied before are skipped, and judged no second time.

        Returns:
            What is to be told, in order.
        """
        alerts: list[Alert] = []
        for row in rows:
            if self.machine.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms):
                self.book, told = advance(self.book, self.evaluation(), self.machine.quorum(), self.thresholds)
                alerts += told
        return tuple(alerts)

    def evaluation(self) -> Evaluation:
        """What the rules say of the quorum as it is now; it is judged once."""
        quorum = self.machine.quorum()
        if self._judged is None or self._judged[0] is not quorum:
            self._judged = (quorum, evaluate(quorum, self.thresholds))
        return self._judged[1]

    def to_bytes(self) -> bytes:
        """Machine and book as a versioned blob: `kww`, the version, the book's length and bytes, the machine's."""
        book = zlib.compress(json.dumps(asdict(self.book), separators=(",", ":")).encode(), level=1)
        return MAGIC + bytes([VERSION]) + struct.pack(">I", len(book)) + book + self.machine.to_bytes()


def _read(cluster: str, blob: bytes) -> tuple[Book, bytes]:
    start = len(MAGIC) + 5
    if blob[: len(MAGIC)] != MAGIC or len(blob) < start:
        raise _damaged(cluster)
    if blob[len(MAGIC)] > VERSION:
        raise UsageError(
            f"the checkpoint's alerts of cluster {cluster} have version {blob[len(MAGIC)]}, this kraftwatch knows "
            f"up to {VERSION}: run the newer kraftwatch that wrote them, or start with a new checkpoint folder"
        )
    end = start + int.from_bytes(blob[start - 4 : start], "big")
    try:
        document = json.loads(zlib.decompress(blob[start:end]))
        standings = {key: _standing(one) for key, one in document["standings"].items()}
        return Book(now_ms=Millis(document["now_ms"]), standings=standings), blob[end:]
    except (zlib.error, ValueError, TypeError, KeyError) as error:
        raise _damaged(cluster) from error


def _standing(fields: dict[str, object]) -> Standing:
    told = fields.pop("told")
    return Standing(**fields, told=None if told is None else Severity(str(told)))  # type: ignore[arg-type]


def _damaged(cluster: str) -> UsageError:
    return UsageError(f"the checkpoint's alerts of cluster {cluster} are damaged: start with a new checkpoint folder")
