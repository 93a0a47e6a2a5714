"""QuietObservations: which observations of a cluster only repeat that it is healthy.

Their rows may wait before they are published (`held_rows`).

An observation is quiet if nothing moved in it but what moves while nothing happens: offsets, and times that are as
recent as the interval of the polls. The decision is conservative: what is not known to be quiet is not quiet, and after
anything else a cluster is not quiet for CALM_MS, longer than any observation of it stays current by default.
"""

from typing import Final

from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.redacted_batches import RedactedBatches
from connectors.observation_event import EndpointProbed, LeaderViewPolled, QuorumPolled
from rules.model.identifiers import NodeId
from rules.model.monitoring import Answer, Connection, LeaderLog
from rules.model.poll import Replica

CALM_MS: Final = 30_000
"""How long nothing but quiet observations and ordinary records must have been made (`rules.analysis.freshness`)."""
_RECENT_MS: Final = 2_000
"""A replica fetched and caught up so recently: Kafka's replicas fetch every 500 ms, also if nothing is written."""


class QuietObservations:
    """The newest observations of one cluster, with which the next ones are compared."""

    def __init__(self) -> None:
        self._disturbed_ms: int | None = None
        """When the newest observation was made that was not quiet; None before the first observation."""
        self._poll: QuorumPolled | None = None
        self._moved_ms: int | None = None
        """When a poll last reported another high watermark than the poll before."""
        self._leader_logs: dict[str, LeaderLog | None] = {}
        """The newest by endpoint."""
        self._records: tuple[int, int, bool] | None = None
        """Leader epoch and last offset of the newest records, and whether they reach the high watermark."""

    def disturbed(self, at_ms: int) -> None:
        """Records an observation that is not quiet: a failure, or a change."""
        self._disturbed_ms = at_ms

    def is_quiet_poll(self, event: QuorumPolled, at_ms: int, *, changed: bool) -> bool:
        """Returns whether leader and members are the same, and all replicas follow the growing log.

        A poll that finds the same high watermark is not quiet, but disturbs only if it has been the same for a time.
        """
        before, self._poll = self._poll, event
        if changed or before is None or before.high_watermark is None or event.high_watermark is None:
            self.disturbed(at_ms)
            return False
        if event.high_watermark == before.high_watermark:
            # Two polls may lie between two NoOps, or a busy controller writes one late.
            if self._moved_ms is None or at_ms - self._moved_ms > _RECENT_MS:
                self.disturbed(at_ms)
            return False
        self._moved_ms = at_ms
        if not _all_follow(event, before):
            self.disturbed(at_ms)
        return self._is_calm(at_ms)

    def is_quiet_view(self, event: LeaderViewPolled, at_ms: int, *, changed: bool) -> bool:
        """Returns whether a controller reports the polled leader as before, and the leader's log begins as before."""
        poll = self._poll
        leader = None if poll is None else (poll.leader_id, poll.leader_epoch)
        if changed or not event.this_cluster or (event.leader_id, event.leader_epoch) != leader:
            self.disturbed(at_ms)
        known = event.endpoint in self._leader_logs and self._leader_logs[event.endpoint] == event.log
        self._leader_logs[event.endpoint] = event.log
        return known and self._is_calm(at_ms)

    def is_quiet_probe(self, event: EndpointProbed, at_ms: int, *, changed: bool) -> bool:
        """Returns whether an endpoint is served by its node, as before."""
        serves = event.connection is Connection.ACCEPTED and event.answer is Answer.THIS_CLUSTER
        if changed or not serves or event.answered_by != event.node:
            self.disturbed(at_ms)
        return self._is_calm(at_ms)

    def are_quiet_records(self, records: CommittedRecords, batches: RedactedBatches, at_ms: int) -> bool:
        """Returns whether NoOps, and nothing else, follow the newest records up to the high watermark."""
        is_current = records.high_watermark == records.last_offset + 1
        before, self._records = self._records, (records.leader_epoch, records.last_offset, is_current)
        if batches.endpoints:
            self.disturbed(at_ms)
        return (
            not batches.has_records
            and records.last_offset >= records.base_offset
            # Rules see records once the log is read to the high watermark: those before must have been seen already.
            and before == (records.leader_epoch, records.base_offset - 1, True)
            and is_current
            and self._is_calm(at_ms)
        )

    def _is_calm(self, at_ms: int) -> bool:
        if self._disturbed_ms is None:
            self._disturbed_ms = at_ms
        return at_ms - self._disturbed_ms >= CALM_MS


def _all_follow(event: QuorumPolled, before: QuorumPolled) -> bool:
    """Returns whether the high watermark grew, and all but the leader fetched and caught up since the poll before."""
    if (event.high_watermark or 0) <= (before.high_watermark or 0):
        return False
    leader = next((each for each in event.voters if each.key.id == event.leader_id), None)
    if leader is None or leader.last_fetch_ms is None:
        return False
    earlier = {each.key: each for each in (*before.voters, *before.observers)}
    return all(
        _follows(each, earlier.get(each.key), leader.last_fetch_ms, event.leader_id)
        for each in (*event.voters, *event.observers)
    )


def _follows(replica: Replica, before: Replica | None, now_ms: int, leader: NodeId) -> bool:
    if replica.key.id == leader:
        return True
    if before is None or replica.log_end_offset is None or before.log_end_offset is None:
        return False
    times = (replica.last_fetch_ms, before.last_fetch_ms), (replica.last_caught_up_ms, before.last_caught_up_ms)
    return replica.log_end_offset > before.log_end_offset and all(
        time is not None and earlier is not None and time > earlier and now_ms - time <= _RECENT_MS
        for time, earlier in times
    )
