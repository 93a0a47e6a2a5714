"""What a job reports on itself and its input: this host's clock, silent relays, refused rows, and that it is behind."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from connectors.delivery.job_alerts import firing_job_alerts, job_alert, resolved_alert
from connectors.relay.relay_message import RefusedPart
from connectors.wall_clock import StepDetector, steady_ms, wall_ms
from rules.alert import Alert
from rules.evaluate import BLIND
from rules.finding import Severity
from rules.formatting import ms_text, utc_text
from rules.model.identifiers import Millis
from rules.notifications.route import CLUSTERS
from streaming.metrics.batch_stats import DeliveredBatch

log = logging.getLogger(__name__)

REPORTED_MS = 30_000
"""A smaller step changes no time that people act on: the time service corrects some seconds after a boot."""
STEP_LASTS_MS = 600_000
"""How long the alert fires after the newest step."""
_CLOCK = "clock"


class ClockSteps:
    """The alert that the clock of this host was set: compares the wall clock with the monotonic clock.

    Holds count by the monotonic clock (`connectors.wall_clock.RowClock`), so a step fires and ends nothing. But the
    times that people read were wrong before it; after a clock was set back, those of new alerts are ahead for a while.
    """

    def __init__(
        self,
        firing: Sequence[Alert],
        *,
        steady: Callable[[], Millis] = steady_ms,
        wall: Callable[[], Millis] = wall_ms,
    ) -> None:
        """`firing`: the firing alerts of the ledger; `steady` returns milliseconds that only grow."""
        self._alert = firing_job_alerts(firing, _CLOCK).get(_CLOCK)
        self._steady, self._wall = steady, wall
        self._steps = StepDetector(steady)
        self._steps.step_ms(wall())
        # A restart does not begin the ten minutes again.
        fired_ms = 0 if self._alert is None else min(max(wall() - self._alert.due_at_ms, 0), STEP_LASTS_MS)
        self._stepped_at = Millis(steady() - fired_ms)

    def due(self) -> Sequence[Alert]:
        """Returns the alert when the clock was set, and its end; to be called every few seconds."""
        at, now_ms = self._steady(), self._wall()
        step_ms = self._steps.step_ms(now_ms)
        if abs(step_ms) >= REPORTED_MS:
            self._stepped_at, self._alert = at, _clock_alert(Millis(now_ms - step_ms), now_ms, self._alert)
            return [self._alert]
        if self._alert is not None and at - self._stepped_at >= STEP_LASTS_MS:
            before, self._alert = self._alert, None
            return [resolved_alert(before, now_ms, f"The clock was not set again for {ms_text(STEP_LASTS_MS)}.")]
        return []


def _clock_alert(expected_ms: Millis, now_ms: Millis, before: Alert | None) -> Alert:
    """A second step changes the alert that fires: one with another start would be another alert.

    After a step back, the clock shows a time before the first step: the transitions stay in order nevertheless.
    """
    step = ms_text(abs(now_ms - expected_ms))
    how = f"back by {step}" if now_ms < expected_ms else f"forward by {step}, or the host was suspended"
    return job_alert(
        BLIND,
        _CLOCK,
        Severity.WARNING,
        summary=f"The clock of kraftwatch's host was set {how}. It showed {utc_text(expected_ms)} and shows "
        f"{utc_text(now_ms)}. Times in alerts from before are wrong by this, and new ones until it has caught up.",
        evidence={"clock_before_at_ms": expected_ms, "clock_now_at_ms": now_ms},
        remedy=(
            "# Check the time service on this host: timedatectl, or chronyc tracking",
            "# Compare the clocks of the controllers, of Alertmanager and of this host",
        ),
        started_at_ms=now_ms if before is None else before.started_at_ms,
        due_at_ms=now_ms,
        now_ms=now_ms if before is None else Millis(max(now_ms, before.observed_at_ms + 1)),
    )


SILENT_MS = Millis(60_000)
"""How long no row is accepted before the alert fires: a relay that runs sends several rows a second."""
_RELAY = "relay of "
_NOW = {True: "sends rows", False: "is no longer configured"}
"""What is true when the alert resolves, by whether the cluster is still configured."""


class RelaySilence:
    """Raises an alert when no rows of a cluster come from its relay, because the rules then evaluate nothing.

    Rules get their time from rows: without rows they report nothing, and nothing is not healthy. A cluster is silent if
    its topic was read to its end, and no row of it was there. In a backlog, or on a busy machine, its rows may be in
    the topic and not read yet. Firing alerts survive a restart; the hold time starts again.
    """

    def __init__(self, firing: Sequence[Alert], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`firing`: the firing alerts of the ledger; `clock` returns seconds that only grow."""
        own = firing_job_alerts(firing, _RELAY)
        self.firing = {subject.removeprefix(_RELAY): alert for subject, alert in own.items()}
        """By cluster."""
        self._clock = clock
        self._since: dict[str, float] = {}
        """When rows of each cluster last arrived; before the first ones, when it was first evaluated."""
        self._arrived: set[str] = set()
        """The clusters of which rows have arrived since their alert fired."""
        self._read_at: dict[str, float] = {}
        """When each topic was last read to its end."""

    def rows_arrived(self, clusters: Iterable[str]) -> None:
        """Notes that a batch had rows of these clusters."""
        for name in clusters:
            self._since[name] = self._clock()
            self._arrived.add(name)

    def due(self, clusters: Mapping[str, str], now_ms: Millis, *, read_s_ago: Mapping[str, float]) -> Sequence[Alert]:
        """Returns the transitions that are due.

        Args:
            clusters: the monitored ones, with their topics; the alert of another one is resolved.
            now_ms: the wall clock.
            read_s_ago: how long ago a topic was read to its end, for the topics of which it is known.
        """
        now = self._clock()
        # A cluster that is added again has had no relay to wait for. Another thread may note a row meanwhile.
        for name in {*self._since} - clusters.keys():
            del self._since[name]
        for topic, ago_s in read_s_ago.items():
            self._read_at[topic] = max(self._read_at.get(topic, 0.0), now - ago_s)
        ended = [name for name in self.firing if name not in clusters or name in self._arrived]
        transitions = [
            resolved_alert(self.firing.pop(name), now_ms, f"The relay of cluster {name} {_NOW[name in clusters]}.")
            for name in ended
        ]
        for name, topic in clusters.items():
            since = self._since.setdefault(name, now)
            if name not in self.firing and 1000 * (self._read_at.get(topic, 0.0) - since) >= SILENT_MS:
                since_ms = Millis(now_ms - round(1000 * (now - since)))
                self.firing[name] = alert = _silence_alert(name, topic, since_ms, now_ms)
                self._arrived.discard(name)
                transitions.append(alert)
        return transitions


