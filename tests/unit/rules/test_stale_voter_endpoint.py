"""stale-voter-endpoint: which endpoints are stale, down or unknown, and with which severity."""

from dataclasses import replace

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.finding import Finding, Severity
from rules.model.identifiers import Endpoint, NodeId
from rules.model.monitoring import Answer, CertificateFault, Connection, Reason, Vantage
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    DAY_MS,
    all_refuse,
    came_back,
    endpoint,
    evaluation_of,
    failing,
    finding_lines,
    findings,
    healthy,
    key,
    leaderless,
    leaders_clock,
    name_not_found,
    not_observed_for,
    observer,
    present,
    probed,
    refuses,
    registered_elsewhere,
    registration,
    resolver_fails,
    row,
    static,
    unknown,
    unknown_reasons,
    voter_not_fetching,
    with_certificates,
    with_committed,
    with_controller,
)

RULE = "stale-voter-endpoint"


def stale(quorum: Quorum) -> list[str]:
    """Returns `SEVERITY voter N: REASONS` for each finding."""
    return [f"{each.severity} {each.subject}: {_because(each)}" for each in findings(quorum, RULE)]


def _because(finding: Finding) -> str:
    reasons = finding.evidence["stale_because"]
    assert isinstance(reasons, list)
    return ", ".join(str(reason) for reason in reasons)


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (name_not_found(healthy(), 1), ["warning voter 1: name-gone"]),
        (registered_elsewhere(healthy(), 1), ["warning voter 1: registration-differs"]),
        (refuses(healthy(), 1), ["warning voter 1: refused-while-fetching"]),
        # Its process starts again and again.
        (came_back(refuses(healthy(), 1), 1, 600_000, 90_000), []),
        (came_back(refuses(healthy(), 1), 1, 603_000, 90_000), ["warning voter 1: refused-while-fetching"]),
        (probed(healthy(), 1, answer=Answer.OTHER_CLUSTER), ["warning voter 1: leads-elsewhere"]),
        (probed(healthy(), 1, answer=Answer.OTHER_NODE, answered_by=2), ["warning voter 1: leads-elsewhere"]),
        (probed(healthy(), 1, answer=Answer.THIS_CLUSTER, answered_by=2), ["warning voter 1: leads-elsewhere"]),
        (probed(healthy(), 1, answer=Answer.NOT_KAFKA), ["warning voter 1: leads-elsewhere"]),
        (name_not_found(registered_elsewhere(healthy(), 1), 1), ["warning voter 1: registration-differs, name-gone"]),
        (probed(healthy(), 1, answer=Answer.NO_ANSWER), ["warning voter 1: not-serving"]),
        (probed(healthy(), 3, answer=Answer.NO_ANSWER), ["warning voter 3: not-serving"]),
        # It answers an older connection: the backlog of connections that it does not accept is full.
        (probed(healthy(), 1, connection=Connection.TIMED_OUT), ["warning voter 1: not-serving"]),
        (
            probed(probed(healthy(), 1, answer=Answer.NO_ANSWER), 2, answer=Answer.NO_ANSWER),
            ["critical voter 1: not-serving", "critical voter 2: not-serving"],
        ),
        # The leader does not fetch and is known to run.
        (refuses(healthy(), 3), ["warning voter 3: refused-while-fetching"]),
    ],
)
def test_stale_endpoint_is_reported_with_its_reason(quorum: Quorum, expected: list[str]) -> None:
    assert stale(quorum) == expected
    assert [each for each in unknown(quorum) if each[0] == RULE] == []


