"""The lab of the tests: a quorum whose logins, versions and voters change, and what Kafka's own tools print of it."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import deploy.lab.lab
from deploy.lab import LabError, kafka_requests
from deploy.lab.child_process import wait_until
from deploy.lab.kafka_requests import QuorumState
from deploy.lab.node import Listener, Node, controllers_accept_clients
from deploy.lab.running_quorum import CHANGE_TIMEOUT_S
from tests.in_background import in_background
from tests.lab_security import Security

_TIMED_OUT = "TimeoutException"
"""In the output of Kafka's tool when the leader answers REQUEST_TIMED_OUT."""
TIMED_OUT_CHANGE_S = 10.0
"""How long a change may still take after that answer."""
ADMIN_S = 30.0
_QUORUM_TOOL = "kafka-metadata-quorum"
_REASSIGNMENT_TOOL = "kafka-reassign-partitions"


class Lab(deploy.lab.lab.Lab):
    """A quorum with the options of `RunningQuorum`, and a secured one if it has `users`."""

    def __init__(
        self,
        directory: Path,
        *,
        users: Sequence[str] | None = None,
        listeners: Sequence[Listener] = (),
        java_options: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """`users`: beside the admin."""
        super().__init__(directory, **options)
        self.listeners = listeners
        self.java_options = tuple(java_options)
        self._users = users
        self._security: Security | None = None

    def __enter__(self) -> Self:
        if self._users is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._security = Security(self.directory / "security", self._users)
            self.java_options += self._security.java_options
        return super().__enter__()

    @property
    def security(self) -> Security:
        """The users and certificates of a secured quorum."""
        if self._security is None:
            raise LabError("this lab is not secured: create it with users=[...]")
        return self._security

    def node_properties(self) -> dict[str, str]:
        return ({} if self._security is None else self._security.node_properties()) | super().node_properties()

    def connect(self, port: int) -> socket.socket:
        return kafka_requests.plaintext(port) if self._security is None else self._security.connect(port)

    @property
    def login(self) -> Mapping[str, str | int]:
        return {} if self._security is None else self._security.client()

    def allow_monitoring(self, *principals: str) -> None:
        """Grants these principals the permissions of docs/security.md."""
        cluster = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)
        for principal in principals:
            self._allow(cluster, principal, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION)

    def allow(self, user: str, *operations: AclOperation, topics: str) -> None:
        """Grants a user operations on every topic whose name begins with `topics`."""
        self._allow((ResourceType.TOPIC, topics, ResourcePatternType.PREFIXED), f"User:{user}", *operations)

    def reassign(self, replicas: Mapping[str, Sequence[Sequence[int]]], *options: str) -> None:
        """Starts to move replicas: `replicas` has those of each partition by topic; `options` of Kafka's tool."""
        moves = [
            {"topic": topic, "partition": number, "replicas": [*ids]}
            for topic, partitions in replicas.items()
            for number, ids in enumerate(partitions)
        ]
        plan = self.directory / "reassignment.json"
        plan.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")
        self._run_reassignment_tool("--execute", *options, "--reassignment-json-file", str(plan))

    @property
    def reassigns(self) -> bool:
        """Whether replicas are still being moved."""
        return "No partition reassignments found" not in self._run_reassignment_tool("--list")

    def _run_reassignment_tool(self, *arguments: str) -> str:
        return self.jvm.tool(_REASSIGNMENT_TOOL, ["--bootstrap-server", ",".join(self.running_brokers), *arguments])

    def allow_transactions(self, user: str, *, ids: str) -> None:
        """Grants a user the transactional ids that begin with `ids`."""
        resource = (ResourceType.TRANSACTIONAL_ID, ids, ResourcePatternType.PREFIXED)
        self._allow(resource, f"User:{user}", AclOperation.WRITE, AclOperation.DESCRIBE)

    def _allow(self, resource: tuple[Any, str, Any], principal: str, *operations: AclOperation) -> None:
        acls = [AclBinding(*resource, principal, "*", one, AclPermissionType.ALLOW) for one in operations]
        self._administer(lambda client: client.create_acls(acls))

    def set_scram_password(
        self, user: str, password: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    ) -> None:
        """Creates a SCRAM user, or changes its password."""
        upsertion = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        self._administer(lambda client: client.alter_user_scram_credentials([upsertion]))

    def plant_secret(self, secret: str) -> None:
        """Writes it into the metadata log: as the setting my.custom.password of a broker, and as the salt of a user."""
        setting = ConfigEntry("my.custom.password", secret, incremental_operation=AlterConfigOpType.SET)
        broker = ConfigResource(ConfigResource.Type.BROKER, str(self.brokers[0]), incremental_configs=[setting])
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion("planted-user", scram, b"password", secret.encode())
        self._administer(lambda client: client.incremental_alter_configs([broker]))
        self._administer(lambda client: client.alter_user_scram_credentials([user]))

    @property
    def admin(self) -> AdminClient:
        """A client of the admin: keep it in a variable, because its requests end when it is garbage-collected."""
        return AdminClient(self._client())

    def _administer(self, request: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
        client = self.admin
        try:
            for done in request(client).values():
                done.result(ADMIN_S)
        except (KafkaException, TimeoutError) as error:
            raise LabError(f"the request of the admin failed: {error}") from error

    @property
    def unfenced_brokers(self) -> set[int]:
        """The brokers that are not fenced, as a running broker knows."""
        client = self.admin
        try:
            return {*client.list_topics(timeout=ADMIN_S).brokers}
        except KafkaException as error:
            raise LabError(f"the request of the admin failed: {error}") from error

    @property
    def admin_options(self) -> Sequence[str]:
        """The options with which Kafka's tools log in as the admin; none without a login at the controllers."""
        return [] if self._security is None else ["--command-config", str(self._security.admin_file)]

    @contextmanager
    def supervised(self, *ids: int) -> Iterator[None]:
        """Starts these nodes each time they have ended, as a supervisor does, and kills them in the end."""

        def supervise(ended: Event) -> None:
            while not ended.is_set():
                for id_ in ids:
                    if not self.node(id_).running:
                        self.start(id_, wait=False)
                ended.wait(0.1)

        try:
            with in_background(supervise):
                yield
        finally:
            for id_ in ids:
                with suppress(LabError):
                    self.kill(id_)

    def install(self, id_: int, version: str) -> None:
        """Changes the Kafka version of a stopped node; the tools change when all nodes have the version.

        Raises:
            LabError: the node is running, or the version does not exist.
        """
        self._require_stopped([id_], "its Kafka version is changed")
        self._jvm_of(version)  # refuses a version that does not exist
        self.node(id_).version = version
        self.layout.configure()
        if all(node.version == version for node in self.layout):
            self.version = version

    def upgrade_features(self, *options: str) -> str:
        """Runs `kafka-features upgrade`, with `--release-version 4.3` or `--feature kraft.version=1`."""
        return self.jvm.tool("kafka-features", [*self._at_controllers(), "upgrade", *options])

    def downgrade_feature(self, level: str) -> None:
        """Runs `kafka-features downgrade` with a level such as `metadata.version=27`."""
        self.jvm.tool("kafka-features", [*self._at_controllers(), "downgrade", "--feature", level])

    def await_leader(self, *among: int) -> QuorumState:
        """Waits until a controller leads, one of these if any are given; returns the state that it reports."""
        return self.await_state(lambda state: not among or state.leader_id in among, what="a leader")

    def add_controller(self, id_: int) -> None:
        """Runs `kafka-metadata-quorum add-controller` for a running observer and waits until it is a voter."""
        node = self.node(id_)
        self.await_observer(node)
        # The node's configuration names the node and its log directory.
        command = ["--command-config", str(node.properties_file), *self._at_controllers(), "add-controller"]
        self._change(
            lambda: self.jvm.tool(_QUORUM_TOOL, command),
            lambda state: id_ in state.voter_ids,
            what=f"controller {id_} among the voters",
        )

    def remove_controller(self, id_: int, directory_id: str | None = None) -> None:
        """Removes a voter; `directory_id` is by default the one of its log directory."""
        removed = (id_, directory_id or self.node(id_).directory_id)
        self._change(
            lambda: self.request_removal(*removed),
            lambda state: removed not in {(voter.id, voter.directory_id) for voter in state.voters},
            what=f"the removal of voter {id_}-{removed[1]}",
        )

    def request_removal(self, id_: int, directory_id: str) -> None:
        """Runs `remove-controller` for this voter."""
        voter = ["--controller-id", str(id_), "--controller-directory-id", directory_id]
        self.jvm.tool(_QUORUM_TOOL, [*self.admin_options, *self._at_controllers(), "remove-controller", *voter])

    def describe_status(self) -> dict[str, str]:
        """Returns the lines of `describe --status` as name -> value, such as LeaderId, LeaderEpoch, CurrentVoters."""
        pairs = (line.partition(":") for line in self._describe("--status").splitlines() if ":" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def describe_replication(self) -> list[dict[str, str]]:
        """Returns the rows of `describe --replication` as column -> value, such as NodeId, DirectoryId, Lag, Status."""
        heading, *rows = [line.split() for line in self._describe("--replication").splitlines() if line.strip()]
        return [dict(zip(heading, row, strict=True)) for row in rows]

    def _describe(self, what: str) -> str:
        return self.jvm.tool(_QUORUM_TOOL, [*self.admin_options, *self._at_controllers(), "describe", what])

    def await_observer(self, node: Node) -> None:
        """Waits until this controller is an observer that has caught up, as the leader requires of a new voter."""
        key = (node.id, node.directory_id)
        self.await_state(
            lambda state: key in {(one.id, one.directory_id) for one in state.observers if one.caught_up},
            what=f"observer {node.id}-{node.directory_id}, caught up",
        )

    def _change(self, request: Callable[[], object], done: Callable[[QuorumState], bool], *, what: str) -> None:
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

    def _at_controllers(self) -> list[str]:
        running = [node for node in self.layout.controllers if node.running]
        if not running:
            raise LabError("no controller of the lab is running, so Kafka's tool cannot connect")
        if not controllers_accept_clients(running[0].version):
            return ["--bootstrap-server", ",".join(node.broker_endpoint for node in self.layout.brokers)]
        return ["--bootstrap-controller", ",".join(node.endpoint for node in running)]
