"""What a job reports on itself and its input: this host's clock, silent relays, refused and waiting rows, its lag."""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from streaming.replay.cluster_monitor import WaitingRows

log = logging.getLogger(__name__)

REPORTED_MS: Final = 30_000
"""A smaller step of the clock changes no time that people act on: the time service corrects some seconds after a
boot."""
STEP_LASTS_MS: Final = Millis(600_000)
"""How long the alert fires after the newest step."""
SILENT_MS: Final = Millis(60_000)
"""How long no row is accepted before the alert fires: a relay that runs sends several rows a second."""
REFUSED_MS: Final = Millis(1_800_000)
"""How long the alert fires after the newest refused row, as the alerts of other broken contracts do."""
WAIT_LASTS_MS: Final = Millis(30_000)
"""How long rows of a cluster wait to be evaluated before the alert fires, and how long none waits before it ends: after
a start, a large log takes some seconds."""
_CLOCK, _RELAY, _ROWS, _MESSAGES, _LOG = "clock", "relay of ", "rows of ", "messages of ", "log of "
"""How the subjects of the alerts begin."""


class OwnAlerts:
    """The alerts of this job; made from those that are firing in the ledger, whenever this job begins to notify.

    That the clock was set: holds count by the monotonic clock (`connectors.wall_clock.RowClock`), so a step fires and
    ends nothing. But the times that people read were wrong before it; after a clock was set back, those of new alerts
    are ahead for a while.

    That no rows of a cluster come from its relay: rules get their time from rows, so without rows they report nothing,
    and nothing is not healthy. A cluster is silent if its topic was read to its end, and no row of it was there. In a
    backlog, or on a busy machine, its rows may be in the topic and not read yet.

    That rows of a relay's topic are refused, for each cluster and each thing that is wrong: they change no cluster's
    state (`connectors.relay.relay_message.check_row`), and the rows of the right relay are accepted meanwhile.

    That rows of a cluster wait because they take longer than a batch may (`evaluation_budget`): its alerts are late.

    After a restart, the time for which an alert fires or a relay is silent begins again.
    """

    def __init__(
        self,
        firing: Sequence[Alert],
        *,
        steady: Callable[[], Millis] = steady_ms,
        wall: Callable[[], Millis] = wall_ms,
    ) -> None:
        """`firing`: those of the ledger; `steady` returns milliseconds that only grow."""
        self._firing = firing_job_alerts(firing, _CLOCK, _RELAY, _ROWS, _MESSAGES, _LOG)
        """By subject."""
        self._steady, self._wall = steady, wall
        self._steps = StepDetector(steady)
        self._steps.step_ms(wall())
        self._newest = {subject: steady() for subject in self._firing if not subject.startswith(_RELAY)}
        """When the clock was last set, and when rows of each subject were last refused."""
        self._refused: dict[str, Mapping[str, Any]] = {}
        """The first row of each subject since the newest evaluation: a job that does not notify evaluates none."""
        self._since: dict[str, Millis] = {}
        """When rows of each cluster last arrived; before the first ones, when it was first evaluated."""
        self._arrived: set[str] = set()
        """The clusters of which rows have arrived since their alert fired."""
        self._waiting: dict[str, tuple[Millis, WaitingRows]] = {}
        """Since when rows of a cluster wait, and the newest size; of a cluster whose alert fires, since when none."""
        self._read_at: dict[str, int] = {}
        """When each topic was last read to its end."""

    def note_batch(self, batch: DeliveredBatch) -> None:
        """Notes which clusters have rows, and which rows were refused. For the thread that delivers."""
        for status in batch.statuses:
            self._since[status.cluster] = self._steady()
            self._arrived.add(status.cluster)
        for name, rows in batch.waiting.items():
            since, before = self._waiting.get(name, (self._steady(), rows))
            changes = (before.since_ms is None) != (rows.since_ms is None)
            self._waiting[name] = (self._steady() if changes else since, rows)
        for body in batch.refused:
            row = json.loads(body)
            self._refused.setdefault(_refused_subject(row), row)

    def due(
        self, topics: Mapping[str, str], read_s_ago: Mapping[str, float], *, clusters: Collection[str]
    ) -> Sequence[Alert]:
        """Returns the transitions that are due; to be called every few seconds.

        `topics` by cluster: none for a job that gathers itself, and alerts of relays that its store still has end then.
        `read_s_ago`: how long ago each topic was read to its end, for the topics of which it is known. `clusters`: the
        monitored ones.
        """
        now_ms = self._wall()
        for name in {*self._waiting} - {*clusters}:
            del self._waiting[name]
        self._note_reads(topics, read_s_ago)
        fired = [
            *self._clock(now_ms),
            *self._silences(topics, now_ms),
            *self._refusals(now_ms),
            *self._waits(now_ms),
        ]
        self._firing.update({alert.subject: alert for alert in fired})
        ended = [
            resolved_alert(self._firing.pop(subject), now_ms, text) for subject, text in self._ended(topics, clusters)
        ]
        return [*ended, *fired]

    @property
    def resend(self) -> bool:
        """Whether sinks must be called without a new alert: no batch may come while relays are silent."""
        return any(subject.startswith(_RELAY) for subject in self._firing)

    def _note_reads(self, topics: Mapping[str, str], read_s_ago: Mapping[str, float]) -> None:
        now = self._steady()
        # A cluster that is added again has had no relay to wait for. Another thread may note a row meanwhile.
        for name in {*self._since} - topics.keys():
            del self._since[name]
        for topic, ago_s in read_s_ago.items():
            self._read_at[topic] = max(self._read_at.get(topic, 0), now - round(1000 * ago_s))

    def _ended(self, topics: Mapping[str, str], clusters: Collection[str]) -> Sequence[tuple[str, str]]:
        """Returns the subjects whose alert ends, each with what is true now."""
        now, ended = self._steady(), []
        for subject in self._firing:
            name = subject.removeprefix(_RELAY)
            if subject == _CLOCK and now - self._newest[subject] >= STEP_LASTS_MS:
                ended.append((subject, f"The clock was not set again for {ms_text(STEP_LASTS_MS)}."))
            elif subject.startswith((_ROWS, _MESSAGES)) and now - self._newest[subject] >= REFUSED_MS:
                ended.append((subject, f"No further {subject} were refused."))
            elif subject.startswith(_LOG) and subject.removeprefix(_LOG) not in clusters:
                ended.append((subject, f"Cluster {subject.removeprefix(_LOG)} is no longer configured."))
            elif subject.startswith(_LOG) and self._waits_no_more(subject.removeprefix(_LOG)):
                ended.append(
                    (subject, f"No observation of cluster {subject.removeprefix(_LOG)} waits to be evaluated.")
                )
            elif subject.startswith(_RELAY) and name not in topics:
                ended.append((subject, f"The relay of cluster {name} is no longer configured."))
            elif subject.startswith(_RELAY) and name in self._arrived:
                ended.append((subject, f"The relay of cluster {name} sends rows."))
        return ended

    def _clock(self, now_ms: Millis) -> Iterator[Alert]:
        step_ms = self._steps.step_ms(now_ms)
        if abs(step_ms) >= REPORTED_MS:
            self._newest[_CLOCK] = self._steady()
            yield _clock_alert(Millis(now_ms - step_ms), now_ms, self._firing.get(_CLOCK))

    def _silences(self, topics: Mapping[str, str], now_ms: Millis) -> Iterator[Alert]:
        now = self._steady()
        for name, topic in topics.items():
            since = self._since.setdefault(name, now)
            if _RELAY + name not in self._firing and self._read_at.get(topic, 0) - since >= SILENT_MS:
                self._arrived.discard(name)
                yield _silence_alert(name, topic, Millis(now_ms - (now - since)), now_ms)

    def _waits(self, now_ms: Millis) -> Iterator[Alert]:
        for name, (since, rows) in [*self._waiting.items()]:
            late = rows.since_ms is not None and self._steady() - since >= WAIT_LASTS_MS
            if late and _LOG + name not in self._firing:
                yield _waiting_alert(name, rows, now_ms)

    def _waits_no_more(self, name: str) -> bool:
        # A job that has just been started has seen no row wait.
        since, rows = self._waiting.setdefault(name, (self._steady(), WaitingRows(size=0, since_ms=None)))
        return rows.since_ms is None and self._steady() - since >= WAIT_LASTS_MS

    def _refusals(self, now_ms: Millis) -> Iterator[Alert]:
        # Another thread may note a row meanwhile.
        for subject in [*self._refused]:
            row = self._refused.pop(subject)
            self._newest[subject] = self._steady()
            if subject not in self._firing:
                yield _refusal_alert(subject, row, now_ms)