def _silence_alert(name: str, topic: str, since_ms: Millis, now_ms: Millis) -> Alert:
    return job_alert(
        BLIND,
        _RELAY + name,
        Severity.CRITICAL,
        summary=f"No row of cluster {name} has come from its relay since {utc_text(since_ms)}: its state is unknown.",
        evidence={CLUSTERS: [name], "cluster": name, "topic": topic, "newest_row_at_ms": since_ms},
        remedy=(
            f"# Check that the relay of cluster {name} runs, and read log/driver.log in its folder.",
            "# If it runs: kraftwatch_relay_failing and /healthz of the relay say why the topic accepts no rows.",
            "# If it sends rows: an alert data-contract-broken says which are refused.",
            "# If the cluster was added to a running job: send SIGHUP to its relay, which then writes a new baseline.",
        ),
        started_at_ms=since_ms,
        due_at_ms=Millis(since_ms + SILENT_MS),
        now_ms=now_ms,
    )


REFUSED_MS: Final = Millis(1_800_000)
"""How long the alert fires after the newest refused row, as the alerts of other broken contracts do."""
_ROWS, _MESSAGES = "rows of ", "messages of "
_FIX: Final[Mapping[str, str]] = {
    RefusedPart.TIME: "# Correct the clock of the relay's host: the relay then writes rows that are accepted.",
    RefusedPart.BASELINE: "# Correct the clock of the relay's host: the relay then begins a new baseline.",
    RefusedPart.CLUSTER_ID: "# Correct this cluster's addresses in its relay's configuration: another cluster answers. "
    "If the cluster was formatted again, give the job a new --checkpoint.",
    RefusedPart.TOPIC: "# Give the relay of this cluster the relay.topics of this job, and restart it.",
}


