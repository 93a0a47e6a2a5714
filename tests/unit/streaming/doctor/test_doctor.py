"""The results of `kraftwatch doctor`: statuses, messages and remedies."""

import os
import re
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from connectors.errors import ObservationError
from connectors.gather.connectivity_check import ConnectivityCheck
from connectors.kafka.cluster_connection import Address
from connectors.kafka.cluster_id_lookup import ClusterDescription
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.messages import FetchResult
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_file import journal_file
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import sqlite_database
from rules.model.identifiers import Epoch, Millis, NodeId
from rules.model.monitoring import Reason
from streaming.cli.doctor import _report
from streaming.config import ClusterSection, Config, checked
from streaming.doctor.check_result import CheckResult, CheckStatus, check_result, worst_status
from streaming.doctor.cluster_checks import ClusterChecks, shared_clusters
from streaming.doctor.host_checks import (
    check_exposure,
    check_heartbeat,
    check_host,
    check_otlp,
    check_sinks,
    recorded_ids,
)
from streaming.pipeline.checkpoint import Checkpoint
from tests.scripts.log_script import poll, replica
from tests.sinks.server import serving
from tests.unit.connectors.kafka.certificates import authority

HEALTHY = ConnectivityCheck(
    address=Address("c1", 9093),
    configured=True,
    addresses=("10.0.0.1",),
    metadata_version=30,
    quorum=poll(*(replica(f"{node}-dir{node}") for node in (1, 2, 3)), hw=9),
    fetch=FetchResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=NodeId(2), leader_epoch=Epoch(4), leader=None),
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


def results(*connectivity: ConnectivityCheck, recorded: str | None = None, **keys: Any) -> list[CheckResult]:
    section = ClusterSection.model_validate({"name": "prod", "bootstrap": ["c1:9093"], **keys})
    return list(ClusterChecks(section=section, connectivity=connectivity, recorded_id=recorded).results())


def bad(found: list[CheckResult]) -> list[tuple[str, str, str]]:
    return [(one.status.value, one.subject, one.name) for one in found if one.status is not CheckStatus.OK]


def remedy(found: list[CheckResult], subject: str) -> str:
    return "\n".join(line for one in found if one.subject == subject for line in one.remedy)


def job(tmp_path: Path, **keys: Any) -> Config:
    clusters = [{"name": "prod", "bootstrap": ["c1:9093"]}]
    return checked({"clusters": clusters, "checkpoint": str(tmp_path / "checkpoint"), **keys}, "test")


def failed_checkpoint(folder: Path) -> list[str]:
    """Returns the messages of the failed checks of this machine, with this checkpoint."""
    return [one.message for one in check_host(job(folder, checkpoint=str(folder))) if one.status is CheckStatus.FAILS]


def test_missing_cluster_action_names_the_unknown_rules_and_the_command_that_grants_it() -> None:
    found = results(replace(HEALTHY, fetch=DENIED_FETCH), **SECURED)
    assert bad(found) == [("warning", "Fetch", "permission"), ("warning", "rules", "observability")]
    assert (
        "kafka-acls.sh --bootstrap-controller c1:9093 --command-config $NODE_PROPERTIES --add "
        "--allow-principal User:kraftwatch --operation ClusterAction --cluster" in remedy(found, "Fetch")
    )
    assert "stale-voter-endpoint" in next(one.message for one in found if one.subject == "rules")
    assert bad(results(replace(HEALTHY, fetch=DENIED_FETCH), **SECURED, metadata_log=False)) == []
    assert "do-not-print-me" not in repr(found)


def test_without_any_permission_the_job_observes_nothing() -> None:
    found = results(replace(UNNAMED, quorum=DENIED_POLL, fetch=DENIED_FETCH, skew_ms=None), **SECURED)
    assert bad(found) == [
        ("fails", "DescribeQuorum", "permission"),
        ("warning", "Fetch", "permission"),
        ("fails", "DescribeCluster", "identity"),
        ("warning", "rules", "observability"),
    ]
    assert "--operation Describe --cluster" in remedy(found, "DescribeQuorum")
    assert "meta.properties" in remedy(found, "DescribeCluster")


