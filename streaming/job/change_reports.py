"""Changes that may explain a later incident, for sinks whose service shows them beside incidents.

What is, not what changed, is passed to a sink: it remembers what it has reported, so a restart, a take-over or a
service that is away loses and repeats nothing. Runs in its own thread, because a service may not answer.
"""

import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Final, Protocol

from connectors.process.wall_clock import wall_ms
from connectors.sinks.sink import ChangeSink, KnownState
from rules.formatting import visible
from rules.model.job_state import JOB_CLUSTER_ID
from streaming.config import Config
from streaming.job.running import Running
from streaming.status.cluster_status import ClusterStatus, StatusSource
from streaming.status.status_store import StatusStore

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0
_DEADLINE_S: Final = 10.0
_VERSION: Final = metadata.version("kraftwatch")
_EVALUATED: Final = {"clusters", "watch", "thresholds", "rules", "maintenance", "sinks"}
"""The keys that two jobs of one store have in common."""
_CAUGHT_UP: Final = 1_000
"""A log whose newest record was at most so many offsets behind the high watermark describes the present."""


class NotifyingRole(Protocol):
    """Says whether this job notifies (`streaming.pipeline.notifying.Notifying`)."""

    @property
    def notifies(self) -> bool:
        """Whether it does now."""


class ChangeReports:
    """Passes the state of each cluster and of the job to the sinks, while entered and while this job notifies."""

    def __init__(self, store: StatusStore, running: Running, role: NotifyingRole, *, every_s: float = EVERY_S) -> None:
        """`running` has the sinks; `role` says each time whether this job notifies."""
        self._store, self._running, self._role = store, running, role
        self._every_s = every_s
        self._reported: dict[str, tuple[ChangeSink, dict[str, Mapping[str, str]]]] = {}
        """What each sink has taken, by its name: an unchanged state costs it nothing."""
        self._digest: tuple[Config | None, str] = (None, "")
        self._problems: dict[str, str | None] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="change reports", daemon=True)

    def __enter__(self) -> "ChangeReports":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread is not joined: a service that hangs must not delay the end of the job.
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            if self._role.notifies:
                self._report()
            else:
                # Another job reports now: what a sink has taken is read from the store again.
                self._reported.clear()

    def _report(self) -> None:
        sinks = [sink for sink in self._running.sinks if isinstance(sink, ChangeSink)]
        states = [*self._states()] if sinks else []
        for sink in sinks:
            name = sink.options.name
            before, taken = self._reported.get(name, (None, {}))
            if before is not sink:
                taken = {}
            changed = [state for state in states if taken.get(state.of) != state.facts]
            if not changed:
                continue
            try:
                problem = sink.report(changed, deadline_s=_DEADLINE_S)
            except Exception as error:  # noqa: BLE001 - changes are reported again, and alerts do not wait for them
                problem = type(error).__name__
            if problem is None:
                self._reported[name] = sink, {**taken, **{state.of: state.facts for state in changed}}
            elif self._problems.get(name) is None:
                log.warning("%s: changes cannot be reported, retrying: %s", name, problem, extra={"sink": name})
            self._problems[name] = problem

    def _states(self) -> Iterator[KnownState]:
        now_ms = wall_ms()
        yield KnownState(
            of=JOB_CLUSTER_ID,
            at_ms=now_ms,
            facts={"kraftwatch": _VERSION, "configuration": self._configuration()},
        )
        for name in self._store.names:
            received = self._store.newest(name)
            if received is not None and (facts := cluster_facts(received.status)):
                yield KnownState(of=name, at_ms=now_ms, facts=facts)

    def _configuration(self) -> str:
        config = self._running.config
        if self._digest[0] is not config:
            self._digest = config, configuration_digest(config)
        return self._digest[1]


def configuration_digest(config: Config) -> str:
    """Returns eight digits that differ when a key has another value; secrets, and where the job is, do not count."""
    text = json.dumps(config.model_dump(mode="json", include=_EVALUATED), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def cluster_facts(status: ClusterStatus) -> dict[str, str]:
    """Returns the committed voters and the finalized features, as far as they are known; nothing of an old state."""
    found: dict[str, str] = {}
    if status.source is not StatusSource.LIVE or status.last_offset is None or status.high_watermark is None:
        return found
    if status.last_offset + _CAUGHT_UP < status.high_watermark:
        # The log is being read from its beginning: it tells what was.
        return found
    if status.committed_voters is not None:
        voters = (f"{voter.id} ({', '.join(voter.endpoints)})" for voter in status.committed_voters.voters)
        found["voters"] = visible("; ".join(voters))
    for feature, level in (("metadata.version", status.metadata_version), ("kraft.version", status.kraft_version)):
        if level is not None:
            found[feature] = str(level)
    return found
