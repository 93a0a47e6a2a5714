"""The sampler: now and then a process of its own audits the newest rows, and what it finds is recorded.

No batch waits for it: it has a thread, and Great Expectations is loaded in the process only, which ends within seconds.
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

from connectors.event import Audited
from rules.finding import Plain
from streaming.data_quality.audit_process import SAMPLE, VERDICTS, Sample

log = logging.getLogger(__name__)

TIMEOUT_S = 300.0
"""It takes seconds, on a machine that is busy a minute: one that takes longer hangs."""
_END_S = 5.0
_LOOK_S = 1.0
"""How often it looks whether the pause is over: it may be configured anew meanwhile."""

Portraits = Callable[[], Mapping[str, Mapping[str, Plain]]]
"""The newest state of each cluster that was seen."""
Record = Callable[[str, Audited], None]
"""Has it recorded what was found of a cluster."""


class Sampler:
    """Audits every so often, from `__enter__` to `__exit__`."""

    def __init__(
        self, *, journal: Path, ledger: Path, portraits: Portraits, record: Record, every_s: Callable[[], float]
    ) -> None:
        """`every_s` says the pause of the moment; 0 turns it off."""
        self._journal = journal
        self._ledger = ledger
        self._portraits = portraits
        self._record = record
        self._every_s = every_s
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.audits = 0
        """How many audits came to an end."""
        self.failing: str | None = None
        """Why the newest one did not, in a few words."""

    @property
    def running(self) -> bool:
        """Whether an audit runs now."""
        return self._process is not None

    def __enter__(self) -> Self:
        """Begin; the first audit comes after a whole pause, when there is something to hold."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End an audit that runs."""
        self._stopping.set()
        process = self._process
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def audit(self) -> None:
        """One audit, waited for; a failure of it is noted, and never raised."""
        portraits = dict(self._portraits())
        if not portraits:
            return
        sample = Sample(journal=str(self._journal), ledger=str(self._ledger), portraits=portraits)
        try:
            found = VERDICTS.validate_json(self._said(SAMPLE.dump_json(sample) + b"\n"))
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            self.failing = f"the audit of a sample failed: {type(problem).__name__}"
            if not self._stopping.is_set():
                log.warning("%s: %s", self.failing, problem)
            return
        self.audits, self.failing = self.audits + 1, None
        for cluster, audited in found.items():
            self._record(cluster, audited)

    def _run(self) -> None:
        paused_s = 0.0
        while not self._stopping.wait(_LOOK_S):
            paused_s += _LOOK_S
            if 0 < self._every_s() <= paused_s:
                paused_s = 0.0
                self.audit()

    def _said(self, line: bytes) -> bytes:
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