UNNAMED = replace(HEALTHY, cluster=ObservationError(Reason.DENIED, "DescribeCluster needs ALTER (at a controller)"))
UNRESOLVABLE = ConnectivityCheck(
    address=Address("c2", 9093),
    configured=True,
    failure=("dns", ObservationError(Reason.UNRESOLVABLE, "c2 does not resolve")),
)
OTHER_ID = ("fails", "DescribeCluster", "identity")


@pytest.mark.parametrize(
    ("connectivity", "keys", "expected"),
    [
        ([HEALTHY], {}, []),
        ([UNNAMED], {"cluster_id": "id"}, []),
        ([UNNAMED], {"recorded": "id"}, []),
        ([HEALTHY], {"cluster_id": "another"}, [OTHER_ID]),
        ([HEALTHY], {"recorded": "another"}, [OTHER_ID]),
        ([HEALTHY, UNRESOLVABLE], {}, [("warning", "c2:9093", "dns")]),
        ([UNRESOLVABLE], {}, [("fails", "c2:9093", "dns"), ("fails", "CLUSTER", "permission")]),
    ],
    ids=[
        "healthy",
        "configured id",
        "recorded id",
        "other id",
        "other recorded id",
        "one of two fails",
        "the only one",
    ],
)
def test_what_is_not_right_with_addresses_and_cluster_ids(
    connectivity: list[ConnectivityCheck], keys: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    found = results(*connectivity, **keys)
    assert bad(found) == expected
    assert {one.message for one in found if one.name == "login"} <= {"no login; metadata.version 30"}


@pytest.mark.parametrize(
    ("keys", "principal"),
    [
        ({}, "--allow-principal User:ANONYMOUS"),
        ({"security_protocol": "SSL"}, "--allow-principal User:ANONYMOUS"),
        ({"security_protocol": "SSL", "ssl_certfile": "ours.pem"}, "--allow-principal User:NAME"),
    ],
)
def test_acl_command_names_the_principal_without_a_configured_user(keys: dict[str, Any], principal: str) -> None:
    assert principal in remedy(results(replace(HEALTHY, fetch=DENIED_FETCH), **keys), "Fetch")


def test_the_worst_status_counts() -> None:
    cases = ((HEALTHY,), (HEALTHY, UNRESOLVABLE), (UNRESOLVABLE,))
    assert [worst_status(results(*each)) for each in cases] == [*CheckStatus]


def test_certificate_that_expires_soon_and_clock_skew_are_warnings() -> None:
    expires_at_ms = Millis(round((time.time() + 5.5 * 86_400) * 1000))
    expiring = replace(HEALTHY, certificate_expires_at_ms=expires_at_ms, skew_ms=-9_000)
    found = results(expiring, security_protocol="SSL")
    assert bad(found) == [("warning", "c1:9093", "connection"), ("warning", "quorum", "clock")]
    messages = [one.message for one in found if one.status is CheckStatus.WARNING]
    assert messages[0].endswith("valid for 5 days")
    assert messages[1] == "the leader's clock is 9.0 s behind this machine's clock"


def test_expiring_client_certificate_is_a_warning(tmp_path: Path) -> None:
    def certificate_results(file: str) -> list[tuple[str, str]]:
        found = results(HEALTHY, security_protocol="SSL", ssl_certfile=file)
        return [(one.status, one.message) for one in found if one.subject == "ssl_certfile"]

    ca = authority(tmp_path)
    assert certificate_results(ca.issue("soon", to_day=9)) == [
        ("warning", "the client certificate is valid for 8 days")
    ]
    assert certificate_results(ca.issue("late", to_day=99)) == [("ok", "the client certificate is valid for 98 days")]
    assert certificate_results(ca.issue("over", from_day=-3, to_day=-1)) == [], "the connection check reports it"
    assert certificate_results(str(tmp_path / "none.pem")) == [], "the connection check reports it"


def test_host_and_sinks_are_checked_without_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = job(tmp_path, sinks=[f"jsonl:{tmp_path / name}" for name in ("alerts.jsonl", "nowhere/alerts.jsonl")])
    for free, status in ((9 << 30, "ok"), (3 << 30, "warning"), (1 << 29, "fails")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _path, free=free: SimpleNamespace(free=free))
        machine = {one.subject: one for one in check_host(config)}
        assert machine["java"].status is CheckStatus.OK
        assert machine[str(tmp_path / "checkpoint")].status.value == status
    assert [(one.status.value, one.message.partition(" ")[0]) for one in check_sinks(config)] == [
        ("ok", "can"),
        ("fails", "the"),
    ]
    assert list(tmp_path.iterdir()) == [], "nothing was written"


def test_checkpoint_in_a_folder_that_this_user_may_not_enter_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of the systemd unit: /var/lib/kraftwatch is open to the job's user alone."""
    exists, access = Path.exists, os.access

    def refused(path: Path) -> bool:
        if tmp_path in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refused)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and access(path, mode))

    assert failed_checkpoint(tmp_path / "checkpoint") == [f"{tmp_path} is not writable for this user"]


