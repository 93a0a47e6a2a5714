"""What the monitor observes: probes, leader views, failed observations, violated invariants and contracts."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rules.model.history import NodeKind
from rules.model.identifiers import START, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, SnapshotId
from rules.model.membership import Voter


class Resolution(StrEnum):
    """The name service's answer for an endpoint's host, as seen from the monitor's host."""

    RESOLVED = "resolved"
    NAME_NOT_FOUND = "name-gone"
    """The resolver answered NXDOMAIN: a fault of the endpoint."""
    RESOLVER_FAILED = "resolver-failed"
    """No answer, or a temporary failure: the monitor cannot observe the endpoint."""


class ConnectionResult(StrEnum):
    """The result of a TCP connection to an endpoint."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    TIMED_OUT = "timed-out"
    UNREACHABLE = "unreachable"
    NOT_TRIED = "not-tried"


class ProbeAnswer(StrEnum):
    """What answered on an accepted connection."""

    THIS_CLUSTER = "this-cluster"
    """A Kafka node of this cluster; `answered_by` is its id if the protocol gives it."""
    OTHER_CLUSTER = "other-cluster"
    OTHER_NODE = "other-node"
    """A node of this cluster, but not the one that this endpoint belongs to."""
    NOT_KAFKA = "not-kafka"
    NO_ANSWER = "no-answer"
    """The connection was accepted and then not answered, or closed."""
    LATE = "late"
    """It answered which versions it knows, as any thread of its process can, and then nothing in time: the thread that
    answers for the quorum waits, for a slow disk or a busy host."""
    NOT_ALLOWED = "not-allowed"
    """TLS, login or authorization denied the request: no fault of the endpoint."""
    NOT_ASKED = "not-asked"


QUORUM_VOTERS, PROCESS_ROLES = "controller.quorum.voters", "process.roles"
CONTROLLER_LOGIN = "sasl.mechanism.controller.protocol"
COMPARED_SETTINGS = (
    CONTROLLER_LOGIN,
    "authorizer.class.name",
    "super.users",
    "allow.everyone.if.no.acl.found",
    "principal.builder.class",
    "ssl.principal.mapping.rules",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.enabled.mechanisms",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
)
"""The settings that decide whom a controller accepts and who accepts it: the same on all controllers of a quorum."""
HIDDEN = "hidden"
"""What stands for the value of a setting that has one, but that Kafka shows to nobody."""


class CertificateFault(StrEnum):
    """Why a client does not accept a server's certificate."""

    EXPIRED = "expired"
    """This, or one of its chain."""
    NOT_YET_VALID = "not-yet-valid"
    WRONG_HOST = "wrong-host"
    """It is for other host names than the one that was dialled."""
    UNTRUSTED = "untrusted"
    """No certificate authority that the monitor trusts has issued it."""


