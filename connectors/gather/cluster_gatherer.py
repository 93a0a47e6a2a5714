"""A watch: one cluster looked at in the four ways there are, each fenced so that its fault ends no other."""

from connectors.cluster_connection import Cluster
from connectors.event import Audited, ObservationFailed
from connectors.gather.commit_buffer import Resume
from connectors.gather.endpoint_probe import Probe
from connectors.gather.leader_view_poll import Views
from connectors.gather.log_follower import Follower
from connectors.gather.node_directory import Learned, Whereabouts
from connectors.gather.observation_writer import Rows, wall_ms
from connectors.gather.publisher import Recording
from connectors.gather.quorum_poll import QuorumPoll
from connectors.gather.supervisor import fenced
from connectors.kafka.client import Address, Client
from connectors.kafka.event_loop import Loop
from connectors.kafka.rate_limiter import Budget
from connectors.kafka.resolver import Resolver
from rules.model.monitoring import ObservationSource, Reason


class Watch:
    """One cluster's follower, poll, probe and views on one loop; `start` begins, the client's `close` ends."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        loop: Loop,
        recording: Recording,
        budget: Budget,
        start: Resume,
        last_seen_ms: int | None,
        learned: Learned,
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self._resolver = Resolver(loop, resolve=cluster.resolve, hosts_file=cluster.hosts_file)
        self.client = Client(loop, cluster, resolver=self._resolver, budget=budget)
        configured = tuple(Address(host, port) for host, port in cluster.bootstrap)
        self._where = Whereabouts(configured=configured, cluster_id=cluster.cluster_id, learned=learned)
        self._rows = Rows(cluster.name, recording, self._where, not_before_ms=last_seen_ms or 0)
        self._last_seen_ms = last_seen_ms
        self._position = start
        self._follower: Follower | None = None
        self._quorum_poll: QuorumPoll | None = None

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster.name

    @property
    def learned(self) -> Learned:
        """What a gatherer that starts again must know of this cluster."""
        return self._where.learned

    def wish(self, seconds: float) -> None:
        """Poll once more, so many seconds from now."""
        if self._quorum_poll is not None:
            self._quorum_poll.wish(seconds)

    def audited(self, event: Audited) -> None:
        """Record what an audit found."""
        self._rows.audited(event)

    def start(self) -> None:
        """Begin to look."""
        if self._last_seen_ms is not None:
            blind_ms = max(0, wall_ms() - self._last_seen_ms)
            detail = f"nobody was looking for {blind_ms} ms: the gatherer was started again"
            self._rows.unseen(
                ObservationFailed(sight=ObservationSource.LOG, endpoint="", reason=Reason.INTERRUPTED, detail=detail)
            )
        ways = (
            (ObservationSource.LOG, self._follow),
            (ObservationSource.QUORUM, self._poll),
            (ObservationSource.PROBE, self._probe),
            (ObservationSource.VIEW, self._view),
        )
        for sight, run in ways:
            if sight is not ObservationSource.QUORUM and not self._cluster.log:
                continue
            self._loop.spawn(fenced(self._loop, self._cluster.name, sight, self._rows, run))

    async def _follow(self) -> None:
        if self._follower is not None:
            self._position = self._follower.position
        self._follower = Follower(self._loop, self.client, self._where, self._rows, start=self._position)
        await self._follower.run()

    async def _poll(self) -> None:
        interval_ms = self._cluster.poll_interval_ms
        self._quorum_poll = QuorumPoll(self._loop, self.client, self._where, self._rows, interval_ms=interval_ms)
        await self._quorum_poll.run()

    async def _probe(self) -> None:
        await Probe(
            self._loop,
            self.client,
            self._where,
            self._rows,
            resolver=self._resolver,
            interval_ms=self._cluster.probe_interval_ms,
            timeout_ms=self._cluster.request_timeout_ms,
        ).run()

    async def _view(self) -> None:
        interval_ms = self._cluster.view_interval_ms
        await Views(self._loop, self.client, self._where, self._rows, interval_ms=interval_ms).run()
