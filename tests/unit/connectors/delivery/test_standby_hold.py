"""A standby job holds its notifications back while the first job runs, and loses none when it is gone."""

from pathlib import Path

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.notification import NotifyReason
from rules.notifications.route import JOB_CLUSTER_ID
from rules.notifications.silence import StandbyHold, standby_hold
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert


class StandbyJob:
    """The delivery of a standby job: `first_job_runs` says until when the first job is known to have run."""

    def __init__(self, folder: Path) -> None:
        self.people = RecordingSink(name="people", mode=DeliveryMode.INCIDENTS, repeat_s=600)
        self.record = RecordingSink(name="record")
        self.hold: StandbyHold | None = standby_hold(Millis(0))
        self._folder = folder
        self.start()

    def start(self) -> None:
        sinks = [self.people, self.record]
        ledger = Ledger(job_database(self._folder))
        self._dispatcher = Dispatcher(ledger, sinks, silences=lambda _: [self.hold] if self.hold else [], patience_s=60)

    def first_job_runs(self, seconds: int) -> None:
        self.hold = standby_hold(Millis(NOON_MS + seconds * 1_000))

    def first_job_is_gone(self) -> None:
        self.hold = None

    def deliver(self, seconds: int, *alerts: Alert) -> list[tuple[NotifyReason, list[str]]]:
        """Delivers at this time and returns what people were notified of."""
        before = len(self.people.notifications)
        self._dispatcher.deliver(alerts, Millis(NOON_MS + seconds * 1_000))
        new = self.people.notifications[before:]
        return [(each.reason, [one.rule for one in each.alerts]) for each in new]


def firing(rule: str = "no-leader", *, at_s: int = 5) -> Alert:
    return alert("quorum", rule=rule, observed_at_ms=Millis(NOON_MS + at_s * 1_000))


def resolved(rule: str = "no-leader", *, at_s: int = 60) -> Alert:
    return alert("quorum", rule=rule, resolved=True, observed_at_ms=Millis(NOON_MS + at_s * 1_000))


FIRED = [(NotifyReason.FIRING, ["no-leader"])]
RESOLVED = [(NotifyReason.RESOLVED, ["no-leader"])]


def test_people_are_not_notified_while_the_first_job_runs_and_records_are_complete(tmp_path: Path) -> None:
    job = StandbyJob(tmp_path)

    assert job.deliver(5, firing()) == []
    job.first_job_runs(120)
    assert job.deliver(60, resolved()) == []
    assert job.deliver(4_000) == []
    assert [each.state for each in job.record.transitions] == ["firing", "resolved"]
    job.first_job_is_gone()
    assert job.deliver(4_001) == [], "the first job notified of both"


def test_what_is_firing_is_sent_once_when_the_first_job_is_gone_and_its_resolution(tmp_path: Path) -> None:
    job = StandbyJob(tmp_path)
    job.deliver(5, firing())
    job.first_job_runs(60)
    assert job.deliver(70) == []

    job.first_job_is_gone()

    assert job.deliver(130) == FIRED
    assert job.deliver(131) == []
    assert job.deliver(140, resolved(at_s=140)) == RESOLVED
    assert job.deliver(141) == []


def test_what_resolved_after_the_first_job_stopped_is_sent_as_resolved(tmp_path: Path) -> None:
    """The first job has notified of the alert: without its resolution, its incident would stay open forever."""
    job = StandbyJob(tmp_path)
    job.deliver(5, firing())
    job.first_job_runs(60)
    assert job.deliver(90, resolved(at_s=90)) == []
    assert job.deliver(91) == []

    job.first_job_is_gone()

    assert job.deliver(130) == RESOLVED
    assert job.deliver(131) == []


def test_it_is_silent_again_when_the_first_job_is_back_but_closes_what_it_opened(tmp_path: Path) -> None:
    job = StandbyJob(tmp_path)
    job.first_job_is_gone()
    assert job.deliver(10, firing()) == FIRED

    job.first_job_runs(20)

    assert job.deliver(21, firing("raft-invariant-broken", at_s=21)) == []
    assert job.deliver(2_000) == [], "no repetition"
    assert job.deliver(2_001, resolved(at_s=2_001)) == RESOLVED
    job.first_job_runs(3_000)
    assert job.deliver(3_001, resolved("raft-invariant-broken", at_s=2_900)) == []


def test_an_incident_stays_open_while_the_first_job_has_an_alert_of_it(tmp_path: Path) -> None:
    """Both jobs have the same key in PagerDuty: the end of one would close the alert of the other."""
    job = StandbyJob(tmp_path)
    job.first_job_is_gone()
    assert job.deliver(10, firing()) == FIRED
    job.first_job_runs(20)
    assert job.deliver(21, firing("quorum-shape", at_s=21)) == []

    assert job.deliver(60, resolved(at_s=60)) == []
    assert job.deliver(200) == []
    job.first_job_runs(400)

    assert job.deliver(300, resolved("quorum-shape", at_s=300)) == RESOLVED


def test_nothing_is_sent_twice_after_a_restart_during_the_outage(tmp_path: Path) -> None:
    job = StandbyJob(tmp_path)
    job.first_job_is_gone()
    assert job.deliver(10, firing()) == FIRED
    job.hold = standby_hold(Millis(0))
    job.start()

    assert job.deliver(20) == []
    job.first_job_is_gone()
    assert job.deliver(80) == []
    assert job.deliver(90, resolved(at_s=90)) == RESOLVED


def test_alerts_about_the_standby_job_itself_are_sent_all_the_time(tmp_path: Path) -> None:
    job = StandbyJob(tmp_path)
    job.first_job_runs(60)
    own = alert("sink slack", rule="monitor-blind", cluster=JOB_CLUSTER_ID, cluster_id=JOB_CLUSTER_ID)

    assert job.deliver(5, own) == [(NotifyReason.FIRING, ["monitor-blind"])]
