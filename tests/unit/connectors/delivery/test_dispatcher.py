"""Record, tell, note: nothing is lost, and one sink's trouble is not the others'."""

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from connectors.delivery.dispatcher import Delivery, Tally
from connectors.delivery.ledger import Ledger
from connectors.delivery.sink_call import Asking
from connectors.errors import LedgerError, UsageError
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink, Style
from rules.alert import AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice
from rules.notifications.route import OWN, Route
from rules.notifications.silence import Silence
from tests.eventually import eventually
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, Recording, alert

FIRST, SECOND, OVER = alert("one"), alert("two"), alert("one", resolved=True)


def later(seconds: float) -> Millis:
    return Millis(NOON_MS + round(seconds * 1000))


def delivery(path: Path, *sinks: Sink, **more: Any) -> Delivery:
    """One that waits for its sinks, however slow the machine is, unless the test says otherwise."""
    return Delivery(Ledger(path / "ledger"), sinks, **{"deadline_s": 30, "patience_s": 30, **more})


def test_every_sink_is_told_once_and_in_order(tmp_path: Path) -> None:
    one, two = Recording("one"), Recording("two")
    telling = delivery(tmp_path, one, two)
    report = telling.deliver([FIRST, SECOND], NOON_MS)
    assert (report.recorded, report.sinks) == (2, {"one": Tally(delivered=2), "two": Tally(delivered=2)})
    report = telling.deliver([SECOND, OVER], NOON_MS)
    assert (report.recorded, report.sinks["one"]) == (1, Tally(delivered=1))
    assert one.told == two.told == [FIRST, SECOND, OVER]


def test_with_nothing_to_tell_nobody_is_asked(tmp_path: Path) -> None:
    sink = Recording()
    assert delivery(tmp_path, sink).deliver([], NOON_MS).sinks == {"recording": Tally()}
    assert sink.calls == 0


def test_what_could_not_be_told_is_tried_again_later_and_later(tmp_path: Path) -> None:
    sink = Recording(answers=[Retry(reason="away")] * 4)
    telling = delivery(tmp_path, sink)
    assert telling.deliver([FIRST], NOON_MS).sinks["recording"] == Tally(retry=1, pending=1, failing="away")
    calls = []
    for tenth in range(1, 200):
        telling.deliver([], later(tenth / 10))
        calls.append(sink.calls)
    # After 1, 2, 4 and 8 seconds.
    assert [calls.index(call) / 10 + 0.1 for call in (2, 3, 4, 5)] == pytest.approx([1, 3, 7, 15])
    assert sink.told == [FIRST]


def test_a_failing_sink_keeps_the_rest_in_order(tmp_path: Path) -> None:
    sink = Recording(answers=[Delivered(), Retry(reason="away"), Retry(reason="away")])
    telling = delivery(tmp_path, sink)
    tally = telling.deliver([FIRST, SECOND, OVER], NOON_MS).sinks["recording"]
    assert tally == Tally(delivered=1, retry=2, pending=2, failing="away")
    telling.deliver([], later(2))
    assert sink.told == [FIRST, SECOND, OVER]


def test_a_clock_set_back_does_not_silence_a_sink(tmp_path: Path) -> None:
    sink = Recording(answers=[Retry(reason="away")])
    telling = delivery(tmp_path, sink)
    telling.deliver([FIRST], NOON_MS)
    telling.deliver([], later(-3600))
    assert sink.told == [FIRST]


def test_what_is_refused_for_good_is_said_and_not_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = Recording(answers=[Rejected(reason="too long")])
    telling = delivery(tmp_path, sink)
    assert telling.deliver([FIRST], NOON_MS).sinks["recording"] == Tally(rejected=1)
    assert "recording refused no-leader of alpha for good: too long" in caplog.text
    telling.deliver([], later(100))
    assert sink.calls == 1


def test_a_restart_tells_what_was_left(tmp_path: Path) -> None:
    delivery(tmp_path, Recording(answers=[Retry(reason="away")] * 2)).deliver([FIRST, SECOND], NOON_MS)
    sink = Recording()
    delivery(tmp_path, sink).deliver([], NOON_MS)
    assert sink.told == [FIRST, SECOND]


class Broken(Recording):
    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        raise RuntimeError("POST https://user:hunter2@hooks.example.com/T0/B1/s3cr3t failed, token=abc123")


class Miscounting(Recording):
    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        return [Delivered()]