def test_store_that_does_not_answer_is_reported_beside_the_other_checks(tmp_path: Path) -> None:
    config = job(tmp_path, store="postgresql://me@127.0.0.1:1/none?sslmode=disable")
    failed = [one.message for one in check_host(config) if one.status is CheckStatus.FAILS]

    assert recorded_ids(config) == {}
    assert [message for message in failed if "127.0.0.1" in message] == failed != []


def spark_files(folder: Path, partitions: int, *damaged: str) -> None:
    metadata = f'{{"conf": {{"spark.sql.shuffle.partitions": "{partitions}"}}}}'
    for name, content in (("offsets", f'v1\n{metadata}\n{{"journal": "00", "sequence": 1}}'), ("commits", "v1\n{}")):
        (folder / "spark" / name).mkdir(parents=True)
        (folder / "spark" / name / "0").write_text(content)
    (folder / "spark" / "metadata").write_text('{"id": "a"}')
    for name in damaged:
        (folder / "spark" / name).touch()


def journal_without_a_byte(folder: Path) -> None:
    with JournalWriter(folder / "journal") as writer:
        writer.append([Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)])
    journal_file(folder / "journal").write_bytes(b"")


REPAIR = "run `kraftwatch repair --checkpoint {0}`"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda at: (at / "cluster.json").write_text("{"), f"{{0}}/cluster.json cannot be read: .* {REPAIR}"),
        (lambda at: sqlite_database(at).path.write_bytes(b"x" * 20_000), f"kraftwatch.db is damaged.*{REPAIR[:-1]}"),
        (journal_without_a_byte, f"observations.db is damaged: it is empty: {REPAIR}"),
    ],
)
def test_damaged_checkpoint_is_reported_with_the_command(
    damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    damage(tmp_path)

    (found,) = failed_checkpoint(tmp_path)
    assert re.search(message.format(tmp_path), found)


REFUSED = ObservationError(Reason.REFUSED, "c2:9093 refuses connections")
NO_LEADER = ObservationError(Reason.NO_LEADER, "it is not the leader")


def test_missing_leader_is_reported_with_the_fix() -> None:
    no_leader = FetchResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=None, leader_epoch=Epoch(4), leader=None)
    last = replace(HEALTHY, quorum=NO_LEADER, fetch=no_leader)
    dead = [replace(HEALTHY, address=Address(name, 9093), failure=("connection", REFUSED)) for name in ("c2", "c3")]

    found = results(replace(last, skew_ms=None), *(replace(each, quorum=None, fetch=None) for each in dead))

    assert bad(found)[-2:] == [("warning", "rules", "observability"), ("warning", "quorum", "leader")]
    assert "a leader needs the majority of the voters" in remedy(found, "rules")


@pytest.mark.parametrize(("mechanism", "outage"), [("PLAIN", False), ("SCRAM-SHA-512", True)])
def test_a_login_that_all_reject_may_be_an_outage_with_scram(mechanism: str, *, outage: bool) -> None:
    rejected = ObservationError(Reason.NOT_AUTHENTICATED, "the node rejected the login")
    none = ConnectivityCheck(address=Address("c1", 9093), configured=True, failure=("login", rejected))
    found = results(none, **{**SECURED, "sasl_mechanism": mechanism})
    assert ("rejects every login until there is a leader" in remedy(found, "c1:9093")) == outage


