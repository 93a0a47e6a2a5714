"""The active role: of several jobs that share a store, one notifies; the others evaluate too and are ready to.

Each job has its own query and its own checkpoint. The job that has the lease (`connectors.store.lease`) records alerts
and calls sinks. It gives the lease up if another job is further in the observations, or can probably reach a sink for
people that this one cannot. If it is killed, stopped or cut off from the store, its lease expires.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, Self
from uuid import uuid4

from connectors.errors import LeaseLostError, StoreError
from connectors.store.durable_file import replace_file
from connectors.store.lease import LEASE_S, JobReport, Lease

log = logging.getLogger(__name__)

RENEW_S: Final = 2.0
BEHIND_MS: Final = 20_000
"""A job that is this far behind another one gives the lease up to it. Quiet rows wait for half of it."""
SINKS_FAIL_S: Final = 10.0
"""How long a sink for people fails before another job tries."""
_FAILED_S: Final = 30.0
"""How long a job whose sinks failed is not preferred: the lease must not alternate while the service itself is down."""
_ANSWERS_S: Final = 60.0
_PAUSE_S: Final = 2 * LEASE_S
"""How long a job that gave the lease up leaves it to others."""


class JobRole(Protocol):
    """Whether this job records alerts and calls the sinks."""

    @property
    def is_active(self) -> bool:
        """Whether this job notifies."""

    @property
    def is_standby(self) -> bool:
        """Whether another job notifies, or may begin to."""


class OnlyJob(JobRole):
    """The role of a job that shares its store with no other one."""

    is_active = True
    is_standby = False
    store_answers = True
    store_problem = None


class LeaseRole(JobRole):
    """The role of a job that shares its store: the one that has the lease notifies."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    @property
    def is_active(self) -> bool:
        """Whether this job notifies."""
        return self._lease.held

    @property
    def is_standby(self) -> bool:
        """Whether another job notifies, or may begin to."""
        return not self._lease.owned


class ActiveRole(LeaseRole):
    """Takes, renews and gives up the lease in its own thread while entered. Leaving gives it up."""

    def __init__(
        self, lease: Lease, report: Callable[[], JobReport], *, settle: Callable[[Callable[[], None]], None]
    ) -> None:
        """`report` returns that of this job, whose `sinks_fail` is the outcome of the newest calls.

        `settle` records what sinks were sent, then calls its argument, which gives up the lease.
        """
        super().__init__(lease)
        self._report, self._settle = report, settle
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="active role", daemon=True)
        self._not_before = 0.0
        self._failing_since: float | None = None
        self._failed_until = 0.0
        self._problem: str | None = None
        self._answered_at = time.monotonic()

    @property
    def store_answers(self) -> bool:
        """Whether the store has answered within the last minute."""
        return time.monotonic() - self._answered_at < _ANSWERS_S

    @property
    def store_problem(self) -> str | None:
        """Why the store does not answer now, in a sentence; None if it does."""
        return self._problem

    def __enter__(self) -> Self:
        self._turn()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(LEASE_S)
        try:
            if self._lease.owned:
                self._settle(self._lease.give_up)
        except StoreError as problem:
            log.warning("%s; the lease ends by itself", problem)

    def _run(self) -> None:
        while not self._stopping.wait(RENEW_S):
            self._turn()

    def _turn(self) -> None:
        try:
            self._take_or_renew()
        except LeaseLostError as problem:
            log.warning("%s: this one is its standby", problem)
        except StoreError as problem:
            if self._problem is None:
                log.warning("%s", problem)
            self._problem = str(problem)
            return
        self._problem, self._answered_at = None, time.monotonic()

    def _take_or_renew(self) -> None:
        mine = self._own_state()
        others = self._lease.report(mine)
        better = any(is_better(other, mine) for other in others)
        if not self._lease.owned:
            if not better and time.monotonic() >= self._not_before and self._lease.take():
                log.warning("this job notifies now")
            return
        # Also before giving it up: a batch that waits for the store must be able to record its alerts first.
        self._lease.renew()
        if better:
            self._settle(self._lease.give_up)
            self._not_before = time.monotonic() + _PAUSE_S
            log.warning("another job observes more, or reaches the sinks: it notifies now")

    def _own_state(self) -> JobReport:
        state, now = self._report(), time.monotonic()
        if self._lease.owned:
            self._failing_since = (self._failing_since or now) if state.sinks_fail else None
            fails = self._failing_since is not None and now - self._failing_since >= SINKS_FAIL_S
            self._failed_until = now + _FAILED_S if fails else 0.0
        return replace(state, sinks_fail=now < self._failed_until)


def is_better(other: JobReport, mine: JobReport) -> bool:
    """Whether another job should notify instead of this one: who reaches people first, then who observes more."""
    if mine.sinks_fail != other.sinks_fail:
        return mine.sinks_fail
    return other.evaluated_ms > mine.evaluated_ms + BEHIND_MS


def job_id(folder: Path) -> str:
    """Returns the id of the job in this folder, which is the same after a restart."""
    path = folder / "job-id"
    if not path.exists():
        replace_file(path, uuid4().hex.encode())
    return path.read_text(encoding="utf-8")