def test_a_broken_sink_is_a_retry_without_its_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good = Recording("good")
    report = delivery(tmp_path, Broken("broken"), Miscounting("miscounting"), good).deliver([FIRST, SECOND], NOON_MS)
    for name in ("broken", "miscounting"):
        assert (report.sinks[name].retry, report.sinks[name].pending) == (2, 2)
    assert good.told == [FIRST, SECOND]
    assert "RuntimeError: POST https://hooks.example.com/*** failed, token=***" in caplog.text
    assert not {"hunter2", "s3cr3t", "abc123"} & set(caplog.text.replace("/", " ").replace("=", " ").split())
    assert "the sink gave 1 answers to 2 notices" in caplog.text


class Hanging(Recording):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__("hanging")
        self.let = Event()

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        self.calls += 1
        assert self.let.wait(30)
        self.told += [alert for notice in notices for alert in notice.news]
        return [Delivered()] * len(notices)


def test_a_hanging_sink_costs_its_deadline_once_and_its_late_answer_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, good = Hanging(), Recording("good")
    telling = delivery(tmp_path, hanging, good, deadline_s=0.05)
    away = "it has not answered within 0.05 s"
    assert telling.deliver([FIRST], NOON_MS).sinks["hanging"] == Tally(pending=1, failing=away)
    assert telling.deliver([SECOND], later(1)).sinks["hanging"] == Tally(pending=2, failing=away)
    # So short a deadline may be missed on a busy machine by the good one, too: it is told all the same.
    eventually(lambda: not telling.deliver([], later(1)).sinks["good"].pending, within_s=30)
    assert good.told == [FIRST, SECOND]
    assert hanging.calls == 1
    assert f"hanging: {away}; the others go on without it" in caplog.text
    hanging.let.set()
    eventually(lambda: not telling.deliver([], later(2)).sinks["hanging"].pending, within_s=30)
    assert hanging.told == [FIRST, SECOND]


def test_a_batch_waits_for_its_sinks_as_long_as_it_may_and_what_they_answer_later_counts(tmp_path: Path) -> None:
    hanging = Hanging()
    telling = delivery(tmp_path, hanging, patience_s=0.05)
    assert telling.deliver([FIRST], NOON_MS).sinks["hanging"] == Tally(pending=1), "its deadline is not over"
    hanging.let.set()
    eventually(lambda: not telling.deliver([], later(1)).sinks["hanging"].pending, within_s=30)
    assert (hanging.told, hanging.calls) == ([FIRST], 1)


def test_no_batch_waits_for_a_sink_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Watched(Asking):
        def answer(self, timeout_s: float) -> Sequence[Outcome] | None:
            waited.append(timeout_s)
            return super().answer(timeout_s)

    monkeypatch.setattr("connectors.delivery.dispatcher.Asking", Watched)
    hanging = Hanging()
    telling = delivery(tmp_path, hanging, deadline_s=0.05)
    telling.deliver([FIRST], NOON_MS)
    assert max(waited) > 0
    waited.clear()
    for second in range(3):
        telling.deliver([], later(second))
    hanging.let.set()
    assert set(waited) == {0.0}


def test_a_long_queue_is_told_in_pieces(tmp_path: Path) -> None:
    sink = Recording()
    telling = delivery(tmp_path, sink)
    alerts = [alert(f"voter {at}") for at in range(700)]
    assert telling.deliver(alerts, NOON_MS).sinks["recording"] == Tally(delivered=500, pending=200)
    telling.deliver([], NOON_MS)
    assert sink.told == alerts


def test_a_full_disk_under_the_ledger_is_raised_and_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Recording()
    telling = delivery(tmp_path, sink)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LedgerError, match="ledger cannot be used: No space left on device"):
        telling.deliver([FIRST], NOON_MS)
    monkeypatch.undo()
    assert sink.calls == 0
    # The batch comes again.
    telling.deliver([FIRST], NOON_MS)
    assert sink.told == [FIRST]


def test_a_place_that_asks_to_be_left_alone_is(tmp_path: Path) -> None:
    sink = Recording(answers=[Retry(reason="too many requests", after_s=30)])
    telling = delivery(tmp_path, sink)
    telling.deliver([FIRST], NOON_MS)
    telling.deliver([], later(29))
    assert sink.told == []
    telling.deliver([], later(31))
    assert sink.told == [FIRST]


