"""The lab: a real Kafka quorum on loopback, with methods that inject and fix faults."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deploy.lab import LabError, topics
from deploy.lab.child_process import wait_until
from deploy.lab.kafka_requests import QuorumState
from deploy.lab.node import Node, wipe_disk
from deploy.lab.running_quorum import CHANGE_TIMEOUT_S, RunningQuorum
from deploy.lab.tools import Tools
from deploy.lab.topics import UncleanPartitions, leave_partitions_recovering

_TIMED_OUT = "TimeoutException"
"""In the output of Kafka's tool when the leader answers REQUEST_TIMED_OUT."""
TIMED_OUT_CHANGE_S = 10.0
"""How long a change may still take after that answer."""


class Lab(RunningQuorum):
    """A quorum with methods that inject and fix faults; `RunningQuorum` has its start, processes and state.

    Every method is synchronous, has a timeout and raises LabError if it fails.
    """

    # ---- disks, endpoints, names (of nodes that are stopped)

    def wipe_disk(self, id_: int) -> str:
        """Replaces a stopped node's log directory with a newly formatted one; returns the new directory id."""
        self._require_stopped([id_], "its disk is wiped")
        wipe_disk(self.jvm, self.node(id_), self.cluster_id, static=self.static)
        return self.node(id_).directory_id

    def move_endpoint(self, *ids: int) -> None:
        """Gives stopped nodes new ports and writes the new bootstrap servers to every configuration."""
        self._require_stopped(ids, "its endpoint is moved")
        self.layout.move(ids)

    def rename(self, id_: int, name: str) -> None:
        """Writes a controller's new advertised name to all configurations; the controller uses it after a restart.

        `lab.names.add(name)` makes the name resolve.
        """
        _ = self.names
        self.layout.rename(id_, name)

    # ---- versions

    def install(self, id_: int, version: str) -> None:
        """Changes the Kafka version of a stopped node; the tools change when all nodes have the version.

        Raises:
            LabError: the node is running, or the version does not exist.
        """
        self._require_stopped([id_], "its Kafka version is changed")
        jvm = self._jvm_of(version)
        self.node(id_).version = version
        self.layout.configure()
        if all(node.version == version for node in self.layout):
            self.version = version
            self.tools = Tools(jvm=jvm, layout=self.layout)

    def upgrade_features(self, *options: str) -> str:
        """Runs `kafka-features upgrade`, with `--release-version 4.3` or `--feature kraft.version=1`."""
        return self.tools.upgrade_features(*options)

    # ---- voters, with Kafka's tool

    def add_controller(self, id_: int) -> None:
        """Runs `kafka-metadata-quorum add-controller` for a running observer and waits until it is a voter."""
        node = self.node(id_)
        self.await_observer(node)
        self._change(
            lambda: self.tools.add_controller(node),
            lambda state: id_ in state.voter_ids,
            what=f"controller {id_} among the voters",
        )

    def remove_controller(self, id_: int, directory_id: str | None = None) -> None:
        """Removes a voter; `directory_id` is by default the one of its log directory."""
        directory = directory_id or self.node(id_).directory_id
        removed = (id_, directory)
        self._change(
            lambda: self.tools.remove_controller(id_, directory),
            lambda state: removed not in {(voter.id, voter.directory_id) for voter in state.voters},
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
        """Creates a topic; `assignment` lists the replicas of each partition and overrides both numbers."""
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

    def leave_partitions_recovering(self, *names: str, partitions: int = 1) -> UncleanPartitions:
        """Puts every partition of these topics into RECOVERING (KIP-704) by an unclean election.

        Creates missing topics on the first two running brokers. Afterwards one of them is killed and the other leads;
        starting the killed broker ends the recovery.
        """
        return leave_partitions_recovering(self, names, partitions=partitions)

    @property
    def running_brokers(self) -> list[str]:
        """HOST:PORT of the brokers whose process is running."""
        return [node.broker_endpoint for node in self.layout.brokers if node.running]

    # ---- Kafka's tools

    def describe_status(self) -> dict[str, str]:
        """Returns the lines of `kafka-metadata-quorum describe --status` as name -> value."""
        return self.tools.describe_status()

    def describe_replication(self) -> list[dict[str, str]]:
        """Returns the rows of `kafka-metadata-quorum describe --replication` as column -> value."""
        return self.tools.describe_replication()

    def dump_log(self, id_: int) -> str:
        """Returns the output of `kafka-dump-log` for a node's metadata log and snapshots, oldest file first."""
        return self.tools.dump_log(self.node(id_))

    def run_remedy(self, line: str, *, node_properties: Path | None = None) -> str | None:
        """Runs one line of a remedy exactly as printed and returns its output.

        A line that starts with `#` is a comment: returns None.
        """
        return self.tools.run_remedy(line, node_properties=node_properties)

    # ---- internals

    def await_observer(self, node: Node) -> None:
        """Waits until this controller is an observer that has caught up, as the leader requires of a new voter."""
        key = (node.id, node.directory_id)
        self.await_state(
            lambda state: key in {(one.id, one.directory_id) for one in state.observers if one.caught_up},
            what=f"observer {node.id}-{node.directory_id}, caught up",
        )

    def _change(self, request: Callable[[], None], done: Callable[[QuorumState], bool], *, what: str) -> None:
        """Requests a change of the voter set until it is committed."""

        def attempt() -> bool:
            try:
                request()
            except LabError as error:
                if _TIMED_OUT not in str(error):
                    raise
                # Either the change did not commit within two seconds and continues, or it was refused because the
                # leader was elected recently: the voter set shows which.
                with suppress(LabError):
                    self.await_state(done, what=what, timeout_s=TIMED_OUT_CHANGE_S)
                    return True
                return False
            return True

        wait_until(attempt, timeout_s=CHANGE_TIMEOUT_S, what=what)
        self.await_state(done, what=what)

    def _require_stopped(self, ids: Sequence[int], action: str) -> None:
        for id_ in ids:
            if self.node(id_).running:
                raise LabError(f"node {id_} is running: stop it before {action}")
