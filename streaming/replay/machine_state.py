"""MachineState: everything a `Machine` knows about one cluster, as plain attributes that `state_codec` stores."""

from rules.model.identifiers import Millis
from rules.model.voter_set import VoterRemoval
from streaming.replay.cluster_settings import ClusterSettings
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

    def __init__(self, settings: ClusterSettings, pages: PageStore | None = None) -> None:
        """Creates the state before the first observation.

        Args:
            settings: the cluster.
            pages: keeps the large parts of the stored state; None: they are in it.
        """
        self.settings = settings
        self.cluster = settings.name
        self.cluster_id = settings.cluster_id or None
        self.bootstrap = settings.bootstrap
        self.vantage = settings.vantage
        self.access = settings.access
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
