"""certificate-expiring: one finding for a cluster, from the dates of the certificates that its controllers present."""

from dataclasses import replace

import pytest

from rules.finding import Finding
from rules.model.monitoring import Answer, CertificateFault, Connection, Vantage, probe_key
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    finding_lines,
    findings,
    healthy,
    probed,
    refuses,
    static,
    unknown_reasons,
    with_certificates,
)

RULE = "certificate-expiring"


def expiring(quorum: Quorum) -> list[str]:
    return [f"{one.severity} {one.subject}: {', '.join(_listed(one))}" for one in findings(quorum, RULE)]


def _listed(finding: Finding) -> list[str]:
    certificates = finding.evidence["certificates"]
    assert isinstance(certificates, dict)
    return [str(name).partition("@")[0] for name in certificates]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ({}, []),
        ({1: 9.0, 2: 4.0, 3: 13.0}, ["warning certificates: 2, 1, 3"]),
        ({1: 10.0, 3: 1.0}, ["critical certificates: 3, 1"]),
    ],
)
def test_certificates_that_expire_soon_are_one_finding_with_the_first_one_first(
    days: dict[int, float], expected: list[str]
) -> None:
    assert expiring(with_certificates(healthy(), days=days)) == expected


def test_expired_certificate_is_left_to_stale_voter_endpoint_and_stays_listed() -> None:
    expired = with_certificates(healthy(), {1: CertificateFault.EXPIRED})
    both = with_certificates(healthy(), {1: CertificateFault.EXPIRED}, days={1: -1.0, 2: 10.0})

    assert finding_lines(expired) == ["warning stale-voter-endpoint: voter 1"]
    assert unknown_reasons(expired, RULE) == [
        ("certificates", "the certificate of 1 has expired: stale-voter-endpoint reports it")
    ]
    assert expiring(both) == ["warning certificates: 1, 2"]


def test_static_quorum_has_no_other_rule_for_an_expired_certificate() -> None:
    assert expiring(static(with_certificates(healthy(), {1: CertificateFault.EXPIRED}))) == ["critical certificates: 1"]


def test_certificate_that_is_not_read_is_unknown() -> None:
    refusing = with_certificates(refuses(healthy(), 2))
    timing_out = with_certificates(probed(healthy(), 2, connection=Connection.TIMED_OUT))
    none = replace(with_certificates(healthy()), probes={})

    assert unknown_reasons(refusing, RULE) == [
        ("certificates", "the certificate of 2 was not read by the newest probes")
    ]
    assert unknown_reasons(none, RULE) == [("certificates", "no certificate was read by the newest probes")]
    assert unknown_reasons(replace(timing_out, vantage=Vantage.OUTSIDE), RULE) == []


def test_probe_of_another_listener_leaves_no_certificate_unread() -> None:
    quorum = with_certificates(healthy())
    recorded = next(probe for probe in quorum.probes.values() if probe.node == 2)
    endpoint = replace(recorded.endpoint, listener="PLAIN", port=19093)
    other = replace(recorded, endpoint=endpoint, answer=Answer.NOT_ALLOWED, certificate=None)

    assert (
        unknown_reasons(replace(quorum, probes={**quorum.probes, probe_key(other.node, endpoint): other}), RULE) == []
    )