def _waiting_alert(name: str, rows: WaitingRows, now_ms: Millis) -> Alert:
    since_ms = now_ms if rows.since_ms is None else rows.since_ms
    return job_alert(
        BLIND,
        _LOG + name,
        Severity.WARNING,
        summary=f"The metadata log of cluster {name} grows faster than kraftwatch evaluates it: what was observed "
        f"since {utc_text(since_ms)} is not evaluated yet, and its alerts are late. Those of other clusters are not.",
        evidence={CLUSTERS: [name], "cluster": name, "waiting_bytes": rows.size, "oldest_waiting_at_ms": since_ms},
        remedy=(
            "# Read what the log holds, on a controller: kafka-dump-log.sh --cluster-metadata-decoder --files SEGMENT, "
            "with the newest segment of __cluster_metadata-0. Thousands of registrations or features are a fault or an "
            "attack.",
            "# If the records are what your clusters need, give the job more executors or cores (`master`).",
        ),
        started_at_ms=since_ms,
        due_at_ms=Millis(since_ms + WAIT_LASTS_MS),
        now_ms=now_ms,
    )


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


_FIX: Final[Mapping[str, str]] = {
    RefusedPart.TIME: "# Correct the clock of the relay's host: the relay then writes rows that are accepted.",
    RefusedPart.BASELINE: "# Correct the clock of the relay's host: the relay then begins a new baseline.",
    RefusedPart.CLUSTER_ID: "# Correct this cluster's addresses in its relay's configuration: another cluster answers. "
    "If the cluster was formatted again, give the job a new --checkpoint.",
    RefusedPart.TOPIC: "# Give the relay of this cluster the relay.topics of this job, and restart it.",
}


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


