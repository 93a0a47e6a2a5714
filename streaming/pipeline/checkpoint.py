"""The checkpoint folder: everything the job remembers, held by one job at a time.

cluster.json        which cluster ids this memory belongs to, by name
journal/            every observation, in order (the gatherer writes)
spark/              Spark's offsets, commits and state
ledger.jsonl        what was told, and what is still to be told
silences.json       what people need not be told for a while
quarantine/         what did not decode
lock                held by the running job
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from connectors.errors import UsageError
from connectors.journal.reader import Journal

LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint folder and the places in it."""

    folder: Path

    @property
    def journal(self) -> Path:
        """The recorder's folder."""
        return self.folder / "journal"

    @property
    def spark(self) -> Path:
        """Spark's own checkpoint."""
        return self.folder / "spark"

    @property
    def ledger(self) -> Path:
        """What was told."""
        return self.folder / "ledger.jsonl"

    @property
    def silences(self) -> Path:
        """What people need not be told for a while."""
        return self.folder / "silences.json"

    @property
    def quarantine(self) -> Path:
        """What did not decode."""
        return self.folder / "quarantine"

    @property
    def logs(self) -> Path:
        """Spark's and the gatherer's logs."""
        return self.folder / "log"

    @property
    def _identity(self) -> Path:
        return self.folder / "cluster.json"

    @contextmanager
    def held(self, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Hold the folder alone, making it if it is new. The lock goes with the process, however that ends.

        Raises:
            UsageError: it cannot be made or written, or another job still holds it after `wait_s` seconds.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as problem:
            reason = (problem.strerror or "unusable").lower()
            raise UsageError(
                f"checkpoint {self.folder}: {reason}; give a folder that can be written with --checkpoint"
            ) from None
        try:
            self._lock(handle, wait_s)
            yield
        finally:
            os.close(handle)

    def _lock(self, handle: int, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise UsageError(
                        f"checkpoint {self.folder} is still in use after {wait_s:.0f} s: another kraftwatch holds its "
                        f"lock; stop that one first, or give this one a --checkpoint of its own"
                    ) from None
                time.sleep(0.1)
            else:
                return

    def cluster_ids(self) -> dict[str, str]:
        """The recorded cluster id of each cluster by name; empty for a new checkpoint.

        Raises:
            UsageError: the record cannot be read.
        """
        try:
            recorded = json.loads(self._identity.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            recorded = None
        if not isinstance(recorded, dict):
            raise UsageError(
                f"{self._identity} cannot be read: restore it from a backup, or start with a new --checkpoint"
            ) from None
        return {str(name): str(cluster_id) for name, cluster_id in recorded.items()}

    def record_cluster_ids(self, ids: Mapping[str, str]) -> None:
        """Write the identities, whole or not at all."""
        temporary = self._identity.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(dict(ids), file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._identity)

    def check_journal(self) -> None:
        """Refuse to go on when the journal is not the one that Spark's offsets were planned on.

        Raises:
            UsageError: another journal, or one that ends before the planned offset: new rows would take the
                places of rows that were already judged. Or no offsets and a journal whose beginning is gone.
        """
        planned = self._planned()
        if planned is None:
            self._check_beginning()
            return
        if not self.journal.exists():
            raise UsageError(
                f"checkpoint {self.folder} has Spark's offsets but no journal/: restore the journal that belongs to "
                "it, or start with a new --checkpoint"
            )
        journal = Journal(self.journal)
        if journal.journal_id != planned["journal"] or journal.written() < int(planned["sequence"]):
            raise UsageError(
                f"checkpoint {self.folder}: journal/ is not the one that spark/ was planned on; restore both from the "
                "same moment, or start with a new --checkpoint"
            )

    def _check_beginning(self) -> None:
        """Only rows that Spark has done with are ever deleted: without them and its state, the log has no beginning."""
        journal = Journal(self.journal)
        if journal.created and journal.first() > 0:
            raise UsageError(
                f"checkpoint {self.folder} has a journal/ that no longer holds its beginning, but no Spark offsets: "
                "restore spark/, or start with a new --checkpoint"
            )

    def _planned(self) -> dict[str, str | int] | None:
        """The newest offset that Spark planned, or None before its first batch."""
        offsets = self.spark / "offsets"
        batches = sorted((int(path.name) for path in offsets.glob("[0-9]*") if path.name.isdigit()), reverse=True)
        for batch in batches:
            lines = (offsets / str(batch)).read_text(encoding="utf-8").splitlines()
            # A torn offset file has fewer lines: version, metadata, one line a source.
            with suppress(ValueError, LookupError, TypeError):
                planned = json.loads(lines[2])
                return {"journal": str(planned["journal"]), "sequence": int(planned["sequence"])}
        return None
