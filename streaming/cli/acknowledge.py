"""`kraftwatch ack` and `kraftwatch unack`: acknowledge firing alerts, and end that."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.errors import UsageError
from connectors.process.wall_clock import wall_ms
from rules.formatting import and_join
from streaming.cli.options import (
    CheckpointFolder,
    ConfigFile,
    Duration,
    EndTime,
    JobPlace,
    comment_text,
    database_to_write,
    end_time,
    job_place,
    person,
)
from streaming.cli.output import print_message

if TYPE_CHECKING:
    from connectors.store.acknowledgements import AcknowledgementStore
    from rules.alert import Alert

_Alert = Annotated[
    str | None,
    typer.Argument(
        help="An alert: its fingerprint, RULE or RULE/SUBJECT; default: all that fire in --cluster.",
        metavar="FINGERPRINT|RULE[/SUBJECT]",
        show_default=False,
    ),
]
_Cluster = Annotated[
    list[str] | None, typer.Option(help="The cluster's name, or a pattern with * and ?. May be repeated.")
]


def ack(
    alert: _Alert = None,
    cluster: _Cluster = None,
    by: Annotated[str | None, typer.Option(help="Who works on it; default: the current user.")] = None,
    for_: Duration = None,
    until: EndTime = None,
    comment: Annotated[str, typer.Option(help="A note, for the next person on call.")] = "",
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
) -> None:
    """Acknowledge firing alerts: you work on them, and people are not reminded.

    An acknowledged alert is not sent again, and not to a sink that was not
    notified of it; its changes and its end are sent. It ends with --for or
    --until, when the alert gets a higher severity, and when it resolves: an
    alert that fires again is not acknowledged. The job applies it within a
    second, and the page, Slack's message and `kraftwatch status` show it.

    Exit codes: 0, 1 the job's database cannot be used, 2 invalid usage.

      kraftwatch ack voter-lagging --cluster prod --for 2h --comment "INC-123"
    """
    now_ms = wall_ms()
    until_ms = None if for_ is None and until is None else end_time(for_, until, now_ms, "an acknowledgement")
    job = job_place(checkpoint, config)
    alerts = _selected(job, alert, cluster)
    found = _acknowledgements(job).add(
        alerts, by=person("--by", by), now_ms=now_ms, until_ms=until_ms, comment=comment_text(comment)
    )
    for acknowledgement, each in zip(found, alerts, strict=True):
        print_message(f"acknowledged {acknowledgement.who}: {_text(each)}")


def unack(
    alert: _Alert = None, cluster: _Cluster = None, checkpoint: CheckpointFolder = None, config: ConfigFile = None
) -> None:
    """End the acknowledgement of firing alerts: people are reminded again.

    Exit codes: 0, 1 the job's database cannot be used, 2 invalid usage.

      kraftwatch unack voter-lagging --cluster prod
    """
    now_ms = wall_ms()
    job = job_place(checkpoint, config)
    stored = _acknowledgements(job)
    active = {acknowledgement.alert_id for acknowledgement in stored.read() if acknowledgement.active(now_ms)}
    alerts = _selected(job, alert, cluster, active)
    stored.end([each.alert_id for each in alerts], now_ms=now_ms)
    for each in alerts:
        print_message(f"no longer acknowledged: {_text(each)}")


def _selected(
    job: JobPlace, alert: str | None, clusters: Sequence[str] | None, among: Collection[object] | None = None
) -> "Sequence[Alert]":
    """Returns the firing alerts that the arguments select; `among`: only those of these ids."""
    from connectors.delivery.ledger import firing_alerts
    from connectors.store.tables import job_database

    if alert is None and not clusters:
        raise UsageError("give an alert, or --cluster for all alerts of a cluster")
    firing = firing_alerts(job_database(job.store, read_only=True))
    here = [one for one in firing if among is None or one.alert_id in among]
    in_clusters = [one for one in here if any(fnmatchcase(one.cluster, cluster) for cluster in clusters or ("*",))]
    found = [
        cluster
        for cluster in in_clusters
        if alert in (None, cluster.fingerprint, cluster.rule, f"{cluster.rule}/{cluster.subject}")
    ]
    if not found:
        what = "no such alert is firing" if among is None else "no such alert is acknowledged"
        known = and_join([f"{one.rule}/{one.subject} of {one.cluster}" for one in here]) or "none"
        raise UsageError(f"{what}; {'firing' if among is None else 'acknowledged'}: {known}")
    return found


def _text(alert: "Alert") -> str:
    return f"{alert.severity} {alert.rule} {alert.subject} of {alert.cluster} ({alert.fingerprint})"


def _acknowledgements(job: JobPlace) -> "AcknowledgementStore":
    from connectors.store.acknowledgements import AcknowledgementStore

    return AcknowledgementStore(database_to_write(job.store))
