"""Which alerts are grouped into one incident."""

from dataclasses import replace
from typing import Any

import pytest

from rules.alert import Alert, AlertState
from rules.evaluate import RULES
from rules.finding import FindingFacts, Severity
from rules.firing import resolved_alert
from rules.model.identifiers import Millis, NodeId
from rules.notifications.incident import RECOVERY_MS, STORM_AT, STORM_WINDOW_MS, IncidentGrouper
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert


@pytest.fixture
def grouper() -> IncidentGrouper:
    return IncidentGrouper(RULES)


def incident_of(grouper: IncidentGrouper, one: Alert, *, after_ms: int = 0) -> str:
    return grouper.assign(one, at_ms=Millis(NOON_MS + after_ms))


def stale(subject: str, *, cluster: str = "alpha", **changed: Any) -> Alert:
    return alert(subject, rule="stale-voter-endpoint", cluster=cluster, cluster_id=f"id of {cluster}", **changed)


@pytest.mark.parametrize(
    "rules",
    [
        ("stale-voter-endpoint", "failure-tolerance"),
        # The alert about the broker becomes critical because of the election: the same fault, and not another page.
        ("unclean-election", "partition-stuck-recovering", "broker-fenced"),
        # A controller with another cluster's disk, or one that is cut off: its view is wrong, and it does not fetch.
        ("stale-voter-endpoint", "views-disagree"),
        ("failure-tolerance", "views-disagree"),
        ("voter-lagging", "views-disagree"),
    ],
)
def test_a_cause_and_its_consequence_are_one_incident_in_either_order(rules: tuple[str, ...]) -> None:
    alerts = [alert("a subject", rule=rule, cluster_id="id of alpha") for rule in rules]
    for order in (alerts, alerts[::-1]):
        grouper = IncidentGrouper(RULES)
        assert len({incident_of(grouper, each) for each in order}) == 1


def test_another_cluster_and_an_unrelated_rule_are_separate_incidents(grouper: IncidentGrouper) -> None:
    ours, theirs = incident_of(grouper, stale("voter 1")), incident_of(grouper, stale("voter 1", cluster="beta"))
    recovering = alert("orders-0", rule="partition-stuck-recovering", cluster_id="id of alpha")
    assert len({ours, theirs, incident_of(grouper, recovering)}) == 3


def test_a_cause_in_another_cluster_explains_nothing(grouper: IncidentGrouper) -> None:
    outage = incident_of(grouper, alert("quorum", rule="no-leader", cluster_id="id of alpha"))
    assert incident_of(grouper, alert("quorum", rule="failure-tolerance", cluster_id="id of beta")) != outage


def test_an_incident_stays_open_until_its_last_alert_resolves(grouper: IncidentGrouper) -> None:
    first = incident_of(grouper, stale("voter 1"))
    incident_of(grouper, stale("voter 2"))
    assert incident_of(grouper, stale("voter 1", resolved=True)) == first
    assert incident_of(grouper, stale("voter 3")) == first
    for voter in ("voter 2", "voter 3"):
        assert incident_of(grouper, stale(voter, resolved=True)) == first
    later = stale("voter 1", started_at_ms=NOON_MS + 60_000)
    assert incident_of(grouper, later) != first


def test_two_clusters_with_one_id_have_incidents_of_their_own(grouper: IncidentGrouper) -> None:
    """The id was copied: an outage of one is no part of the open outage of the other, nor its end."""
    dev, prod = (alert("quorum", rule="no-leader", cluster=name, names_cluster=True) for name in ("dev", "prod"))
    consequence = alert("voter 2", rule="voter-lagging", cluster="prod", names_cluster=True)
    assert dev.fingerprint != prod.fingerprint
    assert incident_of(grouper, dev) != (incident := incident_of(grouper, prod))
    assert incident_of(grouper, replace(dev, state=AlertState.RESOLVED)) != incident
    assert incident_of(grouper, consequence) == incident


