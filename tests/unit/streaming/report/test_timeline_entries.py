"""The entries of a timeline from a journal with a row that raises."""

from dataclasses import replace
from pathlib import Path

import pytest

from rules.model.identifiers import Millis, NodeId
from streaming.query.recording import open_journal, replayed
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.status.event_history import EntryKind, EventHistory, TimelineEntry, timeline_entries
from tests.scripts.log_script import LogScript, apply
from tests.unit.connectors.logdir.log_dirs import AT
from tests.unit.streaming.replay.failing_polls import fail_polls
from tests.unit.streaming.report.recorded_incident import recording

BAD_MS = AT + 30_000


class ObservedHistory:
    """One cluster's machine, and what its rows brought about."""

    def __init__(self) -> None:
        self.machine, self.events = Machine(ClusterSettings(name="a")), EventHistory()

    def read(self, script: LogScript) -> None:
        """Applies what the script has written."""
        apply(self.machine, [script.read()])
        self.events.add(self.machine)


def observed(folder: Path) -> ObservedHistory:
    found = ObservedHistory()
    for one, _ in replayed(
        open_journal(folder).rows(),
        lambda name: ClusterSettings(name=name),
        evaluates_from_ms=None,
    ):
        found.machine, found.events = one.machine, one.history
    return found


def entries(history: ObservedHistory) -> tuple[TimelineEntry, ...]:
    return timeline_entries(history.events, history.machine.quorum(), (), from_ms=None, to_ms=None)


def test_a_row_that_raises_is_skipped_and_changes_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recording(tmp_path / "journal")
    plain = observed(folder)
    fail_polls(monkeypatch, lambda machine, _: machine.now_ms == BAD_MS)

    found = observed(folder)

    assert [one.text for one in entries(found)] == ["controller 1 was elected, epoch 1"]
    assert entries(found) == entries(plain)
    (violation,) = found.machine.quorum().contract_violations
    assert violation.contract == "every-row-can-be-applied"
    assert found.events.newest_ms == Millis(AT + 119_000)


def test_an_election_names_the_voters_that_granted_their_votes() -> None:
    history, script = ObservedHistory(), LogScript()
    script.events[-1] = replace(script.leader(1), granting_voter_ids=(NodeId(1), NodeId(3)))
    history.read(script)

    assert [one.text for one in entries(history)] == ["controller 1 was elected, epoch 1, 2 votes: 1 and 3"]


def test_a_change_of_more_than_one_voter_has_its_own_kind() -> None:
    history, script = ObservedHistory(), LogScript()
    script.leader(1)
    script.kraft(1)
    for names in (("1-a", "2-b", "3-c"), ("1-a", "2-b"), ("1-a", "4-d", "5-e")):
        script.voters(*names)
        history.read(script)

    changes = [one for one in entries(history) if one.kind in (EntryKind.VOTER_CHANGE, EntryKind.FORCED_CHANGE)]
    assert [(one.kind, one.text) for one in changes] == [
        (EntryKind.VOTER_CHANGE, "voter set changed: 3-c removed"),
        (EntryKind.FORCED_CHANGE, "voter set changed: 4-d added, 5-e added and 2-b removed"),
    ]


def test_unclean_elections_of_a_topic_are_one_entry_that_names_the_elected_brokers() -> None:
    history, script = ObservedHistory(), LogScript()
    script.topic("orders")
    for number in range(3):
        script.partition("orders", number, 101, 102, 103)
    for number, elected in enumerate((102, 102, 103)):
        script.change("orders", number, isr=(elected,), leader=elected, recovering=True)
    history.read(script)

    found = [one.text for one in entries(history) if one.kind is EntryKind.UNCLEAN_ELECTION]
    assert found == ["3 unclean elections in topic orders, leaders 102 and 103"]


def test_a_recovering_topic_has_the_time_and_the_words_of_its_oldest_partition() -> None:
    """The oldest one is known from a snapshot only: it became RECOVERING then, or before."""
    history, before, script = ObservedHistory(), LogScript(), LogScript(offset=10)
    before.topic("orders")
    before.partition("orders", 0, 101, 102, recovering=True)
    apply(history.machine, script.snapshot(before.events))
    contained_ms = history.machine.quorum().newest_timestamp_ms
    script.now_ms += 60_000
    script.partition("orders", 1, 101, 102, recovering=True)
    apply(history.machine, [script.read()])

    (found,) = (one for one in entries(history) if one.kind is EntryKind.RECOVERY)
    assert (found.at_ms, found.text) == (contained_ms, "at least since then: topic orders is RECOVERING")


def test_a_gap_that_began_before_the_first_time_is_an_entry() -> None:
    """Otherwise an outage of the job in the whole of the time would look like a quiet cluster."""
    history = ObservedHistory()
    history.events.gaps += [(Millis(AT), Millis(AT + 60_000)), (Millis(AT + 120_000), Millis(AT + 720_000))]

    quorum = history.machine.quorum()
    found = timeline_entries(history.events, quorum, (), from_ms=Millis(AT + 180_000), to_ms=Millis(AT + 300_000))

    assert [(one.kind, one.at_ms) for one in found] == [(EntryKind.GAP, AT + 120_000)]
    assert found[0].text.startswith("not observed for 10 min")


def test_an_election_that_was_lost_with_committed_metadata_stays() -> None:
    """The log was rewritten from offset 30 on: there is another election at the same offset."""
    history, script = ObservedHistory(), LogScript()
    script.leader(1)
    script.noops(29)
    script.leader(3, epoch=2)
    script.noops(20)
    history.read(script)
    script.offset = 30
    script.leader(2, epoch=3)
    history.read(script)

    assert [one.text for one in entries(history) if one.kind is EntryKind.ELECTION] == [
        "controller 1 was elected, epoch 1",
        "controller 3 was elected, epoch 2",
        "controller 2 was elected, epoch 3",
    ]