@pytest.mark.parametrize(
    "quorum",
    [
        # Down, without evidence that it moved.
        refuses(voter_not_fetching(healthy(), 1), 1),
        # The node that answers is unknown.
        probed(healthy(), 1, answer=Answer.NOT_ALLOWED),
        probed(healthy(), 1, answer=Answer.NOT_ASKED),
        probed(healthy(), 1, answer=Answer.THIS_CLUSTER, answered_by=None),
        # Accepted without an answer, and it does not fetch either: a process that hangs is at its recorded endpoint.
        probed(voter_not_fetching(healthy(), 1), 1, answer=Answer.NO_ANSWER),
        # Host names are case-insensitive.
        with_controller(healthy(), registration(1, endpoint(1, host="C1.TEST"))),
        # The registration lists other listeners: only the listener with the same name is compared.
        with_controller(
            healthy(),
            replace(
                registration(1), endpoints=(Endpoint(listener="PLAINTEXT", host="b1.test", port=9092), endpoint(1))
            ),
        ),
        # A new directory with the same id registered: the registration is not this voter's.
        registered_elsewhere(observer(voter_not_fetching(healthy(), 1), 1, directory="newDirOf1"), 1),
        # A controller without a known registration.
        replace(healthy(), controllers={}),
    ],
)
def test_endpoint_that_is_not_stale_is_not_reported(quorum: Quorum) -> None:
    assert stale(quorum) == []
    assert [each for each in unknown(quorum) if each[0] == RULE] == []


@pytest.mark.parametrize(
    "quorum",
    [
        resolver_fails(healthy(), 1),
        # It may be the path: no older connection is answered.
        probed(replace(healthy(), leader_views={}), 1, connection=Connection.TIMED_OUT, answer=Answer.NOT_ASKED),
        # It has not fetched since the probe.
        probed(healthy(), 1, answer=Answer.NO_ANSWER, ago_ms=100),
        probed(healthy(), 1, connection=Connection.UNREACHABLE, answer=Answer.NOT_ASKED),
        probed(healthy(), 1, ago_ms=31_000),
        replace(healthy(), probes={name: probe for name, probe in healthy().probes.items() if probe.node != 1}),
        # Refused a moment ago and no fetch since: the voter may have just been killed.
        refuses(healthy(), 1, ago_ms=100),
        # A fetch at nearly the same time as the probe may have been before it.
        refuses(healthy(), 1, ago_ms=600),
        # Refused, and it is unknown whether the voter fetches.
        refuses(not_observed_for(healthy(), log_ms=None, poll_ms=30_000), 1),
    ],
)
def test_result_is_unknown_without_a_conclusive_probe(quorum: Quorum) -> None:
    assert stale(quorum) == []
    assert [each for each in unknown(quorum) if each[0] == RULE] == [(RULE, "voter 1")]


@pytest.mark.parametrize(
    ("fault", "sentence", "step"),
    [
        (
            CertificateFault.NOT_YET_VALID,
            "is not valid before 2026-09-23 14:13:20 UTC.",
            "# Renew the certificate of controller 1: the one at c1.test:9093 is not valid before "
            "2026-09-23 14:13:20 UTC",
        ),
        (
            CertificateFault.WRONG_HOST,
            "is not for c1.test.",
            "# Issue a certificate for controller 1 that names c1.test (subjectAltName): the one at c1.test:9093 is "
            "not for c1.test",
        ),
    ],
)
def test_certificate_that_is_not_accepted_at_one_voter_is_its_fault(
    fault: CertificateFault, sentence: str, step: str
) -> None:
    (finding,) = findings(with_certificates(healthy(), {1: fault}), RULE)

    assert finding.summary.startswith(
        f"Voter 1's recorded endpoint c1.test:9093 presents a certificate that {sentence}"
    )
    assert "If any of controllers 2 and 3 stopped too, no leader could be elected." in finding.summary
    assert (finding.severity, finding.evidence["stale_because"]) == (Severity.WARNING, ["certificate"])
    assert finding.remedy[0] == step
    assert any("restart controller 1" in line for line in finding.remedy)


@pytest.mark.parametrize("fault", [CertificateFault.WRONG_HOST, CertificateFault.UNTRUSTED])
def test_certificate_fault_at_every_voter_may_be_the_monitors_own_truststore(fault: CertificateFault) -> None:
    quorum = with_certificates(healthy(), dict.fromkeys((1, 2, 3), fault))

    assert stale(quorum) == []
    assert [each for each in unknown(quorum) if each[0] == RULE] == [(RULE, f"voter {node}") for node in (1, 2, 3)]
    assert "ssl_cafile" in dict(unknown_reasons(quorum, RULE))["voter 1"]