def test_an_alert_that_a_former_version_left_open_ends_under_its_fingerprint() -> None:
    former = alert("quorum", rule="no-leader", cluster="prod", names_cluster=False)
    assert former.fingerprint == alert("quorum", rule="no-leader", cluster="dev").fingerprint
    assert resolved_alert(former, Millis(NOON_MS + 60_000), "It leads.").fingerprint == former.fingerprint


@pytest.mark.parametrize(("after_ms", "same"), [(RECOVERY_MS - 1, True), (RECOVERY_MS, False)])
def test_a_critical_alert_that_returns_within_a_while_is_the_same_incident(
    grouper: IncidentGrouper, after_ms: int, same: bool
) -> None:
    first = alert("cluster", rule="no-leader", started_at_ms=NOON_MS, observed_at_ms=NOON_MS)
    returned_ms = Millis(NOON_MS + after_ms)
    incident = incident_of(grouper, first)
    incident_of(grouper, replace(first, state=AlertState.RESOLVED))
    returned = replace(first, started_at_ms=returned_ms, observed_at_ms=returned_ms)
    assert (incident_of(grouper, returned) == incident) is same
    assert grouper.escalations(incident) == 0


def storm(grouper: IncidentGrouper, more: int = 1, **changed: Any) -> list[str]:
    """Opens as many incidents as are not merged, and so many more; returns their ids."""
    fleet = (stale("voter 1", cluster=f"cluster{number}", **changed) for number in range(STORM_AT + more))
    return [incident_of(grouper, each) for each in fleet]


def test_too_many_incidents_in_a_short_time_are_merged(grouper: IncidentGrouper) -> None:
    ids = storm(grouper, 10)
    assert len(set(ids[:STORM_AT])) == STORM_AT
    assert len(set(ids[STORM_AT:])) == 1
    calm = incident_of(grouper, stale("voter 1", cluster="later"), after_ms=STORM_WINDOW_MS)
    assert calm not in ids


def test_a_clock_that_is_set_back_ends_a_storm(grouper: IncidentGrouper) -> None:
    storm(grouper, 0)
    later = [incident_of(grouper, stale("voter 1", cluster=name), after_ms=-3_600_000) for name in ("one", "another")]
    assert len(set(later)) == 2


def test_the_end_of_an_alert_without_incident_is_no_part_of_a_storm(grouper: IncidentGrouper) -> None:
    *_, merged = storm(grouper)
    assert incident_of(grouper, stale("voter 1", cluster="elsewhere", resolved=True)) != merged


def test_a_resolved_storm_incident_gets_no_further_alerts(grouper: IncidentGrouper) -> None:
    *_, merged = storm(grouper)
    assert incident_of(grouper, stale("voter 1", cluster=f"cluster{STORM_AT}", resolved=True)) == merged
    following = [incident_of(grouper, stale("voter 1", cluster=name)) for name in ("one more", "and another")]
    assert len(set(following)) == 1, "the storm continues"
    assert merged not in following


def test_re_reading_a_ledger_gives_the_same_incidents() -> None:
    fleet = [stale("voter 1", cluster=f"cluster{number}") for number in range(STORM_AT + 2)]
    alerts = [*fleet, stale("voter 1", cluster="cluster3", resolved=True)]
    first, again = IncidentGrouper(RULES), IncidentGrouper(RULES)
    for each in alerts:
        again.add(each, incident_of(first, each), at_ms=NOON_MS)
    for later in (stale("voter 2", cluster="cluster5"), stale("voter 1", cluster="one more"), stale("voter 7")):
        assert incident_of(first, later) == incident_of(again, later)


def test_resolution_of_an_alert_that_did_not_fire_opens_no_incident(grouper: IncidentGrouper) -> None:
    over = incident_of(grouper, stale("voter 1", resolved=True))
    later = stale("voter 1", started_at_ms=NOON_MS + 60_000)
    assert incident_of(grouper, later) != over


def test_alerts_of_a_rule_that_no_longer_exists_are_one_incident(grouper: IncidentGrouper) -> None:
    former = [alert(subject, rule="a-former-rule", cluster_id="id of alpha") for subject in ("one", "another")]
    assert len({incident_of(grouper, each) for each in former}) == 1


