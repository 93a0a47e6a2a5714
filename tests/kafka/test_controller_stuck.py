"""The event thread of the active controller hangs in a policy for new topics, and Raft goes on.

Three controllers and a broker. Polls and fetches are answered, and the log stands still at the high watermark.
"""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from deploy.lab import LabError
from tests.cli.program import kraftwatch
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import NAME
from tests.kafka.lab_helpers import compiled_policy
from tests.kafka.monitored_cluster import monitor_cluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(400)]


def test_an_active_controller_that_appends_nothing_is_named(lab: MakeLab, kafka_jars: Path, tmp_path: Path) -> None:
    waits, classes = tmp_path / "waits", compiled_policy(tmp_path)
    quorum = lab(
        controllers=3,
        brokers=1,
        java_options=("-cp", f"{kafka_jars}/*:{classes}", f"-Dwaits={waits}"),
    )
    # Not before: kafka-storage would look for the class.
    for node in quorum.controllers:
        with quorum.node(node).properties_file.open("a") as properties:
            properties.write("create.topic.policy.class.name=WaitingPolicy\n")
        quorum.kill(node)
        quorum.start(node)
    quorum.await_leader()
    with monitor_cluster(quorum, tmp_path / "monitor") as monitor, ThreadPoolExecutor(max_workers=1) as pool:
        monitor.start_scenario({"controller-stuck.hold": 1})
        stuck = quorum.leader
        waits.touch()
        created = pool.submit(create_topic, quorum)

        alert = monitor.wait_for("controller-stuck", within_s=60)

        assert (alert.severity, alert.subject) == ("critical", "active controller")
        assert alert.summary.startswith(f"Controller {stuck} leads and answers, and has appended nothing since ")
        checked = kraftwatch("check", "--cluster", f"{NAME}={','.join(quorum.bootstrap)}")
        assert (checked.exit_code, "critical controller-stuck" in checked.stdout) == (2, True), checked.output
        dump = subprocess.run(
            ["jstack", str(quorum.node(stuck).pid)], check=True, capture_output=True, text=True
        ).stdout
        (thread,) = (one for one in dump.split("\n\n") if "WaitingPolicy" in one)
        assert f'quorum-controller-{stuck}-event-handler"' in thread, "its name is in the remedy"
        quorum.kill(stuck)
        waits.unlink()
        quorum.await_leader()
        monitor.wait_for("controller-stuck", "resolved", within_s=60)
        created.result()
        quorum.start(stuck)
        assert monitor.rules == {"controller-stuck"}


def create_topic(quorum: Lab) -> None:
    with suppress(LabError):
        quorum.create_topic("waits")
