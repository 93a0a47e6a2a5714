"""The quorum poll: DescribeQuorum once an interval (KIP-595, KIP-836, KIP-853), on a connection of its own.

It carries the clock of its cluster: a row comes each interval, also when everything fails. Only the leader
answers (a broker asks it for us); when nobody does, every known address is asked and each gets its own reason.
"""

from collections.abc import Mapping

from connectors.errors import UnseenError
from connectors.event import ObservationFailed, QuorumPolled
from connectors.gather.node_directory import Whereabouts
from connectors.gather.observation_output import Output
from connectors.kafka.client import Address, Client
from connectors.kafka.cluster_id_lookup import ask_cluster
from connectors.kafka.concurrent_query import Sweep
from connectors.kafka.event_loop import Loop
from connectors.kafka.interruptible_sleep import Rest
from connectors.kafka.messages import describe_quorum, quorum_described
from rules.model.monitoring import ObservationSource, Reason

_FIRST_SHARE = 0.5
"""Of the interval that the leader alone may take before the others are asked too."""
_PER_CANDIDATE_S = 0.15
_IDENTIFY_AGAIN_S = 60.0


class QuorumPoll:
    """Polls one cluster. `run` ends only by an exception, and may then be run again."""

    def __init__(self, loop: Loop, client: Client, where: Whereabouts, output: Output, *, interval_ms: int) -> None:
        self._loop = loop
        self._client = client
        self._where = where
        self._output = output
        self._interval_s = interval_ms / 1000
        self._answers: Address | None = None
        """Who answered last."""
        self._taken_at = 0.0
        """When: what was asked before may be older, and told after it a high watermark would go back."""
        self._rest = Rest(loop)
        self._sweep: Sweep[QuorumPolled] = Sweep(loop, self._ask)
        self._identify_at = 0.0
        self._everyone_at = 0.0
        self._last: dict[Address, QuorumPolled | UnseenError] = {}
        """What the newest round in vain gave: said again when no round is due yet, for the clock's sake."""

    def wish(self, seconds: float) -> None:
        """Poll once more, so many seconds from now, if no poll is due anyway within that time."""
        self._rest.cut(seconds)

    async def run(self) -> None:
        """Poll until cancelled.

        Raises:
            Exception: a fault of ours; nothing that a cluster does.
        """
        due = self._loop.now()
        while True:
            await self._poll()
            due = max(due + self._interval_s, self._loop.now())
            while due > self._loop.now() and await self._rest.until(due):
                await self._poll()

    async def _poll(self) -> None:
        started = self._loop.now()
        first = [one for one in dict.fromkeys((self._where.leader, self._answers)) if one is not None][:1]
        verdicts: dict[Address, QuorumPolled | UnseenError] = {}
        if first:
            verdicts = await self._round(first, self._interval_s * _FIRST_SHARE)
        if not _answered(verdicts):
            others = [one for one in self._where.candidates() if one not in first]
            if others and started >= self._everyone_at:
                self._everyone_at = started + _PER_CANDIDATE_S * len(others)
                left = self._interval_s - (self._loop.now() - started)
                verdicts |= await self._round(others, left)
        answered = _answered(verdicts)
        if answered is not None:
            self._answers, polled = answered
            self._taken_at = self._loop.now()
            self._where.learn(polled)
            self._output.polled(polled)
            return
        self._last = verdicts or self._last
        for address, verdict in self._last.items():
            if isinstance(verdict, UnseenError):
                self._output.unseen(
                    ObservationFailed(
                        sight=ObservationSource.QUORUM,
                        endpoint=str(address),
                        reason=verdict.reason,
                        detail=verdict.detail,
                    )
                )

    async def _round(self, addresses: list[Address], seconds: float) -> dict[Address, QuorumPolled | UnseenError]:
        return await self._sweep.round(addresses, seconds=seconds, good=lambda _: True, since=self._taken_at)

    async def _ask(self, address: Address) -> QuorumPolled:
        if self._where.cluster_id is None and self._loop.now() >= self._identify_at:
            try:
                self._where.cluster_id = (await ask_cluster(self._client, address)).cluster_id
            except UnseenError as problem:
                if problem.reason in (Reason.DENIED, Reason.UNSUPPORTED):
                    self._identify_at = self._loop.now() + _IDENTIFY_AGAIN_S
        answer = await self._client.ask(address, describe_quorum(), lane=ObservationSource.QUORUM)
        return quorum_described(answer, cluster_id=self._where.cluster_id, address=address)


def _answered(verdicts: Mapping[Address, QuorumPolled | UnseenError]) -> tuple[Address, QuorumPolled] | None:
    found = ((address, verdict) for address, verdict in verdicts.items() if isinstance(verdict, QuorumPolled))
    return max(found, key=lambda one: one[1].leader_epoch, default=None)