def test_each_address_of_a_name_is_a_check_of_its_own() -> None:
    here, there = (replace(HEALTHY, addresses=(one,), one_of=True) for one in ("10.0.0.1", "10.0.0.2"))
    dead = ConnectivityCheck(
        address=there.address, configured=True, addresses=there.addresses, one_of=True, failure=("connection", REFUSED)
    )
    found = results(here, dead)
    assert bad(found)[0] == ("warning", "c1:9093 (10.0.0.2)", "connection"), "the other one answers"


NOT_READY = ObservationError(Reason.NOT_READY, "Fetch: the authorizer is not ready, the node knows no leader yet")
OTHER = replace(HEALTHY, address=Address("c2", 9093), quorum=NO_LEADER)


@pytest.mark.parametrize(
    ("other", "status", "said"),
    [
        (OTHER, "ok", "permitted: the metadata log"),
        (replace(OTHER, quorum=None, fetch=None, failure=("connection", REFUSED)), "ok",
         "permitted at c1:9093: the metadata log; not known at c2:9093"),
        (replace(OTHER, fetch=NOT_READY), "warning", "permitted at c1:9093: the metadata log; not known at c2:9093"),
        (replace(OTHER, fetch=DENIED_FETCH), "warning",
         "missing permission (ACL) at c2:9093: Fetch needs CLUSTER_ACTION on CLUSTER; "
         "without it the metadata log cannot be read"),
    ],
    ids=["both", "one does not answer", "one is not ready", "one denies"],
)  # fmt: skip
def test_a_permission_is_said_of_the_controllers_that_showed_it(
    other: ConnectivityCheck, status: str, said: str
) -> None:
    (found,) = (one for one in results(HEALTHY, other) if (one.name, one.subject) == ("permission", "Fetch"))
    assert (found.status.value, found.message) == (status, said)


def test_nothing_is_permitted_while_no_authorizer_is_ready() -> None:
    """All controllers restarted with an authorizer that denies them: none becomes the leader."""
    found = results(*(replace(each, quorum=NOT_READY, fetch=NOT_READY, skew_ms=None) for each in (HEALTHY, OTHER)))
    said = {one.subject: one.message for one in found if one.name == "permission"}
    assert "permitted" not in " ".join(said.values())
    assert said["Fetch"] == str(NOT_READY)


def test_bootstrap_addresses_of_two_clusters_fail() -> None:
    other = replace(
        HEALTHY, address=Address("s1", 9093), cluster=ClusterDescription(cluster_id="other", controllers=())
    )

    (identity,) = (one for one in results(HEALTHY, other) if one.name == "identity")

    assert (identity.status, identity.message) == (
        CheckStatus.FAILS,
        "the addresses belong to different clusters: c1:9093 to id, s1:9093 to other",
    )
    assert identity.remedy == ("give only the controllers of one cluster in bootstrap",)


def test_two_sections_of_one_cluster_fail() -> None:
    sections = [ClusterSection.model_validate({"name": name, "bootstrap": [f"{name}:9093"]}) for name in ("a", "b")]
    checks = [ClusterChecks(section=section, connectivity=[HEALTHY]) for section in sections]

    (found,) = shared_clusters(checks)

    assert (found.status, found.scope, found.message) == (
        CheckStatus.FAILS,
        "b",
        "it has cluster id id, as cluster a has",
    )


def sink_results(tmp_path: Path, *sinks: Any) -> list[tuple[str, str]]:
    return [
        (one.status.value, one.message) for one in check_sinks(job(tmp_path, sinks=sinks)) if one.name == "connection"
    ]


def test_sinks_are_resolved_and_connected_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        open_port, closed_port = listening.getsockname()[1], bound.getsockname()[1]
        url = f"http://127.0.0.1:{open_port}/do-not-print-me"

        assert sink_results(
            tmp_path,
            "console",
            f"webhook:{url}",
            f"alertmanager:http://127.0.0.1:{closed_port}",
            "webhook:http://nosuch.invalid/do-not-print-me",
            f"kafka:127.0.0.1:{open_port},127.0.0.1:{closed_port}/alerts",
            f"kafka:127.0.0.1:{closed_port}/alerts",
            "apprise:json://127.0.0.1/do-not-print-me",
        ) == [
            ("ok", f"127.0.0.1:{open_port}: TCP"),
            ("fails", f"127.0.0.1:{closed_port}: connection refused"),
            ("fails", "nosuch.invalid:80: the name does not resolve"),
            ("ok", f"127.0.0.1:{open_port}: TCP"),
            ("warning", f"127.0.0.1:{closed_port}: connection refused"),
            ("fails", f"127.0.0.1:{closed_port}: connection refused"),
        ]

        monkeypatch.setenv("HTTPS_PROXY", f"http://user:do-not-print-me@127.0.0.1:{closed_port}")
        assert sink_results(tmp_path, "slack:https://hooks.slack.com/services/do-not-print-me") == [
            ("fails", f"proxy 127.0.0.1:{closed_port}: connection refused")
        ]


