"""EvaluatedQuorum: the clusters of an evaluation, and their sections in the job's configuration."""

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.job.configured_job import section
from tests.lab import Lab

CLUSTER = "prod"
USER = "kraftwatch"
"""The monitor's user in a secured quorum."""
_PROPERTIES = {"broker.session.timeout.ms": "3000"}


class EvaluatedQuorum(StrEnum):
    """Which clusters the job monitors; the value is its name in a sentence."""

    FIVE = "five controllers and two brokers"
    SECURED = "three controllers with TLS and a login"
    COMBINED = "two controllers and a combined node"
    SEVERAL = "three clusters"


def started_labs(quorum: EvaluatedQuorum, folder: Path, stack: ExitStack) -> list[Lab]:
    """Starts the clusters; the first is the one whose views are compared."""
    labs = _labs(quorum, folder)
    for lab in labs:
        stack.enter_context(lab)
    if quorum is EvaluatedQuorum.SECURED:
        grant = f"--add --allow-principal User:{USER} --operation Describe --operation ClusterAction --cluster"
        lab = labs[0]
        command = f"kafka-acls.sh --bootstrap-controller {lab.bootstrap[0]} --command-config $NODE_PROPERTIES {grant}"
        lab.run_remedy(command, node_properties=lab.node(1).properties_file)
    return labs


def _labs(quorum: EvaluatedQuorum, folder: Path) -> list[Lab]:
    match quorum:
        case EvaluatedQuorum.FIVE:
            return [Lab(folder / "lab", controllers=5, brokers=2, named=True, properties=_PROPERTIES)]
        case EvaluatedQuorum.SECURED:
            return [Lab(folder / "lab", controllers=3, brokers=1, users=[USER])]
        case EvaluatedQuorum.COMBINED:
            return [Lab(folder / "lab", controllers=2, combined=1, brokers=1, properties=_PROPERTIES)]
        case EvaluatedQuorum.SEVERAL:
            return [Lab(folder / f"lab-{number}", controllers=1, brokers=0) for number in range(3)]


def sections(quorum: EvaluatedQuorum, labs: list[Lab]) -> list[dict[str, Any]]:
    """Returns the section of each cluster."""
    first = labs[0]
    match quorum:
        case EvaluatedQuorum.FIVE:
            return [section(CLUSTER, first, hosts_file=str(first.hosts_file))]
        case EvaluatedQuorum.SECURED:
            login = {
                "cluster_id": first.cluster_id,
                "security_protocol": "SASL_SSL",
                "ssl_cafile": str(first.security.ca_file),
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": USER,
                "sasl_plain_password": first.security.passwords[USER],
            }
            return [section(CLUSTER, first, **login)]
        case EvaluatedQuorum.COMBINED:
            return [section(CLUSTER, first)]
        case EvaluatedQuorum.SEVERAL:
            names = [CLUSTER, *(f"{CLUSTER}-{number}" for number in range(2, len(labs) + 1))]
            return [section(name, lab) for name, lab in zip(names, labs, strict=True)]
