"""Which alerts are grouped into one incident."""

from rules.alert import Alert
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.incident import STORM_AT, STORM_WINDOW_MS, IncidentGrouper
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert


def incident_of(grouper: IncidentGrouper, one: Alert, *, after_ms: int = 0) -> str:
    return grouper.assign(one, at_ms=Millis(NOON_MS + after_ms))


def stale(subject: str, *, cluster: str = "alpha", resolved: bool = False) -> Alert:
    return alert(
        subject, rule="stale-voter-endpoint", cluster=cluster, cluster_id=f"id of {cluster}", resolved=resolved
    )


def test_alerts_of_one_rule_in_one_cluster_are_one_incident() -> None:
    grouper = IncidentGrouper(RULES)
    assert incident_of(grouper, stale("voter 1")) == incident_of(grouper, stale("voter 2"))


def test_a_cause_and_its_consequence_are_one_incident_in_either_order() -> None:
    tolerance = alert("quorum", rule="failure-tolerance", cluster_id="id of alpha")
    for first, second in ((stale("voter 1"), tolerance), (tolerance, stale("voter 1"))):
        grouper = IncidentGrouper(RULES)
        assert incident_of(grouper, first) == incident_of(grouper, second)


def test_a_fenced_broker_and_the_unclean_election_that_it_causes_are_one_incident() -> None:
    """Its alert becomes critical because of the election: that is the same fault, and not another page."""
    rules = ("unclean-election", "partition-stuck-recovering", "broker-fenced")
    alerts = [alert("a subject", rule=rule, cluster_id="id of alpha") for rule in rules]
    for order in (alerts, alerts[::-1]):
        grouper = IncidentGrouper(RULES)
        assert len({incident_of(grouper, each) for each in order}) == 1


def test_another_cluster_and_an_unrelated_rule_are_separate_incidents() -> None:
    grouper = IncidentGrouper(RULES)
    ours, theirs = incident_of(grouper, stale("voter 1")), incident_of(grouper, stale("voter 1", cluster="beta"))
    recovering = alert("orders-0", rule="partition-stuck-recovering", cluster_id="id of alpha")
    assert len({ours, theirs, incident_of(grouper, recovering)}) == 3


def test_an_incident_stays_open_until_its_last_alert_resolves() -> None:
    grouper = IncidentGrouper(RULES)
    first = incident_of(grouper, stale("voter 1"))
    incident_of(grouper, stale("voter 2"))
    assert incident_of(grouper, stale("voter 1", resolved=True)) == first
    assert incident_of(grouper, stale("voter 3")) == first
    for voter in ("voter 2", "voter 3"):
        assert incident_of(grouper, stale(voter, resolved=True)) == first
    later = alert("voter 1", rule="stale-voter-endpoint", cluster_id="id of alpha", started_at_ms=NOON_MS + 60_000)
    assert incident_of(grouper, later) != first


def test_too_many_incidents_in_a_short_time_are_merged() -> None:
    grouper = IncidentGrouper(RULES)
    fleet = [stale("voter 1", cluster=f"cluster{number}") for number in range(STORM_AT + 10)]
    ids = [incident_of(grouper, each) for each in fleet]
    assert len(set(ids[:STORM_AT])) == STORM_AT
    assert len(set(ids[STORM_AT:])) == 1
    calm = incident_of(grouper, stale("voter 1", cluster="later"), after_ms=STORM_WINDOW_MS)
    assert calm not in ids


def test_a_resolved_storm_incident_gets_no_further_alerts() -> None:
    grouper = IncidentGrouper(RULES)
    *_, merged = [incident_of(grouper, stale("voter 1", cluster=f"cluster{number}")) for number in range(STORM_AT + 1)]
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


def test_many_alerts_of_one_incident_count_once_towards_a_storm() -> None:
    grouper = IncidentGrouper(RULES)
    assert len({incident_of(grouper, stale(f"voter {number}")) for number in range(STORM_AT + 10)}) == 1
    others = [incident_of(grouper, stale("voter 1", cluster=f"cluster{number}")) for number in range(STORM_AT - 1)]
    assert len(set(others)) == STORM_AT - 1


def test_incident_that_opens_again_counts_again_towards_a_storm() -> None:
    grouper = IncidentGrouper(RULES)
    for _ in range(STORM_AT):
        incident_of(grouper, stale("voter 1"))
        incident_of(grouper, stale("voter 1", resolved=True))
    assert len({incident_of(grouper, stale("voter 1", cluster=name)) for name in ("one", "another")}) == 1


def test_resolution_of_an_alert_that_did_not_fire_opens_no_incident() -> None:
    grouper = IncidentGrouper(RULES)
    over = incident_of(grouper, stale("voter 1", resolved=True))
    later = alert("voter 1", rule="stale-voter-endpoint", cluster_id="id of alpha", started_at_ms=NOON_MS + 60_000)
    assert incident_of(grouper, later) != over


def test_alerts_of_a_rule_that_no_longer_exists_are_one_incident() -> None:
    grouper = IncidentGrouper(RULES)
    former = [alert(subject, rule="a-former-rule", cluster_id="id of alpha") for subject in ("one", "another")]
    assert len({incident_of(grouper, each) for each in former}) == 1


def test_cause_that_is_not_among_the_rules_still_explains_its_consequence() -> None:
    grouper = IncidentGrouper({"failure-tolerance": RULES["failure-tolerance"]})
    cause = incident_of(grouper, alert("quorum", rule="no-leader", cluster_id="id of alpha"))
    assert incident_of(grouper, alert("quorum", rule="failure-tolerance", cluster_id="id of alpha")) == cause


def test_copy_has_the_same_incidents_and_is_independent() -> None:
    """Its origin has nineteen open incidents; the copy gets all the later alerts."""
    grouper = IncidentGrouper(RULES)
    opened = [incident_of(grouper, stale("voter 1", cluster=f"cluster{number}")) for number in range(STORM_AT - 1)]
    copied = grouper.copy()

    assert incident_of(copied, stale("voter 2", cluster="cluster3")) == opened[3]
    for voter in ("voter 1", "voter 2"):
        incident_of(copied, stale(voter, cluster="cluster3", resolved=True))
    for name in ("one", "another", "a third"):
        incident_of(copied, stale("voter 1", cluster=name))

    assert incident_of(grouper, stale("voter 5", cluster="cluster3")) == opened[3], "still open in the origin"
    last = incident_of(grouper, stale("voter 1", cluster="a fourth"))
    assert incident_of(grouper, stale("voter 1", cluster="a fifth")) != last, "the origin counts its own openings"