def test_people_are_told_an_incident_at_a_time_and_a_record_each_transition(tmp_path: Path) -> None:
    people, record = Recording("people", style=Style.INCIDENTS), Recording("record")
    telling = delivery(tmp_path, people, record)
    telling.deliver([FIRST, SECOND], NOON_MS)
    assert (people.calls, record.calls) == (1, 1)
    assert [(notice.reason, len(notice.alerts)) for notice in people.notices] == [("firing", 2)]
    assert [len(notice.alerts) for notice in record.notices] == [1, 1]


def test_an_incident_that_stands_is_told_again_also_by_a_job_that_was_restarted(tmp_path: Path) -> None:
    delivery(tmp_path, Recording(style=Style.INCIDENTS, repeat_s=60)).deliver([FIRST], NOON_MS)
    sink = Recording(style=Style.INCIDENTS, repeat_s=60)
    telling = delivery(tmp_path, sink)
    telling.deliver([], later(59))
    assert sink.notices == []
    telling.deliver([], later(60))
    telling.deliver([OVER], later(61))
    assert [notice.reason for notice in sink.notices] == ["repeated", "resolved"]
    assert len({notice.incident for notice in sink.notices}) == 1


def test_a_silence_holds_back_what_people_are_told_and_no_record(tmp_path: Path) -> None:
    silence = Silence(
        id="s", subject="one", starts_at_ms=NOON_MS, ends_at_ms=later(60), author="eva", comment="new disks"
    )
    people, record = Recording("people", style=Style.INCIDENTS), Recording("record")
    telling = delivery(tmp_path, people, record, silences=lambda _: [silence])
    report = telling.deliver([FIRST], NOON_MS)
    assert (people.notices, record.told) == ([], [FIRST])
    assert (report.sinks["people"].silenced, report.sinks["people"].pending) == (1, 1)
    telling.deliver([], later(60))
    assert people.told == [FIRST]


def test_an_alert_that_was_silenced_for_its_whole_life_is_forgotten_for_good(tmp_path: Path) -> None:
    silence = Silence(id="s", starts_at_ms=NOON_MS, ends_at_ms=later(60), author="eva", comment="new disks")
    people = Recording(style=Style.INCIDENTS)
    delivery(tmp_path, people, silences=lambda _: [silence]).deliver([FIRST, OVER], NOON_MS)
    telling = delivery(tmp_path, people)
    assert telling.deliver([], later(120)).sinks["recording"] == Tally()
    assert people.notices == []


def test_an_hour_without_a_sink_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    people, record = Recording("people", style=Style.INCIDENTS), Recording("record")
    telling = delivery(tmp_path, people, record)
    people.away = record.away = True
    for second in range(3_600):
        fresh = {10: [FIRST], 600: [SECOND], 1_200: [OVER]}.get(second, [])
        telling.deliver(fresh, later(second))
    people.away = record.away = False
    for second in range(3_600, 3_700):
        telling.deliver([], later(second))
    assert [each for each in record.told if each.cluster != OWN] == [FIRST, SECOND, OVER]
    # One incident of two alerts, one of them over: one message says it all.
    assert [notice.reason for notice in people.notices if notice.root.cluster != OWN] == ["firing"]
    told = [each for each in people.told if each.cluster != OWN]
    assert sorted(told, key=lambda each: each.key) == sorted([FIRST, SECOND, OVER], key=lambda each: each.key)


def test_a_sink_that_fails_for_minutes_is_told_of_by_the_others_and_not_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away, good = Recording("away", style=Style.INCIDENTS), Recording("good")
    telling = delivery(tmp_path, away, good)
    away.away = True
    telling.deliver([FIRST], NOON_MS)
    for second in range(1, 301):
        telling.deliver([], later(second))
    assert good.told == [FIRST]
    telling.deliver([], later(301))
    (told,) = good.told[1:]
    assert (told.rule, told.subject, told.severity, told.state) == ("monitor-blind", "sink away", "warning", "firing")
    assert told.summary == "The sink away could not be told for 5 min: away."
    assert told.evidence == {"sink": "away", "reason": "away", "failing_since_at_ms": NOON_MS, "waiting": 1}
    assert caplog.text.count("away could not be told") == 1
    away.away = False
    for second in range(302, 400):
        telling.deliver([], later(second))
    assert [each.state for each in good.told[1:]] == ["firing", "resolved"]
    assert away.told == [FIRST]


