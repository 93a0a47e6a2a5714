"""The real job as a child process, and the alerts that it writes; for the demo and the tests."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, TypeAdapter

from deploy.lab.addresses import Ports

T = TypeVar("T")

START_S = 240.0
ALERT_S = 240.0
STOP_S = 60.0
GROUP_S = 10.0


class JobProcessError(Exception):
    """The job did not do what was expected in time: names what was expected and what happened."""


Seconds = Annotated[float, BeforeValidator(lambda text: datetime.fromisoformat(text).timestamp())]
"""Since the Unix epoch, read from a time in ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlLine:
    """One line of the jsonl sink."""

    line: Mapping[str, Any]
    number: int
    """Line number in the file, from 0."""
    rule: str
    subject: str
    state: str
    severity: str
    remedy: tuple[str, ...]
    """Commands and sentences in order."""
    started_at: Seconds
    """The first observation of the condition."""
    observed_at: Seconds
    """The observation that caused the transition."""
    sent_at: Seconds


_LINE = TypeAdapter(JsonlLine)


@dataclass(slots=True, kw_only=True)
class JobProcess:
    """`kraftwatch run` on one cluster, with a jsonl sink in `folder`."""

    folder: Path
    bootstrap: Sequence[str]
    """HOST:PORT each; none where `arguments` give a configuration file."""
    name: str = "demo"
    hosts_file: Path | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    """RULE.NAME -> value."""
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()
    """A command that runs the job's command."""
    start_s: float = START_S
    """How long `start` waits for the first batch."""
    _process: subprocess.Popen[bytes] | None = None
    _ports: Ports = field(default_factory=Ports)
    """Reserves the port until the job listens on it."""
    _port: int = 0

    @property
    def jsonl(self) -> Path:
        """Where the alerts are written."""
        return self.folder / "alerts.jsonl"

    @property
    def checkpoint(self) -> Path:
        """The job's checkpoint folder."""
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        """stdout and stderr of the job."""
        return self.folder / "run.log"

    @property
    def pid(self) -> int:
        """Process id of the job."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the job was started and has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def __enter__(self) -> "JobProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def command(self) -> list[str]:
        """Returns the command line."""
        command = [sys.executable, "-m", "streaming", "run"]
        if self.bootstrap:
            command += ["--cluster", f"{self.name}={','.join(self.bootstrap)}"]
        command += ["--checkpoint", str(self.checkpoint), "--sink", f"jsonl:{self.jsonl}"]
        command += ["--listen", self.address]
        if self.hosts_file is not None:
            command += ["--hosts-file", str(self.hosts_file)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value:g}"]
        return [*command, *self.arguments]

    def start(self) -> None:
        """Starts the job and waits for its first batch.

        Raises:
            JobProcessError: the job ended, or completed no batch in time.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._port = self._ports.claim()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_ends_with_parent(), *self.prefix, *self.command()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self.folder,
                env={**os.environ, **self.environment},
            )
        try:
            self._until(self._ready, self.start_s, "the job's first batch")
        except BaseException:
            # The caller does not stop a job that did not start.
            self.stop()
            raise

    def stop(self) -> None:
        """Sends SIGTERM and waits for the job and its Java; kills the whole process group after a timeout."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        _await_end(self._process.pid)
        self._process = None

    def wait(self, timeout_s: float) -> int:
        """Returns the job's exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: the job still runs after `timeout_s` seconds.
        """
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """Sends SIGKILL to the job and everything in its process group."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def address(self) -> str:
        """HOST:PORT of the job's page."""
        return f"127.0.0.1:{self._port}"

    def alerts(self) -> list[JsonlLine]:
        """Returns every complete line of the file, oldest first."""
        if not self.jsonl.exists():
            return []
        lines = self.jsonl.read_bytes().split(b"\n")[:-1]
        found = [json.loads(line) for line in lines]
        return [_LINE.validate_python({**line, "line": line, "number": at}) for at, line in enumerate(found)]

    def wait_for(
        self,
        rule: str,
        state: str = "firing",
        *,
        subject: str = "",
        severity: str = "",
        since: int = 0,
        within_s: float = ALERT_S,
    ) -> JsonlLine:
        """Returns the first matching line from number `since` on; waits `within_s` seconds at most.

        Raises:
            JobProcessError: no such line was written: names the lines that were.
        """

        def matches(alert: JsonlLine) -> bool:
            return (
                alert.rule == rule
                and alert.state == state
                and subject in alert.subject
                and severity in ("", alert.severity)
            )

        def found() -> JsonlLine | None:
            return next((alert for alert in self.alerts()[since:] if matches(alert)), None)

        return self._until(found, within_s, f"{rule} {subject} {severity} {state}".replace("  ", " "))

    def firing(self) -> list[JsonlLine]:
        """Returns the active alerts: the newest line of each fingerprint, if it is firing."""
        newest: dict[str, JsonlLine] = {}
        for alert in self.alerts():
            newest[str(alert.line["fingerprint"])] = alert
        return [alert for alert in newest.values() if alert.state == "firing"]

    def newest_output(self) -> str:
        """Returns the newest output of the job, Spark and the gatherer."""
        logs = (self.log, *(self.checkpoint / "log" / name for name in ("spark.err", "gather.log")))
        texts = (log.read_text(errors="replace")[-1500:] for log in logs if log.exists())
        return "\n".join(text for text in texts if text)

    def _ready(self) -> bool | None:
        try:
            with urllib.request.urlopen(f"http://{self.address}/readyz", timeout=2) as page:
                return page.status == 200 or None
        except (urllib.error.URLError, OSError):
            return None

    def _until(self, poll: Callable[[], T | None], within_s: float, awaited: str) -> T:
        deadline = time.monotonic() + within_s
        while True:
            found = poll()
            if found is not None:
                return found
            if self._process is not None and self.has_ended:
                code = self._process.returncode
                raise JobProcessError(
                    f"awaiting {awaited}: the job ended with exit code {code}: {self.newest_output()}"
                )
            if time.monotonic() > deadline:
                lines = ", ".join(
                    f"{alerts.rule} {alerts.subject} {alerts.severity} {alerts.state}" for alerts in self.alerts()
                )
                raise JobProcessError(f"waited {within_s:.0f} s for {awaited}; alerts so far: {lines or 'none'}")
            time.sleep(0.05)


def _await_end(group: int) -> None:
    """Waits until a process group has ended: Java ends after the job, and still writes into its folder."""
    deadline = time.monotonic() + GROUP_S
    with suppress(OSError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.05)


def _ends_with_parent() -> list[str]:
    """Returns the command prefix that sends SIGTERM to a process when its parent ends. Linux only."""
    prefix = ["setpriv", "--pdeathsig", "TERM"]
    with suppress(OSError):
        # setpriv before util-linux 2.33 and that of busybox have no such option.
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            return prefix
    return []
