"""Names from a cluster that break a line, and what is made of them."""

from rules.alert import Alert
from rules.model.quorum import Quorum
from rules.notifications.notification import Notification, NotifyReason
from tests.situation.commands import situation
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.rules.hidden_text import with_hosts

EVIL = "EVIL"


def hostile(line_break: str) -> Quorum:
    """Names from a cluster are those of hosts, and of topics."""
    quorum = situation("probe 1,2,3 name-not-found", "unclean c1 0", "fence 101")
    found: Quorum = with_hosts(quorum, line_break, EVIL)
    return found


def two_clusters(one: Alert) -> Notification:
    other = alert(f"voter 3{EVIL}", cluster="beta", summary=one.summary, remedy=one.remedy, evidence=one.evidence)
    return Notification(
        incident=one.fingerprint, reason=NotifyReason.FIRING, alerts=(one, other), new_transitions=(one, other)
    )


def of_anything(line_break: str) -> Notification:
    """An alert with such a name in every text, whatever made it."""
    name = f"c1{line_break}{EVIL}"
    evidence = {name: [name, {name: name}], "rows": [{"a": name}, {"a": name}]}
    return two_clusters(alert(name, cluster=name, summary=name, evidence=evidence, remedy=(f"run {name}", f"# {name}")))


def spread(shown: str | list[str]) -> list[str]:
    """Returns the lines that begin with what follows a line break in a name."""
    whole = [shown] if isinstance(shown, str) else shown
    return [line for each in whole for line in each.splitlines() if line.strip().startswith(EVIL)]
