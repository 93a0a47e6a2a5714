"""A recorded incident, and its report."""

from dataclasses import replace
from pathlib import Path

from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource, Reason
from streaming.cli.options import RecordedOptions
from streaming.cli.recorded_job import RecordedJob
from streaming.query.recording import open_journal
from streaming.replay.cluster_settings import ClusterSettings
from streaming.report.incident_report import IncidentReport, make_report
from tests.scripts.log_script import failed
from tests.unit.connectors.logdir.log_dirs import AT
from tests.unit.streaming.query.status_journal import PLACE, journal, observed, polled, records


def recording(folder: Path, *, cluster: str = "a") -> Path:
    """Records two minutes: a leader is elected and answers; after one minute there is no leader."""
    rows = [records(0, 0, AT)]
    for second in range(1, 60):
        rows += [records(second, second, AT + 1_000 * second), observed(polled(), AT + 1_000 * second)]
    for second in range(60, 120):
        at_ms = AT + 1_000 * second
        rows += [
            observed(failed(Reason.NO_LEADER, PLACE, source), at_ms)
            for source in (ObservationSource.LOG, ObservationSource.QUORUM)
        ]
    return journal(folder, [replace(row, cluster=cluster) for row in rows])


def written(
    folder: Path, *, cluster: str | None = None, from_s: int | None = None, to_s: int | None = None
) -> IncidentReport:
    from_ms, to_ms = (None if seconds is None else Millis(AT + 1_000 * seconds) for seconds in (from_s, to_s))
    return make_report(
        open_journal(folder),
        RecordedJob(RecordedOptions(journal=folder)).database(),
        lambda name: ClusterSettings(name=name),
        cluster=cluster,
        from_ms=from_ms,
        to_ms=to_ms,
    )
