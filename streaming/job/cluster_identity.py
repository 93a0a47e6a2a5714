"""Before anything starts: which clusters are these, and do they belong to this checkpoint.

A checkpoint that already knows its clusters goes on when none can be reached: a monitor that dies in the DNS
incident is worthless. A new one needs to reach each cluster once; where it knows some already, one that is new and away
is left out until it comes.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError, UsageError
from rules.model.identifiers import host_and_port
from rules.model.monitoring import Reason

IDENTIFY_S = 10.0
IDENTIFY_AGAIN_S = 3.0
"""For a cluster whose id is recorded: its answer can only confirm, and the job should watch, not wait."""

_MEND = {
    Reason.NOT_AUTHENTICATED: "correct the login (sasl_mechanism, the user and its password or token)",
    Reason.TLS_FAILED: "correct the TLS settings (ssl_cafile, or the name that the certificate is for)",
}
"""What to do about what is no matter of addresses."""

Identify = Callable[[Cluster, float], str]
"""Asks a cluster for its id within so many seconds; raises UnseenError with the best reason."""


class AbsentError(UsageError):
    """Nobody answers for a cluster of which nothing is recorded: it may come yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollCall:
    """Which clusters these are, by name."""

    ids: Mapping[str, str]
    """Asked for, or else remembered."""
    absent: Mapping[str, AbsentError]
    """Those without an id."""

    def complete(self) -> Mapping[str, str]:
        """The ids, when there is one of each.

        Raises:
            AbsentError: the first that is away.
        """
        for problem in self.absent.values():
            raise problem
        return self.ids


def call_roll(clusters: Sequence[Cluster], recorded: Mapping[str, str], identify: Identify) -> RollCall:
    """Ask each cluster which it is.

    Raises:
        UsageError: another cluster answers than the one recorded, or one that nothing is recorded of does not tell.
    """
    with ThreadPoolExecutor(max_workers=16) as pool:
        answers = list(pool.map(lambda cluster: _ask(cluster, identify, known=cluster.name in recorded), clusters))
    ids, absent = dict[str, str](), dict[str, AbsentError]()
    for cluster, answer in zip(clusters, answers, strict=True):
        try:
            ids[cluster.name] = _settled(cluster, recorded.get(cluster.name), answer)
        except AbsentError as problem:
            absent[cluster.name] = problem
    return RollCall(ids=ids, absent=absent)


def _ask(cluster: Cluster, identify: Identify, *, known: bool) -> str | UnseenError:
    try:
        return identify(cluster, IDENTIFY_AGAIN_S if known else IDENTIFY_S)
    except UnseenError as problem:
        return problem


def _settled(cluster: Cluster, recorded: str | None, answer: str | UnseenError) -> str:
    hosts = ", ".join(host_and_port(host, port) for host, port in cluster.bootstrap)
    match answer:
        case UnseenError() if answer.reason is Reason.WRONG_CLUSTER:
            raise UsageError(
                f"cluster {cluster.name}: {hosts} is not cluster {cluster.cluster_id} ({answer}); nothing was changed: "
                "correct the address or the cluster_id"
            )
        case UnseenError() if recorded is not None:
            return recorded
        case UnseenError() if answer.reason is Reason.UNSUPPORTED:
            raise UsageError(
                f"cluster {cluster.name}: {hosts} cannot tell which cluster it is of (a controller before Kafka 3.7 "
                "never can): write its cluster_id, which stands in every node's meta.properties, into a --config file"
            )
        case UnseenError() if answer.reason is Reason.DENIED:
            raise UsageError(
                f"cluster {cluster.name}: {hosts} does not tell our principal which cluster it is (a controller tells "
                "it only with ALTER on CLUSTER, which a monitor should not have): write its cluster_id, which stands "
                "in every node's meta.properties, into a --config file"
            )
        case UnseenError():
            mend = _MEND.get(answer.reason, "check the addresses, or --resolve and --hosts-file")
            raise AbsentError(
                f"cluster {cluster.name}: none of {hosts} could be asked ({answer.detail}) and the checkpoint holds no "
                f"recorded state of it; {mend}"
            )
        case str() if recorded is not None and answer != recorded:
            raise UsageError(
                f"cluster {cluster.name}: {hosts} answers as cluster {answer}, but this checkpoint belongs to cluster "
                f"{recorded}; nothing was changed: correct the address, or give a new --checkpoint"
            )
        case str():
            return answer
