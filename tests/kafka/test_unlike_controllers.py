"""A controller that denies what the others send, or that they do not trust, is of no use in the next election.

Nothing fails while the leader runs: it fetches over its own connection. No answer counts on it before.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.answers.election import electable, failures_left
from rules.answers.restart import safe_to_restart
from rules.answers.what_if import Change, controllers_of_quorum
from rules.evaluate import thresholds_for
from rules.facts.doubts import UNLIKE, About
from rules.facts.freshness import fresh_poll
from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from rules.model.witness import DialStep
from streaming.status.what_if import what_if
from tests.cli import program
from tests.eventually import eventually
from tests.job.conftest import await_fetches_of_all_voters
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.kafka.monitored_cluster import monitored_cluster_of
from tests.lab import Lab
from tests.lab_certificate_authority import LabCertificateAuthority
from tests.lab_security import ADMIN

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(400)]
_AUTHORIZER = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
"""
_FATAL = "Received cluster authorization error"
_UNKNOWN = 3
_OFTEN = 5
"""A leader that is followed commits a record every half second: in so many answers of a command it is seen."""


def deny_others(lab: Lab, node: int) -> None:
    """Restarts a controller with an authorizer for which the other controllers, User:ANONYMOUS, are nobody."""
    file = lab.node(node).properties_file
    lab.stop(node)
    file.write_text(file.read_text(encoding="utf-8") + _AUTHORIZER, encoding="utf-8")
    lab.start(node)


def is_at_least(at_ms: int, seen: Quorum) -> bool:
    return seen.now_ms >= at_ms


def answers(lab: Lab, *verb: str) -> tuple[int, Mapping[str, Any]]:
    """Returns the exit code of a command and what it printed."""
    ended = program.kraftwatch(*verb, "--cluster", f"{NAME}={','.join(lab.bootstrap)}", "--json")
    return ended.exit_code, json.loads(ended.stdout)


def test_nothing_counts_on_an_election_that_a_controller_would_end(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0, version="4.3.1")
    leader, (denying, other) = quorum.leader, quorum.followers
    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.wait_until_observed()
        deny_others(quorum, denying)
        monitor.wait_for_quorum(
            lambda seen: (
                failures_left(Facts(seen)).value is None
                and electable(Facts(seen)).value is None
                and fresh_poll(seen) is not None
            ),
            within_s=60,
        )

    where = f"its authorizer denies CLUSTER_ACTION at {quorum.node(denying).endpoint}"
    why = f"controller {denying} denies the monitor what the other controllers send too ({where}"

    def restart_is_unknown(node: int) -> None:
        exit_code, answer = answers(quorum, "safe-to-restart", str(node))
        assert (exit_code, answer["safe"], answer["against"]) == (_UNKNOWN, None, [])
        assert why in answer["unknown"][0]

    def election_is_unknown(*change: str) -> None:
        exit_code, answer = answers(quorum, "what-if", *change)
        assert (exit_code, answer["electable"]) == (_UNKNOWN, None)
        assert why.partition(" ")[2].partition(" ")[2] in answer["unknown"]

    for node in (leader, other):
        eventually(partial(restart_is_unknown, node), within_s=60)
    for change in ((), ("--lose", str(leader)), ("--restart", str(leader))):
        eventually(partial(election_is_unknown, *change), within_s=60)

    def everything_else_is_right() -> None:
        assert answers(quorum, "safe-to-restart", str(denying))[0] == 0, "its own restart ends it"
        assert answers(quorum, "what-if", "--lose", str(denying))[0] == 0
        _, status = answers(quorum, "status")
        assert (status["electable"], status["failures_left"]) == (None, None)
        _, doctor = answers(quorum, "doctor")
        said = {one["subject"]: one["said"] for one in doctor["checks"] if one["check"] == "permission"}
        assert f"at {quorum.node(denying).endpoint}: Fetch needs CLUSTER_ACTION" in said["Fetch"]

    eventually(everything_else_is_right, within_s=60)

    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"no-leader.hold": 5})
        monitor.wait_for_quorum(lambda seen: NodeId(denying) in Facts(seen).doubts_about(UNLIKE), within_s=60)
        quorum.kill(leader)
        monitor.wait_for("no-leader", within_s=60)
        began_ms = monitor.machine.quorum().now_ms

        def an_election_ended_one() -> list[int]:
            ended = [node for node in (denying, other) if not quorum.node(node).running]
            assert any(_FATAL in quorum.node(node).log_file.read_text(encoding="utf-8") for node in ended)
            return ended

        eventually(an_election_ended_one, within_s=60)
        for age_ms in (0, 60_000):
            monitor.wait_for_quorum(partial(is_at_least, began_ms + age_ms), within_s=90)
            (alert,) = (one for one in monitor.monitor.firing(None, ()).alerts if one.rule == "no-leader")
            assert f"Controller {denying} denie" in alert.summary, alert.summary
            assert f"super.users of controller {denying}" in alert.remedy[0], alert.remedy
        _, doctor = answers(quorum, "doctor")
        said = [one["said"] for one in doctor["checks"] if one["check"] == "permission"]
        assert not [one for one in said if f"permitted at {quorum.node(denying).endpoint}" in one], said


