"""What the ledger's alerts mean for a start: alerts before Spark is up, and the states that clusters begin with.

The rules that need no history fire before Spark is up, mute no other rule, and the processor does not send them again.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.ledger import Ledger
from connectors.observations.observation import Event, Observation, ObservationKind, to_json
from connectors.process.wall_clock import wall_ms
from connectors.store.alert_codec import FIRING
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.lifecycle import TrackedConditions
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, Reason
from streaming.pipeline.early_alerts import EarlyEvaluation
from streaming.pipeline.initial_state import initial_state
from streaming.pipeline.notifying import Notifying
from streaming.replay.early_cluster import EarlyCluster
from streaming.status.cluster_status import from_json
from streaming.status.status_store import StatusStore
from tests.eventually import eventually
from tests.scripts.log_script import failed
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert
from tests.unit.connectors.store.journal_rows import records
from tests.unit.streaming.pipeline.one_cluster import BOOTSTRAP, NOW, SETTINGS, OneCluster, healthy, leaderless
from tests.unit.streaming.pipeline.recorded_alerts import RecordedAlerts

LATER = Millis(NOON_MS + 60_000)


def observation(event: Event, second: float) -> Observation:
    kind = ObservationKind.FAILED if isinstance(event, FailedObservation) else ObservationKind.QUORUM
    return Observation(cluster="prod", kind=kind, observed_at_ms=NOW + round(1_000 * second), payload=to_json(event))


def rows(events: Iterable[Event], seconds: Iterable[float]) -> list[Observation]:
    return [observation(event, second) for second in seconds for event in events]


class EarlyRows:
    """The early evaluation of one cluster."""

    def __init__(self, tracked: TrackedConditions | None = None) -> None:
        self.cluster = EarlyCluster(SETTINGS, tracked or TrackedConditions())
        self.sequence = -1
        self.recorded = RecordedAlerts()

    def observe(self, observations: Iterable[Observation]) -> list[Alert]:
        """Returns what a ledger would have recorded."""
        alerts: list[Alert] = []
        for row in observations:
            self.sequence += 1
            found = self.cluster.observe(replace(row, sequence=self.sequence))
            if found is not None:
                alerts += self.recorded.add(found)
        return alerts


def transitions(alerts: Iterable[Alert]) -> list[tuple[str, str, AlertState]]:
    return [(one.rule, one.subject, one.state) for one in alerts]


def test_no_leader_fires_and_resolves_without_any_history() -> None:
    early = EarlyRows()
    fired = early.observe(rows(leaderless(), range(8)))
    assert early.cluster.blind is None
    assert transitions(fired) == [("no-leader", "quorum", AlertState.FIRING)]
    resolved = early.observe(rows(healthy(), range(8, 22)))
    assert transitions(resolved) == [("no-leader", "quorum", AlertState.RESOLVED)]


def test_monitor_blind_fires_where_nothing_answers() -> None:
    silence = [failed(Reason.TIMED_OUT, place) for place in BOOTSTRAP]
    early = EarlyRows()
    assert early.observe(rows(silence, range(25))) == []
    assert early.cluster.blind is not None, "pending: the job counts it before its alert fires"
    fired = early.observe(rows(silence, range(25, 45)))
    assert transitions(fired) == [("monitor-blind", "quorum", AlertState.FIRING)]


def test_no_other_rule_is_evaluated_and_no_row_of_the_log_is_decoded() -> None:
    early = EarlyRows()
    undecodable = records(b"not a batch", base=0, last=9, at_ms=NOW, cluster="prod")
    snapshot = Observation(cluster="prod", kind=ObservationKind.SNAPSHOT, observed_at_ms=NOW, payload=b"nothing")
    alerts = early.observe([undecodable, snapshot, *rows(healthy(), range(25))])
    assert alerts == []


def test_an_alert_of_another_rule_from_before_the_restart_is_left_to_the_step() -> None:
    churn = alert("quorum", cluster="prod", rule="epoch-churn", observed_at_ms=Millis(NOW - 60_000))
    early = EarlyRows(initial_state([churn], [churn], now_ms=LATER).clusters["prod"])
    early.recorded = RecordedAlerts(churn)
    assert early.observe(rows(healthy(), range(25))) == []


def test_step_supersedes_once_it_has_evaluated_what_was_evaluated_at_its_first_status() -> None:
    early = EarlyRows()
    early.observe(rows(leaderless(), range(8)))
    assert not early.cluster.is_superseded(Millis(NOW + 3_000))
    early.observe(rows(leaderless(), range(8, 12)))
    assert early.cluster.is_superseded(Millis(NOW + 7_000))


class StartingJob:
    """A job whose Spark is not up: journal, ledger, one sink; and later the processor, which has seen more."""

    def __init__(self, folder: Path, journal: JournalWriter) -> None:
        self.folder, self.journal = folder, journal
        self.ledger = Ledger(job_database(folder))
        self.sink = RecordingSink()
        self.store = StatusStore(["prod"])
        self.notifying = Notifying(self.ledger, [self.sink], store=self.store, patience_s=60)

    def early(self, unwritten: deque[Observation] | None = None) -> EarlyEvaluation:
        journal = JournalReader(self.folder / "journal")
        return EarlyEvaluation(journal, {"prod": SETTINGS}, notifying=self.notifying, unwritten=unwritten)

    def gather(self, observations: list[Observation]) -> None:
        self.journal.append(observations)
        self.journal.publish()

    def sent(self) -> list[AlertState]:
        return [one.state for one in self.sink.transitions if one.rule == "no-leader"]

    def send_from_processor(self, processor: OneCluster) -> None:
        """Delivers what the processor has made, as a batch does."""
        for row in processor.taken("firing"):
            self.notifying.put(FIRING.validate_json(row.body))
        self.notifying.send()
        for row in processor.taken("status"):
            self.store.put_status(from_json(row.body), at_ms=wall_ms())


@pytest.fixture
def job(tmp_path: Path) -> Iterator[StartingJob]:
    with JournalWriter(tmp_path / "journal") as journal:
        job = StartingJob(tmp_path, journal)
        yield job


def test_alert_before_spark_is_up_is_sent_once_although_the_step_knows_the_condition_for_longer(
    job: StartingJob,
) -> None:
    processor = OneCluster()
    with job.early() as early:
        job.gather(rows(leaderless(), range(3, 12)))
        eventually(lambda: job.sent() == [AlertState.FIRING], within_s=60)
        # The state from before the restart knows that the leader was lost three seconds earlier.
        for _ in range(20):
            processor.batch(leaderless())
        job.send_from_processor(processor)
        eventually(lambda: not early._thread.is_alive(), within_s=60)
    for _ in range(20):
        processor.batch(healthy())
    job.send_from_processor(processor)

    assert job.sent() == [AlertState.FIRING, AlertState.RESOLVED]
    assert len({one.started_at_ms for one in job.sink.transitions if one.rule == "no-leader"}) == 1
    assert [one.rule for one in job.ledger.firing() if one.rule == "no-leader"] == []


def test_alert_of_which_the_step_knows_nothing_is_resolved_by_the_early_evaluation(job: StartingJob) -> None:
    processor = OneCluster()
    with job.early() as early:
        job.gather(rows(leaderless(), range(8)))
        eventually(lambda: job.sent() == [AlertState.FIRING], within_s=60)
        job.gather(rows(healthy(), range(8, 30)))
        for _ in range(40):
            processor.batch(healthy())
        job.send_from_processor(processor)
        eventually(lambda: not early._thread.is_alive(), within_s=60)

    assert job.sent() == [AlertState.FIRING, AlertState.RESOLVED]


def test_alert_from_before_the_restart_is_not_sent_again(job: StartingJob) -> None:
    job.ledger.record(EarlyRows().observe(rows(leaderless(), range(8))), LATER)
    with job.early():
        job.gather(rows(leaderless(), range(20, 40)))
        job.gather(rows(healthy(), range(40, 55)))
        eventually(lambda: job.sent() == [AlertState.FIRING, AlertState.RESOLVED], within_s=60)


def test_rows_that_a_full_disk_does_not_take_are_evaluated_once(job: StartingJob) -> None:
    unwritten = deque[Observation]()
    lost, back = rows(leaderless(), range(8)), rows(healthy(), range(8, 30))
    with job.early(unwritten):
        unwritten.extend(replace(row, sequence=at) for at, row in enumerate(lost))
        eventually(lambda: job.sent() == [AlertState.FIRING], within_s=60)
        # There is room: the rows are stored, and read again.
        job.gather([*lost, *back])
        eventually(lambda: job.sent() == [AlertState.FIRING, AlertState.RESOLVED], within_s=60)


CLUSTER = SETTINGS.name
NOW_MS = Millis(NOON_MS + 86_400_000)


def early_alert() -> Alert:
    """Returns the alert that the early evaluation sends after eight seconds without a leader."""
    (fired,) = EarlyRows().observe(rows(leaderless(), range(8)))
    return fired


def fired_alert(cluster: OneCluster) -> Alert:
    for _ in range(40):
        cluster.batch(leaderless(), restarted=False)
    (fired,) = cluster.transitions()
    return fired


def sent_with(cluster: OneCluster, known: Sequence[Alert]) -> list[str]:
    """Returns what a job whose ledger has these alerts sends for 40 s of a healthy cluster."""
    cluster.output.clear()
    cluster.recorded = RecordedAlerts(*known)
    cluster.options = {"initial": initial_state(known, known, now_ms=NOW_MS).encoded({CLUSTER: SETTINGS})}
    for second in range(40):
        cluster.batch(healthy(), restarted=second == 0)
    return [state for rule, _, state in cluster.alerts() if rule == "no-leader"]


def test_cluster_without_state_begins_with_its_firing_alert() -> None:
    assert sent_with(OneCluster(sequence=100), [fired_alert(OneCluster())]) == ["resolved"]
    assert sent_with(OneCluster(sequence=100), []) == []


def test_cluster_whose_state_is_damaged_with_its_alerts_continues_those_of_the_ledger() -> None:
    """Else nothing would ever resolve them."""
    damaged = OneCluster(sequence=100)
    damaged.batch(healthy())
    damaged.blob = b""

    assert sent_with(damaged, [fired_alert(OneCluster())]) == ["resolved"]


def test_each_cluster_has_its_own_alerts_with_their_beginning() -> None:
    sent = [
        alert("broker 1", rule="broker-fenced", cluster=name, started_at_ms=NOON_MS + minute * 60_000)
        for name, minute in (("a", 0), ("b", 1))
    ]
    begun = {
        name: [(one.rule, one.started_at_ms) for one in each.conditions.values()]
        for name, each in initial_state(sent, sent, now_ms=NOW_MS).clusters.items()
    }
    assert begun == {"a": [("broker-fenced", NOON_MS)], "b": [("broker-fenced", NOON_MS + 60_000)]}


def test_early_alert_mutes_no_row_of_another_rule() -> None:
    sent = alert("broker 1", rule="broker-fenced", cluster=CLUSTER, observed_at_ms=Millis(NOON_MS))
    early = replace(early_alert(), observed_at_ms=Millis(NOON_MS + 60_000))

    assert initial_state([early], [sent, early], now_ms=NOW_MS).clusters[CLUSTER].now_ms == NOON_MS
    assert initial_state([early], [early], now_ms=NOW_MS).clusters[CLUSTER].now_ms == 0
    assert initial_state([], [replace(early, state=AlertState.RESOLVED)], now_ms=NOW_MS).clusters == {
        CLUSTER: TrackedConditions()
    }


def test_an_alert_of_a_job_whose_clock_is_ahead_lets_this_one_evaluate_now() -> None:
    ahead = alert("quorum", rule="epoch-churn", cluster=CLUSTER, observed_at_ms=Millis(NOW_MS + 3_600_000))
    assert initial_state([ahead], [ahead], now_ms=NOW_MS).clusters[CLUSTER].now_ms == NOW_MS + 60_000
