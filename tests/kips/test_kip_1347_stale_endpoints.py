"""KIP-1347, motivation: alerts for recorded endpoints that no longer reach their controller, before a restart."""

from dataclasses import replace

import pytest

from rules.model.identifiers import NodeId, Offset
from rules.model.monitoring import Answer, Connection, Vantage
from streaming.replay.machine import Machine
from tests.kips.test_kip_856_gauges import status
from tests.unit.rules.situation import endpoint as endpoint_of
from tests.unit.rules.situation import (
    findings,
    healthy,
    leaderless,
    name_not_found,
    present,
    probed,
    registration,
    static,
    unknown,
    voter_not_fetching,
    with_committed,
)
from tests.unit.streaming.replay.log_script import (
    LogScript,
    apply,
    endpoint,
    formed_quorum,
    poll,
    replica,
    voter,
)
from tests.unit.streaming.status.test_status_tables import printed

RULE = "stale-voter-endpoint"


@pytest.mark.parametrize(("vantage", "unobserved"), [(Vantage.INSIDE, True), (Vantage.OUTSIDE, False)])
def test_a_connection_that_times_out_is_unknown_only_from_inside(vantage: Vantage, unobserved: bool) -> None:
    """From outside the network of the controllers no connection is expected to succeed.

    No older connection to this endpoint is answered.
    """
    times_out = probed(healthy(), 1, connection=Connection.TIMED_OUT, answer=Answer.NOT_ASKED)
    quorum = replace(times_out, vantage=vantage, leader_views={})

    assert findings(quorum, RULE) == []
    assert ((RULE, "voter 1") in unknown(quorum)) is unobserved


@pytest.mark.parametrize(
    ("host", "port", "fires"), [("moved.test", 9093, 1), ("c1.test", 19093, 1), ("C1.TEST", 9093, 0)]
)
def test_a_controller_that_registered_another_host_or_port_fires(host: str, port: int, fires: int) -> None:
    quorum = healthy()
    moved = registration(1, endpoint_of(1, host, port))

    for probes in (quorum.probes, {}):
        found = findings(replace(quorum, controllers={**quorum.controllers, moved.id: moved}, probes=probes), RULE)
        assert len(found) == fires, "with a probe and without"


def test_reachable_bootstrap_servers_do_not_help_if_recorded_names_do_not_resolve() -> None:
    """Elections dial only the recorded voters."""
    gone = replace(name_not_found(healthy(), 1, 2, 3), bootstrap=("10.9.9.9:9093",))

    found = findings(gone, RULE)

    assert [str(each.severity) for each in found] == ["critical"] * 3
    assert {each.evidence["electable_if_all_restarted"] for each in found} == {False}


def test_without_a_leader_recorded_names_that_do_not_resolve_need_the_rescue() -> None:
    (finding,) = findings(leaderless(name_not_found(healthy(), 1, 2, 3), 3), "no-leader")

    assert [step for step in finding.remedy if "kraftwatch rescue plan" in step and "--initial-controllers" in step]


def test_a_static_quorum_has_configured_endpoints_and_no_recorded_ones() -> None:
    quorum = static(name_not_found(healthy(), 1, 2, 3))

    (finding,) = findings(static(name_not_found(healthy(), 1)), RULE)
    assert (finding.evidence["configured_endpoint"], "recorded_endpoint" in finding.evidence) == ("c1.test:9093", False)
    said = status(quorum)
    assert (said["kraft_version"], said["committed_voters"]) == (0, None)
    assert [one["verdict"] for one in said["endpoints"]] == ["stale"] * 3
    assert status(replace(quorum, kraft_version=None))["endpoints"] == [], "a VotersRecord may follow"
    assert len(said["current_voters"]) == 3
    assert (said["mode"], status(replace(quorum, kraft_version=None))["mode"]) == ("static", None)
    for begun in (replace(quorum, last_offset=Offset(10)), replace(quorum, kraft_version=1)):
        assert findings(begun, RULE) == [], "a VotersRecord may follow"


def moved() -> tuple[LogScript, Machine]:
    """Controller 2 of three restarted at another endpoint and registered it; the voter set has the old one."""
    script, replay = formed_quorum("1-a", "2-b", "3-c")
    script.controller(2, port=9999)
    described = poll(*(replica(name) for name in ("1-a", "2-b", "3-c")))
    apply(replay, [script.read(), script.row(described)])
    return script, replay


def test_one_moved_voter_of_three_is_a_warning_until_the_voters_record_has_its_endpoint() -> None:
    script, replay = moved()
    (finding,) = findings(replay.quorum(), RULE)
    assert (finding.subject, str(finding.severity)) == ("voter 2", "warning")
    assert any("c1:9093 reachable from controller 2's host" in step for step in finding.remedy), "it asks the leader"

    recovered = script.voters("1-a", "2-b", "3-c")
    script.events[-1] = replace(recovered, voters=(voter("1-a"), voter("2-b", port=9999), voter("3-c")))
    quorum = apply(replay, [script.read()])
    assert present(quorum.committed).voters[1].endpoints == (endpoint(2, 9999),)
    assert findings(quorum, RULE) == []


def test_the_recorded_endpoint_is_the_first_one_which_voters_dial() -> None:
    quorum = name_not_found(healthy(), 1)
    first, *others = present(quorum.committed).voters
    both = replace(first, endpoints=(*first.endpoints, endpoint_of(1, "internal.test")))

    quorum = with_committed(quorum, voters=(both, *others))
    (finding,) = findings(quorum, RULE)

    assert finding.summary.startswith("Voter 1's recorded endpoint c1.test:9093 does not resolve.")
    every_listener = status(quorum)["committed_voters"]["voters"][0]["endpoints"]
    assert every_listener == ["CONTROLLER://c1.test:9093", "CONTROLLER://internal.test:9093"]


def test_the_newest_registration_of_a_node_counts() -> None:
    script, replay = moved()
    script.controller(2)
    script.broker(101)
    script.events[-1] = replace(script.broker(101), endpoints=(endpoint(101, 9999),))

    quorum = apply(replay, [script.read()])

    assert quorum.controllers[NodeId(2)].endpoints == (endpoint(2),)
    assert findings(quorum, RULE) == []
    assert quorum.brokers[NodeId(101)].endpoints == (endpoint(101, 9999),)


@pytest.mark.parametrize(
    ("dead", "gone", "severity"),
    [((), (1, 2), "warning"), ((1,), (2,), "warning"), ((1,), (2, 3), "critical"), ((1, 2), (3,), "critical")],
)
def test_severity_depends_on_an_election_and_not_on_the_number_of_changed_voters(
    dead: tuple[int, ...], gone: tuple[int, ...], severity: str
) -> None:
    """The KIP counts. In Kafka two changed voters of three recover; with the third one down they do not."""
    quorum = healthy()
    for node in dead:
        quorum = voter_not_fetching(quorum, node)

    renamed = name_not_found(quorum, *gone)
    assert {str(each.severity) for each in findings(renamed, RULE)} == {severity}
    assert status(renamed)["electable"] is (severity == "warning")
    could = "a leader could be elected" if severity == "warning" else "no leader could be elected"
    assert f"If all restarted now  {could}" in printed(renamed)
