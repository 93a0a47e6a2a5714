"""Dials each voter from the host of one controller, with that controller's own properties: one `WitnessRow`.

The requests are those of `kraftwatch doctor` and of the endpoint probe. A Fetch of the metadata log needs
CLUSTER_ACTION, as Vote, BeginQuorumEpoch and Fetch of a peer do (ControllerApis). It changes nothing: its replica id is
-1.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from connectors.errors import UsageError
from connectors.gather.connectivity_check import ConnectivityCheck, check_connectivity
from connectors.gather.endpoint_probe import probe_once
from connectors.gather.node_directory import ProbeTarget
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.logdir.log_dir_files import PARTITION, MetaProperties, find_partition, open_files, read_meta_properties
from connectors.logdir.log_dir_reader import VoterSetReader
from connectors.logdir.start_files import start_problems
from connectors.process.wall_clock import wall_ms
from connectors.witness.node_properties import NodeProperties, read_node_properties
from rules.formatting import shortened
from rules.model.identifiers import Endpoint, Millis, NodeId, at_listener
from rules.model.monitoring import Answer, Connection, Probe, Reason, Resolution
from rules.model.replica import Poll
from rules.model.witness import MOST_PEERS, DialStep, PeerDial, Reached, WitnessRow

_WHY = 200
_REFUSED: Mapping[Reason | None, DialStep] = {
    **dict.fromkeys((Reason.TLS_FAILED, Reason.WRONG_PROTOCOL), DialStep.TLS),
    Reason.NOT_AUTHENTICATED: DialStep.LOGIN,
    Reason.DENIED: DialStep.PERMISSION,
}
"""By why the voter does not answer. What is not here, as an authorizer that is not ready, says neither yes nor no."""
_STEPS = {
    **dict.fromkeys((Answer.OTHER_CLUSTER, Answer.OTHER_NODE, Answer.NOT_KAFKA), DialStep.NODE),
    Answer.NO_ANSWER: DialStep.ANSWER,
}


def witness(file: Path, *, timeout_s: float, log: VoterSetReader) -> WitnessRow:
    """Returns what the host of a controller sees of the others. Blocks for some request timeouts.

    Args:
        file: the properties file with which the node is started.
        timeout_s: for each step of a dial.
        log: has read the node's own log as far as an attempt before this one.

    Raises:
        UsageError: the file, or one that it names, cannot be read, or it is not that of a controller.
    """
    began_ms = wall_ms()
    with TemporaryDirectory(prefix="kraftwatch-") as scratch:
        properties = read_node_properties(file, Path(scratch))
        partition = _partition(properties.log_dir)
        meta = read_meta_properties(partition)
        recorded = _recorded(partition, log) or _static(properties)
        checks: Sequence[ConnectivityCheck] = ()
        peers: Sequence[PeerDial] = ()
        if not properties.unusable:
            places = [(one.host, one.port) for one in recorded.values()]
            cluster = ClusterConnection(
                name=f"controller {properties.node}",
                bootstrap=tuple(dict.fromkeys([*places, *properties.bootstrap])),
                cluster_id=None if meta is None else meta.cluster_id,
                options=properties.options,
                request_timeout_ms=round(timeout_s * 1_000),
            )
            checks = check_connectivity(cluster)
            peers = list(_peers(properties, cluster, recorded or _listed(properties, checks), checks, timeout_s))
    return _row(properties, partition, meta, checks, peers[:MOST_PEERS], began_ms)


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
    checks: Sequence[ConnectivityCheck],
    peers: Sequence[PeerDial],
    began_ms: Millis,
) -> WitnessRow:
    poll = _poll(checks)
    listed = () if poll is None else (row.key for row in poll.voters if row.key.id == properties.node)
    problems = start_problems(partition) if partition.is_dir() else ()
    return WitnessRow(
        node=properties.node,
        cluster_id=None if meta is None else meta.cluster_id,
        at_ms=began_ms,
        login=properties.login,
        peers=tuple(peers),
        not_dialled=properties.unusable,
        leader_ahead_ms=next((check.skew_ms for check in checks if check.skew_ms is not None), None),
        directory_id=None if meta is None else meta.directory_id,
        listed_directory_ids=tuple(sorted(key.directory_id for key in listed if key.directory_id is not None)),
        free_bytes=_free_bytes(properties.log_dir),
        ends_start=tuple(shortened(one.with_step, _WHY) for one in problems if one.ends),
        may_end_start=tuple(shortened(one.with_step, _WHY) for one in problems if not one.ends),
    )


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _peers(
    properties: NodeProperties,
    cluster: ClusterConnection,
    voters: Mapping[NodeId, Endpoint],
    checks: Sequence[ConnectivityCheck],
    timeout_s: float,
) -> Iterator[PeerDial]:
    """Yields the dial of each other voter; without any that is known, each address that does not answer."""
    targets = [
        ProbeTarget(node=node, endpoint=endpoint)
        for node, endpoint in sorted(voters.items())
        if node != properties.node
    ]
    took = {str(check.address): check.took_ms for check in checks}
    # Resolution, connection, TLS, login and two requests.
    probes = probe_once(cluster, targets, within_s=6 * timeout_s)
    for target in targets:
        place = str(target.endpoint)
        reached, step, why = _outcome(probes.get(target))
        yield PeerDial(
            node=target.node,
            endpoint=place,
            reached=reached,
            step=step,
            why=shortened(why, _WHY),
            took_ms=took.get(place),
        )
    for check in () if targets else checks:
        if check.failure is not None:
            why, place = shortened(check.failure[1].detail, _WHY), str(check.address)
            yield PeerDial(node=None, endpoint=place, reached=Reached.UNKNOWN, why=why, took_ms=check.took_ms)


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


def _outcome(probe: Probe | None) -> tuple[Reached, DialStep | None, str]:
    """Returns whether a dial reached the voter, which step failed, and why."""
    if probe is None:
        return Reached.UNKNOWN, None, "the dial was not over in time, or this host has no file descriptor left"
    if probe.resolution is not Resolution.RESOLVED:
        return Reached.NO, DialStep.NAME, probe.detail
    if probe.connection is not Connection.ACCEPTED:
        return Reached.NO, DialStep.CONNECTION, probe.detail
    if probe.answer is Answer.THIS_CLUSTER:
        return Reached.YES, None, ""
    step = _REFUSED.get(probe.reason) if probe.answer is Answer.NOT_ALLOWED else _STEPS.get(probe.answer)
    return (Reached.UNKNOWN if step is None else Reached.NO), step, probe.detail
