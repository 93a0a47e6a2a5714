"""The path of one observation, from the gatherer's bytes to the rendered page, in one process and without Spark's JVM.

Every function is the product's own: redaction, journal row, processor, status, page, API and metrics. Only
Spark's scheduling is left out, and the GroupState is a variable.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pandas as pd
from flask import Flask
from pyspark.sql.streaming.state import GroupState

from connectors.delivery.delivery_report import DeliveryReport
from connectors.observations.observation import Observation, ObservationKind
from connectors.store import journal_file
from connectors.store.alert_codec import FIRING
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from streaming.metrics.job_metrics import CLUSTER_METRICS
from streaming.metrics.metric_spec import CLUSTER, ClusterSample, family
from streaming.metrics.rates import Rates
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.output_rows import OutputKind
from streaming.pipeline.schema import group_of, pack, pack_states
from streaming.replay.contract_violations import APPLIES, EVALUATES, READS, RENDERS
from streaming.status.cluster_status import ClusterStatus, from_json
from streaming.status.status_store import StatusStore
from streaming.web.api import api
from streaming.web.fleet_view import FleetView
from streaming.web.pages import pages
from tests.page_fixture import START, FixtureCluster
from tests.unit.streaming.pipeline.quiet_cluster import OneState

CLUSTER_NAME = "prod"
_CONTAINED = {APPLIES, EVALUATES, RENDERS, READS}


@dataclass(kw_only=True)
class PathResult:
    """What came out of the path."""

    alerts: list[Alert] = field(default_factory=list)
    status: ClusterStatus | None = None
    output: bytes = b""
    """All texts that the path produced, one after the other."""

    @property
    def contained(self) -> list[str]:
        """Exceptions that the processor contained: each is a value that should have been refused before."""
        return [str(alert.evidence["example"]) for alert in self.alerts if alert.subject in _CONTAINED]


class MonitoredPath:
    """One cluster that is monitored; every case begins from the same healthy state."""

    def __init__(self) -> None:
        cluster = FixtureCluster(CLUSTER_NAME, now_ms=START)
        for _ in range(20):
            cluster.second()
        self.healthy_blob = cluster.monitor.to_bytes()
        self.position = int(cluster.monitor.machine.log.position)
        self.sequence = cluster.monitor.machine.sequence
        self.now_ms = int(cluster.monitor.machine.now_ms)
        self._processor = ClusterProcessor({CLUSTER_NAME: replace(cluster.monitor.settings, vantage=Vantage.INSIDE)})
        self._folder = TemporaryDirectory(prefix="kraftwatch-hostile-")
        self._store = StatusStore([CLUSTER_NAME])
        self._quarantine = quarantine_of(job_database(Path(self._folder.name)), keep=100)
        view = FleetView(store=self._store, now_ms=lambda: Millis(self.now_ms + 60_000))
        app = Flask("hostile")
        app.register_blueprint(pages(view))
        app.register_blueprint(api(view))
        self._web = app.test_client()

    def close(self) -> None:
        self._folder.cleanup()

    def row(self, kind: ObservationKind, payload: bytes, **fields: Any) -> Observation:
        """Returns the row that the gatherer writes next."""
        at: dict[str, Any] = {"sequence": self.sequence + 1, "observed_at_ms": self.now_ms + 1_000}
        return Observation(cluster=CLUSTER_NAME, kind=kind, payload=payload, **at, **fields)

    def monitor(self, row: Observation, *, blob: bytes | None = None, render: bool) -> PathResult:
        """Passes a row through the path, beginning from a stored state, by default the healthy one."""
        read = journal_file.observation(journal_file.values(row))
        assert read == row, "the journal returns another row than was written"
        state = OneState()
        state.value = pack_states({CLUSTER_NAME: self.healthy_blob if blob is None else blob})
        ClusterProcessor._cache.clear()
        frames = self._processor((group_of(CLUSTER_NAME),), iter([pack([read]).to_pandas()]), cast(GroupState, state))
        result = self._delivered(pd.concat(list(frames)))
        if render and result.status is not None:
            result.output += self._rendered(result)
        return result

    def _delivered(self, output: pd.DataFrame) -> PathResult:
        result = PathResult()
        for row in output.itertuples():
            body = str(row.body)
            result.output += body.encode()
            match row.kind:
                case OutputKind.FIRING:
                    found = FIRING.validate_json(body)
                    result.alerts += found.alerts
                case OutputKind.QUARANTINE:
                    self._quarantine.put({f"{row.cluster}-{row.name}": json.loads(body)})
                case OutputKind.STATUS:
                    result.status = from_json(body)
                case _:
                    json.loads(body)
        return result

    def _rendered(self, result: PathResult) -> bytes:
        assert result.status is not None
        self._store.put_status(result.status, at_ms=Millis(self.now_ms))
        self._store.put_delivery(
            DeliveryReport(recorded=len(result.alerts), sinks={}), lambda: result.alerts, at_ms=Millis(self.now_ms)
        )
        texts = []
        for path in ("/", f"/clusters/{CLUSTER_NAME}", f"/api/clusters/{CLUSTER_NAME}"):
            answer = self._web.get(path)
            assert answer.status_code == 200, f"{path} has status {answer.status_code}"
            texts.append(answer.data)
        sample = ClusterSample(status=result.status, rates=Rates())
        for spec in CLUSTER_METRICS:
            texts.append(str(family(spec, [([CLUSTER_NAME], sample)], [CLUSTER])).encode())
        return b"".join(texts)
