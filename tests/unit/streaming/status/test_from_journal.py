"""The recorded state of a journal, and when one look has seen enough."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from connectors.cluster_connection import Cluster
from connectors.errors import UsageError
from connectors.event import Event, ObservationFailed, QuorumPolled, to_json
from connectors.gather.observation_writer import wall_ms
from connectors.journal.writer import Recorder
from connectors.observation import Kind, Observation
from connectors.point_in_time import AtOffset, AtTime, Moment
from rules.evaluate import thresholds_for
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import ObservationSource, Reason, Vantage
from streaming.replay.machine import Machine
from streaming.status.cluster_state import Glimpse
from streaming.status.from_journal import Recorded, has_journal, recorded, remembered
from streaming.status.live_cluster import Target, View
from tests.unit.connectors.logdir.log_dirs import leading, noops
from tests.unit.rules.situation import key, row

AT = 1_790_000_000_000
PLACE = "c1.test:9093"


def polled(epoch: int = 7) -> QuorumPolled:
    return QuorumPolled(
        cluster_id="Zm9yLXRlc3RzLW9ubHkhIQ",
        endpoint=PLACE,
        leader_id=NodeId(1),
        leader_epoch=Epoch(epoch),
        high_watermark=Offset(100),
        voters=(row(key(1)), row(key(2))),
        observers=(),
        nodes=(),
    )


def unseen(reason: Reason, sight: ObservationSource = ObservationSource.LOG) -> ObservationFailed:
    return ObservationFailed(sight=sight, endpoint=PLACE, reason=reason, detail="")


def observed(event: Event, at_ms: int, cluster: str = "a") -> Observation:
    kind = Kind.QUORUM if isinstance(event, QuorumPolled) else Kind.UNSEEN
    return Observation(cluster=cluster, kind=kind, observed_at_ms=at_ms, payload=to_json(event))


def machine(name: str) -> Machine:
    return Machine(name, None, (PLACE,), Vantage.INSIDE)


def glimpse_of(one: Recorded) -> Glimpse:
    return remembered(one.machine, one.newest_ms, thresholds_for({}), missing=one.missing)


def records(first: int, last: int, at_ms: int) -> Observation:
    """A leader's first batch, where it begins with 0, and NoOps."""
    begins = first == 0
    return Observation(
        cluster="a",
        kind=Kind.RECORDS,
        observed_at_ms=at_ms,
        base_offset=first,
        last_offset=last,
        leader_epoch=1,
        high_watermark=last + 1,
        payload=(leading(timestamp=at_ms) if begins else b"") + noops(first + begins, last - first + 1 - begins),
    )


def journal(folder: Path, rows: Iterable[Observation]) -> Path:
    with Recorder(folder) as recorder:
        recorder.append(list(rows))
        recorder.publish()
    return folder


def test_every_cluster_of_the_journal_is_replayed_to_its_newest_row(tmp_path: Path) -> None:
    rows = [observed(polled(7), AT), observed(polled(3), AT, "b"), observed(polled(8), AT + 1_000)]

    found = recorded(journal(tmp_path / "journal", rows), machine)

    assert {name: one.machine.quorum().leader_epoch for name, one in found.items()} == {"a": 8, "b": 3}
    assert found["a"].newest_ms == AT + 1_000


@pytest.mark.parametrize("given", ["", "journal"])
def test_the_checkpoint_folder_will_do_as_well_as_the_journal_in_it(tmp_path: Path, given: str) -> None:
    journal(tmp_path / "journal", [observed(polled(), AT)])

    assert list(recorded(tmp_path / given, machine)) == ["a"]


def test_only_those_asked_for_are_replayed(tmp_path: Path) -> None:
    rows = [observed(polled(), AT), observed(polled(), AT, "b")]

    found = recorded(journal(tmp_path / "journal", rows), lambda name: machine(name) if name == "b" else None)

    assert list(found) == ["b"]


