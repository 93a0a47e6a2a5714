"""Which alerts are meant for a sink."""

import pytest

from rules.alert import Alert
from rules.finding import Severity
from rules.notifications.alert_history import Filed, Life
from rules.notifications.route import OWN, Route
from tests.unit.connectors.sinks.sink_alerts import alert

SERIOUS = Route(min_severity=Severity.WARNING)
MILD, GRAVE = alert(severity=Severity.INFO), alert(severity=Severity.WARNING)


@pytest.mark.parametrize(
    ("route", "told", "taken"),
    [
        (Route(), MILD, True),
        (SERIOUS, MILD, False),
        (SERIOUS, GRAVE, True),
        (SERIOUS, alert(severity=Severity.CRITICAL), True),
        (Route(clusters=("prod-*", "al?ha")), GRAVE, True),
        (Route(clusters=("prod-*",)), GRAVE, False),
        (Route(clusters=("Alpha",)), GRAVE, False),
        # About the job itself: of no cluster, and for everybody who is told of such severity.
        (Route(clusters=("prod-*",)), alert(cluster="kraftwatch", cluster_id=OWN), True),
        (Route(clusters=("prod-*",)), alert(cluster="kraftwatch"), False),
        (SERIOUS, alert(cluster="kraftwatch", cluster_id=OWN, severity=Severity.INFO), False),
    ],
)
def test_a_transition_by_itself(route: Route, told: Alert, taken: bool) -> None:
    assert route.takes(told) is taken


@pytest.mark.parametrize(
    ("life", "meant"),
    [
        ([Filed(alert=MILD, told=False)], False),
        # It was worse once, and nobody has been told of that yet.
        ([Filed(alert=GRAVE, told=False), Filed(alert=MILD, told=False)], True),
        # What was told once is told to the end, however mild it became.
        ([Filed(alert=GRAVE, told=True), Filed(alert=MILD, told=False)], True),
    ],
)
def test_a_whole_life(life: list[Filed], meant: bool) -> None:
    assert SERIOUS.meant(Life(filed=tuple(life))) is meant
