"""MachineState: what is known about one cluster."""

from dataclasses import dataclass, field

from rules.model.identifiers import START, Millis
from rules.model.membership import VoterRemoval
from streaming.replay.append_times import AppendTimes
from streaming.replay.contract_violations import ContractViolations
from streaming.replay.image import Image
from streaming.replay.leadership_state import Leadership
from streaming.replay.log import Log
from streaming.replay.log_clock import LogClock
from streaming.replay.poll_history import PollHistory
from streaming.replay.probe_state import ProbeState


@dataclass(kw_only=True, eq=False)
class MachineState:
    """What the observations of one cluster have shown: in memory as it is stored.

    Invariant: `sequence` is the newest observation applied; it and everything before it are never applied again.
    """

    cluster_id: str | None = None
    sequence: int = -1
    now_ms: Millis = START
    undecodable: int = 0
    """The number of records, batches and rows that could not be decoded."""
    log_clock: LogClock = field(default_factory=LogClock)
    append_times: AppendTimes = field(default_factory=AppendTimes)
    behind_since_ms: Millis | None = None
    """Since when the log has been read less far than its high watermark."""
    log_fetched_at_ms: Millis | None = None
    removals: tuple[VoterRemoval, ...] = ()
    leadership: Leadership = field(default_factory=Leadership)
    poll_history: PollHistory = field(default_factory=PollHistory)
    probe_state: ProbeState = field(default_factory=ProbeState)
    contract_violations: ContractViolations = field(default_factory=ContractViolations)
    log: Log
    loading: Log | None = None
    """The snapshot that is being read."""
    visible_image: Image = field(default_factory=Image)
    """The newest image of the log that rules see. It is not stored if it is the log's own."""