def test_looks_of_days_ago_are_passed_over(tmp_path: Path) -> None:
    days_ago = [observed(polled(epoch), AT - 3 * 86_400_000 + epoch) for epoch in (1, 2)]
    gone = observed(polled(1), AT - 3 * 86_400_000, "gone")

    found = recorded(journal(tmp_path / "journal", [*days_ago, gone, observed(polled(9), AT)]), machine)

    assert list(found) == ["a"], "of a cluster that was last seen days ago nothing but looks are left"
    assert found["a"].machine.quorum().leader_epoch == 9
    assert found["a"].machine.sequence == 3


def test_no_journal_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no journal is there; give the --checkpoint folder of `kraftwatch run`"):
        recorded(tmp_path, machine)


def test_a_journal_that_begins_in_the_middle_says_so_and_how_old_it_is(tmp_path: Path) -> None:
    found = recorded(journal(tmp_path / "journal", [observed(polled(), AT)]), machine)

    seen = glimpse_of(found["a"])

    assert seen.missing == ("the journal no longer reaches back to the beginning of the log",)
    assert seen.source == "journal"
    assert seen.age_ms == seen.taken_at_ms - AT


def view() -> View:
    return View(Target(cluster=Cluster(name="a", bootstrap=(("c1.test", 9093),))))


def began(looked: View) -> Millis:
    since = looked.glimpse().looked_since_ms
    assert since is not None
    return since


def test_nothing_seen_yet_is_not_enough() -> None:
    looked = view()

    assert not looked.settled()
    assert looked.missing() == ("the metadata log was not answered", "DescribeQuorum was not answered")


def test_an_election_is_waited_out_and_what_lasts_longer_is_believed() -> None:
    looked = view()
    at = began(looked)

    looked.apply(observed(unseen(Reason.NO_LEADER), at + 100))
    looked.apply(observed(unseen(Reason.NO_LEADER), at + 3_000))
    assert not looked.settled(), "two seconds without a leader are an election"

    looked.apply(observed(unseen(Reason.NO_LEADER), at + 5_200))
    assert looked.settled()
    assert [one.rule for one in looked.glimpse().evaluation.findings] == ["no-leader"]


def test_time_outs_say_nothing_however_long() -> None:
    looked = view()
    at = began(looked)

    for passed in range(0, 9_000, 1_000):
        looked.apply(observed(unseen(Reason.TIMED_OUT), at + passed))

    assert not looked.settled()
    assert looked.glimpse().source == "none"


def test_a_poll_is_one_of_the_things_wished_for() -> None:
    looked = view()

    looked.apply(observed(polled(), began(looked) + 100))

    assert looked.missing() == ("the metadata log was not answered",)
    assert looked.glimpse().answered


def test_a_recorded_state_that_begins_in_the_middle_is_shown_only_until_somebody_answers(tmp_path: Path) -> None:
    found = recorded(journal(tmp_path / "journal", [observed(polled(7), AT)]), machine)
    cluster = Cluster(name="a", bootstrap=(("c1.test", 9093),))
    looked = View(Target(cluster=cluster, recorded=found["a"]))
    assert looked.glimpse().quorum.leader_epoch == 7
    assert looked.glimpse().source == "journal"

    looked.apply(observed(polled(9), began(looked) + 100))

    assert looked.glimpse().quorum.leader_epoch == 9
    assert looked.glimpse().source == "live"


def told(tmp_path: Path, upto: Moment | None) -> Recorded:
    """Of a log read in two goes, with a poll of an epoch of its own before, between and after."""
    rows = [
        observed(polled(1), AT),
        records(0, 4, AT + 1_000),
        observed(polled(2), AT + 2_000),
        records(5, 9, AT + 3_000),
        observed(polled(3), AT + 4_000),
    ]
    return recorded(journal(tmp_path / "journal", rows), machine, upto=upto)["a"]


