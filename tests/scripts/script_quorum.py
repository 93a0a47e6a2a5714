"""A simulated KRaft quorum that produces the rows of a gatherer, second by second, without a network.

It behaves as Kafka does where the monitor observes it: a NoOp record every half second; an election one to two seconds
after the leader fails; a new leader that answers before the others have fetched from it; an observer that stops
fetching is listed for 300 s; a controller that moved updates its voter endpoint five seconds after it is back and finds
a leader. It knows nothing of rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field, replace

from connectors.observations.log_event import LogAdvanced, VotersReplaced
from connectors.observations.observation import Event
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter
from rules.model.monitoring import (
    ConnectionResult,
    FailedObservation,
    LeaderLog,
    LeaderView,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
    Snapshot,
)
from rules.model.replica import Poll, Replica
from streaming.replay.decoded_row import DecodedRow
from tests.commands import Commands, Milliseconds, Words, numbers
from tests.quiet_rows import RowUrgency
from tests.record_image import snapshot
from tests.scripts.log_script import LogScript, supporting

START = Millis(1_700_000_000_000)
LEADER_CLOCK_OFFSET_MS = 43_456
"""How far each leader's clock is ahead of the monitor's, so that a test fails if the two clocks are mixed."""
SECOND = 1_000
quorum_command: Commands["ScriptedQuorum"] = Commands("a script: what happens to a simulated quorum")
PROTOCOLS = {"CONTROLLER": "PLAINTEXT", "CONTROLLER_SSL": "SSL"}
"""The listeners that a controller may have, at consecutive ports."""


@dataclass
class ScriptedNode:
    """A controller or broker process, and where it can be reached."""

    id: int
    directory: str
    host: str
    port: int
    up: bool = True
    listens: bool = False
    """It accepts connections while it is not up: it ends before it registers."""
    broker: bool = False
    stopped_at_ms: int | None = None
    end_offset: int = 0
    regressed_until_ms: int | None = None
    """Its log was restored from an older copy; it has caught up at this time."""
    update_due_ms: int | None = None
    late_ms: int = 0
    """It fetches, and lags by so much, since this time and offset."""
    late_since_ms: int = 0
    late_from: int = 0
    cut_off: bool = False
    """It runs and answers the monitor, but hears none of the other controllers."""
    supports: int = 27
    """The highest metadata.version it supports."""
    epoch: int = 0
    """The newest epoch it heard of."""
    incarnation: str = ""
    """The incarnation id with which it last registered."""
    standalone: bool = False
    """It leads a quorum of its own, with the same cluster id."""
    listeners: tuple[str, ...] = ("CONTROLLER",)
    """Of a controller; the first one is that of Raft."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens now, first of all."""
        return self.endpoints[0]

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where it listens now. The protocols are known once it has another listener than at the beginning."""
        if self.broker:
            return (Endpoint(listener="PLAINTEXT", host=self.host, port=self.port),)
        protocols = {} if self.listeners == ("CONTROLLER",) else PROTOCOLS
        ports = {name: self.port + at for at, name in enumerate(PROTOCOLS)}
        return tuple(
            Endpoint(listener=name, host=self.host, port=ports[name], protocol=protocols.get(name))
            for name in self.listeners
        )

    @property
    def key(self) -> ReplicaKey:
        """Its node id and its current directory id."""
        return ReplicaKey(id=NodeId(self.id), directory_id=DirectoryId(self.directory))


@dataclass
class StoppedReplica:
    """A replica that is still listed and no longer fetches."""

    end_offset: int
    at_ms: int


@dataclass
class ScriptedQuorum:
    """The simulated quorum and the rows that its gatherer records."""

    start_ms: InitVar[int] = START
    _log: LogScript = field(init=False)
    leader: int | None = None
    election_due_ms: int | None = None
    elected_at_ms: int | None = None
    """When the newest leader was elected: it does not know yet when the others fetched."""
    voters: dict[int, Voter] = field(default_factory=dict)
    nodes: dict[int, ScriptedNode] = field(default_factory=dict)
    stopped: dict[ReplicaKey, StoppedReplica] = field(default_factory=dict)
    isr: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    names_unresolvable: bool = False
    resolver_fails: bool = False
    """The resolver of the monitor's host answers nothing; connections that are open go on."""
    lost_hosts: set[int] = field(default_factory=set)
    """Controllers whose host name does not resolve, while the others' do."""
    refusing: set[tuple[int, Endpoint]] = field(default_factory=set)
    """The endpoints whose newest probe was refused, with their nodes: they are tried again at once."""
    observations_fail: Reason | None = None
    """The reason for which every observation fails; None: they succeed."""
    log_denied: bool = False
    """Only DESCRIBE is allowed: polls are answered, Fetch is denied."""
    domain: str = "test"
    """Of the host names."""
    static: bool = False
    """A static quorum (controller.quorum.voters): kraft.version 0."""
    configured: tuple[str, ...] = ()
    """HOST:PORT of each configured controller; empty: those of the first voters."""
    gatherer_down: bool = False
    snapshot_at: tuple[int, int] | None = None
    """End offset of the newest snapshot and the newest time it contains."""
    hanging: set[int] = field(default_factory=set)
    """Controllers whose event thread hangs: they append nothing, and answer."""
    unserved: dict[int, ConnectionResult] = field(default_factory=dict)
    """Controllers that answer older connections and no new ones, which they accept or drop."""
    replaced: set[int] = field(default_factory=set)
    """Controllers at whose endpoint something answers the monitor that is no Kafka node."""
    noops: bool = True
    """Whether metadata.max.idle.interval.ms is above 0."""
    log_began_ms: int = START
    """When the log began."""
    read_end: int = 0
    """The offset after the newest record that the gatherer has read."""
    snapshots: bool = True
    """Whether a snapshot is taken every hour."""
    compacted: bool = False
    """Whether the gatherer's next fetch is answered with a snapshot."""
    sequence: int = 0

    clock_ahead_ms: dict[int, int] = field(default_factory=dict)
    """How far a controller's clock is ahead of the other controllers' clocks."""
    urgency: RowUrgency = field(default_factory=RowUrgency)
    observed_ms: int = START
    """The time of a gatherer that observes in each second, whose rows are quiet as often."""
    unrecorded: dict[str, int] = field(default_factory=dict)
    """The leader that a configured address names which no node records."""
    copies: dict[int, ScriptedNode] = field(default_factory=dict)
    """A second process of a controller with the same node id: its own directory and endpoint."""

    def __post_init__(self, start_ms: int) -> None:
        self._log = LogScript(now_ms=start_ms, epoch=0)

    @property
    def records(self) -> LogScript:
        """The metadata log, with the time of the leader's clock."""
        self._log.clock_ahead_ms = LEADER_CLOCK_OFFSET_MS + self.clock_ahead_ms.get(self.leader or 0, 0)
        return self._log

    @property
    def now_ms(self) -> int:
        """The monitor's time."""
        return self._log.now_ms

    # --- commands -----------------------------------------------------------------------------------------------

    @quorum_command("voters")
    def voters_and_brokers(self, words: Words) -> None:
        """voters 1,2,3 brokers 101,102: starts a healthy quorum."""
        brokers = words.option("brokers")
        self.begin(numbers(words.word()), [] if brokers is None else numbers(brokers))

    def begin(self, voters: list[int], brokers: list[int]) -> None:
        """Starts a healthy quorum with these voters and brokers, all up."""
        for number in voters:
            self._install(number)
        self._elect()
        self.records.kraft(0 if self.static else 1)
        self.voters = {number: self._voter(number) for number in voters}
        if not self.static:
            self._write_voters()
        self.finalize(27)
        for number in voters:
            self._register(self.nodes[number])
        for number in brokers:
            self._register(self._install(number, broker=True))

    @quorum_command("static")
    def make_static(self) -> None:
        """static: the quorum is static (kraft.version 0). Before `voters`."""
        self.static = True

    @quorum_command("deny")
    def deny(self, what: str) -> None:
        """deny log, deny nothing: whether Fetch is denied; DescribeQuorum is always allowed."""
        self.log_denied = what == "log"

    @quorum_command("kill")
    def kill(self, *numbers: int) -> None:
        """kill 1 2: kills the processes. Kafka fences a broker nine seconds later; here it is fenced at once."""
        for number in numbers:
            node = self.nodes[number]
            node.up, node.stopped_at_ms = False, self.now_ms
            self.stopped[node.key] = StoppedReplica(node.end_offset, self.now_ms)
            voters = [self.nodes[number] for number in self.voters]
            voting = [one for one in voters if one.up and self.voters[one.id].key == one.key]
            if number == self.leader or len(voting) < len(self.voters) // 2 + 1:
                # A leader that hears from no majority resigns (KIP-595, check quorum).
                self.resign()
            if node.broker and self.records.is_registered(number):
                self.records.broker_change(number, fenced=True)

    @quorum_command("start")
    def start(self, *numbers: int) -> None:
        """start 1 2: starts the processes: they register, and fetch when there is a leader."""
        for number in numbers:
            node = self.nodes[number]
            node.up, node.stopped_at_ms = True, None
            self.replaced.discard(number)
            self.unserved.pop(number, None)
            self.hanging.discard(number)
            self.stopped.pop(node.key, None)
            voter = self.voters.get(number)
            if voter is not None and voter.key == node.key and voter.endpoints != node.endpoints:
                node.update_due_ms = self.now_ms + 5 * SECOND
            self._register(node)
            if self.leader is None and self.election_due_ms is None:
                self.election_due_ms = self.now_ms + 2 * SECOND

    @quorum_command("move-endpoint")
    def move_endpoint(self, number: int, address: str) -> None:
        """move-endpoint 2 HOST:PORT: stops a controller, changes its endpoint and starts it."""
        self.kill(number)
        host, _, port = address.partition(":")
        self.nodes[number].host, self.nodes[number].port = host, int(port)
        self.start(number)

    @quorum_command("listeners")
    def listen(self, number: int, listeners: str) -> None:
        """listeners 1 CONTROLLER,CONTROLLER_SSL: restarts a controller with these listeners."""
        self.kill(number)
        self.nodes[number].listeners = tuple(listeners.split(","))
        self.start(number)

    @quorum_command("make-dynamic")
    def make_dynamic(self) -> None:
        """make-dynamic: kafka-features upgrade --feature kraft.version=1: the leader writes the configured voters."""
        self.static = False
        self.records.kraft(1)
        self._write_voters()

    @quorum_command("replace-disk")
    def replace_disk(self, number: int, directory: str) -> None:
        """replace-disk 2 new: stops it, replaces its disk, formats it without initial controllers and starts it."""
        self.kill(number)
        node = self.nodes[number]
        node.directory, node.end_offset, node.standalone, node.cut_off = directory, 0, False, False
        self.start(number)

    @quorum_command("standalone")
    def make_standalone(self, number: int, directory: str) -> None:
        """standalone 3 new: formats the disk of a controller with --standalone: it leads a quorum of its own."""
        self.cut_off(number)
        node = self.nodes[number]
        node.directory, node.end_offset, node.standalone = directory, 0, True

    @quorum_command("restore-log")
    def restore_log(self, number: int, offset: int, lasts_ms: Milliseconds) -> None:
        """restore-log 2 40 20s: stops it, restores its log to an older end and starts it; it catches up within 20 s."""
        self.kill(number)
        node = self.nodes[number]
        self.start(number)
        node.end_offset, node.regressed_until_ms = offset, self.now_ms + lasts_ms

    @quorum_command("copy")
    def copy(self, number: int) -> None:
        """copy 2: starts a second process with the controller's node id, on another host and disk."""
        self.copies[number] = ScriptedNode(id=number, directory=f"copy{number}", host=f"copy{number}.test", port=9093)

    @quorum_command("end-copy")
    def end_copy(self, number: int) -> None:
        """end-copy 2: stops the second process; the first one stays registered."""
        copy = self.copies.pop(number)
        self.stopped[copy.key] = StoppedReplica(self.records.offset, self.now_ms)
        self._register(self.nodes[number], again=True)

    @quorum_command("add-observer")
    def add_observer(self, number: int) -> None:
        """add-observer 4: starts a controller that was formatted without initial controllers."""
        self._register(self._install(number))

    @quorum_command("refuse")
    def refuse(self, number: int) -> None:
        """refuse 103: starts a broker whose registration is refused: it fetches."""
        self._install(number, broker=True)

    @quorum_command("register")
    def register(self, number: int) -> None:
        """register 103: the registration is accepted now."""
        self._register(self.nodes[number])

    @quorum_command("add-controller")
    def add(self, number: int) -> None:
        """add-controller 4: it is a voter then."""
        self.voters[number] = self._voter(number)
        self._write_voters()

    @quorum_command("remove-controller")
    def remove(self, number: int) -> None:
        """remove-controller 3: it is no voter then."""
        del self.voters[number]
        self._write_voters()

    @quorum_command("cut-off")
    def cut_off(self, number: int) -> None:
        """cut-off 1: cuts a controller off from the others; it runs and answers the monitor."""
        node = self.nodes[number]
        self.kill(number)
        node.up, node.cut_off = True, True

    @quorum_command("stop-fetching")
    def stop_fetching(self, number: int) -> None:
        """stop-fetching 101: a broker's metadata fetching stops; its heartbeats go on."""
        node = self.nodes[number]
        node.cut_off = True
        self.stopped[node.key] = StoppedReplica(node.end_offset, self.now_ms)

    @quorum_command("reconnect")
    def reconnect(self, number: int) -> None:
        """reconnect 1: reconnects a controller that was cut off, or a broker that stopped fetching."""
        node = self.nodes[number]
        node.cut_off = False
        self.stopped.pop(node.key, None)

    @quorum_command("serve-no-new-connection")
    def serve_no_new_connection(self, how: str, *numbers: int) -> None:
        """serve-no-new-connection accepted 1 2: until it starts, a controller does not answer on a new connection.

        serve-no-new-connection timed-out 1: nor does it accept one.
        """
        self.unserved |= dict.fromkeys(numbers, ConnectionResult(how))

    @quorum_command("intercept")
    def intercept(self, number: int) -> None:
        """intercept 1: something that is no Kafka node answers at a controller's endpoint."""
        self.replaced.add(number)

    @quorum_command("end-intercept")
    def end_intercept(self, number: int) -> None:
        """end-intercept 1: the controller answers there again."""
        self.replaced.discard(number)

    @quorum_command("replace")
    def replace(self, number: int) -> None:
        """replace 1: kills a controller; something that is no Kafka node answers at its endpoint, until it starts."""
        self.kill(number)
        self.intercept(number)

    @quorum_command("clock")
    def set_clock(self, number: int, ahead_ms: Milliseconds) -> None:
        """clock 3 90s: the controller's clock is so far ahead of the others'."""
        self.clock_ahead_ms[number] = ahead_ms

    @quorum_command("unrecorded")
    def answer_unrecorded(self, address: str, leader: int = 0) -> None:
        """unrecorded HOST:PORT 9: a configured address that no node records names this leader; HOST:PORT: none answers.

        It is asked every minute.
        """
        self.unrecorded[address] = leader
        if not leader:
            del self.unrecorded[address]

    @quorum_command("upgrade")
    def upgrade(self, metadata_version: int, which: str) -> None:
        """upgrade 33 1,2: restarts nodes with a version that supports metadata.versions up to this."""
        for number in numbers(which):
            self.kill(number)
            self.nodes[number].supports = metadata_version
            self.start(number)

    @quorum_command("finalize")
    def finalize(self, metadata_version: int) -> None:
        """finalize 33: kafka-features upgrade."""
        self.records.feature("metadata.version", metadata_version)

    @quorum_command("behind")
    def be_late(self, which: str, lag_ms: Milliseconds) -> None:
        """behind 2,3 5s: these controllers lag by so much from now on."""
        for late in map(self.nodes.__getitem__, numbers(which)):
            late.late_ms, late.late_since_ms, late.late_from = lag_ms, self.now_ms, self.records.offset

    @quorum_command("hang-event-thread")
    def hang_event_thread(self, number: int) -> None:
        """hang-event-thread 1: that of a controller: while it is active it appends nothing, and answers."""
        self.hanging.add(number)

    @quorum_command("resign")
    def resign(self) -> None:
        """resign: the leader resigns without a restart."""
        self.leader, self.election_due_ms = None, self.now_ms + 2 * SECOND

    @quorum_command("force-voters")
    def force_voters(self, voters: str) -> None:
        """force-voters 1,2: a VotersRecord with these voters, as disaster recovery writes it."""
        self.voters = {number: self._voter(number) for number in numbers(voters)}
        self._write_voters()

    @quorum_command("noops")
    def set_noops(self, state: str) -> None:
        """noops off, noops on: whether metadata.max.idle.interval.ms is above 0."""
        self.noops = state == "on"

    @quorum_command("snapshots")
    def set_snapshots(self, state: str) -> None:
        """snapshots off, snapshots on: whether the leader takes a snapshot every hour."""
        self.snapshots = state == "on"

    @quorum_command("compact")
    def compact(self) -> None:
        """compact: deletes the part of the log that was not read; the next fetch is answered with a snapshot."""
        self.compacted = True

    @quorum_command("drop-names")
    def drop_names(self, *numbers: int) -> None:
        """drop-names, drop-names 2: the DNS names of all or of these controllers do not resolve."""
        self.names_unresolvable |= not numbers
        self.lost_hosts.update(numbers)

    @quorum_command("add-names")
    def add_names(self, *numbers: int) -> None:
        """add-names, add-names 2: they resolve again."""
        self.names_unresolvable &= bool(numbers)
        self.lost_hosts.difference_update(numbers)

    @quorum_command("resolver")
    def set_resolver(self, state: str) -> None:
        """resolver fails, resolver answers: that of the monitor's host."""
        self.resolver_fails = state == "fails"

    @quorum_command("observations")
    def set_observations(self, reason: str) -> None:
        """observations timed-out, observations succeed: every observation fails for this reason, or succeeds."""
        self.observations_fail = None if reason == "succeed" else Reason(reason)

    def topic(self, name: str, partitions: dict[int, tuple[int, ...]]) -> None:
        """Creates a topic with these replicas, all in sync."""
        self.records.topic(name)
        for number, replicas in partitions.items():
            self.isr[name, number] = replicas
            self.records.partition(name, number, *replicas)

    def change(self, name: str, number: int, isr: tuple[int, ...], *, recovering: bool | None) -> None:
        """Writes a PartitionChangeRecord: if `recovering`, an unclean election of the first replica of this ISR."""
        self.records.change(name, number, isr=isr, leader=isr[0] if recovering else None, recovering=recovering)

    def format_all_again(self) -> None:
        """Formats all voters again with the same cluster id; the brokers end, because the log is another one."""
        self._log = LogScript(now_ms=self.now_ms, epoch=0)
        self.log_began_ms, self.snapshot_at, self.read_end, self.stopped = self.now_ms, None, 0, {}
        for node in self.nodes.values():
            node.directory, node.up = f"{node.directory}again" if not node.broker else node.directory, not node.broker
        voters, self.voters = [*self.voters], {}
        self._elect()
        self.records.kraft(1)
        self.voters = {number: self._voter(number) for number in voters}
        self._write_voters()
        self.finalize(27)
        for number in voters:
            self._register(self.nodes[number])

    def lose_metadata(self, offset: int) -> None:
        """Restores the log to an older offset and elects a leader there."""
        records = self.records
        records.written = [one for one in records.written if one.at.offset < offset]  # type: ignore[union-attr]
        records.events = list(records.written)
        *_, voters = (record.voters for record in records.written if isinstance(record, VotersReplaced))
        self.voters = {voter.key.id: voter for voter in voters}
        records.offset = offset
        self._elect()

    # --- rows of the gatherer -----------------------------------------------------------------------------------

    def advance_one_second(self, *, seldom: bool = False) -> Iterator[DecodedRow]:
        """Advances the time by one second and returns the rows of the gatherer in it.

        `seldom`: it observes in every tenth second only.
        """
        self.records.now_ms += SECOND
        self._apply_timers()
        observed: list[list[Event]] = []
        if self.gatherer_down or (seldom and self.now_ms // SECOND % 10 != 0):
            return
        if self.observations_fail is not None or self.leader is None or self.leader in self.replaced:
            observed += [
                [self._failed(source, address, self.observations_fail or self._reason(source, address))]
                for address in self._candidates
                for source in (ObservationSource.LOG, ObservationSource.QUORUM)
            ]
        else:
            observed += [*self._fetch(), [self._poll()]]
        if self.observations_fail is None:
            observed += [[probe] for probe in self._probes()]
        if self.now_ms // SECOND % 10 == 0 and self.observations_fail is None and not self.log_denied:
            asked = [node for node in self.nodes.values() if node.up and not node.broker]
            observed += [[self._view(node)] for node in asked if node.id not in self.replaced]
            observed += [[self._not_kafka(self.nodes[number])] for number in sorted(self.replaced)]
        if self.now_ms // SECOND % 60 == 0:
            observed += [[self._unrecorded_view(address, leader)] for address, leader in self.unrecorded.items()]
        self.observed_ms += SECOND
        yield from map(self.row, observed)

    def row(self, events: Sequence[Event]) -> DecodedRow:
        """Returns the next row of the gatherer, which has these events."""
        self.sequence += 1
        quiet = self.urgency.is_quiet([self._as_each_second(one) for one in events], self.observed_ms)
        return DecodedRow(self.sequence, Millis(self.now_ms), events, quiet=quiet)

    def _as_each_second(self, event: Event) -> Event:
        """Returns a poll with the times of one that follows the poll before by a second: a jump is never quiet."""
        if not isinstance(event, Poll):
            return event
        left_out = self.now_ms - self.observed_ms
        voters, observers = (tuple(_earlier(row, left_out) for row in rows) for rows in (event.voters, event.observers))
        return replace(event, voters=voters, observers=observers)

    def _fetch(self) -> Iterator[list[Event]]:
        if self.log_denied:
            yield [self._failed(ObservationSource.LOG, self._address(self.leader or 0), Reason.DENIED)]
        else:
            yield from self._records()

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """HOST:PORT of each configured controller."""
        return self.configured or tuple(
            f"c{number}.{self.domain}:9093" for number in sorted(self.nodes) if not self.nodes[number].broker
        )

    @property
    def _candidates(self) -> tuple[str, ...]:
        """HOST:PORT of each controller among which the gatherer searches the leader: the configured ones first."""
        recorded = ([str(endpoint) for endpoint in voter.endpoints] for voter in self.voters.values())
        unknown = (endpoints[0] for endpoints in recorded if endpoints and not {*self.bootstrap} & {*endpoints})
        return (*self.bootstrap, *unknown)

    def _apply_timers(self) -> None:
        due = self.election_due_ms is not None and self.now_ms >= self.election_due_ms
        if self.leader is None and due and not self.names_unresolvable:
            self._elect()
        if self.leader is None:
            return
        since = START if self.snapshot_at is None else self.snapshot_at[1] - self.records.clock_ahead_ms
        if self.snapshots and self.now_ms - since >= 3600 * SECOND:
            self.snapshot_at = (self.records.offset, self.records.log_ms)
        for node in self.nodes.values():
            if node.update_due_ms is not None and self.now_ms >= node.update_due_ms:
                node.update_due_ms = None
                self.voters[node.id] = self._voter(node.id)
                self._write_voters()
        self._register_copies()
        if self._appends_noops:
            self.records.noops(2)
        for node in self.nodes.values():
            if node.regressed_until_ms is not None and self.now_ms < node.regressed_until_ms:
                continue
            if node.up and not node.cut_off:
                node.end_offset, node.epoch = self.records.offset, self.records.epoch
        self.stopped = {key: one for key, one in self.stopped.items() if self.now_ms - one.at_ms < 300 * SECOND}

    @property
    def _appends_noops(self) -> bool:
        return self.noops and self.leader not in self.hanging

    def _register_copies(self) -> None:
        """Each of two processes registers again when it reads that the other one has."""
        for number, copy in self.copies.items() if self.now_ms // SECOND % 5 == 0 else ():
            self._register((copy, self.nodes[number])[self.now_ms // SECOND // 5 % 2], again=True)

    def _elect(self) -> None:
        self.election_due_ms = None
        alive = [
            n
            for n, node in self.nodes.items()
            if node.up and not node.cut_off and not node.broker and self._votes(node)
        ]
        if len(alive) >= len(self.voters) // 2 + 1 or not self.voters:
            self.leader, self.elected_at_ms = min(alive), self.now_ms
            # A new leader lists no observer before its first fetch.
            voting = {voter.key for voter in self.voters.values()}
            self.stopped = {key: one for key, one in self.stopped.items() if key in voting}
            self.records.leader(self.leader, self.records.epoch + 1)

    def _votes(self, node: ScriptedNode) -> bool:
        """Returns whether it can vote: it listens at its recorded endpoint, or there is no voter set yet."""
        voter = self.voters.get(node.id)
        if not self.voters:
            return True
        return voter is not None and voter.key == node.key and not {*voter.endpoints}.isdisjoint(node.endpoints)

    def _records(self) -> Iterator[list[Event]]:
        """Returns the records since the last fetch, at most four per answer, or a snapshot in three parts."""
        records, now = self.records, self.records.log_ms
        if self.compacted:
            self.compacted, records.events = False, []
            end = records.offset - 2
            self.snapshot_at = (end, now - SECOND)
            whole = snapshot(records.written, end_offset=end, epoch=records.epoch, timestamp_ms=now - SECOND)
            size = -(-len(whole) // 3)
            for start in range(0, len(whole), size):
                yield [*whole[start : start + size]]
        while len(records.events) > 4:
            some, records.events = records.events[:4], records.events[4:]
            last = some[-1].at  # type: ignore[union-attr]
            yield [*some, self._advanced(last.offset, last.timestamp_ms)]
        some, records.events = records.events, []
        yield [*some, self._advanced(records.offset - 1, now if records.offset > self.read_end else None)]

    def _advanced(self, last_offset: int, timestamp_ms: int | None) -> LogAdvanced:
        self.read_end = last_offset + 1
        newest_ms = None if timestamp_ms is None else Millis(timestamp_ms)
        return LogAdvanced(
            last_offset=Offset(last_offset),
            leader_epoch=Epoch(self.records.epoch),
            high_watermark=Offset(self.records.offset),
            newest_timestamp_ms=newest_ms,
            newest_noop_ms=newest_ms if self._appends_noops else None,
        )

    def _poll(self) -> Poll:
        keys = {voter.key for voter in self.voters.values()}
        fetching = {node.key for node in self.nodes.values() if node.up and not node.cut_off}
        fetching |= {copy.key for copy in self.copies.values()}
        observers = sorted((fetching | set(self.stopped)) - keys, key=lambda key: (key.id, key.directory_id or ""))
        return Poll(
            cluster_id="test-cluster-id",
            endpoint=self._address(self.leader or 0),
            leader_id=NodeId(self.leader or 0),
            leader_epoch=Epoch(self.records.epoch),
            high_watermark=Offset(self.records.offset),
            voters=tuple(self._row(voter.key) for voter in self.voters.values()),
            observers=tuple(self._row(key) for key in observers),
            nodes={voter.key.id: voter.endpoints for voter in self.voters.values()},
            answer_ms=3,
        )

    def _row(self, key: ReplicaKey) -> Replica:
        node = next((one for one in (self.nodes.get(key.id), self.copies.get(key.id)) if one and one.key == key), None)
        now = self.records.log_ms
        votes = any(voter.key == key for voter in self.voters.values())
        if votes and self.now_ms == self.elected_at_ms and key.id != self.leader:
            return Replica(key=key, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
        if node is not None and node.up and not node.cut_off and node.key == key:
            age = 0 if node.id == self.leader else 20
            fetched_ms = caught_up_ms = Millis(now - age)
            end = self.records.offset
            if node.regressed_until_ms is not None and self.now_ms < node.regressed_until_ms:
                end, caught_up_ms = node.end_offset, Millis(now - 20 * SECOND)
            if node.late_ms:
                end = max(end - node.late_ms // 500, node.late_from)
                caught_up_ms = Millis(max(now - node.late_ms, node.late_since_ms + self.records.clock_ahead_ms))
            return Replica(
                key=key, log_end_offset=Offset(end), last_fetch_ms=fetched_ms, last_caught_up_ms=caught_up_ms
            )
        stopped = self.stopped.get(key)
        last = None if stopped is None else Millis(stopped.at_ms + self.records.clock_ahead_ms)
        ended = None if stopped is None else Offset(stopped.end_offset)
        return Replica(key=key, log_end_offset=ended, last_fetch_ms=last, last_caught_up_ms=last)

    def _view(self, node: ScriptedNode) -> LeaderView:
        heard = self.leader is not None and not node.cut_off
        leads = node.id == self.leader
        if node.standalone:
            return LeaderView(
                endpoint=self._asked_at(node),
                node=NodeId(node.id),
                this_cluster=True,
                leader_id=NodeId(node.id),
                leader_epoch=Epoch(1),
                log=None,
                other_voters=(node.key,),
            )
        return LeaderView(
            endpoint=self._asked_at(node),
            node=NodeId(node.id),
            this_cluster=True,
            leader_id=NodeId(self.leader) if self.leader is not None and heard else None,
            leader_epoch=Epoch(self.records.epoch if heard else node.epoch),
            log=self._leader_log() if leads else None,
        )

    def _unrecorded_view(self, address: str, leader: int) -> LeaderView:
        return LeaderView(
            endpoint=address,
            node=None,
            this_cluster=True,
            leader_id=NodeId(leader),
            leader_epoch=Epoch(self.records.epoch),
            log=None,
        )

    def _leader_log(self) -> LeaderLog:
        begins = Millis(self.log_began_ms + LEADER_CLOCK_OFFSET_MS)
        if self.snapshot_at is None:
            return LeaderLog(start_offset=Offset(0), snapshot=None, tells_absence=True, begins_timestamp_ms=begins)
        end, reaches_to = self.snapshot_at
        snapshot = Snapshot(
            end_offset=Offset(end), epoch=Epoch(self.records.epoch), last_contained_timestamp_ms=Millis(reaches_to)
        )
        return LeaderLog(start_offset=Offset(0), snapshot=snapshot, tells_absence=True, begins_timestamp_ms=None)

    def _reason(self, source: ObservationSource, address: str) -> Reason:
        if self.names_unresolvable:
            return Reason.UNRESOLVABLE
        if any(self._address(number) == address for number in self.replaced):
            return Reason.UNDECODABLE
        listening = any(node.up and self._asked_at(node) == address for node in self.nodes.values())
        if listening and self.log_denied and source is ObservationSource.LOG:
            return Reason.DENIED
        return Reason.NO_LEADER if listening else Reason.REFUSED

    def _not_kafka(self, node: ScriptedNode) -> FailedObservation:
        failed = self._failed(ObservationSource.LEADER_VIEW, self._asked_at(node), Reason.UNDECODABLE)
        return replace(failed, node=NodeId(node.id))

    def _failed(self, source: ObservationSource, address: str, reason: Reason) -> FailedObservation:
        named = self.leader if (source, reason) == (ObservationSource.LOG, Reason.NO_LEADER) else None
        return FailedObservation(
            source=source,
            endpoint=address,
            reason=reason,
            detail=f"{reason} at {address}",
            leader_id=None if named is None else NodeId(named),
        )

    def _probes(self) -> Iterator[Probe]:
        """Yields the probes of this second: each fifth of every endpoint, else of one that refused and accepts now."""
        due = self.now_ms // SECOND % 5 == 0
        for place in self._endpoints_to_probe():
            probe = self._probe(*place)
            refuses = probe.connection is ConnectionResult.REFUSED
            if due or (place in self.refusing and not refuses):
                yield probe
                self.refusing = self.refusing - {place} | ({place} if refuses else set())

    def _endpoints_to_probe(self) -> list[tuple[int, Endpoint]]:
        return [(voter.key.id, endpoint) for voter in self.voters.values() for endpoint in voter.endpoints]

    def _probe(self, node: int, endpoint: Endpoint) -> Probe:
        unresolved = Resolution.RESOLVER_FAILED if self.resolver_fails else Resolution.NAME_NOT_FOUND
        lost = self.names_unresolvable or self.resolver_fails or node in self.lost_hosts
        listening = (n for n in self.nodes.values() if (n.up or n.listens) and endpoint in n.endpoints)
        there = None if lost else next(listening, None)
        connection, answer = ConnectionResult.NOT_TRIED if lost else ConnectionResult.REFUSED, ProbeAnswer.NOT_ASKED
        if node in self.replaced and not lost:
            there, connection, answer = None, ConnectionResult.ACCEPTED, ProbeAnswer.NOT_KAFKA
        if there is not None:
            connection = ConnectionResult.ACCEPTED
            answer = ProbeAnswer.THIS_CLUSTER if there.id == node else ProbeAnswer.OTHER_NODE
            if there.id in self.unserved:
                connection = self.unserved[there.id]
                answer = ProbeAnswer.NO_ANSWER if connection is ConnectionResult.ACCEPTED else ProbeAnswer.NOT_ASKED
        return Probe(
            node=NodeId(node),
            endpoint=endpoint,
            resolution=unresolved if lost else Resolution.RESOLVED,
            addresses=() if lost else (f"10.0.0.{node}",),
            connection=connection,
            answer=answer,
            answered_by=NodeId(there.id) if there is not None and there.id not in self.unserved else None,
            detail="",
        )

    def _install(self, number: int, *, broker: bool = False) -> ScriptedNode:
        host, port = f"{'b' if broker else 'c'}{number}.{self.domain}", 9092 if broker else 9093
        node = ScriptedNode(id=number, directory=f"dir{number}", host=host, port=port, broker=broker)
        self.nodes[number] = node
        return node

    # --- records -------------------------------------------------------------------------------------------------

    def _voter(self, number: int) -> Voter:
        node = self.nodes[number]
        return Voter(key=node.key, endpoints=node.endpoints)

    def _write_voters(self) -> None:
        self.voters = dict(sorted(self.voters.items()))
        self.records.voters(*self.voters.values())

    def _register(self, node: ScriptedNode, *, again: bool = False) -> None:
        """Registers a new process, or the same one again."""
        offset, supports = self.records.offset, supporting(node.supports)
        if not again or not node.incarnation:
            node.incarnation = f"incarnation-{node.id}-{offset}"
        if node.broker:
            self.records.broker(
                node.id, fenced=False, where=node.endpoints, incarnation=node.incarnation, features=supports
            )
        else:
            self.records.controller(node.id, where=node.endpoints, incarnation=node.incarnation, features=supports)

    def _address(self, number: int) -> str:
        return self._asked_at(self.nodes[number])

    def _asked_at(self, node: ScriptedNode) -> str:
        """Returns where the gatherer asks a node: at the listener of the configured addresses, if it has that one."""
        addresses = [str(each) for each in node.endpoints]
        return next((each for each in addresses if each in self.bootstrap), addresses[0])


def _earlier(row: Replica, ms: int) -> Replica:
    fetched, caught_up = (
        None if at is None or at < 0 else Millis(at - ms) for at in (row.last_fetch_ms, row.last_caught_up_ms)
    )
    return replace(row, last_fetch_ms=fetched, last_caught_up_ms=caught_up)
