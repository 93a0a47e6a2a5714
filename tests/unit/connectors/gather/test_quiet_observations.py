"""Which observations are quiet: those in which only offsets and recent times move, 30 s after anything else."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.fleet_pace import fetch_pause_s, turns_of
from connectors.gather.quiet_observations import CALM_MS, QuietObservations
from connectors.gather.redacted_batches import RedactedBatches
from connectors.observation_event import EndpointProbed, LeaderViewPolled, QuorumPolled
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Answer, Connection, LeaderLog, Resolution, Snapshot
from rules.model.poll import Replica

START_MS = 1_000_000
NOOPS = RedactedBatches(content=b"", has_records=False, endpoints=())


def polled(at_ms: int, *, ago_ms: int = 300, epoch: int = 1, stuck: bool = False) -> QuorumPolled:
    """Returns an answer of leader 1; voter 3 last fetched `ago_ms` ago, or never again after START_MS."""

    def replica(node: int) -> Replica:
        now = at_ms if node == 1 else START_MS if stuck and node == 3 else at_ms - ago_ms
        return Replica(
            key=ReplicaKey(id=NodeId(node)),
            log_end_offset=Offset(now // 500),
            last_fetch_ms=Millis(now),
            last_caught_up_ms=Millis(now),
        )

    return QuorumPolled(
        cluster_id="x",
        endpoint="c1:9093",
        leader_id=NodeId(1),
        leader_epoch=Epoch(epoch),
        high_watermark=Offset(at_ms // 500),
        voters=tuple(map(replica, (1, 2, 3))),
        observers=(replica(101),),
        nodes=(),
    )


def noops(last_offset: int, *, high_watermark: int | None = None) -> CommittedRecords:
    return CommittedRecords(
        base_offset=last_offset,
        last_offset=last_offset,
        leader_epoch=1,
        high_watermark=last_offset + 1 if high_watermark is None else high_watermark,
        batches=b"",
    )


def view(*, epoch: int = 1, log: LeaderLog | None = None) -> LeaderViewPolled:
    return LeaderViewPolled(
        endpoint="c2:9093",
        node=NodeId(2),
        this_cluster=True,
        leader_id=NodeId(1),
        leader_epoch=Epoch(epoch),
        log=log,
    )


PROBE = EndpointProbed(
    node=NodeId(2),
    endpoint=Endpoint(listener="CONTROLLER", host="c2", port=9093),
    resolution=Resolution.RESOLVED,
    addresses=("10.0.0.2",),
    connection=Connection.ACCEPTED,
    answer=Answer.THIS_CLUSTER,
    answered_by=NodeId(2),
    detail="",
)


class Quorum:
    """A quiet quorum with a poll each second."""

    def __init__(self) -> None:
        self.quiet = QuietObservations()
        self.now_ms = START_MS
        self.offset = 0

    def poll(self, *, changed: bool = False, **options: int | bool) -> bool:
        self.now_ms += 1_000
        return self.quiet.is_quiet_poll(polled(self.now_ms, **options), self.now_ms, changed=changed)  # type: ignore[arg-type]

    def fetch(self, records: CommittedRecords | None = None, batches: RedactedBatches = NOOPS) -> bool:
        self.offset += 1
        return self.quiet.are_quiet_records(records or noops(self.offset), batches, self.now_ms)

    def seconds(self, count: int = CALM_MS // 1_000 + 1) -> bool:
        """Returns whether the last poll and the last fetch are quiet."""
        return all([(self.poll(), self.fetch()) for _ in range(count)][-1])


@pytest.fixture
def quorum() -> Quorum:
    quorum = Quorum()
    assert not quorum.seconds(count=CALM_MS // 1_000), "the first seconds are not quiet"
    assert quorum.seconds(count=2)
    return quorum


def test_unchanged_views_and_probes_are_quiet(quorum: Quorum) -> None:
    assert not quorum.quiet.is_quiet_view(view(), quorum.now_ms, changed=False), "nothing to compare it with"
    assert quorum.quiet.is_quiet_view(view(), quorum.now_ms, changed=False)
    assert quorum.quiet.is_quiet_probe(PROBE, quorum.now_ms, changed=False)


@pytest.mark.parametrize(
    "disturb",
    [
        lambda quorum: quorum.poll(changed=True),
        lambda quorum: quorum.poll(ago_ms=2_500),
        lambda quorum: quorum.poll(stuck=True),
        lambda quorum: quorum.quiet.is_quiet_view(view(epoch=2), quorum.now_ms, changed=False),
        lambda quorum: quorum.quiet.is_quiet_view(view(), quorum.now_ms, changed=True),
        lambda quorum: quorum.quiet.is_quiet_probe(PROBE, quorum.now_ms, changed=True),
        lambda quorum: quorum.quiet.is_quiet_probe(
            replace(PROBE, connection=Connection.REFUSED, answer=Answer.NOT_ASKED, answered_by=None),
            quorum.now_ms,
            changed=False,
        ),
        lambda quorum: quorum.quiet.is_quiet_probe(replace(PROBE, answered_by=NodeId(3)), quorum.now_ms, changed=False),
        lambda quorum: bool(quorum.quiet.disturbed(quorum.now_ms)),
    ],
)
def test_after_anything_else_a_cluster_is_not_quiet_for_a_time(
    quorum: Quorum, disturb: Callable[[Quorum], bool]
) -> None:
    assert not disturb(quorum)

    assert not quorum.seconds(count=CALM_MS // 1_000 - 1)
    assert quorum.seconds(count=3)


def test_a_high_watermark_that_stands_still_disturbs_after_a_time(quorum: Quorum) -> None:
    def repeated() -> bool:
        event = polled(moved_ms)
        quorum.now_ms += 700
        return quorum.quiet.is_quiet_poll(event, quorum.now_ms, changed=False)

    moved_ms = quorum.now_ms
    assert not any([repeated(), repeated()])
    assert quorum.poll(), "1.4 s are no disturbance"

    moved_ms = quorum.now_ms
    assert not any([repeated(), repeated(), repeated()])
    assert not quorum.seconds(count=CALM_MS // 1_000 - 1), "2.1 s are one"
    assert quorum.seconds(count=3)


def test_records_and_gaps_are_not_quiet_but_the_noops_behind_them_are(quorum: Quorum) -> None:
    records = RedactedBatches(content=b"x", has_records=True, endpoints=())
    assert not quorum.fetch(batches=records)
    assert quorum.fetch()

    assert not quorum.fetch(noops(quorum.offset + 10)), "a gap"
    quorum.offset += 9
    assert not quorum.fetch(noops(quorum.offset + 1, high_watermark=quorum.offset + 9)), "not read to the end"
    assert not quorum.fetch(), "it makes the records before it visible"
    assert quorum.fetch()


def test_new_snapshot_of_the_leader_is_not_quiet(quorum: Quorum) -> None:
    def log(end: int) -> LeaderLog:
        snapshot = Snapshot(end_offset=Offset(end), epoch=Epoch(1), last_contained_timestamp_ms=None)
        return LeaderLog(start_offset=Offset(0), snapshot=snapshot, tells_absence=True, begins_timestamp_ms=None)

    quiet = [quorum.quiet.is_quiet_view(view(log=log(end)), quorum.now_ms, changed=False) for end in (5, 5, 9, 9)]

    assert quiet == [False, True, False, True]


@pytest.mark.parametrize(
    ("clusters", "turns", "pause_s"), [(0, 1, 0), (1, 1, 0), (250, 1, 0), (251, 2, 0.251), (1_000, 4, 1), (9_000, 4, 1)]
)
def test_pace_follows_the_number_of_clusters(clusters: int, turns: int, pause_s: float) -> None:
    assert (turns_of(clusters), fetch_pause_s(clusters)) == (turns, pause_s)
