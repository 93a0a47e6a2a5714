"""A real job to which the hosts of three controllers report: peer-unreachable fires before any loss."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.lab.addresses import Ports
from deploy.lab.lab import Lab
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.conftest import await_fetches_of_all_voters
from tests.job.relay_process import RelayProcess
from tests.lab import Lab as SecuredLab
from tests.lab_security import ADMIN

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

MONITOR = "monitor"
LAB = {
    "controllers": 3,
    "brokers": 0,
    "users": [MONITOR],
    "properties": {"super.users": f"User:{ADMIN};User:{MONITOR}"},
}
RULE, EVERY = "peer-unreachable", "10s"


@contextmanager
def reporting(lab: Lab, nodes: Sequence[int], folder: Path, token: Path, *addresses: str) -> Iterator[None]:
    """Runs the witness of each of these nodes."""
    with ExitStack() as stack:
        for node in nodes:
            file = lab.node(node).properties_file
            to = [word for address in addresses for word in ("--report", f"http://{address}")]
            words = ["witness", str(file), "--every", EVERY, *to]
            log = stack.enter_context((folder / f"witness-{node}.log").open("ab"))
            process = subprocess.Popen(
                [sys.executable, "-m", "streaming", *words, "--token-file", str(token)], stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield


def login(lab: SecuredLab) -> Mapping[str, str]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(lab.security.ca_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": MONITOR,
        "sasl_plain_password": lab.security.passwords[MONITOR],
    }


def assert_equal(found: object, expected: object) -> None:
    assert found == expected


def test_a_controller_that_denies_its_peers_is_told_before_the_leader_is_lost(lab: SecuredLab, tmp_path: Path) -> None:
    """Nothing else shows it: the monitor is allowed, and each follower fetches over its own older connections."""
    leader, (denying, other) = lab.leader, lab.followers
    hosts = " and ".join(map(str, sorted((leader, other))))
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="prod")
    tokens = {name: tmp_path / name for name in ("page", "hosts")}
    for name, file in tokens.items():
        file.write_text(f"the token of {name}")
    job.write_config(
        clusters=[section("prod", lab, **login(lab))],
        thresholds={"alerts": {"clear": 3}, RULE: {"hold": 5}},
        listen_token_file=str(tokens["page"]),
        listen_witness_token_file=str(tokens["hosts"]),
    )

    def answer(*verb: str) -> tuple[int, Mapping[str, Any]]:
        ended = kraftwatch(*verb, "--config", job.file, "--json")
        return ended.exit_code, json.loads(ended.stdout)

    def loss_is_survived(exit_code: int) -> None:
        assert answer("what-if", "--lose", str(leader))[0] == exit_code

    def page(path: str) -> requests.Response:
        headers = {"Authorization": "Bearer the token of page"}
        return requests.get(f"http://{job.address}{path}", headers=headers, timeout=60)

    def fires(*subjects: str) -> None:
        firing = page("/api/clusters/prod").json()["firing"]
        assert [one["subject"] for one in firing if one["rule"] == RULE] == [*subjects]

    def matrix(at: str = "") -> dict[tuple[int, int], tuple[str, str | None]]:
        answer = page(f"/api/clusters/prod{at}")
        # The job replays its journal for a past state.
        assert answer.ok, answer.text
        reaches = answer.json()["status"]["reaches"]
        return {(one["by"], one["of"]): (one["reached"], one["step"]) for one in reaches}

    def sample(by: int, of: int) -> float | None:
        labels = f'{{cluster="prod",from_node_id="{by}",to_node_id="{of}"}} '
        lines = [one for one in page("/metrics").text.splitlines() if f"controller_reached{labels}" in one]
        return float(lines[0].rpartition(" ")[2]) if lines else None

    def nobody_leads() -> None:
        firing = {one["rule"]: one for one in page("/api/clusters/prod").json()["firing"]}
        assert "no-leader" in firing
        alert = firing["no-leader"]
        # The others that asked it have ended, and so has it: whom it denies are the same for it.
        denied = f"Controller {denying} denied controllers {hosts} when it last answered, as seen from their hosts: "
        assert denied in alert["summary"], alert["summary"]
        assert f"to super.users of controller {denying}" in alert["remedy"][0], alert["remedy"]

    def is_safe_by_their_own_eyes() -> None:
        seen = "seen from the hosts of controllers 1, 2 and 3: each reaches each other one"
        exit_code, restart = answer("safe-to-restart", str(other))
        assert (exit_code, seen in restart["notes"]) == (0, True)

    with job:
        with reporting(lab, lab.controllers, job.folder, tokens["hosts"], job.address):
            eventually(is_safe_by_their_own_eyes, within_s=120)
            fires()
            pairs = [(by, of) for by in lab.controllers for of in lab.controllers if by != of]
            everyone = dict.fromkeys(pairs, ("yes", None))
            eventually(lambda: assert_equal(matrix(), everyone), within_s=60)
            healthy_at = page("/api/clusters/prod").json()["observed_at"]

            file = lab.node(denying).properties_file
            properties = file.read_text(encoding="utf-8")
            lab.stop(denying)
            file.write_text(f"{properties}super.users=User:{MONITOR}\n", encoding="utf-8")
            lab.start(denying)
            await_fetches_of_all_voters(lab)

            eventually(partial(fires, f"voter {denying}"), within_s=90)
            (alert,) = (one for one in page("/api/clusters/prod").json()["firing"] if one["rule"] == RULE)
            assert alert["summary"].startswith(f"Controllers {hosts} do not reach controller {denying}: permission, ")
            assert (alert["severity"], lab.leader) == ("critical", leader), "it leads still"
            eventually(partial(loss_is_survived, 2), within_s=60)
            denied = {pair: ("no", "permission") for pair in pairs if pair[1] == denying}
            eventually(lambda: assert_equal(matrix(), {**everyone, **denied}), within_s=60)
            reached = {pair: float(pair not in denied) for pair in pairs}
            eventually(lambda: assert_equal({pair: sample(*pair) for pair in pairs}, reached), within_s=60)
            assert "Not reached" in page("/clusters/prod").text
            eventually(lambda: assert_equal(matrix(f"?at={healthy_at}"), everyone), within_s=60)

            lab.kill(leader)
            eventually(nobody_leads, within_s=90)
        # Nobody reports any more: what was reported is known after a restart too.
        job.kill()
        job.start()
        eventually(partial(fires, f"voter {denying}"), within_s=120)

        # The other one may have ended, because it was denied.
        lab.stop(*(node for node in (denying, other) if lab.node(node).running))
        file.write_text(properties, encoding="utf-8")
        lab.start(*lab.controllers, wait=False)
        await_fetches_of_all_voters(lab)
        with reporting(lab, lab.controllers, job.folder, tokens["hosts"], job.address):
            eventually(fires, within_s=120)
            eventually(is_safe_by_their_own_eyes, within_s=60)
            eventually(partial(loss_is_survived, 0), within_s=60)


def test_rows_reach_a_job_by_the_relay_that_writes(lab: SecuredLab, topic_lab: Lab, tmp_path: Path) -> None:
    """The hosts report to both relays; the one that writes is killed."""
    ports, token = Ports(), tmp_path / "hosts"
    token.write_text("the token of hosts")
    relays = {
        f"127.0.0.1:{ports.claim()}": RelayProcess(
            tmp_path / name, topic_lab, topic="witnessed", clusters=[section("prod", lab, **login(lab))]
        )
        for name in ("one", "two")
    }
    for address, relay in relays.items():
        relay.keys = {"listen_witness_token_file": str(token)}
        relay.start("--listen", address)
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="prod")
    job.write_config(
        clusters=[section("prod", lab)],
        source="kafka",
        relay=relay.section,
        thresholds={"alerts": {"clear": 3}, RULE: {"hold": 5}},
    )

    def is_ready(address: str) -> bool:
        try:
            return bool(requests.get(f"http://{address}/readyz", timeout=60).json() == {"status": "ready"})
        except requests.ConnectionError:
            return False

    def writing() -> str:
        found = [*filter(is_ready, relays)]
        assert len(found) == 1, found
        return found[0]

    def status() -> Mapping[str, Any]:
        answer = requests.get(f"http://{job.address}/api/clusters/prod", timeout=60)
        assert answer.ok, answer.text
        assert answer.json()["status"] is not None
        found: Mapping[str, Any] = answer.json()
        return found

    def all_reach_each_other(since: str = "") -> str:
        reaches = status()["status"]["reaches"]
        assert [one["reached"] for one in reaches] == ["yes"] * 6, reaches
        oldest = min(str(one["seen_at"]) for one in reaches)
        assert oldest > since, reaches
        return oldest

    def fires(*subjects: str) -> None:
        assert [one["subject"] for one in status()["firing"] if one["rule"] == RULE] == [*subjects]

    denying, *_ = lab.followers
    try:
        with job, reporting(lab, lab.controllers, tmp_path, token, *relays):
            seen = eventually(all_reach_each_other, within_s=180)
            first = eventually(writing, within_s=60)
            relays[first].kill()
            del relays[first]
            eventually(writing, within_s=90)
            eventually(partial(all_reach_each_other, seen), within_s=120)

            file = lab.node(denying).properties_file
            properties = file.read_text(encoding="utf-8")
            lab.stop(denying)
            file.write_text(f"{properties}super.users=User:{MONITOR}\n", encoding="utf-8")
            lab.start(denying)
            eventually(partial(fires, f"voter {denying}"), within_s=120)
            lab.stop(denying)
            file.write_text(properties, encoding="utf-8")
            lab.start(denying)
            eventually(fires, within_s=120)
    finally:
        for relay in relays.values():
            relay.stop()
