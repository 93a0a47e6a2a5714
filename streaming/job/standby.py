"""Standby: a second job on the same clusters that notifies people only while the first job is gone.

The first job sends its heartbeat to the standby job's page. While heartbeats arrive, the standby evaluates and records,
and holds notifications back. When none has arrived for `standby_after`, it sends what is firing, and what has resolved
since the first job ended.
"""

import math
import time
from collections.abc import Callable, Sequence

from connectors.delivery.job_alert import firing_job_alert, job_alert, resolved_alert
from connectors.errors import UsageError
from connectors.wall_clock import RowClock, wall_ms
from rules.alert import Alert
from rules.checks import monitor_blind
from rules.finding import Severity
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.notifications.silence import StandbyHold, standby_hold
from streaming.config import Config
from streaming.config.exposure import open_page

COVERED_MS = Millis(60_000)
"""How long before a heartbeat the first job has notified of everything: its newest batch may be 30 s old."""
_SUBJECT = "first job"


def require_listen(config: Config) -> None:
    """Refuses a standby job that cannot receive heartbeats, or to which everyone can send them.

    Raises:
        UsageError: names the key to add.
    """
    if not config.standby:
        return
    if config.listen is None:
        page = "the first job sends its heartbeat to this job's page"
        raise UsageError(f"standby: {page}: add listen or --listen HOST:PORT")
    if config.listen_token_file is None and open_page(config) is not None:
        effect = "could send heartbeats, and this job would not notify"
        raise UsageError(
            f"standby: whoever reaches {config.listen} {effect}: set listen_token_file, or listen on 127.0.0.1"
        )


class Standby:
    """Whether this job notifies people.

    A start counts as a heartbeat, because the first job may run; unless this job notified when it ended.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        firing: Sequence[Alert],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        """Makes the switch.

        Args:
            config: returns the configuration in effect.
            firing: the firing alerts of the ledger.
            clock: seconds that only grow.
            wall: the wall clock in milliseconds.
        """
        self._config = config
        self._clock = clock
        self._alert = firing_job_alert(firing, _SUBJECT)
        self._since = clock() if self._alert is None else -math.inf
        """When the newest heartbeat arrived; before the first one, the start."""
        self._rows = RowClock(wall=wall, steady=lambda: int(1_000 * clock()))
        """The time of the alerts' rows, also where the wall clock was set."""
        self._jump_ms, self._jumped = 0, -math.inf
        """By how much that time jumped forward in the last minute, and when."""
        self._covered_until_ms = Millis(0)
        self._count = 0

    @property
    def silent(self) -> bool | None:
        """Whether the first job notifies instead of this one; None for a job that is not a standby."""
        config = self._config()
        return self._clock() - self._since < config.standby_after if config.standby else None

    @property
    def heartbeats(self) -> int | None:
        """Heartbeats of the first job since the start; None for a job that is not a standby."""
        return self._count if self._config().standby else None

    def heartbeat_arrived(self) -> bool:
        """Notes that the first job runs; returns False if this job is not a standby. For any thread."""
        if not self._config().standby:
            return False
        self._since, self._count = self._clock(), self._count + 1
        row_ms = self._rows.read()
        if jump_ms := self._rows.take_jump_ms():
            self._jump_ms, self._jumped = self._jump_ms + jump_ms, self._since
        elif 1_000 * (self._since - self._jumped) >= COVERED_MS:
            self._jump_ms = 0
        self._covered_until_ms = Millis(row_ms - self._jump_ms - COVERED_MS)
        return True

    def holds(self) -> Sequence[StandbyHold]:
        """Returns the hold on notifications while the first job runs."""
        return [standby_hold(self._covered_until_ms)] if self.silent else []

    def due(self, now_ms: Millis) -> Sequence[Alert]:
        """Returns the alert that the first job is gone when it fires, and when it resolves."""
        gone = self.silent is False
        if gone and self._alert is None:
            silence_ms = int(1_000 * (self._clock() - self._since))
            self._alert = _alert(Millis(now_ms - silence_ms), now_ms)
            return [self._alert]
        if not gone and self._alert is not None:
            before, self._alert = self._alert, None
            now_true = "The first job notifies again." if self.silent else "This job is no longer a standby."
            return [resolved_alert(before, now_ms, now_true)]
        return []


def _alert(since_ms: Millis, now_ms: Millis) -> Alert:
    return job_alert(
        monitor_blind.ID,
        _SUBJECT,
        Severity.WARNING,
        summary=f"The first job has sent no heartbeat since {utc_text(since_ms)}: this standby job notifies instead.",
        evidence={"newest_heartbeat_at_ms": since_ms},
        remedy=(
            "# Check that the first job runs: /healthz on its page says whether batches complete",
            "# If it runs: its log/driver.log says why its heartbeat fails, and both jobs notify until then",
        ),
        started_at_ms=since_ms,
        now_ms=now_ms,
    )