def test_authority_that_only_the_monitor_is_known_not_to_trust_is_no_fault_of_a_voter_that_fetches() -> None:
    """A certificate authority is replaced: controllers 1 and 3, which leads, have a certificate of the new one."""
    quorum = with_certificates(healthy(), dict.fromkeys((1, 3), CertificateFault.UNTRUSTED))
    assert stale(quorum) == []
    assert "compare the issuers" in dict(unknown_reasons(quorum, RULE))["voter 1"]
    assert stale(voter_not_fetching(quorum, 1)) == ["warning voter 1: certificate"], "it may be the reason"


def test_certificates_of_all_voters_that_expired_by_the_leaders_clock_too_are_critical() -> None:
    quorum = with_certificates(healthy(), dict.fromkeys((1, 2, 3), CertificateFault.EXPIRED))

    assert stale(quorum) == [f"critical voter {node}: certificate" for node in (1, 2, 3)]
    assert stale(replace(quorum, vantage=Vantage.OUTSIDE)) == [
        f"warning voter {node}: certificate" for node in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("fault", "ahead_ms"), [(CertificateFault.EXPIRED, -3 * DAY_MS), (CertificateFault.NOT_YET_VALID, 3 * DAY_MS)]
)
def test_certificate_that_is_valid_by_the_leaders_clock_is_unknown(fault: CertificateFault, ahead_ms: int) -> None:
    quorum = leaders_clock(with_certificates(healthy(), {1: fault}), ahead_ms=ahead_ms)

    assert stale(quorum) == []
    assert "check the clock of the monitor's host" in dict(unknown_reasons(quorum, RULE))["voter 1"]


def test_expired_issuer_is_the_voters_fault_only_if_another_certificate_is_accepted() -> None:
    chain = {1: 200.0, 2: 200.0, 3: 200.0}
    one = with_certificates(healthy(), {1: CertificateFault.EXPIRED}, days=chain)
    every = with_certificates(healthy(), dict.fromkeys((1, 2, 3), CertificateFault.EXPIRED), days=chain)

    assert stale(one) == ["warning voter 1: certificate"]
    assert "has expired, or its issuer's" in findings(one, RULE)[0].summary
    assert stale(every) == []


@pytest.mark.parametrize(
    ("voters", "unresolved", "severity"),
    [(3, (1, 2), "warning"), (3, (1, 2, 3), "critical"), (4, (1, 2), "warning"), (4, (1, 2, 3), "critical")],
)
def test_severity_depends_on_the_result_of_an_election_now(
    voters: int, unresolved: tuple[int, ...], severity: str
) -> None:
    assert stale(name_not_found(healthy(voters), *unresolved)) == [
        f"{severity} voter {node}: name-gone" for node in unresolved
    ]


def test_from_outside_what_the_log_shows_is_critical() -> None:
    by_the_log = replace(registered_elsewhere(healthy(), 1, 2, 3), vantage=Vantage.OUTSIDE)
    assert {each.severity for each in findings(by_the_log, RULE)} == {Severity.CRITICAL}


# Without a leader: `no-leader` has the endpoints, the probes and the remedy.


@pytest.mark.parametrize(
    "quorum",
    [
        # Down, or every endpoint moved at once: one controller answers at its new endpoint and knows no leader.
        failing(not_observed_for(refuses(healthy(), 1, 2, 3)), Reason.NO_LEADER, "c1.test:19093"),
        leaderless(refuses(healthy(), 1, 2), 3),
        leaderless(refuses(healthy(), 1), 3),
        all_refuse(refuses(healthy(), 1, 2, 3)),
        # SIGSTOP: the kernel accepts connections and the process does not answer.
        leaderless(probed(probed(healthy(), 1, answer=Answer.NO_ANSWER), 2, answer=Answer.NO_ANSWER), 3),
        leaderless(name_not_found(healthy(), 1, 2, 3), 1),
        # One name has not resolved for days, and the leader restarts: it refuses connections during the election.
        failing(
            not_observed_for(name_not_found(refuses(healthy(), 3), 1), 2_000, 2_500), Reason.NO_LEADER, "c2.test:9093"
        ),
    ],
)
def test_a_quorum_without_a_leader_has_one_finding(quorum: Quorum) -> None:
    assert finding_lines(quorum) == ["critical no-leader: quorum"]
    assert (RULE, None) in unknown(quorum)