def test_no_permission_is_claimed_while_all_controllers_deny_each_other(lab: MakeLab) -> None:
    quorum = lab(controllers=3, brokers=0, version="4.3.1")
    quorum.stop(*quorum.controllers)
    for node in quorum.controllers:
        file = quorum.node(node).properties_file
        file.write_text(file.read_text(encoding="utf-8") + _AUTHORIZER, encoding="utf-8")
    quorum.start(*quorum.controllers, wait=False)

    def nothing_is_permitted() -> None:
        _, doctor = answers(quorum, "doctor")
        said = [one["said"] for one in doctor["checks"] if one["check"] == "permission"]
        assert said
        assert not [each for each in said if each.startswith("permitted")], said

    eventually(nothing_is_permitted, within_s=90)


def test_nothing_counts_on_a_controller_whose_certificate_is_of_another_authority(lab: MakeLab, tmp_path: Path) -> None:
    """The others do not trust it, the monitor trusts both."""
    quorum = lab(controllers=3, brokers=0, users=[])
    leader, (untrusted, other) = quorum.leader, quorum.followers
    security, authority = quorum.security, LabCertificateAuthority(tmp_path / "authority")
    both = tmp_path / "both.pem"
    both.write_text(security.ca_file.read_text() + authority.file.read_text())
    options = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(both),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": ADMIN,
        "sasl_plain_password": security.passwords[ADMIN],
    }
    with run_gatherer(tmp_path / "monitor", cluster_of(quorum, options=options)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.wait_for_quorum(lambda seen: failures_left(Facts(seen)).value == 1, within_s=60)

        file = quorum.node(untrusted).properties_file
        certificate = f"ssl.keystore.location={security.server_file}"
        quorum.stop(untrusted)
        issued = f"ssl.keystore.location={authority.issue('server')}"
        file.write_text(file.read_text(encoding="utf-8").replace(certificate, issued), encoding="utf-8")
        quorum.security.trust(authority.file)
        quorum.start(untrusted)
        await_fetches_of_all_voters(quorum)
        monitor.wait_for_quorum(
            lambda seen: NodeId(untrusted) in Facts(seen).doubts_about({About.UNLIKE_OTHERS}),
            within_s=90,
        )

        seen = monitor.machine.quorum()
        controllers = controllers_of_quorum(Facts(seen))

        def survives(lost: int) -> bool | None:
            return what_if(controllers, Change(moved={}, lost=frozenset({NodeId(lost)}), restarted=None)).electable

        assert {node: survives(node) for node in quorum.controllers} == {untrusted: True, leader: None, other: None}
        thresholds = thresholds_for({})["stale-voter-endpoint"]
        assert safe_to_restart(Facts(seen), NodeId(leader), thresholds, ()).safe is None
        left = failures_left(Facts(seen))
        assert (left.value, [one.node_id for one in left.undecided]) == (None, [untrusted])

        quorum.kill(leader)
        monitor.wait_for_quorum(lambda seen: Facts(seen).leaderless is not None, within_s=60)
    assert "SSL handshake failed" in quorum.node(other).log_file.read_text(encoding="utf-8")


MONITOR, MONITOR_CA = "monitor", "monitor-ca.pem"
_ECDSA = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
Changed = Callable[[Lab], Mapping[str, str]]


def lets_in_the_monitor_alone(_lab: Lab) -> Mapping[str, str]:
    return {"super.users": f"User:{MONITOR}"}


def knows_the_login_of_the_monitor_alone(lab: Lab) -> Mapping[str, str]:
    of = lab.security.passwords
    login = f'{_PLAIN} required username="{ADMIN}" password="{of[ADMIN]}" user_{MONITOR}="{of[MONITOR]}";'
    return {"listener.name.controller.plain.sasl.jaas.config": login}


def has_a_key_that_the_others_cannot_use(lab: Lab) -> Mapping[str, str]:
    renewed = lab.security.authority.issue("renewed", common_name="server", rsa_key=True)
    suites = f"{_ECDSA},TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    return {"ssl.keystore.location": str(renewed), "ssl.cipher.suites": suites}


def has_a_certificate_for_another_name(lab: Lab) -> Mapping[str, str]:
    """The monitor does not check the name: `ssl_check_hostname: false`."""
    renewed = lab.security.authority.issue("renewed", common_name="server", hosts=["elsewhere.test"])
    return {"ssl.keystore.location": str(renewed)}


def leaves_out_its_intermediate_certificate(lab: Lab) -> Mapping[str, str]:
    """The monitor trusts the intermediate authority too, the others the root alone."""
    intermediate = LabCertificateAuthority(lab.directory / "intermediate", issuer=lab.security.authority)
    issued = intermediate.issue("server")
    key, own, _ = issued.read_text(encoding="utf-8").split("-----BEGIN CERTIFICATE-----")
    issued.write_text(f"{key}-----BEGIN CERTIFICATE-----{own}", encoding="utf-8")
    with (lab.directory / MONITOR_CA).open("a", encoding="utf-8") as trusted:
        trusted.write(intermediate.file.read_text(encoding="utf-8"))
    lab.security.trust(intermediate.file)
    return {"ssl.keystore.location": str(issued)}


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lets_in_the_monitor_alone, DialStep.PERMISSION),
        (knows_the_login_of_the_monitor_alone, DialStep.LOGIN),
        (has_a_key_that_the_others_cannot_use, DialStep.TLS),
        (has_a_certificate_for_another_name, DialStep.TLS),
        (leaves_out_its_intermediate_certificate, DialStep.TLS),
    ],
)
def test_nothing_counts_on_a_controller_that_answers_the_monitor_and_not_its_peers(
    lab: MakeLab, tmp_path: Path, change: Changed, step: DialStep
) -> None:
    """The hosts of its peers see it before any loss, with their own properties (`kraftwatch witness`)."""
    shared = {
        "super.users": f"User:{ADMIN};User:{MONITOR}",
        "ssl.enabled.protocols": "TLSv1.2",
        "ssl.cipher.suites": _ECDSA,
    }
    quorum = lab(controllers=3, brokers=0, users=[MONITOR], properties=shared)
    leader, (changed, other) = quorum.leader, quorum.followers
    trusted = quorum.directory / MONITOR_CA
    trusted.write_bytes(quorum.security.ca_file.read_bytes())
    config = tmp_path / "kraftwatch.yaml"
    section = {
        "name": NAME,
        "bootstrap": quorum.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(trusted),
        "ssl_check_hostname": False,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": MONITOR,
        "sasl_plain_password": quorum.security.passwords[MONITOR],
    }
    config.write_text(yaml.safe_dump({"clusters": [section]}))

    def said(*verb: str) -> tuple[int, Mapping[str, Any]]:
        ended = program.kraftwatch(*verb, "--config", str(config), "--json")
        return ended.exit_code, json.loads(ended.stdout)

    questions = (("safe-to-restart", str(leader)), ("what-if", "--lose", str(leader)))

    def is_answered(exit_code: int) -> None:
        assert {question[0]: said(*question)[0] for question in questions} == dict.fromkeys(
            ("safe-to-restart", "what-if"), exit_code
        )

    def rows_of_all() -> list[str]:
        options = []
        for node in quorum.controllers:
            file = tmp_path / f"row-{node}.json"
            file.write_text(program.kraftwatch("witness", quorum.node(node).properties_file, "--json").stdout)
            options += ["--witness", str(file)]
        return options

    def is_answered_with_rows(exit_code: int) -> None:
        rows = rows_of_all()
        assert {question[0]: said(*question, *rows)[0] for question in questions} == dict.fromkeys(
            ("safe-to-restart", "what-if"), exit_code
        )

    def seen_from(node: int) -> tuple[int, Mapping[int, tuple[str, str | None]]]:
        ended = program.kraftwatch("witness", quorum.node(node).properties_file, "--json")
        peers = json.loads(ended.stdout)["peers"]
        return ended.exit_code, {peer["node"]: (peer["reached"], peer["step"]) for peer in peers}

    def is_seen(reached: Mapping[tuple[int, int], tuple[str, str | None]]) -> None:
        for node in quorum.controllers:
            others = sorted({*quorum.controllers} - {node})
            seen = {one: reached.get((node, one), ("yes", None)) for one in others}
            assert seen_from(node) == (0 if set(seen.values()) == {("yes", None)} else 1, seen)

    eventually(partial(is_answered, 0), within_s=90)
    eventually(partial(is_seen, {}), within_s=60)
    eventually(partial(is_answered_with_rows, 0), within_s=60)
    seen = "seen from the hosts of controllers 1, 2 and 3: each reaches each other one"
    assert seen in said(*questions[0], *rows_of_all())[1]["notes"]

    file = quorum.node(changed).properties_file
    lines = "".join(f"{name}={value}\n" for name, value in change(quorum).items())
    quorum.stop(changed)
    file.write_text(file.read_text(encoding="utf-8") + lines, encoding="utf-8")
    quorum.start(changed)
    await_fetches_of_all_voters(quorum)

    eventually(partial(is_answered, _UNKNOWN), within_s=90)
    assert [one["node_id"] for one in said(*questions[0])[1]["undecided"]] == [changed]
    assert said("check")[0] != 0
    eventually(partial(is_seen, {(node, changed): ("no", step) for node in (leader, other)}), within_s=60)
    eventually(partial(is_answered_with_rows, 2), within_s=60)
    found = said("check", *rows_of_all())[1]["findings"]
    assert ("peer-unreachable", f"voter {changed}", "critical") in {
        (one["rule"], one["subject"], one["severity"]) for one in found
    }

    quorum.kill(leader)

    committed: list[int | None] = []

    def nothing_is_committed() -> None:
        """Whoever is elected, no majority follows it; or the first one that asks ends."""
        committed.append(said("status")[1]["high_watermark"])
        assert len(committed) >= _OFTEN
        assert len({*committed[-_OFTEN:]} - {None}) <= 1, committed

    eventually(nothing_is_committed, within_s=60)
