"""Identification of the configured clusters before the job starts: do they belong to this checkpoint?

A checkpoint that has recorded the cluster ids continues when no cluster can be reached: a monitor must not stop during
the DNS incident that it should report. A new checkpoint, on a new disk for example, starts in the same way with a
configured cluster_id; without it, it needs one answer from each cluster. Where the checkpoint already has some
clusters, a new one that does not answer is left out until it answers. A recorded one in whose place another cluster
answers is not observed, and must not stop the others' job.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
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

_FIX = {
    Reason.NOT_AUTHENTICATED: "correct the login (sasl_mechanism, the user and its password, token or keytab)",
    Reason.WRONG_PROTOCOL: "correct security_protocol: the listener uses another protocol",
    Reason.TLS_FAILED: "correct the TLS settings (ssl_cafile, or the name that the certificate is for)",
}
"""What to do about failures that a correct address does not fix."""

Identify = Callable[[ClusterConnection, float], str]
"""Asks a cluster for its id with a timeout in seconds; raises an error with the most specific reason."""


class UnavailableClusterError(UsageError):
    """No node of a new cluster answers; it may answer later."""

    def __init__(self, sentence: str, *, may_pass: bool = False) -> None:
        """`may_pass`: a job waits for it at its start, because nothing may have to be corrected."""
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
    """Clusters without an id, each with the error that names the reason."""
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


def identify_clusters(
    clusters: Sequence[ClusterConnection], recorded: Mapping[str, str], identify: Identify
) -> ClusterIds:
    """Asks each cluster for its id, all at the same time.

    Raises UsageError if a new cluster refuses to name its id, or another cluster answers for each one. If it does for
    some, the gatherer refuses its answers, and `monitor-blind` reports them.
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
        case ObservationError() if answer.reason is Reason.WRONG_CLUSTER:
            raise (UsageError if recorded is None else OtherClusterError)(
                f"cluster {cluster.name}: {hosts} is not cluster {cluster.cluster_id} ({answer}); nothing was changed: "
                "correct the address or the cluster_id"
            )
        case ObservationError() if recorded is not None:
            return recorded
        case ObservationError() if answer.reason is Reason.UNSUPPORTED:
            raise UsageError(
                f"cluster {cluster.name}: {hosts} cannot name its cluster id (no controller before Kafka 3.7 can): "
                "set cluster_id in a --config file; every node has it in its meta.properties"
            )
        case ObservationError() if answer.reason is Reason.DENIED:
            raise UsageError(
                f"cluster {cluster.name}: {hosts} does not name its cluster id to this principal (a controller names "
                "it only with ALTER on CLUSTER, which a monitor should not have): set cluster_id in a --config file; "
                "every node has it in its meta.properties"
            )
        case ObservationError() if cluster.cluster_id is not None and answer.reason not in _FIX:
            return cluster.cluster_id
        case ObservationError():
            fix = _FIX.get(
                answer.reason,
                "check the addresses, or --resolve and --hosts-file; with a cluster_id in a --config file, the job "
                "starts without an answer",
            )
            raise UnavailableClusterError(
                f"cluster {cluster.name}: none of {hosts} could be queried ({answer.detail}) and the checkpoint has no "
                f"recorded state of the cluster; {fix}"
            )
        case str() if recorded is not None and answer != recorded:
            raise OtherClusterError(
                f"cluster {cluster.name}: {hosts} answers as cluster {answer}, but this checkpoint belongs to cluster "
                f"{recorded}; nothing was changed: correct the address, or give a new --checkpoint"
            )
        case str():
            return answer


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
