"""ObservationFaults: what is wrong between the gatherer and the quorum."""

from dataclasses import dataclass, field

from rules.model.identifiers import Millis, NodeId


@dataclass(slots=True)
class ObservationFaults:
    """Faults of the monitor's own host and rights, and of what answers it."""

    log_denied: bool = False
    """The principal lacks CLUSTER_ACTION: only polls are answered."""
    resolver_fails: bool = False
    """The resolver of the monitor's host answers nothing, not even NXDOMAIN."""
    certificates_expire_at_ms: Millis | None = None
    """When the certificates of all controllers expire; None if they have none."""
    damaged: bool = False
    """The next record that is read cannot be decoded."""
    impostor: NodeId | None = None
    """A node that answers polls as the leader of the current epoch, and is not."""
    foreign: set[int] = field(default_factory=set)
    """Controllers at whose address a node of another cluster answers the question who leads."""
