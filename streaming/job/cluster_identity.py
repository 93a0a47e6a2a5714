"""Identification of the configured clusters before the job starts: do they belong to this checkpoint?

No cluster has to answer: a monitor must start during the outage that it should report, also on a new disk, or on a host
that boots with its cluster. A new cluster that does not answer has no id yet, and is monitored without one until it
does: then the job records the id, and refuses another cluster's answers. A recorded one in whose place another cluster
answers is not observed, and must not stop the others' job.

A new cluster that answers, and in a way that only a person can change, is a mistake in the configuration. It ends the
start where all clusters are new, because a person is there then: of a job that has monitored others, it must not stop
those.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from connectors.errors import ObservationError, UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.cluster_id_lookup import repeated_ids
from rules.formatting import and_join
from rules.model.identifiers import host_and_port
from rules.model.monitoring import Reason
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import CheckpointSource, record_source

log = logging.getLogger(__name__)

IDENTIFY_S = 10.0
IDENTIFY_AGAIN_S = 3.0
"""Seconds for a cluster whose id is recorded: its answer only confirms the id, so the job should not wait long."""

_MISTAKES = {
    Reason.NOT_AUTHENTICATED: "correct the login (sasl_mechanism, the user and its password, token or keytab)",
    Reason.WRONG_PROTOCOL: "correct security_protocol: the listener uses another protocol",
    Reason.TLS_FAILED: "correct the TLS settings (ssl_cafile, or the name that the certificate is for)",
}
"""What a node answers until a person corrects something, and what that is. All other failures may pass."""

Identify = Callable[[ClusterConnection, float], str]
"""Asks a cluster for its id with a timeout in seconds; raises an error with the most specific reason."""


class UnavailableClusterError(UsageError):
    """The id of a new cluster is not known."""

    def __init__(self, sentence: str, *, may_pass: bool = False) -> None:
        """`may_pass`: nothing may have to be corrected, because it may answer later."""
        super().__init__(sentence)
        self.may_pass = may_pass


class OtherClusterError(UsageError):
    """Another cluster answers than the recorded one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIds:
    """The ids of the configured clusters, by cluster name."""

    ids: Mapping[str, str]
    """As answered now, or as recorded in the checkpoint."""
    unavailable: Mapping[str, UnavailableClusterError]
    """Clusters whose id is not known, each with the error that names the reason."""
    source: CheckpointSource | None = None
    """Where the job begins in the relays' topics; None where it gathers itself."""
    unconfirmed: frozenset[str] = frozenset()
    """New clusters whose id is only configured. The checkpoint does not record it: a wrong one can be corrected."""

    @property
    def confirmed(self) -> Mapping[str, str]:
        """The ids that the checkpoint may record."""
        return {name: cluster_id for name, cluster_id in self.ids.items() if name not in self.unconfirmed}

    def require_all(self) -> Mapping[str, str]:
        """Returns the ids; raises the error of the first cluster without one."""
        for problem in self.unavailable.values():
            raise problem
        return self.ids

    @property
    def mistakes(self) -> Sequence[UnavailableClusterError]:
        """What a person has to correct."""
        return [problem for problem in self.unavailable.values() if not problem.may_pass]

    def require_start(self, clusters: Sequence[ClusterConnection], recorded: Mapping[str, str]) -> None:
        """Raises the first mistake if all clusters are new, or none is without one: a person changes them now."""
        if self.mistakes and not (recorded and len(self.mistakes) < len(clusters)):
            raise self.mistakes[0]


def identify_clusters(
    clusters: Sequence[ClusterConnection], recorded: Mapping[str, str], identify: Identify
) -> ClusterIds:
    """Asks each cluster for its id, all at the same time.

    Raises UsageError if another cluster answers for each one. If it does for some, the gatherer refuses its answers,
    and `monitor-blind` reports them.
    """
    with ThreadPoolExecutor(max_workers=16) as pool:
        answers = list(pool.map(lambda cluster: _ask(cluster, identify, known=cluster.name in recorded), clusters))
    ids, unavailable = dict[str, str](), dict[str, UnavailableClusterError]()
    others: list[OtherClusterError] = []
    for cluster, answer in zip(clusters, answers, strict=True):
        try:
            ids[cluster.name] = _cluster_id(cluster, recorded.get(cluster.name), answer)
        except UnavailableClusterError as problem:
            unavailable[cluster.name] = problem
        except OtherClusterError as problem:
            if len(others) + 1 == len(clusters):
                raise
            others.append(problem)
            ids[cluster.name] = recorded[cluster.name]
    for other in others:
        log.warning("%s. The other clusters are monitored; give a cluster that was created again another name", other)
    silent = {
        connection.name
        for connection, answer in zip(clusters, answers, strict=True)
        if isinstance(answer, ObservationError)
    }
    return ClusterIds(ids=ids, unavailable=unavailable, unconfirmed=frozenset(silent - recorded.keys()))


