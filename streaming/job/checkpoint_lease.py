"""CheckpointLease: of several jobs that share a store, one runs a query on the URI of a checkpoint.

Spark's checkpoint is no lock: two queries run beside each other for minutes before one of them fails.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Self

from connectors.errors import LeaseLostError, StoreError
from connectors.process.signals import SignalFlag
from connectors.store.database import Database
from connectors.store.lease import LEASE_S, Lease
from streaming.pipeline.active_role import RENEW_S
from streaming.pipeline.spark.errors import JobError

log = logging.getLogger(__name__)

_PATIENCE_S: Final = LEASE_S + 5.0
"""The lease of a job that was killed ends within this time."""
_RETRY_S: Final = 1.0


class CheckpointLease:
    """The lease of one URI. Entering takes it, a thread renews it, and leaving gives it up."""

    def __init__(
        self,
        database: Database,
        job: str,
        uri: str,
        *,
        stop: SignalFlag,
        say: Callable[[str], None],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Takes nothing yet.

        Args:
            database: the store.
            job: the id of this job.
            uri: of the checkpoint.
            stop: ends the waiting.
            say: prints progress.
            patience_s: for how long another job may have it before this one is refused.
        """
        self._lease = Lease(database, job, f"checkpoint {uri}")
        self._uri, self._stop, self._say, self._patience_s = uri, stop, say, patience_s
        self._lost = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint lease", daemon=True)

    def __enter__(self) -> Self:
        """Waits for the lease of a job that has just ended.

        Raises JobError if another job keeps it, StoreError if the store cannot be used.
        """
        until, waits = time.monotonic() + self._patience_s, False
        while not self._lease.take():
            if time.monotonic() > until:
                raise JobError(
                    f"checkpoint {self._uri} is used by another job that shares the store: stop that job, or give this "
                    "one a checkpoint of its own, as a standby needs"
                )
            if not waits:
                self._say(f"another job used checkpoint {self._uri} a moment ago; waiting until it has ended")
            waits = True
            if self._stop.wait(_RETRY_S):
                raise JobError("the job was stopped while it waited for its checkpoint")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(LEASE_S)
        try:
            self._lease.give_up()
        except StoreError as problem:
            log.debug("%s; the lease of the checkpoint ends by itself", problem)

    def require(self) -> None:
        """Raises JobError if another job has taken the lease: this job was stopped or cut off meanwhile."""
        if self._lost:
            raise JobError(f"another job uses checkpoint {self._uri} now: this one was stopped, or cut off, too long")

    def _run(self) -> None:
        while not self._lost and not self._stopping.wait(RENEW_S):
            try:
                self._lease.renew()
            except LeaseLostError:
                self._lost = True
            except StoreError as problem:
                # Nobody can take it meanwhile.
                log.debug("%s; the lease of the checkpoint is not renewed", problem)
