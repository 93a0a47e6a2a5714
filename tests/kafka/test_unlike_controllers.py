"""A controller that denies what the others send, or that they do not trust, is of no use in the next election.

Nothing fails while the leader runs: it fetches over its own connection. No answer counts on it before.
"""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
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
from rules.formatting import numbered
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
from tests.peer_faults import MONITOR, PEER_FAULTS, SECOND, USERS, PeerFault, PeerLab, login

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900)]
_AUTHORIZER = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
"""
_FATAL = "Received cluster authorization error"
_UNKNOWN = 3
RULE = "peer-unreachable"
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


def _cases() -> Iterator[Any]:
    """Yields each fault with three controllers, and those that differ most with five."""
    for voters, steps in ((3, {*DialStep}), (5, {DialStep.PERMISSION, DialStep.LOGIN})):
        for fault in PEER_FAULTS:
            if fault.step in steps:
                yield pytest.param(voters, fault, id=f"{voters}: {fault.name}")


@pytest.mark.parametrize(("voters", "fault"), [*_cases()])
def test_nothing_counts_on_a_controller_that_answers_the_monitor_and_not_its_peers(
    tmp_path: Path, voters: int, fault: PeerFault
) -> None:
    """The hosts of its peers see it before any loss, with their own properties (`kraftwatch witness`).

    So many controllers have the fault that, when the leader is lost, they are needed; with a fault between two of them
    alone, five controllers have a leader without both.
    """
    with PeerLab(tmp_path / "lab", controllers=voters, brokers=0) as quorum:
        _is_seen_before_the_loss(quorum, tmp_path, fault)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The commands of a monitor whose login differs, and those on the controllers' hosts."""

    quorum: PeerLab
    folder: Path
    leader: int

    @property
    def questions(self) -> Sequence[Sequence[str]]:
        return ("safe-to-restart", str(self.leader)), ("what-if", "--lose", str(self.leader))

    def said(self, *verb: str) -> tuple[int, Mapping[str, Any]]:
        config = self.folder / "kraftwatch.yaml"
        section = {"name": NAME, "bootstrap": self.quorum.bootstrap, **self.quorum.monitor_options}
        config.write_text(yaml.safe_dump({"clusters": [section]}))
        ended = program.kraftwatch(*verb, "--config", str(config), "--json")
        return ended.exit_code, json.loads(ended.stdout)

    def rows(self) -> list[str]:
        options = []
        for node in (*self.quorum.controllers, *self.quorum.brokers):
            file = self.folder / f"row-{node}.json"
            file.write_text(program.kraftwatch("witness", self.quorum.node(node).properties_file, "--json").stdout)
            options += ["--witness", str(file)]
        return options

    def is_answered(self, exit_code: int, *, with_rows: bool = False) -> None:
        rows = self.rows() if with_rows else []
        assert {self.said(*question, *rows)[0] for question in self.questions} == {exit_code}

    def is_undecided(self, changed: Sequence[int]) -> None:
        self.is_answered(_UNKNOWN)
        exit_code, answer = self.said(*self.questions[0])
        undecided = [one["node_id"] for one in answer["undecided"]]
        assert (exit_code, undecided) == (_UNKNOWN, changed), answer

    def is_seen(self, unreached: Set[tuple[int, int]], step: DialStep) -> None:
        for node in self.quorum.controllers:
            ended = program.kraftwatch("witness", self.quorum.node(node).properties_file, "--json")
            peers = json.loads(ended.stdout)["peers"]
            seen = {(node, one["node"]): (one["reached"], one["step"]) for one in peers}
            assert seen == {pair: ("no", step) if pair in unreached else ("yes", None) for pair in seen}
            assert ended.exit_code == (1 if {*seen} & unreached else 0)
            assert len(seen) == len(self.quorum.controllers) - 1