def _ask(cluster: ClusterConnection, identify: Identify, *, known: bool) -> str | ObservationError:
    try:
        return identify(cluster, IDENTIFY_AGAIN_S if known else IDENTIFY_S)
    except ObservationError as problem:
        return problem


def _cluster_id(cluster: ClusterConnection, recorded: str | None, answer: str | ObservationError) -> str:
    hosts = ", ".join(host_and_port(host, port) for host, port in cluster.bootstrap)
    match answer:
        case str() if recorded is not None and answer != recorded:
            raise OtherClusterError(
                f"cluster {cluster.name}: {hosts} answers as cluster {answer}, but this checkpoint belongs to cluster "
                f"{recorded}; nothing was changed: correct the address, or give a new --checkpoint"
            )
        case str():
            return answer
        case ObservationError(reason=Reason.WRONG_CLUSTER):
            raise (UnavailableClusterError if recorded is None else OtherClusterError)(
                f"cluster {cluster.name}: {hosts} is not cluster {cluster.cluster_id} ({answer}); nothing was changed: "
                "correct the address or the cluster_id"
            )
        case ObservationError() if recorded is not None:
            return recorded
        case ObservationError(reason=Reason.UNSUPPORTED):
            raise UnavailableClusterError(
                f"cluster {cluster.name}: {hosts} cannot name its cluster id (no controller before Kafka 3.7 can): "
                "set cluster_id in a --config file; every node has it in its meta.properties"
            )
        case ObservationError(reason=Reason.DENIED):
            raise UnavailableClusterError(
                f"cluster {cluster.name}: {hosts} does not name its cluster id to this principal (a controller names "
                "it only with ALTER on CLUSTER, which a monitor should not have): set cluster_id in a --config file; "
                "every node has it in its meta.properties"
            )
        case ObservationError():
            why = f"cluster {cluster.name}: none of {hosts} could be queried ({answer.detail})"
            fix = None if _may_pass(cluster, answer.reason) else _MISTAKES[answer.reason]
            if fix is not None:
                raise UnavailableClusterError(f"{why} and the checkpoint has no recorded state of the cluster; {fix}")
            if cluster.cluster_id is None:
                raise UnavailableClusterError(f"{why}, and its cluster id is not known yet", may_pass=True)
            return cluster.cluster_id


def _may_pass(cluster: ClusterConnection, reason: Reason) -> bool:
    """Returns whether a failure may end although no person corrects anything."""
    # KIP-900: SCRAM credentials are in the metadata log, so a controller accepts none before there is a leader.
    by_scram = str(cluster.options.get("sasl_mechanism")).startswith("SCRAM-")
    return reason not in _MISTAKES or (by_scram and reason is Reason.NOT_AUTHENTICATED)


def record_ids(checkpoint: Checkpoint, recorded: dict[str, str], answered: ClusterIds) -> dict[str, str]:
    """Writes the source, and the ids, those of clusters that are no longer configured included; returns the ids.

    Logs a warning for each cluster that is configured twice.
    """
    for cluster_id, names in repeated_ids(answered.ids.items()).items():
        log.warning(
            "clusters %s have one cluster id, %s: if they are one cluster, the one that was meant is not "
            "monitored (correct bootstrap); if the id was copied, their alerts are kept apart by name, and the alert "
            "monitor-degraded says how one gets another id",
            and_join(names),
            cluster_id,
        )
    if answered.source is not None:
        record_source(checkpoint, answered.source)
    checkpoint.record_cluster_ids({**recorded, **answered.confirmed})
    return {**recorded, **answered.ids}


def say_silent(sentences: Iterable[str]) -> None:
    """Logs of each new cluster that does not answer yet that it is monitored, and what may have to be corrected."""
    for why in sentences:
        log.warning(
            "%s: it is monitored, and its id is recorded when it answers; if its addresses are wrong, correct them, or "
            "--resolve and --hosts-file",
            why,
        )
