"""What /metrics tells of what is told: alerts that fire, each sink, and the heartbeat."""

from collections import Counter
from collections.abc import Callable

from rules.finding import Severity
from streaming.metrics.job_metrics import Own
from streaming.metrics.metric import CLUSTER, Kind, Measure, Values


def _of_sinks(name: str) -> Callable[[Own], Values]:
    return lambda own: {(sink,): getattr(tally, name) for sink, tally in own.noted.sinks.items()}


def _failing(own: Own) -> Values:
    return {(sink,): tally.failing is not None for sink, tally in own.noted.sinks.items()}


def _firing(own: Own) -> Values:
    """Every severity of every cluster that was judged: 0 is an answer there."""
    if own.noted.firing is None:
        return None
    counts = Counter((alert.cluster, alert.severity.value) for alert in own.noted.firing)
    return {(name, severity.value): counts[name, severity.value] for name in own.portraits for severity in Severity}


def _rules(own: Own) -> Values:
    alerts = own.noted.firing or ()
    return Counter(
        (one.cluster, one.rule, one.severity.value) for one in alerts if one.cluster in own.sources.fleet.names
    )


def _beats(own: Own) -> Values:
    beats = own.sources.beats()
    return {} if beats is None else {("sent",): beats.sent, ("failed",): beats.failed}


def _last_beat(own: Own) -> Values:
    beats = own.sources.beats()
    return None if beats is None or beats.last_sent_at_ms is None else beats.last_sent_at_ms / 1000


TELLING: tuple[Measure[Own], ...] = (
    Measure(
        name="alerts_firing",
        words="Alerts that fire, by severity.",
        read=_firing,
        labels=(CLUSTER, "severity"),
    ),
    Measure(
        name="rule_firing",
        words="Alerts that fire, by rule and severity: how many subjects. Absent for a rule that does not fire.",
        read=_rules,
        labels=(CLUSTER, "rule", "severity"),
    ),
    Measure(
        name="sink_pending_alerts",
        words="Ledger depth: transitions that a sink is still to be told.",
        read=_of_sinks("pending"),
        labels=("sink",),
    ),
    Measure(
        name="sink_silenced_alerts",
        words="Alerts that fire behind a silence, of which this sink is not told.",
        read=_of_sinks("silenced"),
        labels=("sink",),
    ),
    Measure(
        name="sink_failing",
        words="1 while a sink cannot be told.",
        read=_failing,
        labels=("sink",),
    ),
    Measure(
        name="sink_notices_total",
        words="What became of the notices a sink was given: delivered, retry (told again later) or rejected.",
        read=lambda own: own.noted.told,
        labels=("sink", "outcome"),
        kind=Kind.COUNTER,
    ),
    Measure(
        name="heartbeats_total",
        words="Beats of the dead-man heartbeat, sent or failed.",
        read=_beats,
        labels=("outcome",),
        kind=Kind.COUNTER,
    ),
    Measure(
        name="heartbeat_last_sent_timestamp_seconds",
        words="When the heartbeat's URL last took a beat.",
        read=_last_beat,
    ),
)