def test_a_restart_goes_on_with_a_sink_that_fails(tmp_path: Path) -> None:
    def job(away: bool, seconds: range) -> Recording:
        broken, good = Recording("broken", away=away), Recording("good")
        telling = delivery(tmp_path, broken, good)
        telling.deliver([FIRST], later(seconds.start))
        for second in seconds:
            telling.deliver([], later(second))
        return good

    assert [each.state for each in job(away=True, seconds=range(310)).told] == ["firing", "firing"]
    assert job(away=True, seconds=range(400, 1_000)).told == []
    assert [each.state for each in job(away=False, seconds=range(1_000, 1_100)).told] == ["resolved"]


def test_an_alert_about_a_sink_that_is_configured_no_more_is_over(tmp_path: Path) -> None:
    broken, good = Recording("broken", away=True), Recording("good")
    telling = delivery(tmp_path, broken, good)
    telling.deliver([FIRST], NOON_MS)
    for second in range(310):
        telling.deliver([], later(second))
    telling.tell_these([good])
    telling.deliver([], later(311))
    telling.deliver([], later(312))
    assert [(each.subject, each.state) for each in good.told[1:]] == [
        ("sink broken", "firing"),
        ("sink broken", "resolved"),
    ]


def routed(style: Style, **route: Any) -> Recording:
    return Recording(f"{style.value} only", style=style, route=Route(**route))


@pytest.mark.parametrize("style", list(Style))
def test_a_sink_is_told_what_is_meant_for_it(tmp_path: Path, style: Style) -> None:
    mild, other = alert("mild", severity=Severity.WARNING), alert("other", cluster="beta", cluster_id="b")
    sink = routed(style, min_severity=Severity.CRITICAL, clusters=("al*", "gamma"))
    telling = delivery(tmp_path, sink)
    report = telling.deliver([mild, FIRST, other], NOON_MS)
    assert sink.told == [FIRST]
    assert report.sinks[sink.name].pending == 0
    over = [replace(each, state=AlertState.RESOLVED) for each in (mild, FIRST, other)]
    telling.deliver(over, later(100))
    assert sink.told == [FIRST, over[1]]


@pytest.mark.parametrize("style", list(Style))
def test_what_got_bad_enough_is_told_until_its_end_however_mild_it_became(tmp_path: Path, style: Style) -> None:
    sink = routed(style, min_severity=Severity.CRITICAL)
    telling = delivery(tmp_path, sink)
    severities = [Severity.WARNING, Severity.CRITICAL, Severity.WARNING]
    told = [
        alert(severity=severity, started_at_ms=NOON_MS, observed_at_ms=later(at * 100))
        for at, severity in enumerate(severities)
    ]
    over = alert(resolved=True, severity=Severity.WARNING, observed_at_ms=later(300))
    for at, each in enumerate([*told, over]):
        telling.deliver([each], later(at * 100))
    assert sink.told == [told[1], told[2], over]


@pytest.mark.parametrize("style", list(Style))
def test_a_new_sink_was_told_nothing_of_what_was_before_it(tmp_path: Path, style: Style) -> None:
    milder = replace(FIRST, severity=Severity.WARNING, observed_at_ms=later(10))
    delivery(tmp_path, Recording("old")).deliver([FIRST, milder], NOON_MS)
    pager, people = routed(style, min_severity=Severity.CRITICAL), Recording("people", style=Style.INCIDENTS)
    delivery(tmp_path, pager, people).deliver([], later(20))
    assert pager.told == []
    assert [(notice.reason, notice.known) for notice in people.notices] == [("firing", False)]


@pytest.mark.parametrize("style", list(Style))
def test_the_failure_of_a_sink_is_for_everybody_whatever_clusters_they_hear_of(tmp_path: Path, style: Style) -> None:
    broken, sink = Recording("broken", away=True), routed(style, clusters=("beta",))
    telling = delivery(tmp_path, broken, sink)
    telling.deliver([FIRST], NOON_MS)
    for second in range(310):
        telling.deliver([], later(second))
    assert [each.subject for each in sink.told] == ["sink broken"]


def test_what_stood_for_longer_than_the_ledger_remembers_has_its_end_told_as_the_end(tmp_path: Path) -> None:
    silence = Silence(id="s", starts_at_ms=later(1), ends_at_ms=later(99 * 86_400), author="eva", comment="new disks")
    people = Recording(style=Style.INCIDENTS)
    telling = delivery(tmp_path, people, silences=lambda _: [silence])
    telling.deliver([FIRST], NOON_MS)
    telling.deliver([OVER], later(31 * 86_400))
    assert [(notice.reason, notice.known) for notice in people.notices] == [("firing", False), ("resolved", True)]


def test_two_sinks_of_one_name_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="The sink recording was given twice"):
        delivery(tmp_path, Recording(), Recording())
