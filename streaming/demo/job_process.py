"""The real job as a process of its own, and the alerts that it writes: what the demo and the tests look at."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from deploy.lab.ports import Ports

T = TypeVar("T")

START_S = 240.0
STOP_S = 60.0
GROUP_S = 10.0


class WatcherError(Exception):
    """The job did not do what it should in time: says what was awaited and what came instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One line of the jsonl sink."""

    line: Mapping[str, Any]
    number: int
    """Its place in the file, from 0."""

    @property
    def rule(self) -> str:
        """The rule's id."""
        return str(self.line["rule"])

    @property
    def subject(self) -> str:
        """What it is about."""
        return str(self.line["subject"])

    @property
    def state(self) -> str:
        """firing or resolved."""
        return str(self.line["state"])

    @property
    def severity(self) -> str:
        """critical, warning or info."""
        return str(self.line["severity"])

    @property
    def remedy(self) -> tuple[str, ...]:
        """The ordered commands and sentences."""
        return tuple(self.line["remedy"])

    @property
    def sent_at(self) -> float:
        """Seconds since the Unix epoch."""
        return _seconds(self.line["sent_at"])

    @property
    def started_at(self) -> float:
        """Seconds since the Unix epoch: the first observation of the condition."""
        return _seconds(self.line["started_at"])

    @property
    def observed_at(self) -> float:
        """Seconds since the Unix epoch: the observation that made the transition."""
        return _seconds(self.line["observed_at"])


@dataclass(slots=True, kw_only=True)
class Watcher:
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
    _process: subprocess.Popen[bytes] | None = None
    _ports: Ports = field(default_factory=Ports)
    """None of them is taken by somebody else between its choice and the moment at which the job listens there."""
    _port: int = 0

    @property
    def jsonl(self) -> Path:
        """Where the alerts are written."""
        return self.folder / "alerts.jsonl"

    @property
    def checkpoint(self) -> Path:
        """The job's memory."""
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        """What the job said on stdout and stderr."""
        return self.folder / "run.log"

    @property
    def pid(self) -> int:
        """The job's process id."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> "Watcher":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def command(self) -> list[str]:
        """The command line, as a user would type it."""
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
        """Start the job and wait for its first finished batch.

        Raises:
            WatcherError: it ended, or told no batch in time.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._port = self._ports.claim()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_leash(), *self.command()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self.folder,
                env={**os.environ, **self.environment},
            )
        try:
            self._until(self._ready, START_S, "the job's first batch")
        except BaseException:
            # Nobody stops what did not start.
            self.stop()
            raise

    def stop(self) -> None:
        """SIGTERM, then wait for it and its Java; kill the whole group if it does not listen."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        _await_end(self._process.pid)
        self._process = None

    def end_group(self) -> int:
        """SIGTERM to the job and everything in its process group, as systemd does; the job's exit code."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGTERM)
        return self._process.wait(STOP_S)

    def kill(self) -> None:
        """kill -9 of everything the job started in its own process group, and of the job."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def address(self) -> str:
        """HOST:PORT of its pages."""
        return f"127.0.0.1:{self._port}"

    def told(self) -> list[Told]:
        """Every whole line so far, oldest first."""
        if not self.jsonl.exists():
            return []
        lines = self.jsonl.read_bytes().split(b"\n")[:-1]
        return [Told(line=json.loads(line), number=number) for number, line in enumerate(lines)]

    def wait_for(
        self,
        rule: str,
        state: str = "firing",
        *,
        subject: str = "",
        severity: str = "",
        since: int = 0,
        within_s: float,
    ) -> Told:
        """The first line from number `since` on that says this; waits `within_s` seconds at most.

        Raises:
            WatcherError: it did not come: names what came instead.
        """

        def fits(told: Told) -> bool:
            return (
                told.rule == rule
                and told.state == state
                and subject in told.subject
                and severity in ("", told.severity)
            )

        def found() -> Told | None:
            return next((told for told in self.told()[since:] if fits(told)), None)

        return self._until(found, within_s, f"{rule} {subject} {severity} {state}".replace("  ", " "))

    def standing(self) -> list[Told]:
        """The alerts that fire now: the newest line of each fingerprint, where that is firing."""
        newest: dict[str, Told] = {}
        for told in self.told():
            newest[str(told.line["fingerprint"])] = told
        return [told for told in newest.values() if told.state == "firing"]

    def wait_until_calm(self, *, within_s: float, rules: Iterable[str] = ()) -> None:
        """Wait until nothing fires (of `rules`, or at all).

        Raises:
            WatcherError: something still fires.
        """
        wanted = set(rules)
        self._until(
            lambda: not [told for told in self.standing() if not wanted or told.rule in wanted] or None,
            within_s,
            f"all of {', '.join(sorted(wanted)) or 'the alerts'} resolved",
        )

    def _last_words(self) -> str:
        """What the job, Spark and the gatherer said last: their folder may be gone when somebody reads this."""
        logs = (self.log, *(self.checkpoint / "log" / name for name in ("spark.err", "gather.log")))
        texts = (log.read_text(errors="replace")[-1500:] for log in logs if log.exists())
        return "\n".join(text for text in texts if text)

    def _ready(self) -> bool | None:
        try:
            with urllib.request.urlopen(f"http://{self.address}/readyz", timeout=2) as page:
                return page.status == 200 or None
        except (urllib.error.URLError, OSError):
            return None

    def _until(self, look: Callable[[], T | None], within_s: float, awaited: str) -> T:
        deadline = time.monotonic() + within_s
        while True:
            found = look()
            if found is not None:
                return found
            if self._process is not None and self._process.poll() is not None:
                code = self._process.returncode
                raise WatcherError(f"awaiting {awaited}: the job ended with exit code {code}: {self._last_words()}")
            if time.monotonic() > deadline:
                came = ", ".join(f"{told.rule} {told.subject} {told.severity} {told.state}" for told in self.told())
                raise WatcherError(f"waited {within_s:.0f} s for {awaited}; told so far: {came or 'nothing'}")
            time.sleep(0.05)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _await_end(group: int) -> None:
    """Wait until a process group is gone: Java ends after the job, and would write where we want to tidy up."""
    deadline = time.monotonic() + GROUP_S
    with suppress(OSError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.05)


def _leash() -> list[str]:
    """What goes before a command that must not outlive us, however we end: it is told to stop then. Linux only."""
    leash = ["setpriv", "--pdeathsig", "TERM"]
    with suppress(OSError):
        # One before util-linux 2.33 and busybox's know no such option.
        if subprocess.run([*leash, "true"], capture_output=True, check=False).returncode == 0:
            return leash
    return []
