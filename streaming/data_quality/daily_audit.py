"""The job's audit: at most once a day a process of its own audits the newest rows, and its result is recorded.

No batch waits for it: the scheduler has its own thread, and only the process, which ends within seconds, loads Great
Expectations.
"""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from connectors.observations.observation_event import ObservationsAudited

log = logging.getLogger(__name__)

AUDIT_RESULTS: TypeAdapter[dict[str, ObservationsAudited]] = TypeAdapter(dict[str, ObservationsAudited])
"""By cluster name."""
INTERVAL_S = 86_400.0
"""The shortest time between two audits, also across restarts."""
TIMEOUT_S = 300.0
"""An audit takes seconds, on a busy machine a minute: a longer one hangs and is killed."""
_CHECK_S = 60.0
"""Seconds between two checks whether the interval is over: a reload may change the interval."""

Record = Callable[[str, ObservationsAudited], None]
"""Records the audit's result of a cluster in the journal."""


class DailyAudit:
    """Starts audits at an interval while entered."""

    def __init__(self, *, journal: Path, checkpoint: Path, record: Record, every_s: Callable[[], float]) -> None:
        """`every_s` returns the current interval in seconds; 0 turns audits off."""
        self._paths = journal, checkpoint
        self._newest = journal.parent / "last-audit"
        """A file whose time is that of the last audit."""
        self._record = record
        self._every_s = every_s
        self._stopping = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        """The newest audit's process."""
        self._thread = threading.Thread(target=self._run, name="daily audit", daemon=True)

    def __enter__(self) -> Self:
        """Starts the thread; a new checkpoint is audited after one interval."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the thread and kills a running audit."""
        self._stopping.set()
        self._kill()

    def audit(self) -> None:
        """Runs one audit, waits for it and records its result; an error is logged."""
        try:
            found = AUDIT_RESULTS.validate_json(self._output())
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            self._kill()
            if not self._stopping.is_set():
                log.warning("the daily audit failed: %s: %s", type(problem).__name__, problem)
            return
        for cluster, audited in found.items():
            self._record(cluster, audited)

    def due(self) -> bool:
        """Returns whether an audit is due, and if so begins the next interval."""
        every_s = self._every_s()
        if every_s == 0:
            return False
        known = self._newest.exists()
        if known and time.time() - self._newest.stat().st_mtime < max(every_s, INTERVAL_S):
            return False
        self._newest.touch()
        return known

    def _run(self) -> None:
        while not self._stopping.wait(_CHECK_S):
            with suppress(OSError):
                if self.due():
                    self.audit()

    def _output(self) -> bytes:
        command = [sys.executable, "-m", "streaming.data_quality.audit", *map(str, self._paths)]
        none, pipe = subprocess.DEVNULL, subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=none, stdout=pipe, stderr=pipe, start_new_session=True)
        out, errors = self.process.communicate(timeout=TIMEOUT_S)
        if code := self.process.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:]
            raise subprocess.SubprocessError(f"exit code {code}: {' '.join(last)[:300]}")
        return out

    def _kill(self) -> None:
        if self.process is not None:
            self.process.kill()
