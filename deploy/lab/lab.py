"""The lab: a real Kafka quorum on loopback, with methods that inject and fix faults."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.lab import LabError, kafka_requests, topics
from deploy.lab.node import wipe_disk
from deploy.lab.running_quorum import RunningQuorum

NODE_PROPERTIES = "$NODE_PROPERTIES"
"""The placeholder in a remedy for the configuration file of the node on which the command runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanPartitions:
    """Topics in RECOVERING, the broker that leads them now, and the killed broker that has the lost records."""

    topics: tuple[str, ...]
    leader: int
    killed_broker: int


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

        Creates missing topics on the first two running brokers, kills the follower, writes records, kills the leader,
        starts the follower and elects it uncleanly: Kafka 4 does not elect it by itself, because with KIP-966 the
        killed leader stays the eligible one. Starting the killed leader ends the recovery.
        """
        running = [id_ for id_ in self.brokers if self.node(id_).running and not self.node(id_).is_controller]
        if len(running) < 2:
            raise LabError(
                f"unclean partitions need two running brokers without the controller role; running: {running}"
            )
        leader, follower = running[:2]
        for name in names:
            if not kafka_requests.partitions(self._port(leader), name, connect=self.connect):
                self.create_topic(name, assignment=[[leader, follower]] * partitions)
                self._wait_for_isr(leader, name, {leader, follower})
        self.kill(follower)
        for name in names:
            count = self._wait_for_isr(leader, name, {leader})
            self.produce(name, 10 * count)
        self.kill(leader)
        self.start(follower)
        topics.elect_unclean(self._port(follower), names, leader=follower, connect=self.connect)
        for name in names:
            self._wait_for_isr(follower, name, {follower})
        return UncleanPartitions(topics=names, leader=follower, killed_broker=leader)

    @property
    def running_brokers(self) -> list[str]:
        """HOST:PORT of the brokers whose process is running."""
        return [node.broker_endpoint for node in self.layout.brokers if node.running]

    # ---- Kafka's tools

    def run_remedy(self, line: str, *, node_properties: Path | None = None) -> str | None:
        """Runs one line of a remedy exactly as printed; returns its output, or None for a comment (`# ...`).

        Raises:
            LabError: the command is not one of Kafka's tools, contains an unknown placeholder, or failed.
        """
        if not line.strip() or line.lstrip().startswith("#"):
            return None
        if NODE_PROPERTIES in line:
            if node_properties is None:
                raise LabError(f"node_properties is required for {NODE_PROPERTIES} in this remedy: {line}")
            line = line.replace(NODE_PROPERTIES, shlex.quote(str(node_properties)))
        if placeholder := re.search(r"\$\w+", line):
            raise LabError(f"the remedy contains the unknown placeholder {placeholder.group()}: {line}")
        script, *arguments = shlex.split(line)
        return self.jvm.tool(Path(script).name.removesuffix(".sh"), arguments)

    # ---- internals

    def _require_stopped(self, ids: Sequence[int], action: str) -> None:
        for id_ in ids:
            if self.node(id_).running:
                raise LabError(f"node {id_} is running: stop it before {action}")

    def _wait_for_isr(self, broker: int, topic: str, isr: set[int]) -> int:
        return topics.wait_for_isr(self._port(broker), topic, frozenset(isr), connect=self.connect)

    def _port(self, broker: int) -> int:
        port = self.node(broker).broker_port
        assert port is not None
        return port