ENCRYPTION: Final = "encryption alone"
"""The usage of a certificate whose key usage allows no signatures: Java refuses it, except for suites of TLS 1.2 whose
key exchange is RSA (EndEntityChecker); OpenSSL does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """The certificate that a node presents in the TLS handshake, as the monitor verifies it."""

    valid_from_ms: Millis | None
    expires_at_ms: Millis | None
    """None, as `valid_from_ms`, if its dates could not be read."""
    fault: CertificateFault | None = None
    """None if it was verified, or if the handshake ended for another reason."""
    verified: bool = False
    """The monitor accepted it: the truststore and the clock of the monitor's host are right for this node."""
    authority: str | None = None
    """Who issued it: the issuer's name, and the beginning of its key's identifier if the certificate has one."""
    key: str | None = None
    """Its key, such as `RSA 2048` or `EC secp256r1`."""
    usages: tuple[str, ...] = ()
    """What it may be used for (extended key usage), such as `server` and `client`, and `ENCRYPTION`; empty without a
    limit."""
    chain: tuple[str, ...] = ()
    """Who issued each further certificate that is sent with it, in the order in which they are sent."""
    suite: str | None = None
    """The protocol and the cipher suite of the handshake with the monitor."""

    @property
    def presented(self) -> tuple[object, ...]:
        """What the node sends, whoever verifies it."""
        return (
            *(self.valid_from_ms, self.expires_at_ms, self.authority),
            *(self.key, self.usages, self.chain),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One probe of one endpoint of one node, from the monitor's vantage point: name, connection, and who answered."""

    observed_at_ms: Millis = START
    node: NodeId
    endpoint: Endpoint
    resolution: Resolution
    addresses: tuple[str, ...]
    connection: ConnectionResult
    answer: ProbeAnswer
    answered_by: NodeId | None = None
    detail: str = ""
    reason: "Reason | None" = None
    """Why its answer to the request that identifies it was an error; None if it was none."""
    certificate: ServerCertificate | None = None
    """None without TLS, or if none was presented."""
    settings: Mapping[str, str] | None = None
    """What the node's own configuration says, by setting; `HIDDEN` for a value that Kafka does not show.

    None if it is not known, as without DESCRIBE_CONFIGS. A setting of the listener counts instead of the general one.
    One without a value is absent.
    """
    former_reason: "Reason | None" = None
    """While it does not answer: why its last answer before that was an error; None if it was none. Set by replay."""
    returned_at_ms: tuple[Millis, ...] = ()
    """When it accepted connections after it had refused them, or its node fetched again after a pause although it
    refuses them: a process started. Oldest first, bounded by replay."""
    starting: bool = False
    """Whether its node has fetched at its newest start, and has not accepted a connection since. Set by replay."""
    newest_certificate: ServerCertificate | None = None
    """The newest one that was presented there, also while nothing answers. Set by replay."""
    certificate_since_ms: Millis | None = None
    """When that one was first seen there instead of another; None if no other was seen. Set by replay."""

    @property
    def quorum_voters(self) -> str | None:
        """controller.quorum.voters of the node; empty if it is known that the node has none, None if it is unknown."""
        return self._setting(QUORUM_VOTERS)

    @property
    def roles(self) -> tuple[NodeKind, ...] | None:
        """process.roles of the node, sorted; None if they are not known."""
        listed = {one.strip() for one in (self._setting(PROCESS_ROLES) or "").split(",")}
        return tuple(sorted(map(NodeKind, listed))) if listed <= {*NodeKind} else None

    @property
    def controller_login(self) -> str | None:
        """How the node logs in to the other controllers, if their listener uses SASL."""
        return self._setting(CONTROLLER_LOGIN) or None

    def _setting(self, name: str) -> str | None:
        return None if self.settings is None else self.settings.get(name)

    @property
    def certificate_fault(self) -> CertificateFault | None:
        """Why the monitor does not accept the certificate that is presented there."""
        return None if self.certificate is None else self.certificate.fault

    @property
    def served_by_another(self) -> bool:
        """Whether what answers there is another node, of another cluster, or no Kafka."""
        if self.answer in (ProbeAnswer.OTHER_CLUSTER, ProbeAnswer.OTHER_NODE, ProbeAnswer.NOT_KAFKA):
            return True
        return self.answer is ProbeAnswer.THIS_CLUSTER and self.answered_by not in (None, self.node)


def probe_key(node: NodeId, endpoint: Endpoint) -> str:
    """Returns the key of `Quorum.probes`."""
    return f"{node}@{endpoint}"


class ObservationSource(StrEnum):
    """The data source that the gatherer reads."""

    LOG = "log"
    """Fetch or FetchSnapshot of `__cluster_metadata`."""
    QUORUM = "quorum"
    """DescribeQuorum."""
    PROBE = "probe"
    """A connection to an endpoint."""
    LEADER_VIEW = "view"
    """Each controller's report of who leads."""


class Reason(StrEnum):
    """Why an attempt to observe failed."""

    UNRESOLVABLE = "unresolvable"
    RESOLVER_FAILED = "resolver-failed"
    REFUSED = "refused"
    TIMED_OUT = "timed-out"
    UNREACHABLE = "unreachable"
    CLOSED = "closed"
    NO_LEADER = "no-leader"
    """A node answered that it knows no leader."""
    NOT_READY = "not-ready"
    """A node answered that its authorizer is not ready: it restarted and knows no leader."""
    DENIED = "denied"
    NOT_AUTHENTICATED = "not-authenticated"
    TLS_FAILED = "tls-failed"
    WRONG_PROTOCOL = "wrong-protocol"
    """The node uses TLS or SASL where the monitor's `security_protocol` does not, or the reverse."""
    WRONG_CLUSTER = "wrong-cluster"
    UNSUPPORTED = "unsupported"
    UNDECODABLE = "undecodable"
    INVALID_RESPONSE = "invalid-response"
    """A response that no Kafka node sends (its size, a count, a number) was refused before anything was used of it."""
    TOO_FEW_DESCRIPTORS = "too-few-descriptors"
    """The gatherer could not open a socket: its process, or the machine, has no file descriptor left."""
    METADATA_LOST = "metadata-lost"
    """DivergingEpoch below an offset that was already committed: committed metadata is lost."""
    LOG_DAMAGED = "log-damaged"
    """A leader served a damaged record batch of its metadata log or snapshot, or cannot read its log."""
    RECORDS_KNOWN = "records-known"
    """The gatherer reads the log again: it knows other types or versions of records than before, or another leader may
    serve what was damaged. No failure."""
    RECORDS_MISSING = "records-missing"
    """Observations of the log are missing: what follows them was not applied."""
    TASK_FAILED = "task-failed"
    """A task of the gatherer failed because of a bug, and was restarted."""
    INTERRUPTED = "interrupted"
    """The gatherer itself was restarted, or did not run: nothing was observed."""
    CLOCK_STEPPED = "clock-stepped"
    """The clock of the gatherer's host was set forward: the time since the row before has not passed."""


NO_LEADER_REASONS = frozenset({Reason.NO_LEADER, Reason.NOT_READY})
"""What a node without a leader answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A leader's newest `.checkpoint` (KIP-630)."""

    end_offset: Offset
    epoch: Epoch
    last_contained_timestamp_ms: Millis | None
    """From its header, a timestamp of the log; None if it could not be read."""
    voters: tuple[Voter, ...] | None = None
    """Its voter set; None if it has none, as that of a static quorum, or if it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLog:
    """A leader's answer to a fetch at the beginning of its log."""

    start_offset: Offset | None
    snapshot: Snapshot | None
    """The newest one; None also if there is only the one that formatting a disk creates."""
    tells_absence: bool
    """Whether no snapshot means that there is none: Kafka before 3.6 reports one only after it deleted log segments."""
    begins_timestamp_ms: Millis | None
    """The timestamp of the log's first record, if the leader returned it."""


VIEW_EVERY_MS = Millis(10_000)
"""How often a controller is asked who leads."""
UNRECORDED_VIEW_EVERY_MS = Millis(60_000)
"""The same for a configured address that no node records, while it agrees with the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderView:
    """One controller's report of who leads."""

    observed_at_ms: Millis = START
    since_ms: Millis = START
    """The first of its unbroken reports of this leader and epoch."""
    endpoint: str
    """HOST:PORT that was polled."""
    node: NodeId | None
    """The node that this endpoint belongs to, if known."""
    this_cluster: bool
    """False if a node of another cluster answers there: INCONSISTENT_CLUSTER_ID, and nothing else."""
    leader_id: NodeId | None
    """None if it knows no leader."""
    leader_epoch: Epoch | None
    log: LeaderLog | None
    """Set if the controller leads itself."""
    other_voters: tuple[ReplicaKey, ...] = ()
    """The voters that it leads, if they are not those of the quorum that is monitored: the cluster id is the same."""

    @property
    def asked_every_ms(self) -> Millis:
        """At least how often this endpoint is asked: the leader of another quorum, as often as the controllers."""
        return UNRECORDED_VIEW_EVERY_MS if self.node is None and not self.other_voters else VIEW_EVERY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBatch:
    """A record batch that a leader served damaged."""

    offset: Offset | None = None
    """The first offset in it; None for a batch of a snapshot."""
    last_offset: Offset | None = None
    """By its header, which may be damaged too; None as well if that cannot be, as `epoch`."""
    epoch: Epoch | None = None
    snapshot: SnapshotId | None = None
    """The snapshot that it is in; None for the log."""
    position: int | None = None
    """Where it begins in the snapshot's file."""
    outside_checksum: bool = False
    """Its checksum matches: only its offset, epoch or magic is damaged, which Kafka's check at its start passes."""
    high_watermark: Offset | None = None
    """The leader's when it served the batch, if known: what has a lower offset was written before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedObservation:
    """A failed attempt to observe one data source at one address. `detail` never holds a secret."""

    source: ObservationSource
    endpoint: str
    """HOST:PORT, or empty if no address could be contacted."""
    reason: Reason
    detail: str
    first_at_ms: Millis = START
    """The start of the unbroken run of failures of this source at this endpoint."""
    last_at_ms: Millis = START
    node: NodeId | None = None
    """The node of that endpoint, if known."""
    damage: DamagedBatch | None = None
    """What is damaged, with LOG_DAMAGED."""
    leader_id: NodeId | None = None
    """The leader that the node names, where it answered that it does not lead."""


class Invariant(StrEnum):
    """An invariant of Raft (KIP-595) that the monitor can check."""

    TWO_LEADERS = "two-leaders"
    """An epoch has at most one leader."""
    EPOCH_BACK = "epoch-back"
    """A node's epoch, and the log's, never decrease."""
    HIGH_WATERMARK_BACK = "high-watermark-back"
    """A committed record stays committed."""
    ELECTED_BY_MINORITY = "elected-by-minority"
    """A leader has the votes of a majority of the voters."""
    VOTERS_BEFORE_LEADER = "voters-before-leader"
    """A leader appends the LeaderChangeMessage of its epoch before any change of the voter set (KIP-853)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantViolation:
    """One violation of an invariant: no later answer undoes it."""

    invariant: Invariant
    epoch: Epoch
    """The epoch of the answer or record that violates the invariant."""
    detail: str
    observed_at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRecordType:
    """The records of one type and version that this kraftwatch does not know."""

    name: str
    """Type and version, such as `record type 501 version 0` or `PartitionRecord version 9`."""
    kafka_class: str | None
    """Kafka's class; None if the type itself is unknown."""
    count: int
    """How many were read."""
    first_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractViolation:
    """A violated data contract: data that kraftwatch recorded, decoded, replayed or sent is not as it must be."""

    contract: str
    """Its name, as `kraftwatch data audit` lists it."""
    promise: str
    """What it promises, in a sentence."""
    grave: bool
    """Whether an operator must act now: the data that alerts depend on, or a secret, is affected."""
    rows: int
    """How many rows violate it, as far as counted."""
    first_at_ms: Millis = START
    last_at_ms: Millis = START
    """When it was last found violated."""
    example: str
    """One of the rows as text; never a secret."""
    sequence: int | None = None
    """The example's sequence number in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the monitor connects, as far as rules need it: no secret."""

    protocol: str = "PLAINTEXT"
    """The configured security_protocol."""
    principal: str | None = None
    """The monitor's principal for Kafka's authorizer, such as `User:kraftwatch`; None if only Kafka knows it."""
    log: bool = True
    """The metadata log is read. False: only polls are made, by choice; they need only DESCRIBE."""
    scram: bool = False
    """The monitor logs in with SCRAM, whose credentials a controller reads in the metadata log (KIP-900)."""

    @property
    def secured(self) -> bool:
        """Whether the listener requires TLS, a login or both: Kafka's tools need a --command-config there."""
        return self.protocol != "PLAINTEXT"

    @property
    def anonymous(self) -> bool:
        """Whether every client of the listener is the same user, User:ANONYMOUS: there is neither TLS nor a login."""
        return not self.secured

    @property
    def tls(self) -> bool:
        """Whether the listener uses TLS: every node presents a certificate."""
        return self.protocol in ("SSL", "SASL_SSL")


PLAINTEXT = Access()
"""A listener without TLS and login."""


class Vantage(StrEnum):
    """Where the monitor's host is relative to the cluster's network and name service."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    """Findings about endpoints that depend on probes alone are at most warnings."""
