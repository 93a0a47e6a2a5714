"""The audit scheduler: a separate process regularly audits the newest rows, and its result is recorded.

No batch waits for it: the scheduler has its own thread, and only the audit process, which ends within seconds, loads
Great Expectations.
"""

import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from connectors.observation_event import ObservationsAudited
from rules.finding import Plain
from streaming.data_quality.audit_process import AUDIT_RESULTS, SAMPLE, AuditSample

log = logging.getLogger(__name__)

TIMEOUT_S = 300.0
"""An audit takes seconds, on a busy machine a minute: a longer one hangs and is killed."""
_END_S = 5.0
_CHECK_S = 1.0
"""Seconds between two checks whether the interval is over: a reload may change the interval."""

StatusesByCluster = Callable[[], Mapping[str, Mapping[str, Plain]]]
"""The newest state of each cluster that was seen."""
Record = Callable[[str, ObservationsAudited], None]
"""Records the audit's result of a cluster in the journal."""


class AuditScheduler:
    """Starts audits at an interval while entered."""

    def __init__(
        self, *, journal: Path, ledger: Path, statuses: StatusesByCluster, record: Record, every_s: Callable[[], float]
    ) -> None:
        """`every_s` returns the current interval in seconds; 0 turns audits off."""
        self._journal = journal
        self._ledger = ledger
        self._statuses = statuses
        self._record = record
        self._every_s = every_s
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="audit scheduler", daemon=True)
        self.audits = 0
        """Number of completed audits."""
        self.failing: str | None = None
        """Why the newest audit failed; None if it did not."""

    @property
    def running(self) -> bool:
        """Whether an audit runs now."""
        return self._process is not None

    def __enter__(self) -> Self:
        """Starts the thread; the first audit begins after one interval."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the thread and kills a running audit."""
        self._stopping.set()
        process = self._process
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def audit(self) -> None:
        """Runs one audit and waits for it; an error is recorded in `failing` and not raised."""
        statuses = dict(self._statuses())
        if not statuses:
            return
        sample = AuditSample(journal=str(self._journal), ledger=str(self._ledger), statuses=statuses)
        try:
            found = AUDIT_RESULTS.validate_json(self._run_process(SAMPLE.dump_json(sample) + b"\n"))
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            self.failing = f"the audit of a sample failed: {type(problem).__name__}"
            if not self._stopping.is_set():
                log.warning("%s: %s", self.failing, problem)
            return
        self.audits, self.failing = self.audits + 1, None
        for cluster, audited in found.items():
            self._record(cluster, audited)

    def _run(self) -> None:
        waited_s = 0.0
        while not self._stopping.wait(_CHECK_S):
            waited_s += _CHECK_S
            if 0 < self._every_s() <= waited_s:
                waited_s = 0.0
                self.audit()

    def _run_process(self, line: bytes) -> bytes:
        with subprocess.Popen(
            [sys.executable, "-m", "streaming.data_quality.audit_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            self._process = process
            try:
                out, errors = process.communicate(line, timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                self._process = None
        if process.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:]
            raise subprocess.SubprocessError(f"exit code {process.returncode}: {' '.join(last)[:300]}")
        return out