def test_server_of_the_heartbeat_is_connected_to_without_a_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/do-not-print-me"
        (found,) = check_heartbeat(job(tmp_path, heartbeat={"url": url}))
        with closing(listening.accept()[0]) as connection:
            assert connection.recv(1) == b"", "no request was sent"
    assert found.status is CheckStatus.OK
    (found,) = check_heartbeat(job(tmp_path, heartbeat={"url": url}))
    assert (found.status, found.message.rpartition(": ")[2]) == (CheckStatus.FAILS, "connection refused")


def test_receiver_of_otlp_is_connected_to_without_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    assert [*check_otlp(job(tmp_path))] == []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/metrics?key=do-not-print-me"
        (found,) = check_otlp(job(tmp_path, otlp={"url": url}))
        with closing(listening.accept()[0]) as connection:
            assert connection.recv(1) == b"", "no request was sent"
    assert found.status is CheckStatus.OK
    (found,) = check_otlp(job(tmp_path, otlp={"url": url}))
    assert (found.status, found.message.rpartition(": ")[2]) == (CheckStatus.WARNING, "connection refused")


def test_open_page_is_a_warning_with_its_fix(tmp_path: Path) -> None:
    (page,) = check_exposure(job(tmp_path, listen="0.0.0.0:9847", listen_token_file=tmp_path / "token"), None)

    assert (page.status, page.subject) == (CheckStatus.WARNING, "listen")
    assert page.remedy == ("set listen_certfile, or listen on 127.0.0.1",)


def test_certificate_of_a_sink_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    ca = authority(tmp_path)
    with serving(ca.server(ca.issue("server"))) as server:
        trusting = {"webhook": {"url": server.url, "ca_file": ca.file, "name": "one"}}
        assert sink_results(tmp_path, trusting) == [("ok", f"127.0.0.1:{server.port}: TCP and TLS")]
        ((status, message),) = sink_results(tmp_path, {"webhook": {"url": server.url}})
    assert status == "fails"
    assert message.startswith(f"127.0.0.1:{server.port}: the server's certificate is not trusted")


def test_job_whose_checkpoint_this_user_may_not_enter_is_not_to_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = job(tmp_path, listen=f"127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setattr("streaming.pipeline.checkpoint.os.open", refused)
        (found,) = (one for one in check_host(config) if one.subject == "listen")

    assert (found.status, found.remedy) == (CheckStatus.WARNING, ("run as the job's user",))


def test_address_of_the_page_is_bound(tmp_path: Path) -> None:
    def listen(address: str | None) -> list[tuple[str, str]]:
        keys = {} if address is None else {"listen": address}
        return [(one.status.value, one.message) for one in check_host(job(tmp_path, **keys)) if one.subject == "listen"]

    assert listen(None) == []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert listen(address) == [("fails", f"{address} is used by another process")]
        with Checkpoint(folder=tmp_path / "checkpoint").held():
            assert listen(address) == [("ok", f"{address} is in use, and so is the checkpoint: the job is running")]
    assert listen(address) == [("ok", f"{address} can be bound")]
    assert listen("192.0.2.1:9847") == [("fails", "192.0.2.1:9847 cannot be bound: cannot assign requested address")]
    assert listen("nosuch.invalid:9847") == [
        ("fails", "nosuch.invalid:9847 cannot be bound: the name does not resolve")
    ]


def test_text_of_a_node_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    message = "it is cluster \x1b[2J\x1b]0;owned\x07"
    Console().print(
        _report([check_result("prod", "c1:9093", "identity", CheckStatus.FAILS, message, f"# use {message}")])
    )

    printed = capsys.readouterr().out
    assert "it is cluster" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed
