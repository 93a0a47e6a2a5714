"""Dials each voter from the host of one node, with that node's own properties: one `WitnessRow`.

The requests are those of `kraftwatch doctor` and of the endpoint probe. A Fetch of the metadata log needs
CLUSTER_ACTION, as Vote, BeginQuorumEpoch and Fetch of a peer do (ControllerApis). It changes nothing: its replica id is
-1.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from connectors.errors import UsageError
from connectors.gather.connectivity_check import ConnectivityCheck, check_connectivity
from connectors.gather.endpoint_probe import probe_once
from connectors.gather.node_directory import ProbeTarget
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.resolver import is_address
from connectors.logdir.log_dir_files import PARTITION, MetaProperties, find_partition, open_files, read_meta_properties
from connectors.logdir.log_dir_reader import VoterSetReader
from connectors.logdir.start_files import start_problems
from connectors.process.wall_clock import wall_ms
from connectors.witness.kafka_tools import KafkaTools, LeaderSaid
from connectors.witness.node_jvm import HOSTS_FILE, NodeJvm, node_jvm
from connectors.witness.node_properties import NodeProperties, read_node_properties
from rules.formatting import shortened
from rules.model.identifiers import Endpoint, Millis, NodeId, at_listener
from rules.model.monitoring import (
    ENCRYPTION,
    CertificateFault,
    ConnectionResult,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
)
from rules.model.replica import Poll
from rules.model.witness import MOST_PEERS, DialledBy, DialStep, PeerDial, Reached, WitnessRow

_WHY = 200
_AT_ONCE = 4
"""So many JVMs of Kafka's tools run at the same time."""
_WEAK = "too weak)"
"""How OpenSSL's words of a key or a digest end."""
_REFUSED: Mapping[Reason | None, DialStep] = {
    **dict.fromkeys((Reason.TLS_FAILED, Reason.WRONG_PROTOCOL), DialStep.TLS),
    Reason.NOT_AUTHENTICATED: DialStep.LOGIN,
    Reason.DENIED: DialStep.PERMISSION,
}
"""By why the voter does not answer. What is not here, as an authorizer that is not ready, says neither yes nor no."""
_STEPS = {
    **dict.fromkeys((ProbeAnswer.OTHER_CLUSTER, ProbeAnswer.OTHER_NODE, ProbeAnswer.NOT_KAFKA), DialStep.NODE),
    ProbeAnswer.NO_ANSWER: DialStep.ANSWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """What the attempts of one witness have found: the next one does not ask again for what stays the same."""

    log: VoterSetReader = field(default_factory=VoterSetReader)
    """Has read the node's own log as far as the newest one."""
    by_kafka: dict[str, "_KafkaDial"] = field(default_factory=dict, repr=False)
    """How Kafka's tools dialled, by HOST:PORT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _KafkaDial:
    """How Kafka's tools dialled, and all that kraftwatch knew of that dial."""

    known: tuple[object, ...]
    dialled: PeerDial
    at_s: float


_DIALS_AGAIN_S = 900.0
"""So long Kafka's tools are believed while all that kraftwatch's own dial shows stays the same: they show how Java
differs from OpenSSL with these certificates, suites and options, and each dial takes 1.5 s of CPU time."""


def witness(file: Path, *, timeout_s: float, attempts: Attempts, kafka: Path | None = None) -> WitnessRow:
    """Returns what the host of a controller or broker sees of the controllers. Blocks for some request timeouts.

    Args:
        file: the properties file with which the node is started.
        timeout_s: for each step of a dial.
        attempts: what those before this one have found; of one file.
        kafka: an installation of Kafka, whose tools dial; None: kraftwatch dials.

    Raises:
        UsageError: the file, or one that it names, cannot be read, or it is not that of a KRaft node.
    """
    began_ms = wall_ms()
    jvm = node_jvm(file)
    with TemporaryDirectory(prefix="kraftwatch-") as folder:
        properties = read_node_properties(file, Path(folder), jvm)
        tools = None
        if kafka is not None:
            tools = KafkaTools(kafka, Path(folder), client=properties.client, jvm=jvm, timeout_s=timeout_s)
        partition = _partition(properties.log_dir)
        meta = read_meta_properties(partition)
        cluster_id = None if meta is None else meta.cluster_id
        recorded = _recorded(partition, attempts.log) or _static(properties)
        checks: Sequence[ConnectivityCheck] = ()
        peers: Sequence[_Dial] = ()
        if not properties.unusable:
            places = [(one.host, one.port) for one in recorded.values()]
            cluster = ClusterConnection(
                name=f"node {properties.node}",
                bootstrap=tuple(dict.fromkeys([*places, *properties.bootstrap])),
                cluster_id=cluster_id,
                options=properties.options,
                hosts_file=jvm.settings.get(HOSTS_FILE),
                request_timeout_ms=round(timeout_s * 1_000),
            )
            checks = check_connectivity(cluster)
            voters = recorded or _listed(properties, checks)
            peers = list(_peers(properties, jvm, cluster, voters, checks, timeout_s))
        elif tools is not None:
            peers = [_not_dialled(properties, node, endpoint) for node, endpoint in _others(properties, recorded)]
        said, dialled = _said(checks, properties.node), [one.peer for one in peers]
        if tools is not None:
            by_kafka = partial(_by_kafka, tools, cluster_id, attempts, properties)
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                dialled = list(threads.map(by_kafka, peers))
            said = said or tools.leader([peer.endpoint for peer in dialled], properties.node)
    dialled = [_if_known(jvm, peer) for peer in dialled[:MOST_PEERS]]
    row = replace(_row(properties, partition, meta, dialled, said, began_ms), process_since_ms=jvm.since_ms)
    if tools is None:
        return row
    login = row.login or properties.client.get("sasl.mechanism", "")
    return replace(row, dialled_by=DialledBy.KAFKA, not_dialled="", login=login)


def _partition(log_dir: Path) -> Path:
    try:
        return find_partition(log_dir)
    except UsageError:
        # It has written no log yet.
        return log_dir / PARTITION


def _recorded(partition: Path, log: VoterSetReader) -> Mapping[NodeId, Endpoint]:
    """Returns where the node dials each voter: by the newest voters in its own log, committed or not (KIP-853)."""
    if not partition.is_dir():
        return {}
    with open_files(partition) as files:
        sets = log.read(files)
    voters = sets[-1].voters.voters if sets else ()
    return {voter.key.id: voter.endpoint for voter in voters if voter.endpoint is not None}


def _static(properties: NodeProperties) -> Mapping[NodeId, Endpoint]:
    """Returns the same of a static quorum: by its controller.quorum.voters."""
    return {
        node: Endpoint(listener=properties.listener, host=host, port=port)
        for node, (host, port) in properties.voters.items()
    }


def _row(
    properties: NodeProperties,
    partition: Path,
    meta: MetaProperties | None,
    peers: Sequence[PeerDial],
    said: LeaderSaid | None,
    began_ms: Millis,
) -> WitnessRow:
    problems = start_problems(partition) if partition.is_dir() else ()
    return WitnessRow(
        node=properties.node,
        cluster_id=None if meta is None else meta.cluster_id,
        at_ms=began_ms,
        login=properties.login,
        peers=tuple(peers),
        not_dialled=properties.unusable,
        leader_ahead_ms=None if said is None else said.ahead_ms,
        directory_id=None if meta is None else meta.directory_id,
        listed_directory_ids=() if said is None else said.directory_ids,
        free_bytes=_free_bytes(properties.log_dir),
        ends_start=tuple(shortened(one.with_step, _WHY) for one in problems if one.ends),
        may_end_start=tuple(shortened(one.with_step, _WHY) for one in problems if not one.ends),
    )


def _said(checks: Sequence[ConnectivityCheck], node: NodeId) -> LeaderSaid | None:
    poll, ahead_ms = _poll(checks), next((check.skew_ms for check in checks if check.skew_ms is not None), None)
    if poll is None or ahead_ms is None:
        return None
    listed = (row.key.directory_id for row in poll.voters if row.key.id == node)
    return LeaderSaid(ahead_ms=ahead_ms, directory_ids=tuple(sorted(filter(None, listed))))


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _others(properties: NodeProperties, voters: Mapping[NodeId, Endpoint]) -> list[tuple[NodeId, Endpoint]]:
    return [(node, endpoint) for node, endpoint in sorted(voters.items()) if node != properties.node]


class _Dial(NamedTuple):
    """A dial of kraftwatch, and what it showed of the voter's TLS."""

    peer: PeerDial
    tls: tuple[str | None, ...] = ()


def _not_dialled(properties: NodeProperties, node: NodeId, endpoint: Endpoint) -> _Dial:
    why = shortened(properties.unusable, _WHY)
    return _Dial(PeerDial(node=node, endpoint=str(endpoint), reached=Reached.UNKNOWN, why=why))


def _peers(
    properties: NodeProperties,
    jvm: NodeJvm,
    cluster: ClusterConnection,
    voters: Mapping[NodeId, Endpoint],
    checks: Sequence[ConnectivityCheck],
    timeout_s: float,
) -> Iterator[_Dial]:
    """Yields the dial of each other voter; without any that is known, each address that does not answer."""
    targets = [ProbeTarget(node=node, endpoint=endpoint) for node, endpoint in _others(properties, voters)]
    took = {str(check.address): check.took_ms for check in checks}
    # Resolution, connection, TLS, login and two requests.
    probes = probe_once(cluster, targets, within_s=6 * timeout_s)
    for target in targets:
        place = str(target.endpoint)
        probe = probes.get(target)
        reached, step, why = _outcome(properties, jvm, target, probe)
        shown = None if probe is None else probe.certificate
        peer = PeerDial(
            node=target.node,
            endpoint=place,
            reached=reached,
            step=step,
            why=shortened(why, _WHY),
            took_ms=took.get(place),
        )
        yield _Dial(peer, () if shown is None else (str(shown.presented), shown.suite))
    for check in () if targets else checks:
        if check.failure is not None:
            why, place = shortened(check.failure[1].detail, _WHY), str(check.address)
            yield _Dial(PeerDial(node=None, endpoint=place, reached=Reached.UNKNOWN, why=why, took_ms=check.took_ms))


def _by_kafka(
    tools: KafkaTools, cluster_id: str | None, attempts: Attempts, properties: NodeProperties, dial: _Dial
) -> PeerDial:
    """Returns how Kafka's tools dial a voter that kraftwatch has dialled.

    They do not dial again while that would show nothing new. What kraftwatch cannot dial, they dial each time.
    """
    peer, now_s = dial.peer, time.monotonic()
    known = (properties.digest, cluster_id, peer.node, peer.reached, peer.step, peer.why, *dial.tls)
    before = attempts.by_kafka.get(peer.endpoint)
    if before is not None and before.known == known and now_s - before.at_s < _DIALS_AGAIN_S:
        return replace(before.dialled, took_ms=peer.took_ms)
    dialled = _dialled_by_kafka(tools, cluster_id, peer)
    if dialled.reached is not Reached.UNKNOWN and not properties.unusable:
        attempts.by_kafka[peer.endpoint] = _KafkaDial(known=known, dialled=dialled, at_s=now_s)
    return dialled


def _dialled_by_kafka(tools: KafkaTools, cluster_id: str | None, peer: PeerDial) -> PeerDial:
    """Returns what they show: how far it gets, up to the login. What a peer is permitted and who answers, a Fetch of
    kraftwatch shows."""
    if peer.node is None:
        return peer
    said = tools.dial(peer.endpoint, cluster_id)
    if said.logs_in and (peer.reached is Reached.YES or peer.step in (DialStep.PERMISSION, DialStep.NODE)):
        return peer
    if said.reached is Reached.YES:
        said = tools.proved(peer.endpoint, peer.node)
    elif said.reached is Reached.UNKNOWN and said.step is None and peer.reached is Reached.NO:
        return peer
    # Of a trust store in which Java trusts nothing Kafka's tool only says that its time is over.
    whys = (said.why, peer.why) if said.reached is Reached.UNKNOWN and said.step is None else (said.why,)
    return replace(
        peer,
        reached=said.reached,
        step=said.step if said.reached is Reached.NO else None,
        why=shortened("; ".join(filter(None, whys)), _WHY),
    )


def _if_known(jvm: NodeJvm, peer: PeerDial) -> PeerDial:
    """Returns a dial that says it was reached only if the node's JVM dials as its options are known here."""
    if peer.reached is not Reached.YES or not jvm.unknown:
        return peer
    return replace(peer, reached=Reached.UNKNOWN, why=jvm.unknown)


def _listed(properties: NodeProperties, checks: Sequence[ConnectivityCheck]) -> Mapping[NodeId, Endpoint]:
    """Returns where the leader lists the voters: of a node that has no log yet."""
    poll = _poll(checks)
    if poll is None:
        return {}
    known = {node: poll.nodes.get(node, ()) for node in poll.rows_by_id}
    return {
        row.key.id: at_listener(endpoints, properties.listener) or endpoints[0]
        for row in poll.voters
        if (endpoints := known[row.key.id])
    }


def _poll(checks: Sequence[ConnectivityCheck]) -> Poll | None:
    return next((check.quorum for check in checks if isinstance(check.quorum, Poll)), None)


def _outcome(
    properties: NodeProperties, jvm: NodeJvm, target: ProbeTarget, probe: Probe | None
) -> tuple[Reached, DialStep | None, str]:
    """Returns whether a dial reached the voter, which step failed, and why."""
    host = target.endpoint.host
    if not is_address(host) and not jvm.resolves(host):
        return Reached.NO, DialStep.NAME, f"{host} is not in -D{HOSTS_FILE}, from which the node's JVM resolves"
    if probe is None:
        return Reached.UNKNOWN, None, "the dial was not over in time, or this host has no file descriptor left"
    if probe.resolution is not Resolution.RESOLVED:
        return Reached.NO, DialStep.NAME, probe.detail
    if probe.connection is not ConnectionResult.ACCEPTED:
        return Reached.NO, DialStep.CONNECTION, probe.detail
    if probe.answer is ProbeAnswer.THIS_CLUSTER:
        return _as_java(properties, jvm, probe)
    step = _REFUSED.get(probe.reason) if probe.answer is ProbeAnswer.NOT_ALLOWED else _STEPS.get(probe.answer)
    if step is None or (step is DialStep.TLS and _is_openssls(probe)):
        return Reached.UNKNOWN, None, probe.detail
    return Reached.NO, step, probe.detail


def _as_java(properties: NodeProperties, jvm: NodeJvm, probe: Probe) -> tuple[Reached, DialStep | None, str]:
    """Returns what a dial that reached the voter shows of the node's Java."""
    certificate = probe.certificate
    if certificate is not None:
        version, _, suite = (certificate.suite or "").partition(" ")
        exchanged_by_rsa = version == "TLSv1.2" and not suite.startswith(("ECDHE-", "DHE-"))
        if ENCRYPTION in certificate.usages and not exchanged_by_rsa:
            why = "the key usage of its certificate has no digital signature, which Java requires"
            return Reached.NO, DialStep.TLS, why
        # Python offers all suites of TLS 1.3; Java 24 refuses those whose key exchange is RSA.
        offered = version != "TLSv1.3" or not properties.suites or suite in properties.suites
        if exchanged_by_rsa or not offered:
            why = f"the two agreed on {suite}, which the node's Java may not offer: give --kafka DIR, Kafka's folder"
            return Reached.UNKNOWN, None, why
    if jvm.ipv4_only and any(":" in one for one in probe.addresses):
        return Reached.UNKNOWN, None, "the node's JVM dials no IPv6 address (java.net.preferIPv4Stack)"
    return Reached.YES, None, ""


def _is_openssls(probe: Probe) -> bool:
    """Returns whether OpenSSL refuses a certificate that Java may accept: with a key or a digest that is weak, or of an
    authority in the trust store that has expired."""
    presented = probe.certificate
    if presented is None:
        return False
    if presented.fault is CertificateFault.EXPIRED:
        return (presented.expires_at_ms or 0) > wall_ms()
    return presented.fault is None and probe.detail.endswith(_WEAK)
