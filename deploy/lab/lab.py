"""The lab: a real Kafka quorum on loopback, and every way of hurting and mending it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deploy.lab import topics
from deploy.lab.disks import format_disk, wipe_disk
from deploy.lab.kafka_requests import QuorumState
from deploy.lab.lab_errors import LabError
from deploy.lab.node import Node
from deploy.lab.running_quorum import CHANGE_TIMEOUT_S, RunningQuorum
from deploy.lab.tools import Tools
from deploy.lab.unclean_partitions import Stranded, strand
from deploy.lab.wait_until import until

_TIMED_OUT = "TimeoutException"
"""In what Kafka's tool prints when the leader answers REQUEST_TIMED_OUT."""
SETTLED_WITHIN_S = 10.0
"""How long a change of which that was said may take."""


class Lab(RunningQuorum):
    """A quorum with the verbs that hurt and mend it; see `RunningQuorum` for its making, its processes and its state.

    Every verb is synchronous and bounded, and raises LabError with one sentence when it could not be done.
    """

    # ---- disks, endpoints, names (of nodes that are stopped)

    def wipe_disk(self, id_: int) -> str:
        """Replaces a stopped node's disk by an empty one, formatted without initial controllers; its directory id."""
        self._stopped([id_], "its disk is wiped")
        wipe_disk(self._jvm, self.node(id_), self.cluster_id, static=self.static)
        return self.node(id_).directory_id

    def move_endpoint(self, *ids: int) -> None:
        """Gives stopped nodes new ports, and every node's configuration the new bootstrap servers."""
        self._stopped(ids, "its endpoint moves")
        self._roster.move(ids)

    def rename(self, id_: int, name: str) -> None:
        """Writes a controller's new advertised name into all configurations; a restart makes it known.

        The name itself is the name service's: `lab.names.add(name)`.
        """
        _ = self.names
        self._roster.rename(id_, name)

    # ---- versions

    def install(self, id_: int, version: str) -> None:
        """Gives a stopped node another Kafka; its next start runs it. Kafka's tools follow when all nodes have it.

        Raises:
            LabError: it runs, or there is no such Kafka.
        """
        self._stopped([id_], "it gets another Kafka")
        jvm = self._jvm_of(version)
        self.node(id_).version = version
        self._roster.configure()
        if all(node.version == version for node in self._roster):
            self.version = version
            self.tools = Tools(jvm=jvm, roster=self._roster)

    def upgrade_features(self, *options: str) -> str:
        """`kafka-features upgrade`, with `--release-version 4.3` or `--feature kraft.version=1`; what it printed."""
        return self.tools.upgrade_features(*options)

    # ---- voters, through Kafka's own tool

    def new_controller(self) -> int:
        """Adds a controller formatted without initial controllers, starts it, and returns its id: an observer."""
        if self.static:
            raise LabError("a static quorum takes no further controller: its voters are in every configuration")
        node = self._roster.add_controller()
        format_disk(self._jvm, node, self.cluster_id, initial=())
        self.start(node.id)
        self._await_observer(node)
        return node.id

    def add_controller(self, id_: int) -> None:
        """Makes a running observer a voter: `kafka-metadata-quorum add-controller` with that node's configuration."""
        node = self.node(id_)
        self._await_observer(node)
        self._change(
            lambda: self.tools.add_controller(node),
            lambda state: id_ in state.voter_ids,
            what=f"controller {id_} among the voters",
        )

    def remove_controller(self, id_: int, directory_id: str | None = None) -> None:
        """Removes a voter; `directory_id` is the one its disk holds now unless given."""
        directory = directory_id or self.node(id_).directory_id
        gone = (id_, directory)
        self._change(
            lambda: self.tools.remove_controller(id_, directory),
            lambda state: gone not in {(voter.id, voter.directory_id) for voter in state.voters},
            what=f"the removal of voter {id_}-{directory}",
        )

    # ---- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Creates a topic; `assignment` lists the replicas of each partition and wins over both numbers."""
        topics.create(
            self.running_brokers,
            name,
            partitions=partitions,
            replication=replication,
            configs=configs or {},
            assignment=assignment,
            login=self.login,
        )

    def produce(self, topic: str, count: int) -> None:
        """Writes `count` records with acks=all and waits until all are acknowledged."""
        topics.produce(self.running_brokers, topic, count, login=self.login)

    def strand_recovering(self, *names: str, partitions: int = 1) -> Stranded:
        """Puts every partition of these topics into RECOVERING (KIP-704) by an unclean election.

        Topics are made if need be, on the first two running brokers. Afterwards the one is dead, the other leads;
        `start` of the dead one heals them.
        """
        return strand(self, names, partitions=partitions)

    @property
    def running_brokers(self) -> list[str]:
        """HOST:PORT of the brokers whose process is there."""
        return [node.broker_endpoint for node in self._roster.brokers if node.running]

    # ---- Kafka's tools

    def describe_status(self) -> dict[str, str]:
        """`kafka-metadata-quorum describe --status`: its lines as name -> value."""
        return self.tools.describe_status()

    def describe_replication(self) -> list[dict[str, str]]:
        """`kafka-metadata-quorum describe --replication`: its rows as column -> value."""
        return self.tools.describe_replication()

    def dump_log(self, id_: int) -> str:
        """What `kafka-dump-log` says of a node's metadata log and its snapshots, oldest file first."""
        return self.tools.dump_log(self.node(id_))

    def run_remedy(self, line: str, *, node_properties: Path | None = None) -> str | None:
        """Executes one line of a remedy exactly as printed, and returns what it printed.

        A line that begins with `#` is a sentence: nothing is done, None is returned.
        """
        return self.tools.run_remedy(line, node_properties=node_properties)

    # ---- inside

    def _await_observer(self, node: Node) -> None:
        key = (node.id, node.directory_id)
        self.await_state(
            lambda state: key in {(one.id, one.directory_id) for one in state.observers if one.caught_up},
            what=f"observer {node.id}-{node.directory_id}, caught up",
        )

    def _change(self, ask: Callable[[], None], made: Callable[[QuorumState], bool], *, what: str) -> None:
        """Asks for a change of the voters until it is made."""

        def asked() -> bool:
            try:
                ask()
            except LabError as error:
                if _TIMED_OUT not in str(error):
                    raise
                # Of a change that does not commit within two seconds and goes on, and of one that never began because
                # the leader is too new: which of both, the voters tell.
                with suppress(LabError):
                    self.await_state(made, what=what, timeout_s=SETTLED_WITHIN_S)
                    return True
                return False
            return True

        until(asked, timeout_s=CHANGE_TIMEOUT_S, what=what)
        self.await_state(made, what=what)

    def _stopped(self, ids: Sequence[int], what: str) -> None:
        for id_ in ids:
            if self.node(id_).running:
                raise LabError(f"node {id_} runs: stop it before {what}")
