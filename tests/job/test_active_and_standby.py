"""Two real jobs on one topic and one store: one notifies, and any of them may die, stop or lose its disk."""

import json
import os
import shutil
import signal
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from deploy.lab.lab import Lab
from streaming.cli import app
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, SeparateJob, section
from tests.job.jobs_with_a_store import FIRED, RESOLVED, assert_notifies, assert_sent, documents, notifies, reading_job
from tests.job.relay_process import RelayProcess
from tests.own_network import OwnNetwork, needs_own_network
from tests.postgres_server import PostgresServer, needs_postgres
from tests.sinks.server import HttpDouble, HttpReply

pytestmark = [needs_postgres, pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_800)]

LAB = {"brokers": 0}


def test_people_are_notified_once_whatever_happens_to_the_active_job(
    lab: Lab, relay: RelayProcess, postgres: PostgresServer, webhook: HttpDouble, tmp_path: Path
) -> None:
    store = postgres.database("kraftwatch").url
    first, second = (reading_job(lab, relay, webhook, tmp_path / name, store) for name in ("first", "second"))
    with first, second:
        eventually(lambda: assert_notifies(first, second), within_s=30)

        # Killed with its disk while an alert is pending: the standby sends it.
        lab.pause(*lab.controllers[:2])
        first.kill()
        shutil.rmtree(first.checkpoint)
        eventually(lambda: assert_sent(webhook, [("/second", *FIRED)]), within_s=40)
        assert notifies(second) == 1

        # The same job elsewhere, on an empty disk, is the standby now, and knows the alert.
        first.start()
        lab.resume(*lab.controllers[:2])
        ended = [("/second", *FIRED), ("/second", *RESOLVED)]
        eventually(lambda: assert_sent(webhook, ended), within_s=60)
        eventually(lambda: assert_notifies(second, first), within_s=60)

        # Stopped, and continued after the other one has taken over.
        stopped = [second.pid, *(each.pid for each in psutil.Process(second.pid).children(recursive=True))]
        signal_all(stopped, signal.SIGSTOP)
        lab.pause(*lab.controllers[:2])
        again = [*ended, ("/first", *FIRED)]
        eventually(lambda: assert_sent(webhook, again), within_s=60)
        signal_all(stopped, signal.SIGCONT)
        lab.resume(*lab.controllers[:2])
        eventually(lambda: assert_sent(webhook, [*again, ("/first", *RESOLVED)]), within_s=60)
        eventually(lambda: assert_notifies(first, second), within_s=60)

        # Its sinks do not answer; those of the other one do.
        accepted = len(webhook.requests)
        webhook.behave = lambda request: HttpReply(status=503 if request.path == "/first" else 200)
        lab.pause(*lab.controllers[:2])
        moved = [("/second", *FIRED)]
        eventually(lambda: assert_sent(webhook, moved, before=accepted, tried="/first"), within_s=90)
        lab.resume(*lab.controllers[:2])
        moved.append(("/second", *RESOLVED))
        eventually(lambda: assert_sent(webhook, moved, before=accepted, tried="/first"), within_s=60)
    assert_any_machine_looks_back(lab, reading_job(lab, relay, webhook, tmp_path / "other", store))


def assert_any_machine_looks_back(lab: Lab, other: ConfiguredJob) -> None:
    """With the configuration alone: the observations are in the topic, the alerts in the store."""
    arguments = ["timeline", "--config", str(other.file), "--json"]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 0, ended.output
    texts = [line["text"] for line in map(json.loads, ended.stdout.splitlines()) if line["kind"] == "alert"]
    alerts = [text.partition(" · ")[0] for text in texts if "no-leader" in text]
    # Without later conclusions of an alert, as in `documents`.
    assert [text for text, _ in groupby(alerts)] == ["critical no-leader", "resolved: no-leader"] * 3
    lab.pause(*lab.controllers)
    status = other.printed("status")
    assert (status["source"], status["cluster_id"]) == ("journal", lab.cluster_id)
    lab.resume(*lab.controllers)


@pytest.mark.debian("iproute2")
@needs_own_network
def test_of_two_jobs_that_gather_themselves_the_one_that_observes_notifies(
    lab: Lab, topic_lab: Lab, postgres: PostgresServer, webhook: HttpDouble, tmp_path: Path
) -> None:
    clusters, store = {"test": lab, "other": topic_lab}, postgres.database("gatherers").url
    ports = {name: [port_of(each) for each in one.bootstrap] for name, one in clusters.items()}
    with ExitStack() as stack:
        jobs: list[SeparateJob] = []
        for name in ("first", "second"):
            network = stack.enter_context(OwnNetwork())
            network.reach(postgres.port, port_of(webhook.url), *ports["test"], *ports["other"])
            job = SeparateJob(folder=tmp_path / name, bootstrap=(), name="test", network=network)
            job.write_config(
                clusters=[section(cluster, one) for cluster, one in clusters.items()],
                store=store,
                sinks=[{"webhook": {"url": f"{webhook.url}/{name}", "repeat": "never", "name": "people"}}],
            )
            jobs.append(job)
            stack.enter_context(job)
        active, standby = jobs
        eventually(lambda: assert_notifies(active, standby), within_s=30)

        # Cut off from every cluster, it gives the lease up before it says that their state is unknown.
        active.network.cut(*ports["test"], *ports["other"])
        eventually(lambda: assert_notifies(standby, active), within_s=60)
        active.network.restore()
        assert blind_sent(webhook) == []

        # Cut off from one cluster, it says so; the other job, which observes that cluster, ends the alert.
        standby.network.cut(*ports["test"])
        fired = ("/second", "test", "firing")
        eventually(lambda: blind_sent(webhook) == [fired], within_s=90)
        standby.kill()
        ended = ("/first", "test", "resolved")
        eventually(lambda: blind_sent(webhook) == [fired, ended], within_s=150)


def blind_sent(webhook: HttpDouble) -> list[tuple[str, str, str]]:
    """Returns path, cluster and reason of each document about a cluster that is not observed."""
    return [
        (path, body["alerts"][0]["cluster"], body["reason"])
        for path, body in documents(webhook)
        if body["alerts"][0]["rule"] == "monitor-blind"
    ]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)
