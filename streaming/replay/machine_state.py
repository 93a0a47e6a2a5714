"""MachineState: everything a `Machine` knows about one cluster, as plain attributes that `state_codec` stores."""

from rules.model.identifiers import Millis
from rules.model.monitoring import PLAINTEXT, Access, Vantage
from rules.model.voter_set import VoterRemoval
from streaming.replay.contract_violations import ContractViolations
from streaming.replay.image import Image
from streaming.replay.invariants import Invariants
from streaming.replay.leadership_state import Leadership
from streaming.replay.log import Log
from streaming.replay.page_store import PageStore
from streaming.replay.poll_history import PollHistory
from streaming.replay.probe_state import ProbeState


class MachineState:
    """The configuration of one cluster, and what its observations have shown.

    Invariant: `sequence` is the newest observation applied; it and everything before it are never applied again.
    """

    def __init__(
        self,
        cluster: str,
        cluster_id: str | None,
        bootstrap: tuple[str, ...],
        vantage: Vantage,
        access: Access = PLAINTEXT,
        pages: PageStore | None = None,
    ) -> None:
        """Creates the state before the first observation.

        Args:
            cluster: its name in the configuration.
            cluster_id: None or empty if it is not known yet; the first poll that reports it sets it.
            bootstrap: HOST:PORT of each configured controller or broker.
            vantage: whether the monitor is inside the cluster's network.
            access: how the monitor connects.
            pages: keeps the large parts of the stored state; None: they are in it.
        """
        self.cluster = cluster
        self.cluster_id = cluster_id or None
        self.bootstrap = bootstrap
        self.vantage = vantage
        self.access = access
        self.pages = pages
        self.sequence = -1
        self.now_ms = Millis(0)
        self.undecodable = 0
        """The number of records, batches and rows that could not be decoded."""
        self.log = Log()
        self.loading: Log | None = None
        """The snapshot that is being read."""
        self.visible_image = Image()
        """The newest image of the log that rules see."""
        self.behind_since_ms: Millis | None = None
        """Since when the log has been read less far than its high watermark."""
        self.log_seen_at_ms: Millis | None = None
        self.removals: tuple[VoterRemoval, ...] = ()
        self.leadership = Leadership()
        self.poll_history = PollHistory()
        self.probe_state = ProbeState()
        self.invariants = Invariants()
        self.contract_violations = ContractViolations()
