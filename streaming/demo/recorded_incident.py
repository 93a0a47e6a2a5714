"""A recorded incident: what a real quorum showed, evaluated as the job evaluates it, in ten seconds and without Kafka.

`incident.jsonl.xz` holds the rows of a Kafka 4.3.1 quorum: the first part of `broker-restart.jsonl.xz` in
`tests/data/recordings`, with the urgency that the gatherer gives each row.
"""

import json
import lzma
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from connectors.delivery.ledger import Ledger
from connectors.observations.observation import Observation, ObservationKind, Urgency
from connectors.sinks.sink import Sink
from rules.evaluate import thresholds_for
from rules.firing import Firing
from rules.model.identifiers import Millis
from streaming.pipeline.notifying import Notifying
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.build_status import job_cluster_status
from streaming.status.status_store import StatusStore

INCIDENT: Final = Path(__file__).with_name("incident.jsonl.xz")
CLUSTER: Final = "demo"
"""The cluster's name in it."""
WHAT: Final = (
    "controller 3 and broker 102 of three controllers and two brokers are killed; then broker 102 starts again"
)
"""What happens in it."""
HOLD_S: Final = 5.0
"""The hold of the rules about them: shorter than in production, so that the alerts come within the recording."""
PLAYED_S: Final = 10.0
_STEPS: Final = 100


def incident_rows() -> Sequence[Observation]:
    """Returns the rows in their order, with sequence numbers from 0 on."""
    lines = lzma.decompress(INCIDENT.read_bytes()).splitlines()
    return [row_of(line, sequence) for sequence, line in enumerate(lines)]


def row_of(line: bytes | str, sequence: int = -1) -> Observation:
    """Returns the row of one line: a JSON object with the fields that are not their defaults, the payload in hex."""
    plain = json.loads(line)
    plain |= {"payload": bytes.fromhex(plain["payload"]), "kind": ObservationKind(plain["kind"])}
    plain["urgency"] = Urgency(plain.get("urgency", Urgency.REGULAR))
    return Observation(**{**plain, "sequence": sequence})


class PlayedIncident:
    """An incident that is being played."""

    def __init__(self, ledger: Ledger, sinks: Sequence[Sink], store: StatusStore) -> None:
        """`store` is that of the page: it has the cluster `CLUSTER`."""
        self.now_ms = Millis(0)
        """The time in the recording."""
        holds = {f"{rule}.hold": HOLD_S for rule in ("broker-fenced", "failure-tolerance")}
        self._monitor = ClusterMonitor(ClusterSettings(name=CLUSTER, thresholds=thresholds_for(holds)))
        self._notifying, self._store = Notifying(ledger, sinks, store=store, clock=lambda: self.now_ms), store
        self._firing: Firing | None = None

    def play(self, rows: Sequence[Observation], wait: Callable[[float], bool]) -> None:
        """Evaluates the rows at their times, faster by one factor, and notifies.

        `wait` waits some seconds and returns whether that is the end.
        """
        first_ms = rows[0].observed_at_ms
        step_ms = (rows[-1].observed_at_ms - first_ms) // _STEPS + 1
        began = time.monotonic()
        for step, of_step in groupby(rows, key=lambda row: (row.observed_at_ms - first_ms) // step_ms):
            if wait(max(0.0, began + step * PLAYED_S / _STEPS - time.monotonic())):
                return
            self._evaluate([*of_step])
        self._notifying.settle(lambda: None)
        self._notifying.send()

    def _evaluate(self, rows: Sequence[Observation]) -> None:
        monitor = self._monitor
        changed = monitor.apply(rows).alerts
        self.now_ms = monitor.machine.now_ms
        facts, evaluation = monitor.evaluated
        status = job_cluster_status(facts, monitor.settings.thresholds, evaluation, monitor.tracked)
        self._store.put_status(status, at_ms=self.now_ms)
        if changed or self._firing is None:
            self._firing = monitor.firing(self._firing, changed)
            self._notifying.put(self._firing)
            self._notifying.send()
