"""Which alerts are one incident."""

from rules.alert import Alert
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.incident import STORM_AT, STORM_WINDOW_MS, Incidents
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert


def placed(incidents: Incidents, told: Alert, *, after_ms: int = 0) -> str:
    return incidents.place(told, at_ms=Millis(NOON_MS + after_ms))


def stale(subject: str, *, cluster: str = "alpha", resolved: bool = False) -> Alert:
    return alert(
        subject, rule="stale-voter-endpoint", cluster=cluster, cluster_id=f"id of {cluster}", resolved=resolved
    )


def test_alerts_of_one_rule_in_one_cluster_are_one_incident() -> None:
    incidents = Incidents(RULES)
    assert placed(incidents, stale("voter 1")) == placed(incidents, stale("voter 2"))


def test_what_explains_and_what_is_explained_are_one_incident_whichever_came_first() -> None:
    tolerance = alert("quorum", rule="failure-tolerance", cluster_id="id of alpha")
    for first, second in ((stale("voter 1"), tolerance), (tolerance, stale("voter 1"))):
        incidents = Incidents(RULES)
        assert placed(incidents, first) == placed(incidents, second)


def test_another_cluster_and_an_unrelated_rule_are_incidents_of_their_own() -> None:
    incidents = Incidents(RULES)
    ours, theirs = placed(incidents, stale("voter 1")), placed(incidents, stale("voter 1", cluster="beta"))
    recovering = alert("orders-0", rule="partition-stuck-recovering", cluster_id="id of alpha")
    assert len({ours, theirs, placed(incidents, recovering)}) == 3


def test_it_stays_open_until_the_last_alert_is_over() -> None:
    incidents = Incidents(RULES)
    first = placed(incidents, stale("voter 1"))
    placed(incidents, stale("voter 2"))
    assert placed(incidents, stale("voter 1", resolved=True)) == first
    assert placed(incidents, stale("voter 3")) == first
    for voter in ("voter 2", "voter 3"):
        assert placed(incidents, stale(voter, resolved=True)) == first
    later = alert("voter 1", rule="stale-voter-endpoint", cluster_id="id of alpha", started_at_ms=NOON_MS + 60_000)
    assert placed(incidents, later) != first


def test_too_many_in_a_short_time_are_merged_into_one_until_it_is_over() -> None:
    incidents = Incidents(RULES)
    fleet = [stale("voter 1", cluster=f"cluster{number}") for number in range(STORM_AT + 10)]
    ids = [placed(incidents, each) for each in fleet]
    assert len(set(ids[:STORM_AT])) == STORM_AT
    assert len(set(ids[STORM_AT:])) == 1
    calm = placed(incidents, stale("voter 1", cluster="later"), after_ms=STORM_WINDOW_MS)
    assert calm not in ids


def test_a_merged_incident_that_is_over_takes_in_nothing_more() -> None:
    incidents = Incidents(RULES)
    *_, merged = [placed(incidents, stale("voter 1", cluster=f"cluster{number}")) for number in range(STORM_AT + 1)]
    assert placed(incidents, stale("voter 1", cluster=f"cluster{STORM_AT}", resolved=True)) == merged
    following = [placed(incidents, stale("voter 1", cluster=name)) for name in ("one more", "and another")]
    assert len(set(following)) == 1, "the storm goes on"
    assert merged not in following


def test_a_ledger_that_is_read_again_leads_to_the_same_incidents() -> None:
    fleet = [stale("voter 1", cluster=f"cluster{number}") for number in range(STORM_AT + 2)]
    told = [*fleet, stale("voter 1", cluster="cluster3", resolved=True)]
    first, again = Incidents(RULES), Incidents(RULES)
    for each in told:
        again.take(each, placed(first, each), at_ms=NOON_MS)
    for later in (stale("voter 2", cluster="cluster5"), stale("voter 1", cluster="one more"), stale("voter 7")):
        assert placed(first, later) == placed(again, later)
