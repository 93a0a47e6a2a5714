"""A real quorum with SASL_SSL on every listener and Kafka's authorizer: the effect of each permission and mistake.

The users have no permission until an ACL grants it. Every query is a command with its settings in a file.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from connectors.observations.observation import ObservationKind
from rules.facts.endpoint import EndpointFault
from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from rules.model.monitoring import Reason
from streaming.config import load
from tests.cli import program
from tests.eventually import eventually
from tests.job.conftest import await_fetches_of_all_voters
from tests.kafka.gatherer_run import run_gatherer
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
FULL, POLLS, NOTHING = "kraftwatch", "poller", "stranger"
WRONG_PASSWORD = "planted-wrong-password"
SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
LEGEND = "# $NODE_PROPERTIES: a node's own configuration file"


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=1, users=[FULL, POLLS, NOTHING])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


def section(lab: Lab, user: str, **more: Any) -> dict[str, Any]:
    """Returns the section of a cluster in a configuration file; the cluster is named after the user."""
    return {
        "name": user,
        "bootstrap": lab.bootstrap,
        "cluster_id": lab.cluster_id,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(lab.security.ca_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": lab.security.passwords[user],
        **more,
    }


def config(file: Path, cluster: dict[str, Any]) -> Path:
    file.write_text(yaml.safe_dump({"clusters": [cluster]}))
    return file


def kraftwatch(verb: str, file: Path, *more: str) -> Result:
    result = program.kraftwatch(verb, "--config", str(file), "--json", *more)
    assert WRONG_PASSWORD not in result.output
    return result


def json_of(verb: str, file: Path, *more: str) -> dict[str, Any]:
    output: dict[str, Any] = json.loads(kraftwatch(verb, file, *more).stdout)
    return output


def outputs_of(
    lab: Lab, verb: str, folder: Path, sections: Sequence[dict[str, Any]], *more: str
) -> list[subprocess.CompletedProcess[str]]:
    """Runs a verb for each section at the same time: one file may not name a cluster twice."""

    def run(number: int, each: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        file = config(folder / f"{verb}-{number}.yaml", each)
        command = [sys.executable, "-m", "streaming", verb, "--config", str(file), "--json", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    with ThreadPoolExecutor(len(sections)) as pool:
        found = list(pool.map(run, range(len(sections)), sections))
    for each in found:
        for password in (WRONG_PASSWORD, *lab.security.passwords.values()):
            assert password not in each.stdout + each.stderr
    return found


def finding_of(rule: str, checked: dict[str, Any]) -> dict[str, Any]:
    findings = [one for one in checked["findings"] if one["rule"] == rule]
    assert len(findings) == 1, checked
    return dict(findings[0])


def reasons(checked: dict[str, Any]) -> set[tuple[str, str]]:
    """Returns observation source and reason of each failure."""
    failing = [each for finding in checked["findings"] for each in finding["evidence"].get("failing", [])]
    return {(each["observation_source"], each["reason"]) for each in failing}


def command(remedy: list[str], tool: str) -> str:
    (line,) = (line for line in remedy if line.startswith(tool))
    return line


@pytest.fixture(scope="module")
def denied(lab: Lab, folder: Path) -> dict[str, Any]:
    """Returns the monitor-blind finding of `check` before any permission is granted."""
    file = config(folder / "denied.yaml", section(lab, FULL))

    def log_and_polls_are_denied() -> dict[str, Any]:
        checked = json_of("check", file, "--timeout", "8")
        assert reasons(checked) == {("log", "denied"), ("quorum", "denied")}
        return finding_of("monitor-blind", checked)

    return eventually(log_and_polls_are_denied, within_s=30)


@pytest.fixture(scope="module")
def allowed(lab: Lab, denied: dict[str, Any]) -> None:
    """Grants FULL the missing permissions with the printed command, and POLLS only DESCRIBE (docs/security.md)."""
    properties = lab.node(1).properties_file
    printed = command(denied["remedy"], "kafka-acls.sh")
    lab.run_remedy(printed, node_properties=properties)
    documented = next(line for line in SECURITY.splitlines() if line.startswith("kafka-acls.sh"))
    describe_only = documented.replace("User:kraftwatch", f"User:{POLLS}").replace(
        "c1.example:9093", printed.split()[2]
    )
    describe_only = describe_only.replace(" --operation ClusterAction", "")
    lab.run_remedy(describe_only, node_properties=properties)


@pytest.fixture(scope="module")
def checked(lab: Lab, folder: Path, allowed: None) -> dict[str, dict[str, Any]]:
    """Returns the output of `check` for the same quorum with each setting, by cluster name."""
    sections = [
        section(lab, FULL),
        section(lab, POLLS),
        section(lab, POLLS, name="polls-by-choice", metadata_log=False),
    ]

    def check_all() -> dict[str, dict[str, Any]]:
        # The whole timeout is used for the clusters that are never observed completely.
        ended = outputs_of(lab, "check", folder, sections, "--timeout", "8")
        outputs = {one["cluster"]: one for one in (json.loads(each.stdout) for each in ended)}
        for observed in (FULL, "polls-by-choice"):
            assert outputs[observed]["missing"] == outputs[observed]["unknown"] == []
        assert outputs[POLLS]["missing"] == ["the metadata log was not answered"]
        return outputs

    return eventually(check_all, within_s=30)


def test_without_permissions_monitor_blind_prints_the_command_that_grants_what_is_sufficient(
    denied: dict[str, Any], checked: dict[str, dict[str, Any]]
) -> None:
    assert denied["severity"] == "critical"
    assert "denied at 127.0.0.1:" in denied["summary"]
    assert command(denied["remedy"], "kafka-acls.sh").endswith(
        "--command-config $NODE_PROPERTIES --add --allow-principal User:kraftwatch "
        "--operation Describe --operation ClusterAction --cluster"
    )
    assert denied["remedy"][-1].startswith(LEGEND)
    full = checked[FULL]
    assert (full["health"], full["findings"], full["missing"], full["unknown"]) == ("healthy", [], [], [])


def test_with_describe_only_the_polls_are_evaluated_and_the_missing_log_is_reported(
    lab: Lab, checked: dict[str, dict[str, Any]]
) -> None:
    polls = checked[POLLS]

    assert (polls["health"], polls["missing"]) == ("unknown", ["the metadata log was not answered"])
    finding = finding_of("monitor-blind", polls)
    assert finding["severity"] == "warning"
    assert "no current answer from the metadata log" in finding["summary"]
    assert "denied (Fetch needs CLUSTER_ACTION on CLUSTER) at " in finding["summary"]
    assert any("CLUSTER_ACTION amounts to full administration" in line for line in finding["remedy"])
    printed = command(finding["remedy"], "kafka-acls.sh")
    assert printed.endswith("--add --allow-principal User:poller --operation ClusterAction --cluster")
    assert f"ClusterId:              {lab.cluster_id}" in str(
        lab.run_remedy(
            command(finding["remedy"], "kafka-metadata-quorum.sh"), node_properties=lab.node(2).properties_file
        )
    )
    by_log = {one["rule"] for one in polls["unknown"]}
    by_polls = set(re.findall("`(.+?)`", SECURITY.partition("These are evaluated from the polls: ")[2].split(".")[0]))
    assert len(by_polls) == 5
    assert not by_polls & by_log


def test_with_polls_only_by_configuration_nothing_is_missing_but_who_reaches_whom(
    checked: dict[str, dict[str, Any]],
) -> None:
    chosen, degraded = checked["polls-by-choice"], checked[POLLS]

    assert (chosen["findings"], chosen["missing"]) == ([], [])
    assert (chosen["health"], chosen["exit_code"]) == ("unknown", 3)
    assert {one["why"] for one in chosen["undecided"]["electable"]} == {"its endpoint was not probed recently"}
    not_applicable = {one["rule"]: one["why"] for one in chosen["not_applicable"]}
    # Without an answer from the log that it should read, a monitor cannot say which controllers it does not observe.
    assert {one["rule"] for one in degraded["unknown"]} - set(not_applicable) == {"controller-not-observed"}
    assert not_applicable["stale-voter-endpoint"] == "only polls are observed here (metadata_log: false)"


def test_doctor_reports_missing_permissions(lab: Lab, folder: Path, allowed: None) -> None:
    def answered_in_time() -> tuple[list[int], list[dict[str, Any]]]:
        sections = [section(lab, FULL), section(lab, POLLS), section(lab, NOTHING, cluster_id=None)]
        ended = outputs_of(lab, "doctor", folder, sections)
        checks = [one for each in ended for one in json.loads(each.stdout)["checks"]]
        # On a busy host a node may answer too late.
        assert not [one for one in checks if "did not answer in time" in one["said"]]
        return [each.returncode for each in ended], checks

    exit_codes, checks = eventually(answered_in_time, within_s=60)
    assert exit_codes == [1, 1, 2]

    def failing(cluster: str) -> dict[str, str]:
        """Returns the status of each check that is not ok; the lab's certificates are valid for twenty days."""
        own = [one for one in checks if one["of"] == cluster and one["verdict"] != "ok"]
        return {one["subject"]: one["verdict"] for one in own if "is valid for" not in one["said"]}

    def printed_acl_command(cluster: str, subject: str) -> str:
        (check,) = (one for one in checks if (one["of"], one["subject"]) == (cluster, subject))
        return command(check["remedy"], "kafka-acls.sh")

    assert failing(FULL) == {}
    connections = [one for one in checks if (one["of"], one["check"]) == (FULL, "connection")]
    assert {(one["verdict"], one["said"]) for one in connections} == {
        ("warning", "TCP and TLS; the node's certificate is valid for 19 days")
    }
    assert {one["said"] for one in checks if (one["of"], one["check"]) == (FULL, "login")} == {
        f"PLAIN as User:{FULL}; metadata.version 33"
    }
    assert failing(POLLS) == {"Fetch": "warning", "rules": "warning"}
    assert printed_acl_command(POLLS, "Fetch").endswith(
        "--add --allow-principal User:poller --operation ClusterAction --cluster"
    )
    denied = {"DescribeQuorum": "fails", "Fetch": "warning", "DescribeCluster": "fails", "rules": "warning"}
    assert failing(NOTHING) == denied
    assert printed_acl_command(NOTHING, "DescribeQuorum").endswith("--operation Describe --cluster")