@pytest.mark.parametrize(
    ("upto", "last_offset", "epoch"),
    [
        (None, 9, 3),
        (AtOffset(offset=Offset(0)), 0, 1),
        (AtOffset(offset=Offset(4)), 4, 1),
        (AtOffset(offset=Offset(7)), 7, 2),
        (AtOffset(offset=Offset(9)), 9, 2),
        (AtTime(at_ms=Millis(AT)), None, 1),
        (AtTime(at_ms=Millis(AT + 1_500)), 4, 1),
        (AtTime(at_ms=Millis(AT + 2_000)), 4, 2),
        (AtTime(at_ms=Millis(AT + 4_000)), 9, 3),
    ],
)
def test_the_journal_as_of_then(tmp_path: Path, upto: Moment | None, last_offset: int | None, epoch: int) -> None:
    one = told(tmp_path, upto)

    quorum = one.machine.quorum()
    assert quorum.last_offset == last_offset
    assert quorum.poll is not None
    assert quorum.poll.leader_epoch == epoch
    assert one.newest_ms == quorum.now_ms


@pytest.mark.parametrize(
    ("upto", "why"),
    [
        (AtOffset(offset=Offset(10)), "--at 10: the journal of cluster a ends with 9"),
        (AtTime(at_ms=Millis(AT - 1)), "--at 2026-.*Z: the journal of cluster a begins with 2026-09-21T14:13:20.000Z"),
        (
            AtTime(at_ms=Millis(AT + 4_001)),
            "--at 2026-.*Z: the journal of cluster a ends with 2026-09-21T14:13:24.000Z",
        ),
    ],
)
def test_a_moment_that_was_not_recorded(tmp_path: Path, upto: Moment, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        told(tmp_path, upto)


def test_an_offset_is_of_one_cluster(tmp_path: Path) -> None:
    rows = [observed(polled(), AT), observed(polled(), AT, "b")]

    with pytest.raises(UsageError, match=r"an offset is one cluster's, and .* holds 2: give a time"):
        recorded(journal(tmp_path / "journal", rows), machine, upto=AtOffset(offset=Offset(1)))


def test_an_offset_that_a_snapshot_took_the_place_of(tmp_path: Path) -> None:
    snapshot = Observation(
        cluster="a", kind=Kind.SNAPSHOT, observed_at_ms=AT, base_offset=30, last_offset=0, leader_epoch=1
    )
    rows = [records(0, 4, AT), snapshot, records(30, 32, AT)]

    with pytest.raises(UsageError, match="--at 20: the journal of cluster a passes over it"):
        recorded(journal(tmp_path / "journal", rows), machine, upto=AtOffset(offset=Offset(20)))


def test_what_was_recorded_is_recalled_only_once_nobody_answers(tmp_path: Path) -> None:
    asked: list[str] = []

    def recall() -> Recorded | None:
        asked.append("recalled")
        return recorded(journal(tmp_path / "journal", [observed(polled(7), AT)]), machine)["a"]

    cluster = Cluster(name="a", bootstrap=(("c1.test", 9093),))
    answered = View(Target(cluster=cluster, recall=recall))
    answered.apply(observed(polled(9), wall_ms() + 100))
    assert (answered.glimpse().source, asked) == ("live", [])

    looked = View(Target(cluster=cluster, recall=recall))
    looked.apply(observed(unseen(Reason.NO_LEADER), wall_ms() + 100))
    seen = looked.glimpse()

    assert (seen.source, seen.quorum.leader_epoch, seen.quorum.leader_id) == ("journal", 7, None)
    assert [one.reason for one in seen.quorum.failures] == [Reason.NO_LEADER], (
        "what was seen meanwhile is as true of it"
    )
    looked.glimpse()
    assert asked == ["recalled"], "once"
    looked.apply(observed(polled(9), wall_ms() + 5_000))
    assert looked.glimpse().source == "live"


def test_where_nothing_was_recorded_there_is_nothing_to_recall(tmp_path: Path) -> None:
    assert not has_journal(tmp_path)
    looked = View(Target(cluster=Cluster(name="a", bootstrap=(("c1.test", 9093),))))
    looked.apply(observed(unseen(Reason.NO_LEADER), wall_ms() + 100))

    assert looked.glimpse().source == "none"
