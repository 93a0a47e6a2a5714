"""The alerts of a job about itself and its input: this host's clock, silent relays, refused rows of their topics."""

from collections.abc import Mapping, Sequence

from connectors.wall_clock import wall_ms
from rules.alert import Alert
from streaming.job.clock_steps import ClockSteps
from streaming.job.refused_rows import RefusedRows
from streaming.job.relay_silence import RelaySilence
from streaming.metrics.batch_stats import DeliveredBatch


class OwnAlerts:
    """Made from the alerts that are firing in the ledger, whenever this job begins to notify."""

    def __init__(self, firing: Sequence[Alert]) -> None:
        self._relay_silence = RelaySilence(firing)
        self._refused_rows = RefusedRows(firing)
        self._clock_steps = ClockSteps(firing)

    def note_batch(self, batch: DeliveredBatch) -> None:
        """Notes which clusters have rows, and which rows were refused."""
        self._relay_silence.rows_arrived(status.cluster for status in batch.statuses)
        self._refused_rows.refused(batch.refused)

    def due(self, topics: Mapping[str, str], read_s_ago: Mapping[str, float]) -> Sequence[Alert]:
        """Returns the transitions that are due.

        Args:
            topics: by cluster; none for a job that gathers itself: alerts of relays that its store still has end then.
            read_s_ago: how long ago each topic was read to its end.
        """
        silent = self._relay_silence.due(topics, wall_ms(), read_s_ago=read_s_ago)
        return [*self._clock_steps.due(), *silent, *self._refused_rows.due(wall_ms())]

    @property
    def resend(self) -> bool:
        """Whether sinks must be called without a new alert: no batch may come while relays are silent."""
        return bool(self._relay_silence.firing)