def test_gatherer_records_all_kinds_and_writes_no_secret(lab: Lab, tmp_path: Path, allowed: None) -> None:
    wrong = section(lab, FULL, name="wrong", sasl_plain_password=WRONG_PASSWORD)
    file = tmp_path / "one.yaml"
    both = [load(config(file, each)).clusters[0] for each in (section(lab, FULL), wrong)]
    file.unlink()
    with run_gatherer(tmp_path, *(one.cluster() for one in both)) as gatherer:

        def all_kinds_are_recorded() -> None:
            kinds = {row.kind for row in gatherer.rows() if row.cluster == FULL}
            assert {ObservationKind.RECORDS, ObservationKind.QUORUM, ObservationKind.PROBE} <= kinds
            assert Reason.NOT_AUTHENTICATED in {one.reason for _, one in gatherer.failures("wrong")}

        eventually(all_kinds_are_recorded, within_s=30)
    assert_without_secrets(lab, tmp_path)


@contextmanager
def restarted(lab: Lab, node: int, change: Callable[[], object], undo: Callable[[], object]) -> Iterator[None]:
    """Restarts a controller after a change, and once more without it when the block ends."""
    lab.stop(node)
    change()
    lab.start(node)
    try:
        yield
    finally:
        lab.stop(node)
        undo()
        lab.start(node)


