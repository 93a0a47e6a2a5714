"""The lab: a real Kafka quorum on loopback, with methods that inject and fix faults."""

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.lab import LabError, kafka_requests
from deploy.lab.child_process import wait_until
from deploy.lab.node import format_disk
from deploy.lab.running_quorum import RunningQuorum

NODE_PROPERTIES = "$NODE_PROPERTIES"
"""The placeholder in a remedy for the configuration file of the node on which the command runs."""
_REQUEST_S = 30.0
_FENCING_S = 120.0
"""How long the fencing of a killed broker may take: broker.session.timeout.ms (9 s by default) and a margin."""


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
        node = self.node(id_)
        shutil.rmtree(node.data)
        format_disk(self.jvm, node, self.cluster_id, initial=None if self.static else ())
        return node.directory_id

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
        if assignment:
            replicas = [list(ids) for ids in assignment]
            options: dict[str, Any] = {"num_partitions": len(replicas), "replica_assignment": replicas}
        else:
            options = {"num_partitions": partitions, "replication_factor": replication}
        topic = NewTopic(name, config=dict(configs or {}), **options)
        admin = AdminClient(self._client())  # a variable, because requests end when the client is deleted
        try:
            admin.create_topics([topic], operation_timeout=_REQUEST_S)[name].result(_REQUEST_S + 5)
        except (KafkaException, TimeoutError) as error:
            raise LabError(f"could not create topic {name}: {error}") from error

    def produce(self, topic: str, count: int) -> None:
        """Writes `count` records with acks=all to all partitions and waits until all are acknowledged."""
        errors: list[str] = []

        def on_delivery(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                errors.append(str(error))

        producer = Producer(self._client() | {"acks": "all", "message.timeout.ms": int(_REQUEST_S * 1000)})
        for number in range(count):
            producer.produce(topic, key=str(number), value=f"record {number}", on_delivery=on_delivery)
            producer.poll(0)
        unsent = producer.flush(_REQUEST_S + 5)
        if errors or unsent:
            failed = len(errors) + unsent
            raise LabError(f"{failed} of {count} records to topic {topic} failed: {(errors or ['timeout'])[0]}")

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
            if not self._partitions(leader, name):
                self.create_topic(name, assignment=[[leader, follower]] * partitions)
                self._wait_for_isr(leader, name, {leader, follower})
        self.kill(follower)
        for name in names:
            count = self._wait_for_isr(leader, name, {leader})
            self.produce(name, 10 * count)
        self.kill(leader)
        self.start(follower)
        self._elect_unclean(follower, names)
        for name in names:
            self._wait_for_isr(follower, name, {follower})
        return UncleanPartitions(topics=names, leader=follower, killed_broker=leader)

    @property
    def running_brokers(self) -> list[str]:
        """HOST:PORT of the brokers whose process is running."""
        return [node.broker_endpoint for node in self.layout.brokers if node.running]

    # ---- Kafka's tools

    def run_remedy(self, line: str, *, node_properties: Path | None = None) -> str | None:
        """Runs one line of a remedy exactly as printed; returns its output, or None for a comment (`# ...`)."""
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

    def _client(self) -> dict[str, str | int]:
        # log_level 0: librdkafka would log an error to stderr for each broker that a test has stopped.
        brokers = ",".join(self.running_brokers)
        return {"bootstrap.servers": brokers, "log_level": 0, "client.id": "kraftwatch-lab", **self.login}

    def _elect_unclean(self, broker: int, topics: Sequence[str]) -> None:
        """Elects this broker uncleanly as the leader of all partitions of these topics.

        Repeats the request until the broker leads all of them, and ignores the responses: Kafka answers "election not
        needed" while the previous leader is not fenced yet, and also after an election whose response was lost.
        """

        def elect() -> bool:
            states = {name: self._partitions(broker, name) for name in topics}
            others = {(name, one.partition_index) for name in topics for one in states[name] if one.leader_id != broker}
            if others:
                kafka_requests.elect_unclean(self._port(broker), others, connect=self.connect)
            return all(states.values()) and not others

        wait_until(elect, timeout_s=_FENCING_S, what=f"unclean elections of {', '.join(sorted(topics))}")

    def _wait_for_isr(self, broker: int, topic: str, isr: set[int]) -> int:
        """Waits until every partition has exactly these in-sync replicas; returns the number of partitions."""

        def poll() -> int | None:
            states = self._partitions(broker, topic)
            return len(states) if states and all({*state.isr_nodes} == isr for state in states) else None

        return wait_until(poll, timeout_s=_FENCING_S, what=f"in-sync replicas {sorted(isr)} of topic {topic}")

    def _partitions(self, broker: int, topic: str) -> Sequence[Any]:
        return kafka_requests.partitions(self._port(broker), topic, connect=self.connect)

    def _port(self, broker: int) -> int:
        port = self.node(broker).broker_port
        assert port is not None
        return port
