"""A view: one cluster's machine while it is looked at, and whether more is to be expected."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from connectors.cluster_connection import Cluster
from connectors.decode_observation import events_of
from connectors.gather.cluster_gatherer import Watch
from connectors.gather.commit_buffer import Resume
from connectors.gather.log_follower import START
from connectors.gather.node_directory import Learned
from connectors.gather.observation_writer import wall_ms
from connectors.gather.publisher import Recording
from connectors.kafka.event_loop import Loop
from connectors.kafka.rate_limiter import Budget
from connectors.observation import Observation
from rules.analysis.freshness import leaderless
from rules.evaluate import evaluate, thresholds_for
from rules.finding import Evaluation, Thresholds
from rules.model.identifiers import Millis, host_and_port
from rules.model.monitoring import PLAINTEXT, Access, Vantage, probe_key
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.cluster_state import Glimpse
from streaming.status.from_journal import Recorded

_LEADERLESS_MS = 5_000
"""An election takes one or two seconds: the default hold of `no-leader`."""
_DECIDE_MS = 4_000
"""How long to go on for a rule that cannot tell although everything was seen once."""
_MOVES_MS = 2_000
"""A log that was not read any further for this long is not being read."""
_KEPT = 1_000
"""Failed looks that are kept while nobody answers: some minutes of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One cluster to look at."""

    cluster: Cluster
    vantage: Vantage = Vantage.INSIDE
    access: Access = PLAINTEXT
    recorded: Recorded | None = None
    """What a journal told of it: where to go on, and what to show when nobody answers."""
    recall: Callable[[], Recorded | None] = lambda: None
    """Reads what was recorded of it, once nobody answered and there is no `recorded`; None: nothing was."""
    thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}))
    """By rule id."""


class View:
    """One cluster's machine while it is looked at. Not for use by several threads."""

    def __init__(self, target: Target) -> None:
        self.name = target.cluster.name
        self._cluster = target.cluster
        self._recorded = target.recorded
        self._recall = target.recall
        self._unanswered: deque[Observation] | None = deque(maxlen=_KEPT)
        """What was seen while nobody answered: it is as true of a state that is recalled."""
        self._thresholds = target.thresholds
        self._machine, self._fallback = _machines(target)
        # Rows are never earlier than the newest recorded one, should the clock have been set back since.
        self._since_ms = Millis(max(wall_ms(), self._recorded.newest_ms if self._recorded else 0))
        self._complete_at_ms: Millis | None = None
        self._judged: tuple[int, Evaluation] | None = None
        self._read_at_ms = self._since_ms
        self._position = self._machine.log.position

    def watch(self, loop: Loop, recording: Recording) -> Watch:
        """Who looks; it goes on where the recorded state ends, if there is one."""
        log, before = self._machine.log, self._recorded
        goes_on = before is not None and self._fallback is None
        return Watch(
            self._cluster,
            loop=loop,
            recording=recording,
            budget=Budget(),
            start=Resume(offset=log.position + 1, epoch=log.epoch) if goes_on else START,
            last_seen_ms=before.newest_ms if before is not None and goes_on else None,
            learned=before.learned if before is not None else Learned(),
        )

    def apply(self, row: Observation) -> None:
        """Take in one row, as it comes."""
        machine = self._machine
        at_ms = Millis(row.observed_at_ms)
        machine.apply(events_of(row).events(), sequence=machine.sequence + 1, observed_at_ms=at_ms)
        if self._fallback is not None:
            self._fallback.apply(events_of(row).events(), sequence=self._fallback.sequence + 1, observed_at_ms=at_ms)
        elif self._unanswered is not None:
            self._unanswered.append(row)
        if machine.log.position != self._position or machine.loading is not None:
            self._position, self._read_at_ms = machine.log.position, at_ms

    @property
    def reading(self) -> bool:
        """The log is behind its high watermark, and moves."""
        machine = self._machine
        return machine.behind and machine.now_ms - self._read_at_ms < _MOVES_MS

    def settled(self) -> bool:
        """Nothing more is to be expected."""
        quorum = self._machine.quorum()
        if self.missing():
            self._complete_at_ms = None
            nobody = leaderless(quorum)
            # All failures at once may be a reconnection; the oldest says for how long.
            return nobody is not None and quorum.now_ms - self._leaderless_since(quorum) >= _LEADERLESS_MS
        if self._complete_at_ms is None:
            self._complete_at_ms = quorum.now_ms
        return not self._judgement().unknown or quorum.now_ms - self._complete_at_ms >= _DECIDE_MS

    def missing(self) -> tuple[str, ...]:
        """What is wished for and has not come, in words."""
        return tuple(self._missing())

    def glimpse(self) -> Glimpse:
        """What is known now."""
        unanswered = self._machine.log_seen_at_ms is None and self._machine.polls.newest is None
        if unanswered and self._recorded is None:
            self._recalled()
        if unanswered and self._fallback is not None:
            quorum = self._fallback.quorum()
            evaluation = evaluate(quorum, self._thresholds)
        else:
            quorum, evaluation = self._machine.quorum(), self._judgement()
        return Glimpse(
            quorum=quorum,
            evaluation=evaluation,
            thresholds=self._thresholds,
            taken_at_ms=Millis(wall_ms()),
            looked_since_ms=self._since_ms,
            recorded_at_ms=self._recorded.newest_ms if self._recorded else None,
            missing=self.missing(),
        )

    def _recalled(self) -> None:
        """Fetch what was recorded, once, and bring it up to what was seen since this look began."""
        rows, self._unanswered = self._unanswered, None
        before = None if rows is None else self._recall()
        if before is None or rows is None:
            return
        self._recorded, self._fallback = before, before.machine
        for row in rows:
            sequence = self._fallback.sequence + 1
            self._fallback.apply(events_of(row).events(), sequence=sequence, observed_at_ms=Millis(row.observed_at_ms))

    def _missing(self) -> Iterable[str]:
        quorum, log = self._machine.quorum(), self._cluster.log
        if log:
            yield from self._unread(quorum)
        if quorum.poll is None or quorum.poll.observed_at_ms < self._since_ms:
            yield "DescribeQuorum was not answered"
        for voter in quorum.committed.voters if quorum.committed and log else ():
            probe = quorum.probes.get(probe_key(voter.key.id, voter.endpoints[0])) if voter.endpoints else None
            if voter.endpoints and (probe is None or probe.observed_at_ms < self._since_ms):
                yield f"voter {voter.key.id}'s endpoint {voter.endpoints[0]} was not probed"

    def _unread(self, quorum: Quorum) -> Iterable[str]:
        machine = self._machine
        if quorum.log_seen_at_ms is None or quorum.log_seen_at_ms < self._since_ms:
            yield "the metadata log was not answered"
        elif machine.behind or quorum.last_offset is None:
            yield f"the metadata log is read up to offset {machine.log.position} of {quorum.high_watermark}"

    def _leaderless_since(self, quorum: Quorum) -> Millis:
        first = min(failure.first_at_ms for failure in quorum.failures)
        return max(first, self._since_ms)

    def _judgement(self) -> Evaluation:
        if self._judged is None or self._judged[0] != self._machine.sequence:
            self._judged = (self._machine.sequence, evaluate(self._machine.quorum(), self._thresholds))
        return self._judged[1]


def _machines(target: Target) -> tuple[Machine, Machine | None]:
    """The machine to go on with, and the recorded one where it does not reach back far enough to be gone on with."""
    before = target.recorded
    if before is not None and before.whole:
        return before.machine, None
    bootstrap = tuple(host_and_port(host, port) for host, port in target.cluster.bootstrap)
    new = Machine(target.cluster.name, target.cluster.cluster_id, bootstrap, target.vantage)
    new.access = target.access
    return new, None if before is None else before.machine