def firing(rule: str, subject: str, at_s: int, severity: Severity = Severity.CRITICAL, **changed: Any) -> Alert:
    """An alert that began so many seconds after noon and fires five seconds later, unless `changed` says otherwise."""
    started_at_ms = NOON_MS + 1_000 * at_s
    return alert(
        subject, rule=rule, cluster_id="id of alpha", severity=severity, started_at_ms=started_at_ms, **changed
    )


def warning(rule: str, subject: str, at_s: int = 0) -> Alert:
    return firing(rule, subject, at_s, Severity.WARNING)


def critical(rule: str, subject: str, at_s: int, *, observed_s: int) -> Alert:
    """An alert that began earlier as a warning."""
    return firing(rule, subject, at_s, observed_at_ms=Millis(NOON_MS + 1_000 * observed_s))


@pytest.mark.parametrize("rule", ["no-leader", "committed-metadata-lost"])
@pytest.mark.parametrize(
    "before",
    [
        warning("voter-disk-replaced", "controller 2"),
        warning("broker-fenced", "broker 4"),
        firing("broker-fenced", "broker 4", 0),
        warning("failure-tolerance", "quorum"),
    ],
    ids=lambda before: f"{before.severity} {before.rule}",
)
def test_an_outage_does_not_join_an_incident_that_began_long_before(
    grouper: IncidentGrouper, rule: str, before: Alert
) -> None:
    opened = incident_of(grouper, before)
    outage = incident_of(grouper, firing(rule, "quorum", 3_600))
    assert outage != opened
    assert grouper.escalations(opened) == grouper.escalations(outage) == 0


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.CRITICAL])
def test_what_began_together_with_the_outage_is_its_consequence(grouper: IncidentGrouper, severity: Severity) -> None:
    fenced = incident_of(grouper, firing("broker-fenced", "broker 4", -1, severity))
    assert incident_of(grouper, firing("no-leader", "quorum", 0)) == fenced
    assert grouper.escalations(fenced) == (severity is Severity.WARNING), "it pages if the fenced broker was no page"


def test_a_chain_of_faults_of_one_rule_does_not_go_on_without_another_page(grouper: IncidentGrouper) -> None:
    at_s = {"broker 4": 0, "broker 5": 9, "broker 6": 100, "broker 7": 200, "broker 8": 300}
    incidents = [incident_of(grouper, firing("broker-fenced", *each)) for each in at_s.items()]
    assert [each == incidents[0] for each in incidents] == [True, True, True, False, False]
    assert incidents[3] == incidents[4]


@pytest.mark.parametrize(
    ("second", "first"),
    [
        ("partitions-offline", "broker-fenced"),
        ("no-leader", "broker-fenced"),
        ("broker-fenced", "broker-fenced"),
        ("partitions-offline", "partitions-offline"),
    ],
)
@pytest.mark.parametrize(("after_s", "same"), [(28, True), (120, True), (121, False)])
def test_a_fault_that_spreads_within_two_minutes_is_one_page(
    grouper: IncidentGrouper, first: str, second: str, after_s: int, same: bool
) -> None:
    incident = incident_of(grouper, firing(first, "broker 4", 0))
    assert (incident_of(grouper, firing(second, "broker 5", after_s)) == incident) is same
    assert grouper.escalations(incident) == 0


def test_a_warning_that_becomes_critical_escalates_its_incident_once(grouper: IncidentGrouper) -> None:
    incident = incident_of(grouper, warning("failure-tolerance", "quorum"))
    assert incident_of(grouper, critical("failure-tolerance", "quorum", 0, observed_s=600)) == incident
    assert grouper.escalations(incident) == 1
    incident_of(grouper, warning("voter-lagging", "voter 3", 610))
    incident_of(grouper, critical("failure-tolerance", "quorum", 0, observed_s=620))
    assert grouper.escalations(incident) == 1


