"""A report: an incident as one HTML file that needs nobody: from the journal and the ledger a job left behind.

It is drawn by the same templates as the page of a job. Style and script are in it, named by their digests in its
Content-Security-Policy, so nothing else runs and nothing is loaded, whatever the names in it say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.delivery.ledger import remembered
from connectors.delivery.silence_store import SilenceFile
from connectors.errors import UsageError
from connectors.point_in_time import AtTime
from connectors.sinks.alert_json import iso
from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from streaming.pipeline.checkpoint import Checkpoint
from streaming.report.full_history import Chronicle
from streaming.status.cluster_status import portrait
from streaming.status.from_journal import Recorded, newest, recorded
from streaming.status.status_store import Seen
from streaming.web.cluster_page import drawn
from streaming.web.cluster_view import Dossier
from streaming.web.templating import asset, digest, draw, inline

SPAN_MS = Millis(3_600_000)
"""How far before its end a report begins, unless it is said, or the journal begins later."""
LEAD_MS = Millis(60_000)
"""Before the journal's beginning: what the log told of the moments before it is part of the picture."""
BEFORE_MS = Millis(600_000)
"""So long before that is judged again where no ledger is, so that what stood already is told."""
_LIMITS = {"alerts_shown": 200, "alerts_listed": 2_000, "replicas_shown": 1_000}
_PARTITIONS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What a report is asked for."""

    folder: Path
    """A checkpoint, or the journal in it."""
    cluster: str | None
    """Its name; None where the journal holds only one."""
    from_ms: Millis | None
    to_ms: Millis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One file."""

    cluster: str
    from_ms: Millis
    to_ms: Millis
    html: str


def report(
    incident: Incident, thresholds: Mapping[str, Thresholds], *, say: Callable[[str], None] = lambda _: None
) -> Report:
    """Replay, and draw.

    Args:
        incident: what is asked for.
        thresholds: by rule id.
        say: is told how far it is.

    Raises:
        UsageError: there is no journal, or it does not tell of that cluster or of that time; the ledger beside it
            cannot be read.
        JournalError: the journal is damaged.
    """
    told = _told(incident.folder)
    judge_from = None
    if told is None:
        begins = incident.from_ms or (incident.to_ms or newest(incident.folder)) - SPAN_MS
        judge_from = Millis(begins - BEFORE_MS)
    chronicles: dict[str, Chronicle] = {}
    names: list[str] = []

    def new(name: str) -> Chronicle | None:
        names.append(name)
        if incident.cluster not in (None, name):
            return None
        chronicles[name] = Chronicle(name, thresholds=thresholds, judge_from_ms=judge_from)
        return chronicles[name]

    upto = None if incident.to_ms is None else AtTime(at_ms=incident.to_ms)
    try:
        found = recorded(incident.folder, new, upto=upto, say=say)
    except UsageError as problem:
        # It is one and the same moment, and asked for by another name here.
        raise UsageError(str(problem).replace("--at ", "--to ", 1)) from None
    name = _one(incident, found, names)
    to_ms = incident.to_ms or found[name].newest_ms
    chronicle = chronicles[name]
    from_ms = incident.from_ms or Millis(max(to_ms - SPAN_MS, (chronicle.began_ms or 0) - LEAD_MS))
    if from_ms >= to_ms:
        raise UsageError(f"--from {iso(from_ms)}: that is not before the end, {iso(to_ms)}")
    dossier = _dossier(incident, chronicle, chronicle.alerts if told is None else told, thresholds, to_ms=to_ms)
    absent = [*found[name].missing, *_absent(told)]
    return Report(
        cluster=name, from_ms=from_ms, to_ms=to_ms, html=_document(dossier, from_ms=from_ms, to_ms=to_ms, absent=absent)
    )


def _one(incident: Incident, found: Mapping[str, Recorded], names: Sequence[str]) -> str:
    held = ", ".join(sorted(names)) or "nothing"
    if incident.cluster is not None:
        if incident.cluster not in found:
            raise UsageError(f"{incident.folder} holds nothing of cluster {incident.cluster}; it holds: {held}")
        return incident.cluster
    if len(found) != 1:
        raise UsageError(f"a report is of one cluster, and {incident.folder} holds {held}: choose with --cluster")
    return next(iter(found))


def _beside(folder: Path) -> Checkpoint:
    """The checkpoint that is given, or that the given journal lies in."""
    places = (Checkpoint(folder=folder), Checkpoint(folder=folder.absolute().parent))
    return next((place for place in places if place.ledger.exists() or place.silences.exists()), places[0])


def _told(folder: Path) -> Sequence[Alert] | None:
    """The ledger beside the journal; None where there is none.

    Raises:
        UsageError: it cannot be read.
    """
    ledger = _beside(folder).ledger
    try:
        return remembered(ledger)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise UsageError(f"cannot read {ledger}: {(problem.strerror or 'unreadable').lower()}") from None


def _absent(told: Sequence[Alert] | None) -> Sequence[str]:
    if told is not None:
        return ()
    return ("no ledger lies beside the journal: the alerts are judged again from it, as the job would tell them today",)


def _dossier(
    incident: Incident,
    chronicle: Chronicle,
    told: Sequence[Alert],
    thresholds: Mapping[str, Thresholds],
    *,
    to_ms: Millis,
) -> Dossier:
    name = chronicle.cluster
    shown = portrait(chronicle.with_whole_past(), thresholds, evaluate(chronicle.quorum(), thresholds))
    silences = SilenceFile(_beside(incident.folder).silences).read()
    return Dossier(
        name=name,
        now_ms=to_ms,
        seen=Seen(portrait=shown, received_at_ms=chronicle.now_ms, recovered=tuple(chronicle.recovered)),
        history=[alert for alert in told if alert.cluster == name and alert.observed_at_ms <= to_ms],
        silences=[one for one in silences if one.starts_at_ms <= to_ms],
        recorded=True,
    )


def _document(dossier: Dossier, *, from_ms: Millis, to_ms: Millis, absent: Sequence[str]) -> str:
    style, script = asset("kraftwatch.css"), asset("kraftwatch.js")
    sheet = drawn(
        dossier,
        timeline_ms=(from_ms, to_ms),
        absent=absent,
        still=True,
        limits=_LIMITS,
        partitions=_PARTITIONS,
        rule_link=lambda rule: f"#rule-{rule}",
    )
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return draw(
        "document.html",
        title=f"{dossier.name}, {iso(from_ms)} to {iso(to_ms)} · kraftwatch report",
        path=[(f"report of {dossier.name}", None)],
        as_of=f"{iso(from_ms)[:19].replace('T', ' ')} to ",
        main=draw("report.html", sheet=sheet),
        now_ms=to_ms,
        etag="",
        live=False,
        policy=policy,
        style=inline(style),
        script=inline(script),
    )
