"""Which alerts a route selects."""

import pytest

from rules.alert import Alert
from rules.finding import FindingFacts, Severity
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.notification import AlertHistory, TransitionStatus
from rules.notifications.route import Route
from tests.unit.connectors.sinks.sink_alerts import alert

SERIOUS = Route(min_severity=Severity.WARNING)
MILD, GRAVE = alert(severity=Severity.INFO), alert(severity=Severity.WARNING)
ABOUT_CLUSTERS = alert(
    cluster="kraftwatch",
    cluster_id=JOB_CLUSTER_ID,
    rule="monitor-blind",
    severity=Severity.WARNING,
    facts=FindingFacts(clusters=("staging", "prod-eu")),
)


@pytest.mark.parametrize(
    ("route", "one", "matches"),
    [
        (Route(), MILD, True),
        (SERIOUS, MILD, False),
        (SERIOUS, GRAVE, True),
        (SERIOUS, alert(severity=Severity.CRITICAL), True),
        (Route(clusters=("prod-*", "al?ha")), GRAVE, True),
        (Route(clusters=("prod-*",)), GRAVE, False),
        (Route(clusters=("!al*",)), GRAVE, False),
        (Route(clusters=("!prod-*",)), GRAVE, True),
        (Route(clusters=("Alpha",)), GRAVE, False),
        (Route(rules=("no-*", "voter-?agging")), alert(rule="voter-lagging"), True),
        (Route(rules=("no-*",)), alert(rule="voter-lagging"), False),
        (Route(rules=("!voter-*",)), alert(rule="voter-lagging"), False),
        (Route(rules=("voter-*", "!*-lagging")), alert(rule="voter-lagging"), False),
        (Route(rules=("voter-*", "!*-lagging")), alert(rule="voter-change-stuck"), True),
        # About the job itself: it matches every filter of rules, so that no sink is silent about another one.
        (Route(rules=("no-leader",)), alert(cluster="kraftwatch", cluster_id=JOB_CLUSTER_ID), True),
        (Route(rules=("!*",)), alert(cluster="kraftwatch", cluster_id=JOB_CLUSTER_ID), True),
        # About the job itself: it matches every cluster pattern, but not every severity.
        (Route(clusters=("prod-*",)), alert(cluster="kraftwatch", cluster_id=JOB_CLUSTER_ID), True),
        (Route(clusters=("prod-*",)), alert(cluster="kraftwatch"), False),
        (SERIOUS, alert(cluster="kraftwatch", cluster_id=JOB_CLUSTER_ID, severity=Severity.INFO), False),
        # About the clusters that it lists: it is routed like theirs.
        (Route(clusters=("prod-*",)), ABOUT_CLUSTERS, True),
        (Route(clusters=("test-*",)), ABOUT_CLUSTERS, False),
        (Route(clusters=("prod-*",), rules=("!monitor-*",)), ABOUT_CLUSTERS, False),
    ],
)
def test_matching_of_a_single_transition(route: Route, one: Alert, matches: bool) -> None:
    assert route.matches(one) is matches


@pytest.mark.parametrize(
    ("transitions", "matches"),
    [
        ([TransitionStatus(alert=MILD, delivered=False)], False),
        # It was worse before, and that transition is still pending.
        ([TransitionStatus(alert=GRAVE, delivered=False), TransitionStatus(alert=MILD, delivered=False)], True),
        # An alert that was delivered once is sent until it resolves, whatever its severity.
        ([TransitionStatus(alert=GRAVE, delivered=True), TransitionStatus(alert=MILD, delivered=False)], True),
    ],
)
def test_matching_of_an_alert_history(transitions: list[TransitionStatus], matches: bool) -> None:
    assert SERIOUS.matches_history(AlertHistory(transitions=tuple(transitions))) is matches
