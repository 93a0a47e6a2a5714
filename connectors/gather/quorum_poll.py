"""The quorum poll: sends DescribeQuorum once per interval (KIP-595, KIP-836, KIP-853), on its own connection.

Evaluation depends on its rows as a clock: it writes a row each interval, also if every request fails. Only the leader
answers (a broker forwards the request to the leader). If no leader answers, every known address is queried and each
failure is recorded with its own reason.

In the first day in which a voter of a static quorum does not fetch, the leader is asked six times as often. Such a
voter has no directory id: one that comes back with an empty log is seen only by the end of its log, until it has
fetched all records again, which takes a fifth of a second if they are few. These answers are written only if a log
fell.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace

from connectors.errors import ObservationError
from connectors.gather.node_directory import OTHER_QUORUM, NodeDirectory
from connectors.gather.observation_writer import ObservationWriter, failure
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address
from connectors.kafka.cluster_id_lookup import query_cluster
from connectors.kafka.concurrent_query import ConcurrentQuery
from connectors.kafka.messages import describe_quorum_request, parse_describe_quorum
from rules.facts.following import fetch_age_ms
from rules.model.identifiers import NodeId, Offset
from rules.model.monitoring import ObservationSource, Reason
from rules.model.replica import Poll

_LEADER_SHARE = 0.5
"""Share of the interval that the leader has to answer before the other addresses are queried."""
_LATE_SHARE = 0.25
_PER_CANDIDATE_S = 0.15
_IDENTIFY_RETRY_S = 60.0
_GLANCES, _GLANCE_S = 6, 86_400.0
"""How many requests an interval has while a voter of a static quorum does not fetch, and for how long."""
_ABSENT_MS = 3_000
"""A voter that fetches does it twice a second."""
_NO_VIEWS_S = 60.0
"""So long after the last answer of the followed quorum, and of any controller's view of the leader, another quorum is
followed. Where views are answered they decide, but they need CLUSTER_ACTION."""


class QuorumPoll:
    """Polls one cluster. `run` ends only because of a bug, and can then be called again."""

    def __init__(
        self, client: Client, nodes: NodeDirectory, output: ObservationWriter, *, interval_ms: int = 1_000
    ) -> None:
        self._loop = client.loop
        self._client = client
        self._nodes = nodes
        self._output = output
        self._interval_s = interval_ms / 1000
        self._last_responder: Address | None = None
        """The address that answered last."""
        self._began_at = client.loop.now()
        self._answered_at = 0.0
        """Time of the last answer. Answers to earlier requests are discarded: their high watermark may be older."""
        self._is_polling = False
        self._requested: asyncio.TimerHandle | None = None
        """The timer of the requested poll."""
        self._query: ConcurrentQuery[Poll] = ConcurrentQuery(client.loop, self._poll_address)
        self._identify_at = 0.0
        self._query_all_at = 0.0
        self._last_results: dict[Address, Poll | ObservationError] = {}
        """Results of the last round without an answer, written again in intervals in which no round is due."""
        self._log_ends: dict[NodeId, Offset] = {}
        """Where the logs of the voters of a static quorum ended last."""
        self._absent_since: float | None = None
        """Since when one of them does not fetch; None if all do."""
        self._glance_task: asyncio.Task[None] | None = None

    def poll_in(self, seconds: float) -> None:
        """Polls once more this many seconds from now, instead of at the time of the request before."""
        if self._requested is not None:
            self._requested.cancel()
        self._requested = self._loop.call_later(seconds, lambda: self._loop.spawn(self._poll_alone()))

    async def run(self) -> None:
        """Polls until cancelled."""
        due = self._loop.now()
        while True:
            await self._poll_alone()
            due = self._next_due(due)
            await self._glance_until(due)
            await self._loop.sleep(due - self._loop.now())

    async def _poll_alone(self) -> None:
        # A poll that is under way writes its row soon.
        if not self._is_polling:
            self._is_polling = True
            try:
                await self._poll()
            finally:
                self._is_polling = False

    async def _glance_until(self, due: float) -> None:
        """Asks the leader out of turn until the next poll is due, while a voter of a static quorum does not fetch."""
        pause = self._interval_s / _GLANCES
        while self._glances and due - self._loop.now() > 1.5 * pause:
            await self._loop.sleep(pause)
            if self._glance_task is None or self._glance_task.done():
                self._glance_task = self._loop.spawn(self._glance())

    @property
    def _glances(self) -> bool:
        return self._absent_since is not None and self._loop.now() - self._absent_since <= _GLANCE_S

    async def _glance(self) -> None:
        """Writes the leader's answer if the log of a voter ends before where it ended last."""
        address, sent_at = self._last_responder, self._loop.now()
        if address is None:
            return
        try:
            polled = self._of_this_quorum(address, await self._poll_address(address))
        except ObservationError:
            # The next poll records it.
            return
        if sent_at >= self._answered_at and isinstance(polled, Poll) and self._log_fell(polled):
            self._write(address, polled)

    def _log_fell(self, polled: Poll) -> bool:
        ends = ((row.log_end_offset, self._log_ends.get(row.key.id)) for row in polled.voters)
        return any(end is not None and known is not None and end < known for end, known in ends)

    def _next_due(self, due: float) -> float:
        """Returns when the poll after the one of `due` is due. A late poll does not move those that follow.

        After a delay all clusters of the process would otherwise be polled at the same moment, from then on: polls
        that are late by more than a quarter of the interval are left out.
        """
        due += self._interval_s
        late = (self._loop.now() - due) / self._interval_s
        return due if late <= _LATE_SHARE else due + math.ceil(late + 0.5) * self._interval_s

    async def _poll(self) -> None:
        """Writes an answer, or the failures."""
        started = self._loop.now()
        if self._nodes.others and started - max(self._began_at, self._answered_at, self._nodes.views_at) > _NO_VIEWS_S:
            self._nodes.gather_another_quorum()
        first = [
            fromkey for fromkey in dict.fromkeys((self._nodes.leader, self._last_responder)) if fromkey is not None
        ][:1]
        results: dict[Address, Poll | ObservationError] = {}
        if first:
            results = await self._round(first, self._interval_s * _LEADER_SHARE)
        if not _newest_answer(results):
            others = [candidate for candidate in self._nodes.candidates() if candidate not in first]
            if others and started >= self._query_all_at:
                self._query_all_at = started + _PER_CANDIDATE_S * len(others)
                results |= await self._round(others, started + self._interval_s - self._loop.now())
        newest = _newest_answer(results)
        if newest is not None:
            self._write(*newest)
            return
        self._absent_since = None
        self._last_results = results or self._last_results
        for address, result in self._last_results.items():
            if isinstance(result, ObservationError):
                self._client.ask_another(ObservationSource.QUORUM, address)
                node = self._nodes.node_at(address)
                self._output.write_failure(failure(ObservationSource.QUORUM, address, result, node=node))

    def _write(self, address: Address, polled: Poll) -> None:
        self._last_responder, self._answered_at = address, self._loop.now()
        self._nodes.update_from_event(polled)
        self._output.write_poll(polled)
        leader = polled.leader
        followers = [row for row in polled.voters if row.key.directory_id is None and row is not leader]
        known = ((row.key.id, row.log_end_offset) for row in followers)
        ends = ((node, self._log_ends.get(node) if end is None else end) for node, end in known)
        self._log_ends = {node: end for node, end in ends if end is not None}
        ages = [fetch_age_ms(polled, row) for row in followers]
        # Before Kafka 3.3 no answer says when a replica fetched.
        timed = leader is not None and leader.last_fetch_ms is not None
        absent = timed and any(age is None or age > _ABSENT_MS for age in ages)
        if absent != (self._absent_since is not None):
            self._absent_since = self._loop.now() if absent else None

    async def _round(self, addresses: list[Address], seconds: float) -> dict[Address, Poll | ObservationError]:
        results = await self._query.query(addresses, timeout_s=seconds, accept=lambda _: True, since=self._answered_at)
        return {address: self._of_this_quorum(address, result) for address, result in results.items()}

    def _of_this_quorum(self, address: Address, result: Poll | ObservationError) -> Poll | ObservationError:
        if not isinstance(result, Poll) or self._nodes.leads_this_quorum(address, result):
            return result
        return ObservationError(Reason.WRONG_CLUSTER, OTHER_QUORUM)

    async def _poll_address(self, address: Address) -> Poll:
        if self._nodes.cluster_id is None and self._loop.now() >= self._identify_at:
            try:
                self._nodes.cluster_id = (await query_cluster(self._client, address)).cluster_id
            except ObservationError as problem:
                if problem.reason in (Reason.DENIED, Reason.UNSUPPORTED):
                    self._identify_at = self._loop.now() + _IDENTIFY_RETRY_S
        sent_at = self._loop.now()
        response = await self._client.send(address, describe_quorum_request(), source=ObservationSource.QUORUM)
        answer_ms = round((self._loop.now() - sent_at) * 1000)
        polled = parse_describe_quorum(response, cluster_id=self._nodes.cluster_id, address=address)
        return replace(polled, answer_ms=answer_ms)


def _newest_answer(results: Mapping[Address, Poll | ObservationError]) -> tuple[Address, Poll] | None:
    answers = ((address, result) for address, result in results.items() if isinstance(result, Poll))
    return max(answers, key=lambda one: one[1].leader_epoch, default=None)