class RefusedRows:
    """Raises an alert when rows of a relay's topic are refused: one for each cluster and each thing that is wrong.

    What is refused changes no cluster's state (`connectors.relay.relay_message.check_row`), and the rows of the right
    relay are accepted meanwhile.
    Firing alerts survive a restart; their half hour begins again, because only the first refused row is known.
    """

    def __init__(self, firing: Sequence[Alert], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`firing`: the firing alerts of the ledger; `clock` returns seconds that only grow."""
        self._firing = firing_job_alerts(firing, _ROWS, _MESSAGES)
        self._clock = clock
        self._newest: dict[str, float] = {}
        """When the newest row of each subject was refused; after a restart, when the alert was first evaluated."""
        self._arrived: dict[str, Mapping[str, Any]] = {}
        """The first row of each subject since the newest evaluation: a job that does not notify evaluates none."""

    def refused(self, bodies: Iterable[str]) -> None:
        """Notes refused rows, as the quarantine keeps them. For the thread that delivers."""
        for body in bodies:
            row = json.loads(body)
            self._arrived.setdefault(_refused_subject(row), row)

    def due(self, now_ms: Millis) -> Sequence[Alert]:
        """Returns the transitions that are due at `now_ms`, the wall clock."""
        now, transitions = self._clock(), []
        # Another thread may note a row meanwhile.
        for subject in [*self._arrived]:
            row = self._arrived.pop(subject)
            self._newest[subject] = now
            if subject not in self._firing:
                self._firing[subject] = alert = _refusal_alert(subject, row, now_ms)
                transitions.append(alert)
        for subject in [
            each for each in self._firing if 1000 * (now - self._newest.setdefault(each, now)) >= REFUSED_MS
        ]:
            now_true = f"No further {subject} were refused."
            transitions.append(resolved_alert(self._firing.pop(subject), now_ms, now_true))
        return transitions


def _refused_subject(row: Mapping[str, Any]) -> str:
    if row["rows_of"] is None:
        return f"{_MESSAGES}{row['cluster']}"
    return f"{_ROWS}{row['rows_of']}: {row['part']}"


def _refusal_alert(subject: str, row: Mapping[str, Any], now_ms: Millis) -> Alert:
    place = f"{row['cluster']}, offset {row['offset']}"
    return job_alert(
        "data-contract-broken",
        subject,
        Severity.WARNING,
        summary=f"Refused {subject.partition(':')[0]}: {row['reason']} ({place}). "
        "No state was changed by it; rows of the right relay are accepted.",
        evidence={
            **({} if row["rows_of"] is None else {CLUSTERS: [row["rows_of"]]}),
            "cluster": row["rows_of"],
            "refused": row["part"],
            "reason": row["reason"],
            "topic_partition": row["cluster"],
            "offset": row["offset"],
            "appended_at_ms": row["observed_at_ms"],
        },
        remedy=(
            *filter(None, [_FIX.get(row["part"])]),
            "# If no relay of yours writes such rows, another program has a credential for the topic: list who may "
            "write with kafka-acls.sh --list --topic, change the credential, and give each relay a topic of its own.",
            "# List the refused rows: kraftwatch quarantine list, with the job's --checkpoint",
        ),
        started_at_ms=now_ms,
        now_ms=now_ms,
    )


class OwnAlerts:
    """Made from the alerts that are firing in the ledger, whenever this job begins to notify."""

    def __init__(self, firing: Sequence[Alert]) -> None:
        self._relay_silence = RelaySilence(firing)
        self._refused_rows = RefusedRows(firing)
        self._clock_steps = ClockSteps(firing)

    def note_batch(self, batch: DeliveredBatch) -> None:
        """Notes which clusters have rows, and which rows were refused."""
        self._relay_silence.rows_arrived(status.cluster for status in batch.statuses)
        self._refused_rows.refused(batch.refused)

    def due(self, topics: Mapping[str, str], read_s_ago: Mapping[str, float]) -> Sequence[Alert]:
        """Returns the transitions that are due.

        Args:
            topics: by cluster; none for a job that gathers itself: alerts of relays that its store still has end then.
            read_s_ago: how long ago each topic was read to its end.
        """
        silent = self._relay_silence.due(topics, wall_ms(), read_s_ago=read_s_ago)
        return [*self._clock_steps.due(), *silent, *self._refused_rows.due(wall_ms())]

    @property
    def resend(self) -> bool:
        """Whether sinks must be called without a new alert: no batch may come while relays are silent."""
        return bool(self._relay_silence.firing)


BEHIND_MS: Final = 10_000
"""An observation that is evaluated so late is not current any more (`rules.analysis.freshness`)."""
LAG_LASTS_MS: Final = 60_000
"""How long every batch must have been so late: after a start, the job catches up with the rows before it."""
_LOG_EVERY_MS: Final = 600_000


class JobLag:
    """Logs that the job evaluates observations later than they are made, and what it then needs."""

    def __init__(self) -> None:
        self._since_ms: Millis | None = None
        self._logged_ms: Millis | None = None

    def batch_delivered(self, newest_ms: int, *, now_ms: int, at_ms: Millis | None = None) -> None:
        """Logs when batches have been late for a time, and every 10 minutes while they are.

        Args:
            newest_ms: the time of the newest observation in the batch.
            now_ms: the wall clock.
            at_ms: the monotonic clock; None: now.
        """
        at_ms = steady_ms() if at_ms is None else at_ms
        late_ms = now_ms - newest_ms
        if late_ms < BEHIND_MS:
            self._since_ms = None
            return
        if self._since_ms is None:
            self._since_ms = at_ms
        logged_lately = self._logged_ms is not None and at_ms - self._logged_ms < _LOG_EVERY_MS
        if at_ms - self._since_ms >= LAG_LASTS_MS and not logged_lately:
            self._logged_ms = at_ms
            log.warning(
                "The job is behind: it evaluates observations %s after they were made. It needs more executors or "
                "cores (`master`), and as many `pipeline.partitions`.",
                ms_text(Millis(late_ms)),
            )