def test_a_return_to_critical_escalates_again_unless_the_decrease_was_not_sent_yet(grouper: IncidentGrouper) -> None:
    incident = incident_of(grouper, warning("failure-tolerance", "quorum"))
    for observed_s, severity, escalations in (
        (100, Severity.CRITICAL, 1),
        (200, Severity.WARNING, 1),
        (250, Severity.CRITICAL, 1),
        (300, Severity.WARNING, 1),
        (361, Severity.CRITICAL, 2),
    ):
        observed_at_ms = Millis(NOON_MS + 1_000 * observed_s)
        incident_of(grouper, firing("failure-tolerance", "quorum", 0, severity, observed_at_ms=observed_at_ms))
        assert grouper.escalations(incident) == escalations


def test_an_outage_that_returns_while_its_incident_is_open_escalates_it(grouper: IncidentGrouper) -> None:
    """Its key is that of the incident in every job: a new incident would have a key that only this job knows."""
    outage = incident_of(grouper, firing("no-leader", "quorum", 0))
    incident_of(grouper, warning("failure-tolerance", "quorum", 20))
    incident_of(grouper, firing("no-leader", "quorum", 0, state=AlertState.RESOLVED))
    assert incident_of(grouper, firing("no-leader", "quorum", 600)) == outage
    assert grouper.escalations(outage) == 1


def test_another_alert_of_a_critical_incident_that_becomes_critical_escalates_it_unless_it_is_the_same_fault(
    grouper: IncidentGrouper,
) -> None:
    incident = incident_of(grouper, firing("broker-fenced", "broker 4", 0))
    incident_of(grouper, warning("broker-fenced", "broker 5", 5))
    incident_of(grouper, critical("broker-fenced", "broker 5", 5, observed_s=600))
    assert grouper.escalations(incident) == 1

    grouper = IncidentGrouper(RULES)
    election = incident_of(grouper, firing("unclean-election", "quorum", 0))
    assert incident_of(grouper, warning("broker-fenced", "broker 4", -300)) == election
    incident_of(grouper, critical("broker-fenced", "broker 4", -300, observed_s=600))
    assert grouper.escalations(election) == 0, "the election made the copy on that broker the only one"


def test_after_a_new_page_of_an_incident_it_is_two_minutes_again(grouper: IncidentGrouper) -> None:
    incident = incident_of(grouper, firing("broker-fenced", "broker 4", 0))
    for broker, observed_s, escalations in ((5, 100, 0), (6, 200, 1), (7, 300, 1), (8, 400, 2)):
        incident_of(grouper, warning("broker-fenced", f"broker {broker}", 0))
        incident_of(grouper, critical("broker-fenced", f"broker {broker}", 0, observed_s=observed_s))
        assert grouper.escalations(incident) == escalations


def test_a_storm_escalates_once(grouper: IncidentGrouper) -> None:
    *_, merged = storm(grouper, severity=Severity.WARNING)
    for number in range(50):
        observed_at_ms = Millis(NOON_MS + 60_000 * number)
        outage = alert(cluster=f"c{number}", cluster_id=f"c{number}", observed_at_ms=observed_at_ms)
        assert grouper.assign(outage, at_ms=NOON_MS) == merged
    assert grouper.escalations(merged) == 1


def test_the_number_of_escalations_is_known_again_although_older_alerts_were_dropped(grouper: IncidentGrouper) -> None:
    grouper.add(critical("failure-tolerance", "quorum", 0, observed_s=600), "1n", at_ms=NOON_MS, escalations=3)
    assert grouper.escalations("1n") == 3


def of_node(rule: str, subject: str, node: int, **changed: Any) -> Alert:
    facts = FindingFacts(failed_nodes=(NodeId(node),))
    return alert(subject, rule=rule, facts=facts, **{"severity": Severity.WARNING, **changed})


TOLERANCE = of_node("failure-tolerance", "quorum", 3)


@pytest.mark.parametrize("first", [TOLERANCE, of_node("voter-lagging", "voter 3", 3)], ids=lambda one: str(one.rule))
def test_a_combined_node_that_fails_is_one_incident_in_either_order(first: Alert) -> None:
    fenced = of_node("broker-fenced", "broker 3", 3, started_at_ms=NOON_MS + 60_000)
    for order in ((first, fenced), (fenced, first)):
        grouper = IncidentGrouper(RULES)
        assert len({incident_of(grouper, each) for each in order}) == 1


