"""A report: an incident as one HTML file, from what was recorded and the ledger of a job. No node is queried.

It uses the templates of the job's page. Style and script are inline; the Content-Security-Policy names their digests,
so the browser runs nothing else and loads nothing, whatever the names in the file contain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from connectors.delivery.ledger import stored_alerts
from connectors.errors import UsageError
from connectors.observations.point_in_time import AtTime
from connectors.store.collection import SilenceStore
from connectors.store.database import Database
from rules.alert import Alert
from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.formatting import iso, utc_text
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from streaming.query.recording import Recording, ReplayedJournal, replay_recording
from streaming.replay.cluster_settings import ClusterSettings
from streaming.report.back_test import EVALUATE_BEFORE_MS
from streaming.status.build_status import job_cluster_status
from streaming.status.status_store import ReceivedStatus
from streaming.web.cluster_view import ClusterView
from streaming.web.templating import asset, digest, inline, render, render_cluster

DEFAULT_SPAN_MS = Millis(3_600_000)
"""The length of a report without --from, unless the journal begins later."""
BEFORE_JOURNAL_MS = Millis(60_000)
"""A report begins this long before the journal: the log holds records of that time."""
_NO_LEDGER = "there is no ledger beside the journal: the alerts were evaluated again, with the rules of this version"
_LIMITS = {"alerts_shown": 200, "alerts_listed": 2_000, "replicas_shown": 1_000, "partitions_shown": 2_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentReport:
    """One HTML file."""

    cluster: str
    from_ms: Millis
    to_ms: Millis
    html: str


def make_report(
    recording: Recording,
    database: Database,
    settings_of: Callable[[str], ClusterSettings],
    *,
    cluster: str | None = None,
    from_ms: Millis | None = None,
    to_ms: Millis | None = None,
) -> IncidentReport:
    """Replays what was recorded and renders the report.

    Args:
        database: with the alerts; it may be missing.
        cluster: its name; None where the recording holds only one.
        from_ms: the start; None: an hour before the end.
        to_ms: the end; None: the newest row.

    Raises:
        UsageError: it cannot be read, or does not hold that cluster or that time.
        StoreError: the ledger beside it cannot be read.
    """
    recorded_alerts = stored_alerts(database) if database.exists else None
    since_ms = Millis((from_ms or (to_ms or recording.newest_ms()) - DEFAULT_SPAN_MS) - EVALUATE_BEFORE_MS)
    names: list[str] = []

    def settings_of_wanted(name: str) -> ClusterSettings | None:
        names.append(name)
        return settings_of(name) if cluster in (None, name) else None

    try:
        replayed = replay_recording(
            recording,
            settings_of_wanted,
            upto=None if to_ms is None else AtTime(at_ms=to_ms),
            since_ms=since_ms,
            evaluates_from_ms=since_ms if recorded_alerts is None else None,
        )
    except UsageError as problem:
        # The replay names the option of `kraftwatch status`.
        raise UsageError(str(problem).replace("--at ", "--to ", 1)) from None
    held = ", ".join(sorted(names)) or "nothing"
    if cluster is not None and cluster not in replayed:
        raise UsageError(f"{recording.place} holds nothing of cluster {cluster}; it holds: {held}")
    if len(replayed) != 1:
        raise UsageError(
            f"a report covers one cluster, but {recording.place} holds {held}: select one with --only NAME"
        )
    ((name, one),) = replayed.items()
    to_ms = to_ms or one.newest_ms
    from_ms = from_ms or Millis(max(to_ms - DEFAULT_SPAN_MS, (one.history.began_ms or 0) - BEFORE_JOURNAL_MS))
    if from_ms >= to_ms:
        raise UsageError(f"--from {iso(from_ms)}: the start must be before the end, {iso(to_ms)}")
    absent = [*one.missing, *(() if recorded_alerts is not None else (_NO_LEDGER,))]
    alerts = one.history.alerts if recorded_alerts is None else recorded_alerts
    view = _view(one, alerts, SilenceStore(database).read(), to_ms=to_ms)
    html = _document(view, from_ms=from_ms, to_ms=to_ms, absent=absent)
    return IncidentReport(cluster=name, from_ms=from_ms, to_ms=to_ms, html=html)


def _view(one: ReplayedJournal, alerts: Sequence[Alert], silences: Sequence[Silence], *, to_ms: Millis) -> ClusterView:
    name, quorum, thresholds = one.machine.cluster, one.machine.quorum(), one.monitor.settings.thresholds
    evaluation = evaluate(Facts(quorum), thresholds)
    status = job_cluster_status(Facts(one.history.added_to(quorum)), thresholds, evaluation)
    return ClusterView(
        name=name,
        now_ms=to_ms,
        received=ReceivedStatus(
            status=status,
            received_at_ms=one.machine.now_ms,
            ended_recoveries=tuple(one.history.ended_recoveries),
        ),
        history=[alert for alert in alerts if alert.cluster == name and alert.observed_at_ms <= to_ms],
        silences=[
            silence for silence in silences if silence.starts_at_ms <= to_ms and fnmatchcase(name, silence.cluster)
        ],
        recorded=True,
    )


def _document(view: ClusterView, *, from_ms: Millis, to_ms: Millis, absent: Sequence[str]) -> str:
    style, script = asset("kraftwatch.css"), asset("kraftwatch.js")
    cluster = render_cluster(
        view,
        timeline_ms=(from_ms, to_ms),
        absent=absent,
        limits=_LIMITS,
        rule_link=lambda rule: f"#rule-{rule}",
    )
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return render(
        "document.html",
        title=f"{view.name}, {iso(from_ms)} to {iso(to_ms)} · kraftwatch report",
        path=[(f"report of {view.name}", None)],
        as_of=f"{utc_text(from_ms).removesuffix(' UTC')} to ",
        main=render("report.html", cluster=cluster),
        now_ms=to_ms,
        etag="",
        live=False,
        past=False,
        policy=policy,
        style=inline(style),
        script=inline(script),
    )