# A voter that does not fetch.


def test_voter_that_does_not_fetch_is_reported_by_failure_tolerance_with_its_endpoint() -> None:
    evaluation = evaluate(name_not_found(voter_not_fetching(healthy(), 1), 1), thresholds_for({}))

    assert [each.rule for each in evaluation.findings] == ["failure-tolerance"]
    assert " Its recorded endpoint c1.test:9093 does not resolve." in evaluation.findings[0].summary
    (unknown,) = (each for each in evaluation.unknown if each.rule == RULE)
    assert (unknown.subject, unknown.why) == (
        "voter 1",
        "it does not fetch: failure-tolerance or voter-lagging reports it, with its endpoint",
    )


@pytest.mark.parametrize(
    ("endpoint", "sentence"),
    [
        (probed(healthy(5), 1, answer=Answer.OTHER_NODE, answered_by=4), "is served by another process: node 4"),
        (registered_elsewhere(healthy(5), 1), "is outdated: the controller registered c1.test:19093"),
    ],
)
def test_endpoint_that_is_stale_whether_or_not_the_voter_runs_is_reported(endpoint: Quorum, sentence: str) -> None:
    evaluation = evaluate(voter_not_fetching(endpoint, 1), thresholds_for({}))

    by_rule = {each.rule: each for each in evaluation.findings}
    assert set(by_rule) == {RULE, "voter-lagging"}
    assert f"c1.test:9093 {sentence}." in by_rule[RULE].summary


def test_voter_that_does_not_fetch_is_reported_if_more_than_its_name_is_wrong() -> None:
    down = name_not_found(voter_not_fetching(healthy(), 2), 2)
    assert findings(down, "stale-voter-endpoint") == []
    (finding,) = findings(registered_elsewhere(down, 2), "stale-voter-endpoint")
    assert finding.subject == "voter 2"


def test_remedy_of_the_leaders_own_endpoint_does_not_ask_for_the_leader() -> None:
    steps = {
        node: findings(registered_elsewhere(healthy(), node), "stale-voter-endpoint")[0].remedy[0] for node in (2, 3)
    }
    assert "it is the leader's recorded endpoint" in steps[2]
    assert steps[3] == "# If its record has not changed after one minute, restart controller 3"


def test_certificate_is_renewed_also_where_the_name_of_another_voter_is_restored() -> None:
    quorum = with_certificates(name_not_found(healthy(), 1), {2: CertificateFault.EXPIRED})
    (finding,) = [one for one in findings(quorum, "stale-voter-endpoint") if one.subject == "voter 2"]
    assert any(step.startswith("# Renew the certificate of controller 2") for step in finding.remedy)


def test_voter_set_of_which_no_voter_fetches_has_no_candidate() -> None:
    """Controllers 4, 5 and 6 replaced all three, and the log was not read since: it still has the former voters."""
    quorum = name_not_found(not_observed_for(healthy(), log_ms=60_000, poll_ms=None), 1, 2, 3)
    replaced = replace(present(quorum.poll), leader_id=key(4).id, voters=tuple(row(key(node)) for node in (4, 5, 6)))

    found = findings(replace(quorum, poll=replaced, leader_id=key(4).id, histories={}), RULE)

    assert [(each.subject, each.severity) for each in found] == [
        (f"voter {node}", Severity.CRITICAL) for node in (1, 2, 3)
    ]
    evidence = found[0].evidence
    assert evidence["best_candidate"] is None
    assert evidence["votes_for_best_candidate"] == []
    assert evidence["votes_it_cannot_get"] == {}