@pytest.mark.long
def test_voter_with_an_expired_certificate_cannot_be_elected_or_vote_and_is_reported(
    lab: Lab, tmp_path: Path, allowed: None
) -> None:
    await_fetches_of_all_voters(lab)
    leader, (broken, other) = lab.leader, lab.followers
    file = config(tmp_path / "kraftwatch.yaml", section(lab, FULL))
    cluster, issue = load(file).clusters[0].cluster(), lab.security.authority.issue
    with (
        run_gatherer(tmp_path / "watch", cluster) as gatherer,
        restarted(lab, broken, lambda: issue("server", days=(-7, -1)), lambda: issue("server")),
    ):
        # What the other nodes read when they start.
        issue("server")
        monitored = monitored_cluster_of(lab, gatherer, name=FULL)
        await_fetches_of_all_voters(lab)
        # While it starts, it serves no new connection.
        monitored.wait_for_quorum(
            lambda quorum: Facts(quorum).nodes[NodeId(broken)].faults == (EndpointFault.CERTIFICATE,), within_s=60
        )
        monitored.start_scenario({"stale-voter-endpoint.hold": 6, "no-leader.hold": 3})
        alert = monitored.wait_for("stale-voter-endpoint", subject=f"voter {broken}", within_s=60)
        endpoint = lab.node(broken).endpoint
        assert alert.summary.startswith(
            f"Voter {broken}'s recorded endpoint {endpoint} presents a certificate that expired at "
        )
        assert f"any of controllers {min(leader, other)} and {max(leader, other)} stopped too" in alert.summary
        assert (alert.severity, alert.evidence["followed_at_the_last_poll"]) == ("warning", "in sync")
        assert alert.remedy[0].startswith("# Renew the certificate of controller")
        assert not [line for line in alert.remedy if "TLS settings" in line]

        # The leader is needed, for the voter left cannot reach the one with the expired certificate.
        unsafe = json_of("safe-to-restart", file, str(other))
        assert (unsafe["safe"], "certificate" in unsafe["against"][0]) == (False, True), unsafe
        assert json_of("what-if", file, "--lose", str(leader))["electable"] is False
        assert json_of("what-if", file, "--lose", str(broken))["electable"] is True
        status = json_of("status", file)
        assert [one["verdict"] for one in status["endpoints"] if one["id"] == broken] == ["stale"]

        lab.kill(leader)
        try:
            none = monitored.wait_for("no-leader", within_s=60)
            assert f"The certificate of controller {broken} expired at " in none.summary
            assert any(line.startswith("# Renew the certificate of controller") for line in none.remedy)
        finally:
            lab.start(leader)
        monitored.wait_for("no-leader", "resolved", within_s=60)
    await_fetches_of_all_voters(lab)


