"""RefusedRows: raises an alert when rows of a relay's topic are refused: a relay or another program writes wrong rows.

What is refused changes no cluster's state (`connectors.relay.relay_message.check_row`), and the rows of the right relay
are accepted meanwhile.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from connectors.delivery.job_alert import job_alert, resolved_alert
from connectors.relay.relay_message import RefusedPart
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.route import CLUSTERS, JOB_CLUSTER_ID

FIRING_MS: Final = Millis(1_800_000)
"""How long the alert fires after the newest refused row, as the alerts of other broken contracts do."""
_ROWS, _MESSAGES = "rows of ", "messages of "
_FIX: Final[Mapping[str, str]] = {
    RefusedPart.TIME: "# Correct the clock of the relay's host: the relay then writes rows that are accepted.",
    RefusedPart.BASELINE: "# Correct the clock of the relay's host: the relay then begins a new baseline.",
    RefusedPart.CLUSTER_ID: "# Correct this cluster's addresses in its relay's configuration: another cluster answers. "
    "If the cluster was formatted again, give the job a new --checkpoint.",
    RefusedPart.TOPIC: "# Give the relay of this cluster the relay.topics of this job, and restart it.",
}


class RefusedRows:
    """One alert for each cluster and each thing that is wrong with its rows.

    Firing alerts survive a restart; their half hour begins again, because only the first refused row is known.
    """

    def __init__(self, firing: Sequence[Alert], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`firing`: the firing alerts of the ledger; `clock` returns seconds that only grow."""
        self._firing = {
            alert.subject: alert
            for alert in firing
            if alert.cluster_id == JOB_CLUSTER_ID and alert.subject.startswith((_ROWS, _MESSAGES))
        }
        self._clock = clock
        self._newest: dict[str, float] = {}
        """When the newest row of each subject was refused; after a restart, when the alert was first evaluated."""
        self._arrived: dict[str, Mapping[str, Any]] = {}
        """The first row of each subject since the newest evaluation: a job that does not notify evaluates none."""

    @property
    def firing(self) -> Mapping[str, Alert]:
        """The firing alerts by subject."""
        return self._firing

    def refused(self, bodies: Iterable[str]) -> None:
        """Notes refused rows, as the quarantine keeps them. For the thread that delivers."""
        for body in bodies:
            row = json.loads(body)
            self._arrived.setdefault(_subject(row), row)

    def due(self, now_ms: Millis) -> Sequence[Alert]:
        """Returns the transitions that are due at `now_ms`, the wall clock."""
        now, transitions = self._clock(), []
        # Another thread may note a row meanwhile.
        for subject in [*self._arrived]:
            row = self._arrived.pop(subject)
            self._newest[subject] = now
            if subject not in self._firing:
                self._firing[subject] = alert = _alert(subject, row, now_ms)
                transitions.append(alert)
        for subject in [
            each for each in self._firing if 1000 * (now - self._newest.setdefault(each, now)) >= FIRING_MS
        ]:
            now_true = f"No further {subject} were refused."
            transitions.append(resolved_alert(self._firing.pop(subject), now_ms, now_true))
        return transitions


def _subject(row: Mapping[str, Any]) -> str:
    if row["rows_of"] is None:
        return f"{_MESSAGES}{row['cluster']}"
    return f"{_ROWS}{row['rows_of']}: {row['part']}"


def _alert(subject: str, row: Mapping[str, Any], now_ms: Millis) -> Alert:
    place = f"{row['cluster']}, offset {row['offset']}"
    return job_alert(
        "data-contract-broken",
        subject,
        Severity.WARNING,
        summary=f"Refused {subject.partition(':')[0]}: {row['reason']} ({place}). "
        "No state was changed by it; rows of the right relay are accepted.",
        evidence={
            **({} if row["rows_of"] is None else {CLUSTERS: [row["rows_of"]]}),
            "cluster": row["rows_of"],
            "refused": row["part"],
            "reason": row["reason"],
            "topic_partition": row["cluster"],
            "offset": row["offset"],
            "appended_at_ms": row["observed_at_ms"],
        },
        remedy=(
            *filter(None, [_FIX.get(row["part"])]),
            "# If no relay of yours writes such rows, another program has a credential for the topic: list who may "
            "write with kafka-acls.sh --list --topic, change the credential, and give each relay a topic of its own.",
            "# List the refused rows: kraftwatch quarantine list, with the job's --checkpoint",
        ),
        started_at_ms=now_ms,
        now_ms=now_ms,
    )