def test_remedy_of_a_voter_that_does_not_fetch_makes_its_endpoint_reach_it() -> None:
    down = voter_not_fetching(healthy(5), 1)
    (lost,) = (each.remedy for each in findings(name_not_found(down, 1), "voter-lagging"))
    without_addresses = replace(name_not_found(down, 1), addresses={})
    (never_resolved,) = (each.remedy for each in findings(without_addresses, "voter-lagging"))
    (taken,) = (each.remedy for each in findings(probed(down, 1, answer=Answer.OTHER_CLUSTER), "voter-lagging"))

    assert lost[2] == (
        "# Make c1.test (it was 10.0.0.1) resolve again on every controller and broker, unless it does so by itself "
        "when controller 1 runs"
    )
    assert never_resolved[2].startswith("# Make c1.test resolve again on every controller and broker, unless")
    assert taken[2] == (
        "# Make c1.test:9093 reach controller 1 again (DNS or port mapping): another process answers, or this "
        "controller with another cluster's log directory (cluster.id in meta.properties)"
    )


# The remedy.


def test_remedy_corrects_the_controller_that_advertises_the_endpoint_of_another_one() -> None:
    quorum = healthy()
    voters = tuple(replace(voter, endpoints=(endpoint(3),)) if voter.key.id == 2 else voter for voter in quorum.voters)
    copied = with_committed(quorum, voters=voters)
    _, probe = next((name, probe) for name, probe in quorum.probes.items() if probe.node == 3)
    copied = replace(copied, probes={**quorum.probes, f"2@{endpoint(3)}": replace(probe, node=key(2).id)})

    for found in (copied, voter_not_fetching(copied, 2)):
        rule = RULE if found is copied else "failure-tolerance"
        remedy = next(each.remedy for each in findings(found, rule))
        correct = "# Correct advertised.listeners of controller 2, and restart it: "
        assert f"{correct}c3.test:9093 is the endpoint of controller 3" in remedy
        assert not any("# Make c3.test:9093 reach controller 2" in step for step in remedy)


@pytest.mark.parametrize(
    ("voters", "restarted"),
    [
        ((2,), "controller 2 under its new name, and wait until"),
        ((1, 2), "controllers 1 and 2 one by one under their new names, and wait each time until"),
        ((2, 5), "controllers 2 and 5 one by one under their new names, the leader (controller 5) last, and wait"),
    ],
)
def test_remedy_restarts_only_the_controllers_whose_names_do_not_resolve(
    voters: tuple[int, ...], restarted: str
) -> None:
    remedy = findings(name_not_found(healthy(5), *voters), RULE)[0].remedy
    assert any(line.startswith(f"# Then restart {restarted}") for line in remedy)


@pytest.mark.parametrize(
    ("quorum", "verdict"),
    [
        (name_not_found(healthy(), 1), "2 of 3 recorded endpoints work."),
        (
            name_not_found(resolver_fails(healthy(), 2), 1),
            "1 of 3 recorded endpoints works, 1 could not be checked.",
        ),
        (
            name_not_found(healthy(), 1, 2),
            "1 of 3 recorded endpoints works. If controller 3 stopped too, no leader could be elected.",
        ),
        (
            name_not_found(healthy(2), 1),
            "1 of 2 recorded endpoints works. If any of controllers 1 and 2 stopped too, no leader could be elected.",
        ),
    ],
)
def test_summary_counts_the_endpoints_that_work_and_names_the_last_ones(quorum: Quorum, verdict: str) -> None:
    finding = findings(quorum, RULE)[0]
    assert finding.summary == (
        "Voter 1's recorded endpoint c1.test:9093 does not resolve. "
        f"If all controllers restarted now, a leader could still be elected: {verdict}"
    )


