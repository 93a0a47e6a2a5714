"""What the doctor makes of what it saw: the verdict, and what mends it."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import ObservationError
from connectors.gather.connectivity_check import ApiVersionsCheck, ConnectivityCheck, TransportCheck
from connectors.kafka.client import Address
from connectors.kafka.cluster_id_lookup import ClusterDescription
from connectors.kafka.messages import FetchResult
from connectors.observation_event import QuorumPolled
from rules.model.identifiers import Epoch, NodeId, Offset
from rules.model.monitoring import Reason
from streaming.config import ClusterSection, checked
from streaming.doctor.check_result import Check, Verdict, worst
from streaming.doctor.cluster_checks import Examined
from streaming.doctor.host_checks import machine_checks, telling_checks
from tests.unit.connectors.kafka.certificates import authority
from tests.unit.rules.situation import key, row

POLLED = QuorumPolled(
    cluster_id="id",
    endpoint="c1:9093",
    leader_id=NodeId(1),
    leader_epoch=Epoch(4),
    high_watermark=Offset(9),
    voters=(row(key(1)), row(key(2)), row(key(3))),
    observers=(),
    nodes=(),
)
WELL = ConnectivityCheck(
    address=Address("c1", 9093),
    configured=True,
    addresses=("10.0.0.1",),
    transport=TransportCheck(certificate_expires_at=None),
    api_versions=ApiVersionsCheck(metadata_version=30),
    quorum=POLLED,
    fetch=FetchResult(error=6, leader_id=2, leader_epoch=4, leader=None),
    cluster=ClusterDescription(cluster_id="id", controllers=()),
    skew_ms=12,
)
DENIED_FETCH = ObservationError(Reason.DENIED, "Fetch needs CLUSTER_ACTION on CLUSTER")
DENIED_POLL = ObservationError(Reason.DENIED, "DescribeQuorum needs DESCRIBE on CLUSTER")
SECURED = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "kraftwatch",
    "sasl_plain_password": "do-not-print-me",
}


def checks(*checkups: ConnectivityCheck, recorded: str | None = None, **keys: Any) -> list[Check]:
    section = ClusterSection.model_validate({"name": "prod", "bootstrap": ["c1:9093"], **keys})
    return list(Examined(section=section, checkups=checkups, recorded=recorded).checks())


def bad(found: list[Check]) -> list[tuple[str, str, str]]:
    return [(one.verdict.value, one.subject, one.name) for one in found if one.verdict is not Verdict.OK]


def mend(found: list[Check], subject: str) -> str:
    return "\n".join(line for one in found if one.subject == subject for line in one.mend)


def test_all_is_well() -> None:
    found = checks(WELL)
    assert bad(found) == []
    assert worst(found) is Verdict.OK
    assert [one.said for one in found if one.name == "login"] == ["no login; Kafka 4.3"]


def test_without_cluster_action_the_rules_that_need_the_log_are_named_with_the_command_that_allows_it() -> None:
    found = checks(replace(WELL, fetch=DENIED_FETCH), **SECURED)
    assert bad(found) == [("warning", "Fetch", "rights"), ("warning", "rules", "sight")]
    assert (
        "kafka-acls.sh --bootstrap-controller c1:9093 --command-config $NODE_PROPERTIES --add "
        "--allow-principal User:kraftwatch --operation ClusterAction --cluster" in mend(found, "Fetch")
    )
    assert "stale-voter-endpoint" in next(one.said for one in found if one.subject == "rules")
    assert "do-not-print-me" not in repr(found)


def test_polls_alone_by_choice_lack_nothing() -> None:
    assert bad(checks(replace(WELL, fetch=DENIED_FETCH), **SECURED, metadata_log=False)) == []


def test_without_any_right_the_job_is_blind() -> None:
    unknown = ObservationError(Reason.DENIED, "DescribeCluster needs ALTER (at a controller) on CLUSTER")
    found = checks(replace(WELL, quorum=DENIED_POLL, fetch=DENIED_FETCH, cluster=unknown, skew_ms=None), **SECURED)
    assert bad(found) == [
        ("fails", "DescribeQuorum", "rights"),
        ("warning", "Fetch", "rights"),
        ("fails", "DescribeCluster", "identity"),
        ("warning", "rules", "sight"),
    ]
    assert "--operation Describe --cluster" in mend(found, "DescribeQuorum")
    assert "meta.properties" in mend(found, "DescribeCluster")


def test_an_id_that_is_known_need_not_be_told() -> None:
    unknown = ObservationError(Reason.DENIED, "DescribeCluster needs ALTER (at a controller) on CLUSTER")
    assert bad(checks(replace(WELL, cluster=unknown), cluster_id="id")) == []
    assert bad(checks(replace(WELL, cluster=unknown), recorded="id")) == []
    assert bad(checks(WELL, cluster_id="another")) == [("fails", "DescribeCluster", "identity")]
    assert bad(checks(WELL, recorded="another")) == [("fails", "DescribeCluster", "identity")]


@pytest.mark.parametrize(
    ("keys", "principal"),
    [
        ({}, "--allow-principal User:ANONYMOUS"),
        ({"security_protocol": "SSL"}, "--allow-principal User:ANONYMOUS"),
        ({"security_protocol": "SSL", "ssl_certfile": "ours.pem"}, "--allow-principal User:NAME"),
    ],
)
def test_whom_to_allow_where_no_user_is_configured(keys: dict[str, Any], principal: str) -> None:
    assert principal in mend(checks(replace(WELL, fetch=DENIED_FETCH), **keys), "Fetch")


def test_one_address_of_two_that_fails_is_a_warning_and_the_only_one_is_the_end() -> None:
    gone = ConnectivityCheck(
        address=Address("c2", 9093),
        configured=True,
        addresses=ObservationError(Reason.UNRESOLVABLE, "c2 does not resolve"),
    )
    assert bad(checks(WELL, gone)) == [("warning", "c2:9093", "dns")]
    assert bad(checks(gone)) == [("fails", "c2:9093", "dns"), ("fails", "CLUSTER", "rights")]


def test_a_certificate_that_ends_soon_and_clocks_that_differ_are_warnings() -> None:
    ends = TransportCheck(certificate_expires_at=time.time() + 5.5 * 86_400)
    found = checks(replace(WELL, transport=ends, skew_ms=-9_000), security_protocol="SSL")
    assert bad(found) == [("warning", "c1:9093", "connection"), ("warning", "quorum", "clock")]
    said = [one.said for one in found if one.verdict is Verdict.WARNING]
    assert said[0].endswith("good for 5 days")
    assert said[1] == "the leader's clock is 9.0 s behind ours"


def test_our_own_certificate_is_renewed_before_it_keeps_us_out(tmp_path: Path) -> None:
    def told(file: str) -> list[tuple[str, str]]:
        found = checks(WELL, security_protocol="SSL", ssl_certfile=file)
        return [(one.verdict, one.said) for one in found if one.subject == "ssl_certfile"]

    ca = authority(tmp_path)
    assert told(ca.issue("soon", to_day=9)) == [("warning", "our certificate is good for 8 days")]
    assert told(ca.issue("late", to_day=99)) == [("ok", "our certificate is good for 98 days")]
    assert told(ca.issue("over", from_day=-3, to_day=-1)) == [], "the connection says so"
    assert told(str(tmp_path / "none.pem")) == [], "likewise"


def test_the_machine_and_the_sinks(tmp_path: Path) -> None:
    config = checked(
        {
            "clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}],
            "checkpoint": tmp_path / "checkpoint",
            "sinks": [f"jsonl:{tmp_path / 'alerts.jsonl'}", f"jsonl:{tmp_path / 'nowhere' / 'alerts.jsonl'}"],
        },
        "test",
    )
    machine = {one.subject: one for one in machine_checks(config)}
    assert machine["java"].verdict is Verdict.OK
    assert machine[str(tmp_path / "checkpoint")].verdict is Verdict.OK
    assert [(one.verdict.value, one.said.partition(" ")[0]) for one in telling_checks(config)] == [
        ("ok", "can"),
        ("fails", "the"),
    ]
    assert list(tmp_path.iterdir()) == [], "nothing was written"


def test_a_checkpoint_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    config = checked(
        {"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], "checkpoint": tmp_path, "sinks": ["console"]}, "test"
    )
    assert [one.said for one in machine_checks(config) if one.verdict is Verdict.FAILS] == [
        f"{tmp_path / 'cluster.json'} cannot be read: restore it from a backup, or start with a new --checkpoint"
    ]