def _is_seen_before_the_loss(quorum: PeerLab, tmp_path: Path, fault: PeerFault) -> None:
    leader, *followers = quorum.leader, *quorum.followers
    asked = Asked(quorum=quorum, folder=tmp_path, leader=leader)
    most = 1 if fault.by else len(followers) // 2
    changed, other = followers[:most], followers[-1]
    survives = fault.by is not None and len(followers) > 2
    eventually(partial(asked.is_answered, 0), within_s=90)
    eventually(partial(asked.is_seen, frozenset(), fault.step), within_s=60)
    eventually(partial(asked.is_answered, 0, with_rows=True), within_s=60)
    seen = f"seen from the hosts of {numbered('controller', quorum.controllers)}: each reaches each other one"

    def is_named() -> None:
        assert seen in asked.said(*asked.questions[0], *asked.rows())[1]["notes"]

    eventually(is_named, within_s=60)

    for node, change in {**dict.fromkeys(changed, fault.changed), **({other: fault.by} if fault.by else {})}.items():
        restart_with(quorum, node, change(quorum))

    if fault.by is None:
        eventually(partial(asked.is_undecided, changed), within_s=90)
        assert asked.said("check")[0] != 0
    eventually(partial(asked.is_seen, fault.unreached(quorum.controllers, changed, other), fault.step), within_s=60)
    eventually(partial(asked.is_answered, 0 if survives else 2, with_rows=True), within_s=60)
    found = asked.said("check", *asked.rows())[1]["findings"]
    severity = "warning" if survives else "critical"
    named = {(one["rule"], one["subject"], one["severity"]) for one in found}
    assert {(RULE, f"voter {node}", severity) for node in changed} <= named

    quorum.kill(leader)

    committed: list[int | None] = []

    def nothing_is_committed() -> None:
        """Whoever is elected, no majority follows it; or the first one that asks ends."""
        committed.append(asked.said("status")[1]["high_watermark"])
        assert len(committed) >= _OFTEN
        assert len({*committed[-_OFTEN:]} - {None}) <= 1, committed

    if survives:
        first = quorum.await_leader(*followers).high_watermark
        quorum.await_state(lambda state: state.high_watermark > max(first, 0) + _OFTEN, what="commits")
    else:
        eventually(nothing_is_committed, within_s=60)


def test_a_broker_that_one_controller_denies_is_fenced_once_that_one_leads(tmp_path: Path) -> None:
    """Each controller reaches each other one; the broker's own host alone shows it."""
    with PeerLab(tmp_path / "lab", controllers=3, brokers=1) as quorum:
        leader, (denying, _), (broker,) = quorum.leader, quorum.followers, quorum.brokers
        asked = Asked(quorum=quorum, folder=tmp_path, leader=leader)
        restart_with(quorum, broker, login(quorum, SECOND, ADMIN, *USERS))
        eventually(partial(asked.is_answered, 0, with_rows=True), within_s=90)

        restart_with(quorum, denying, {"super.users": f"User:{ADMIN};User:{MONITOR}"})

        def is_told() -> None:
            exit_code, answer = asked.said("safe-to-restart", str(leader), *asked.rows())
            assert (exit_code, answer["safe"]) == (2, False), answer
            assert [one.partition(" (")[0] for one in answer["against"]] == [
                f"broker {broker} does not reach controller {denying}"
            ]
            found = [one for one in asked.said("check", *asked.rows())[1]["findings"] if one["rule"] == RULE]
            assert [(one["subject"], one["severity"]) for one in found] == [(f"voter {denying}", "warning")]
            assert found[0]["evidence"]["not_reached_by"].keys() == {str(broker)}

        eventually(is_told, within_s=90)

        def is_answered(node: int) -> None:
            exit_code, answer = asked.said("safe-to-restart", str(node), *asked.rows())
            assert exit_code == (2 if node == leader else 0), (node, answer["undecided"], answer["against"])

        for node in quorum.controllers:
            eventually(partial(is_answered, node), within_s=60)
        ended = program.kraftwatch("witness", quorum.node(broker).properties_file)
        assert (ended.exit_code, f"controller {denying}" in ended.stdout) == (1, True)

        def denying_leads() -> None:
            if (now := quorum.leader) != denying:
                quorum.stop(now)
                quorum.await_leader(*(node for node in quorum.controllers if node != now))
                quorum.start(now)
            assert quorum.leader == denying

        def is_fenced() -> None:
            brokers = asked.said("status")[1]["brokers"]
            assert not quorum.node(broker).running or broker in (brokers or {}).get("fenced", ()), brokers

        eventually(denying_leads, within_s=180)
        eventually(is_fenced, within_s=60)


def restart_with(quorum: PeerLab, node: int, properties: Mapping[str, str]) -> None:
    file = quorum.node(node).properties_file
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    quorum.stop(node)
    file.write_text(file.read_text(encoding="utf-8") + lines, encoding="utf-8")
    quorum.start(node)
    await_fetches_of_all_voters(quorum)