BEHIND_MS: Final = 10_000
"""An observation that is evaluated so late is not current any more (`rules.analysis.freshness`)."""
LAG_LASTS_MS: Final = 60_000
"""How long every batch must have been so late: after a start, the job catches up with the rows before it."""
_LOG_EVERY_MS: Final = 600_000


class JobLag:
    """Logs that the job evaluates observations later than they are made, and what it then needs."""

    def __init__(self) -> None:
        self._newest_ms = 0
        self._log_at: Millis | None = None
        """When it is logged next, by the monotonic clock; None while batches are not late."""

    def batch_delivered(self, newest_ms: int, *, now_ms: int, at: Millis | None = None) -> None:
        """Logs when batches have been late for a time, and every 10 minutes while they are.

        `newest_ms` is the time of the newest observation in the batch; `at` is the monotonic clock, by default now.
        """
        # A batch may have only a cluster whose relay has a slow clock: the job has not fallen behind by it.
        self._newest_ms = max(self._newest_ms, newest_ms)
        at, late_ms = steady_ms() if at is None else at, now_ms - self._newest_ms
        if late_ms < BEHIND_MS:
            self._log_at = None
        elif self._log_at is None:
            self._log_at = Millis(at + LAG_LASTS_MS)
        elif at >= self._log_at:
            self._log_at = Millis(at + _LOG_EVERY_MS)
            log.warning(
                "The job is behind: it evaluates observations %s after they were made. It needs more executors or "
                "cores (`master`), and as many `pipeline.partitions`.",
                ms_text(Millis(late_ms)),
            )
