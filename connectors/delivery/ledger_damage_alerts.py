"""LedgerDamageAlerts: raises an alert when the ledger was damaged, so that people know what may be sent twice."""

from collections.abc import Sequence

from connectors.delivery.job_alert import firing_job_alert, job_alert, resolved_alert
from connectors.delivery.ledger_record import LedgerDamaged
from rules.alert import Alert
from rules.checks import data_contract_broken
from rules.finding import Severity
from rules.model.identifiers import Millis

SUBJECT = "ledger"
FIRING_MS = Millis(1_800_000)
"""How long the alert fires after the newest damage, as the alerts of other broken contracts do."""


class LedgerDamageAlerts:
    """Turns noticed damage into alerts. A firing alert survives a restart (ledger)."""

    def __init__(self, firing: Sequence[Alert]) -> None:
        """`firing`: the firing alerts of the ledger."""
        self._firing = firing_job_alert(firing, SUBJECT)
        self._reported = 0

    def due(self, damages: Sequence[LedgerDamaged], now_ms: Millis) -> Sequence[Alert]:
        """Returns the transitions that are due.

        Args:
            damages: every damage since the ledger was opened.
            now_ms: the wall clock.
        """
        new, self._reported = damages[self._reported :], len(damages)
        if new:
            started_ms = now_ms if self._firing is None else self._firing.started_at_ms
            self._firing = _firing_alert(new[-1], started_ms, now_ms)
            return [self._firing]
        firing = self._firing
        if firing is None or now_ms - firing.observed_at_ms < FIRING_MS:
            return ()
        self._firing = None
        return [resolved_alert(firing, now_ms, "The ledger was not found damaged again.")]


def _firing_alert(damage: LedgerDamaged, started_ms: Millis, now_ms: Millis) -> Alert:
    return job_alert(
        data_contract_broken.ID,
        SUBJECT,
        Severity.WARNING,
        summary=f"The ledger of alerts was damaged: {damage.reason}. "
        "Its content was restored; some alerts may be sent twice.",
        evidence={"reason": damage.reason, "kept_as": damage.kept_as},
        remedy=(
            "# kraftwatch has restored the ledger; do not treat a notification that comes twice as a new event.",
            "# Check the disk of the monitor's host, and whether another program changes files of the checkpoint.",
        ),
        started_at_ms=started_ms,
        now_ms=now_ms,
    )