def test_a_controller_and_another_broker_that_fail_are_two_incidents(grouper: IncidentGrouper) -> None:
    incident = incident_of(grouper, TOLERANCE)
    others = [
        of_node("broker-fenced", "broker 4", 4),
        of_node("broker-fenced", "broker 3", 3, cluster_id="another"),
        alert("broker 3", rule="broker-fenced", severity=Severity.WARNING),
    ]
    assert incident not in {incident_of(grouper, each) for each in others}


def test_a_broker_joins_the_incident_of_its_own_process_before_that_of_other_brokers(grouper: IncidentGrouper) -> None:
    incident_of(grouper, of_node("broker-fenced", "broker 4", 4))
    incident = incident_of(grouper, TOLERANCE)
    assert incident_of(grouper, of_node("broker-fenced", "broker 3", 3)) == incident


def test_a_combined_node_that_may_hold_the_only_copy_escalates_its_incident(grouper: IncidentGrouper) -> None:
    incident = incident_of(grouper, TOLERANCE)
    only_copy = of_node("broker-fenced", "broker 3", 3, severity=Severity.CRITICAL, started_at_ms=NOON_MS + 300_000)
    assert incident_of(grouper, only_copy) == incident
    assert grouper.escalations(incident) == 1


def test_a_critical_alert_joins_its_rules_warnings_only_if_it_began_with_the_first_of_them(
    grouper: IncidentGrouper,
) -> None:
    incident = incident_of(grouper, warning("broker-fenced", "broker 4", 0))
    assert incident_of(grouper, warning("broker-fenced", "broker 5", 60)) == incident

    assert incident_of(grouper, firing("broker-fenced", "broker 6", 10)) == incident
    grouper = IncidentGrouper(RULES)
    incident = incident_of(grouper, warning("broker-fenced", "broker 4", 0))
    incident_of(grouper, warning("broker-fenced", "broker 5", 60))
    assert incident_of(grouper, firing("broker-fenced", "broker 6", 121)) != incident


def offline(node: int, at_s: int) -> Alert:
    facts = FindingFacts(failed_nodes=(NodeId(node),))
    return alert(f"broker {node}", rule="partitions-offline", facts=facts, started_at_ms=NOON_MS + 1_000 * at_s)


@pytest.mark.parametrize(
    "before",
    [
        # It left by a controlled shutdown, which is no fault.
        of_node("broker-fenced", "broker 4", 4, severity=Severity.INFO),
        of_node("broker-fenced", "broker 5", 5),
        alert("broker 5", rule="log-directory-offline", severity=Severity.WARNING),
    ],
    ids=lambda before: f"{before.severity} {before.rule} {before.subject}",
)
def test_a_critical_alert_does_not_join_an_older_incident_of_another_fault(
    grouper: IncidentGrouper, before: Alert
) -> None:
    opened = incident_of(grouper, before)
    assert incident_of(grouper, offline(4, 3_600)) != opened
    assert grouper.escalations(opened) == 0

    grouper = IncidentGrouper(RULES)
    assert incident_of(grouper, before) == incident_of(grouper, offline(4, 10)), "they began together"


@pytest.mark.parametrize(("severity", "joins"), [(Severity.INFO, False), (Severity.WARNING, True)])
def test_a_warning_joins_an_older_incident_only_if_that_is_about_a_fault(
    grouper: IncidentGrouper, severity: Severity, joins: bool
) -> None:
    opened = incident_of(grouper, firing("partitions-under-min-isr", "default of min.insync.replicas", 0, severity))
    assert (incident_of(grouper, warning("broker-fenced", "broker 4", 3_600)) == opened) is joins


@pytest.mark.parametrize(
    "before",
    [
        of_node("broker-fenced", "broker 4", 4),
        alert("broker 4", rule="log-directory-offline", severity=Severity.WARNING),
    ],
    ids=lambda before: str(before.rule),
)
def test_a_critical_alert_joins_the_warning_about_its_own_broker(grouper: IncidentGrouper, before: Alert) -> None:
    opened = incident_of(grouper, before)
    assert incident_of(grouper, offline(4, 3_600)) == opened
    assert grouper.escalations(opened) == 1
