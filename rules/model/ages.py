"""How old what was observed may be, and the times of Kafka and of the gatherer with which it is compared.

What is older than its kind of observation may be is not known now, whoever asks.
"""

from dataclasses import dataclass
from typing import Final

from rules.model.identifiers import Millis

_TEN_SECONDS: Final = Millis(10_000)
_HALF_A_MINUTE: Final = Millis(30_000)
_A_MINUTE: Final = Millis(60_000)
_THREE_MINUTES: Final = Millis(180_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The ages of a quorum, in milliseconds. `AGES` in `freshness` says what each that users may set is for."""

    poll_ms: Millis = _TEN_SECONDS
    fetch_ms: Millis = _TEN_SECONDS
    probe_ms: Millis = _HALF_A_MINUTE
    view_ms: Millis = _HALF_A_MINUTE
    answer_ms: Millis = _TEN_SECONDS
    repeated_ms: Millis = _A_MINUTE
    """Of what is repeated with pauses: an attempt that fails (the gatherer tries it less and less often, but twice in
    this time), and the fetch of a replica that was lagging already (longer than Kafka's request timeout)."""
    witness_ms: Millis = _THREE_MINUTES
    """Of what a controller's host saw: a row a minute, and two lost ones. A row that says how often it is reported
    counts for three times that."""


DEFAULT_AGES: Final = Ages()
POLL_LATENCY_MS: Final = Millis(500)
"""How long a poll may take: a fetch counts as later than what was observed only if it is later by more than this."""
FETCH_WAIT_MS: Final = Millis(500)
"""How long a fetch waits at the leader for records: if one is appended meanwhile, the fetch counts once more, also if
its process has ended (KafkaRaftClient.MAX_FETCH_WAIT_MS, tryCompleteFetchRequest)."""
LATER_BY_MS: Final = Millis(1_000)
"""A report of no leader counts only if it is newer than a leader's last answer by this: a node that is cut off from the
others reports no leader all the time, and an idle quorum answers twice a second."""
LATE_MS: Final = Millis(1_500)
"""An answer is late so long after the first attempt without one: that gave up after half a second or more, and a fetch
and a vote may take two (controller.quorum.fetch.timeout.ms, controller.quorum.request.timeout.ms)."""
CLOCKS_DIFFER_MS: Final = Millis(2_000)
"""So far the clocks of two hosts may differ: what one saw counts only if it is later than a change by more."""
SYNCHRONIZED_MS: Final = Millis(2_000)
"""A time service keeps the clocks of two hosts within milliseconds: a check of one host, which people read at once,
reports more than this."""
OVERLAP_MS: Final = Millis(15_000)
"""So long before a probe that times out, an answer over an older connection may be: each controller answers every 10 s.
An answer from before a network failure is older soon."""
OBSERVER_SESSION_MS: Final = Millis(300_000)
"""How long a leader lists an observer after its last fetch (LeaderState.OBSERVER_SESSION_TIMEOUT_MS)."""
REGISTERS_MS: Final = Millis(60_000)
"""Within this time of its start a node registers in each of its roles, or ends (a broker's
initial.broker.registration.timeout.ms; a controller needs seconds)."""
CONTROLLER_REGISTERS_MS: Final = Millis(10_000)
"""Within this time of its start, or of the election after it, a controller has registered. A distance in the log."""
STARTED_LATELY_MS: Final = Millis(600_000)
"""A process that started so long ago at most started lately: a round of restarts is over then."""
REMEMBERED_MS: Final = Millis(3_600_000)
"""How long what was lost is remembered, by the timestamps in the log."""
APPENDED_MS: Final = Millis(1_000)
"""A replica that had caught up so shortly ago lacks only what the leader has just appended, as it does twice a second.
A poll that shows it begins no lag."""