def assert_failing(monitored: MonitoredCluster, reason: Reason) -> None:
    assert "no-leader" not in monitored.rules
    assert reason in {each.reason for each in monitored.machine.quorum().failures}


def test_one_controller_that_refuses_the_login_is_reported_with_the_reason(
    lab: Lab, tmp_path: Path, allowed: None
) -> None:
    await_fetches_of_all_voters(lab)
    refusing, _ = lab.followers
    others = sorted(node for node in lab.controllers if node != refusing)
    known = Path(lab.node(refusing).properties_file)
    users = known.read_text()
    without = users.replace(f"user_{FULL}=", "user_nobody=")
    file = config(tmp_path / "kraftwatch.yaml", section(lab, FULL))
    cluster = replace(load(file).clusters[0].cluster(), view_interval_ms=1_000)
    with run_gatherer(tmp_path / "watch", cluster) as gatherer:
        monitored = monitored_cluster_of(lab, gatherer, name=FULL)
        with restarted(lab, refusing, lambda: known.write_text(without), lambda: known.write_text(users)):
            await_fetches_of_all_voters(lab)
            monitored.start_scenario({"controller-not-observed.hold": 3})
            # While it starts, it closes connections: the hold begins with the failure that lasts.
            eventually(lambda: assert_failing(monitored, Reason.NOT_AUTHENTICATED), within_s=60)
            monitored.start_scenario({"controller-not-observed.hold": 3})
            alert = monitored.wait_for("controller-not-observed", subject=f"controller {refusing}", within_s=90)
            assert (alert.severity, alert.evidence["reason"]) == ("warning", "not-authenticated")
            assert alert.evidence["observed_controllers"] == others
            endpoint = lab.node(refusing).endpoint
            sentence = (
                f"Controller {refusing} does not answer the monitor: not-authenticated (the node rejected the login"
            )
            assert alert.summary.startswith(sentence)
            assert endpoint in alert.remedy[0]
            status, checked = json_of("status", file), json_of("check", file, "--timeout", "8")
            failing = [(one["source"], one["endpoint"], one["reason"]) for one in status["failing"]]
            assert ("view", endpoint, "not-authenticated") in failing
            assert finding_of("controller-not-observed", checked)["subject"] == f"controller {refusing}"
        monitored.wait_for("controller-not-observed", "resolved", subject=f"controller {refusing}", within_s=90)
    await_fetches_of_all_voters(lab)


def assert_without_secrets(lab: Lab, folder: Path) -> None:
    secrets = [secret.encode() for secret in (WRONG_PASSWORD, *lab.security.passwords.values())]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert not [secret for secret in secrets if secret in path.read_bytes()], path


@pytest.mark.long
def test_voter_with_a_wiped_disk_is_replaced_by_the_printed_command(lab: Lab, folder: Path, allowed: None) -> None:
    leader = lab.leader
    node = max(one for one in lab.controllers if one != leader)
    lab.kill(node)
    lab.wipe_disk(node)
    lab.start(node)
    file = config(folder / "wiped.yaml", section(lab, FULL))

    def disk_replacement_is_found() -> list[str]:
        findings = [one for one in json_of("check", file)["findings"] if one["rule"] == "voter-disk-replaced"]
        assert len(findings) == 1
        remedy: list[str] = findings[0]["remedy"]
        return remedy

    remedy = eventually(disk_replacement_is_found, within_s=60)
    for line in remedy:
        lab.run_remedy(line, node_properties=lab.node(node).properties_file)

    def voter_set_is_fixed() -> None:
        assert "voter-disk-replaced" not in {one["rule"] for one in json_of("check", file)["findings"]}
        state = lab.await_leader()
        assert lab.node(node).directory_id in {voter.directory_id for voter in state.voters}

    eventually(voter_set_is_fixed, within_s=60)
