"""What a ledger would have recorded of what fires, without its database."""

from rules.alert import Alert
from rules.firing import Firing, reconciled


class RecordedAlerts:
    """The newest transition of each alert of one cluster."""

    def __init__(self, *newest: Alert) -> None:
        self._newest = {(one.rule, one.subject): one for one in newest}

    def add(self, firing: Firing) -> list[Alert]:
        """Returns the new transitions."""
        found = reconciled(firing, self._newest, now_ms=firing.evaluated_ms)
        self._newest |= {(one.rule, one.subject): one for one in (*found.rewritten, *found.transitions)}
        return [*found.transitions]