def test_evidence_has_the_recorded_listener_and_all_addresses_also_without_a_registration() -> None:
    quorum = replace(probed(healthy(), 1, answer=Answer.OTHER_CLUSTER), controllers={})
    name = next(name for name, probe in quorum.probes.items() if probe.node == 1)
    several = replace(quorum.probes[name], addresses=("10.0.0.8", "10.0.0.9"))

    (finding,) = findings(replace(quorum, probes={**quorum.probes, name: several}), RULE)

    expected = ("CONTROLLER", None, ["10.0.0.8", "10.0.0.9"])
    fields = ("listener", "registered_endpoint", "resolved_to")
    assert tuple(finding.evidence[field] for field in fields) == expected


def test_names_are_restored_once_whatever_else_is_wrong_with_the_endpoints() -> None:
    """Without a known address, and without a poll, the steps name neither."""
    gone = registered_elsewhere(name_not_found(healthy(), 1, 2, 3), 1)
    (one, *_) = findings(replace(gone, addresses={}, poll=None, leader_id=None), RULE)

    assert one.remedy[1:6] == (
        "# Make c1.test resolve again on every controller and broker",
        "# Make c2.test resolve again on every controller and broker",
        "# Make c3.test resolve again on every controller and broker",
        "# Then restart the controllers one by one under their new names, the leader last, and wait each time until "
        "the new endpoint is recorded (about ten seconds)",
        "# Remove the old names only when all new endpoints are recorded",
    )
    assert one.remedy[6].startswith("# Check the recorded endpoints"), "no step for the registration of voter 1"


def test_voter_that_does_not_fetch_raises_the_severity_of_the_others() -> None:
    """One of three names does not resolve and another voter is down: the voter's own vote still makes two."""
    assert stale(name_not_found(voter_not_fetching(healthy(), 1), 2)) == ["warning voter 2: name-gone"]
    assert stale(name_not_found(voter_not_fetching(healthy(), 1), 2, 3)) == [
        "critical voter 2: name-gone",
        "critical voter 3: name-gone",
    ]


def test_fires_if_describe_quorum_is_not_answered() -> None:
    not_observed = not_observed_for(name_not_found(healthy(), 1, 2, 3), log_ms=None, poll_ms=60_000)
    assert {each.severity for each in findings(not_observed, RULE)} == {Severity.CRITICAL}


def test_voter_that_does_not_fetch_is_reported_if_no_leader_could_be_elected() -> None:
    quorum = name_not_found(voter_not_fetching(healthy(), 1), 1, 2, 3)

    assert [(each.subject, each.severity) for each in findings(quorum, RULE)] == [
        (f"voter {node}", Severity.CRITICAL) for node in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (name_not_found(healthy(), 1, 2, 3), ["critical voter 1", "critical voter 2", "critical voter 3"]),
        (name_not_found(healthy(), 2), ["warning voter 2"]),
        (probed(healthy(), 2, answer=Answer.OTHER_CLUSTER), ["warning voter 2"]),
        # The list may name a controller by an address, and its registration by a name.
        (registered_elsewhere(healthy(), 2), []),
        (healthy(), []),
    ],
    ids=["all-names", "one-name", "another-cluster", "registered-elsewhere", "healthy"],
)
def test_endpoints_of_a_static_quorum_are_those_that_its_leader_is_configured_with(
    quorum: Quorum, expected: list[str]
) -> None:
    found = findings(static(quorum), RULE)

    assert [f"{each.severity} {each.subject}" for each in found] == expected
    assert all("configured endpoint" in each.summary and "recorded" not in each.summary for each in found)


@pytest.mark.parametrize("nodes", [{}, {NodeId(1): (), NodeId(2): (), NodeId(3): ()}], ids=["none", "empty"])
def test_static_quorum_whose_kafka_names_no_endpoints_is_not_applicable(
    nodes: dict[NodeId, tuple[Endpoint, ...]],
) -> None:
    quorum = static(name_not_found(healthy(), 1, 2, 3))
    assert quorum.poll is not None

    (before_39,) = (
        each
        for each in evaluation_of(replace(quorum, poll=replace(quorum.poll, nodes=nodes))).not_applicable
        if each.rule == RULE
    )

    assert before_39.why.endswith("DescribeQuorum has no endpoints of voters before Kafka 3.9")
