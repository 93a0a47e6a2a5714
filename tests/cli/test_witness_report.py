"""`kraftwatch witness --report`: once and again and again, to a job and to what is none."""

import json
import os
import signal
from pathlib import Path

import pytest

from connectors.process.signals import SignalFlag
from connectors.witness.witness_row import parsed_row
from rules.model.witness import Reached
from tests.cli.program import kraftwatch, usage_error
from tests.sinks.server import ConnectionReset, HttpReply, serving
from tests.situation.commands import situation
from tests.unit.connectors.logdir.log_dirs import stopped_quorum
from tests.unit.streaming.web.served_api import Served

CLUSTER_ID = str(situation().cluster_id)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Of controller 1 of a stopped quorum, whose cluster id is the one that the job knows."""
    stopped = stopped_quorum(tmp_path)
    meta = stopped / "node-1" / "meta.properties"
    lines = [line for line in meta.read_text().splitlines() if not line.startswith("cluster.id")]
    meta.write_text("\n".join([*lines, f"cluster.id={CLUSTER_ID}"]))
    file = tmp_path / "controller.properties"
    file.write_text(
        f"node.id=1\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:1\nlog.dirs={meta.parent}\n"
    )
    return file


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("of a host\n")
    return file


def test_a_row_is_reported_to_the_cluster_of_its_id_or_name(tmp_path: Path, properties: Path, token: Path) -> None:
    with Served(tmp_path) as job:
        url = f"http://127.0.0.1:{job.port}/"
        for more in ((), ("--cluster", "prod")):
            ended = kraftwatch("witness", properties, "--report", url, "--token-file", token, *more)
            assert ended.exit_code == 1, ended.output
        (cluster, row), (again, _) = job.reported
        refused = kraftwatch("witness", properties, "--report", url, "--token-file", token, "--cluster", "other")
    assert (cluster, again, row.node, row.every_ms) == ("prod", "prod", 1, None)
    assert [(peer.node, peer.reached) for peer in row.peers] == [(2, Reached.NO), (3, Reached.NO)]
    assert str(refused.exception) == f"--report {url}: HTTP 404: no cluster of that name is configured"
    assert "seen from the host of node 1" in refused.stdout


def test_a_row_is_reported_to_each_of_several(tmp_path: Path, properties: Path, token: Path) -> None:
    """One of two relays writes, and the other one says so: the row is reported."""
    standby = HttpReply(status=503, body=b'{"status": "another relay writes prod: report to that one too"}')
    with Served(tmp_path) as job, serving() as other:
        other.behave = lambda _: standby
        to_both = ("--report", f"http://127.0.0.1:{job.port}", "--report", other.url)
        ended = kraftwatch("witness", properties, *to_both, "--token-file", token)
        in_vain = kraftwatch("witness", properties, "--report", other.url, "--token-file", token)
    why = f"--report {other.url}: HTTP 503: another relay writes prod: report to that one too"
    assert (ended.exit_code, len(job.reported), ended.stderr) == (1, 1, f"kraftwatch: {why}\n")
    assert str(in_vain.exception) == why


def test_rows_follow_each_other_whatever_the_job_answers_and_what_stays_is_said_once(
    properties: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = HttpReply(status=503, body=b'{"status": "the job starts: try again"}')
    page = HttpReply(headers={"Content-Type": "text/html"}, body=b"<html>log in</html>")
    accepted = HttpReply(status=202, body=b'{"status": "accepted"}')
    replies: list[HttpReply | ConnectionReset] = [starts, starts, page, ConnectionReset(), accepted, accepted]
    with serving() as job:
        job.behave = lambda _: replies[len(job.requests) - 1]

        def wait(flag: SignalFlag, _: float) -> bool:
            if len(job.requests) == len(replies):
                os.kill(os.getpid(), signal.SIGTERM)
            return flag.is_set()

        monkeypatch.setattr(SignalFlag, "wait", wait)
        ended = kraftwatch("witness", properties, "--every", "60s", "--report", job.url, "--token-file", token)
        rows = [parsed_row(request.body) for request in job.requests]
        sent = [(request.path, request.headers["Authorization"]) for request in job.requests]
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert sent == [(f"/api/clusters/{CLUSTER_ID}/witness", "Bearer of a host")] * len(replies)
    assert {row.every_ms for row in rows} == {60_000}
    other = "the answer is not that of a job of this version: check the URL"
    assert ended.stderr.splitlines() == [
        f"kraftwatch: --report {job.url}: HTTP 503: the job starts: try again",
        f"kraftwatch: --report {job.url}: {other}",
        f"kraftwatch: --report {job.url}: the connection was closed before the response",
        f"kraftwatch: reported to {job.url} every 60 s",
    ]


def test_a_host_whose_files_cannot_be_read_any_more_goes_on(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = iter(
        [lambda: properties.rename(f"{properties}.new"), lambda: Path(f"{properties}.new").rename(properties)]
    )

    def wait(flag: SignalFlag, _: float) -> bool:
        next(changes, flag.set)()
        return flag.is_set()

    monkeypatch.setattr(SignalFlag, "wait", wait)
    ended = kraftwatch("witness", properties, "--every", "60s", "--json")
    assert ended.exit_code == 0
    assert [json.loads(line)["every_ms"] for line in ended.stdout.splitlines()] == [60_000, 60_000]
    assert ended.stderr.splitlines() == [f"kraftwatch: cannot read {properties}: no such file or directory"]


def test_what_cannot_be_is_one_sentence(properties: Path, tmp_path: Path) -> None:
    assert usage_error("witness", properties, "--report", "job") == (
        "--report: write https://HOST/PATH or http://HOST/PATH, without a blank"
    )
    assert usage_error("witness", properties, "--cluster", "prod") == (
        "--token-file and --cluster belong to --report URL"
    )
    missing = tmp_path / "missing"
    assert usage_error("witness", properties, "--report", "http://job", "--token-file", missing).startswith(
        f"--token-file: cannot read {missing}: no such file"
    )
    assert usage_error("witness", tmp_path / "no.properties", "--every", "10s").startswith("cannot read ")
