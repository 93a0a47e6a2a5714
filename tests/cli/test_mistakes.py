"""Usage errors: one sentence, which tests/unit/streaming/cli/test_main.py prints, and no files left behind."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_writer import JournalWriter
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.program import kraftwatch, usage_error
from tests.unit.connectors.logdir.log_dirs import stopped_quorum
from tests.unit.connectors.metadata.metadata_bytes import batch

FREE = "127.0.0.1:1"
A = f"--cluster a={FREE}"
ADD = "silence add --checkpoint job --comment why --for 2h"
DISKS = "what-if --log-dir node-1 --log-dir node-2 --log-dir node-3"
AT = "--at shows a past state: use it with --config FILE, --journal DIR or --log-dir"
NO_DATABASE = (
    "--checkpoint .: no kraftwatch.db is there; give the --checkpoint folder of `kraftwatch run`, or --config FILE"
)
"""The folder above the checkpoint, or the checkpoint of a job whose store is on a server."""
MAY_BE_LEFT = {"kraftwatch-checkpoint", "lock", "lake", "observations.db-shm", "observations.db-wal"}
MISTAKES = {
    "run": "no cluster is given: give --cluster NAME=HOST:PORT,… or --config FILE",
    "run --cluster prod": "--cluster prod: expected NAME=HOST:PORT,…, such as prod=c1:9093,c2:9093",
    "run --cluster prod=c1": "options: clusters.0.bootstrap: 'c1' is not HOST:PORT",
    f"run {A} --set no-leadr.hold=1": "unknown rule 'no-leadr' in 'no-leadr.hold': did you mean 'no-l",
    f"run {A} --set no-leader.hld=1": "rule 'no-leader' has no threshold 'hld': did you mean 'hold'?",
    f"run {A} --set no-leader.hold=soon": "--set no-leader.hold=soon: invalid value 'soon': expected seconds or",
    f"run {A} --set hold=1": "--set hold=1: expected RULE.NAME=VALUE",
    f"run {A} --resolve c1": "--resolve c1: expected HOST=ADDR",
    f"run {A} --hosts-file nowhere": "cluster a: hosts_file: cannot read nowhere",
    f"run {A} --sink jsonl:/nowhere/at/all": "/nowhere/at/all",
    f"run {A}": f"cluster a: none of {FREE} could be queried",
    "status": "no cluster is given: give --cluster NAME=HOST:PORT,… or --config FILE",
    "data replication --journal nowhere": "nowhere: no journal is there",
    "data partitions --journal . --watch": "--watch needs a cluster to query",
    "status --log-dir .": "no metadata log is in .: name a controller's metadata.log.dir",
    f"status --log-dir . {A}": "--log-dir reads disks: do not combine it with --cluster",
    f"status --at 5 {A}": AT,
    "status --at now --journal .": "--at now: expected an OFFSET or a TIME such as 2026-11-20T08:15:00Z",
    f"safe-to-restart 1 {A} --cluster b={FREE}": "expected one cluster, but 2 are given",
    "explain no-leadr": "unknown rule 'no-leadr': did you mean 'no-leader'?",
    "explain zzz": "unknown rule 'zzz': known rules: ",
    "replay": "give --journal DIR or --log-dir DIR",
    "timeline --journal nowhere": "no journal is there",
    "timeline --journal nowhere --from yesterday": "--from yesterday: expected a TIME",
    "report": "give --checkpoint DIR or --journal DIR",
    "report --checkpoint .": ".: no journal is there",
    "report --journal x --from now": "--from now: expected a TIME such as 2026-11-20T08:15:00Z",
    "bundle --checkpoint job --output x.tar.gz": "journal",
    "bundle --checkpoint recorded --output .": "--output . exists: name another file",
    "data export --output lake": "give --config FILE or --checkpoint DIR, but not both",
    "data export --output lake --checkpoint nowhere": "--checkpoint nowhere: no such folder",
    "data export --output lake --checkpoint . --table records": "--table records: there is no such table; the tables",
    "data export --output lake --checkpoint . --since 2026-11-20 --until 2026-11-20": "--until is not after --since",
    "data export --output lake --checkpoint .": "journal holds no journal: name",
    "data export --output lake --config job.yaml": "cluster prod: its id is not known: set its cluster_id, or start",
    "data export --output /dev/null/lake --checkpoint .": "--output /dev/null/lake: not a directory; give a writable",
    "data audit --checkpoint recorded --output /dev/null/pages": "--output /dev/null/pages: not a directory; give",
    "data audit --checkpoint recorded --output .": "--output . contains other files: name a new or empty folder",
    "data audit": "nothing to audit: give the --checkpoint folder",
    "data audit --checkpoint nowhere": "nowhere: no journal is there",
    "data audit --checkpoint recorded --journal recorded": "give --checkpoint or --journal, not both",
    "data audit --checkpoint recorded --alerts nowhere": "--alerts nowhere: no such file",
    "data audit --checkpoint recorded --record --only prod": "--record is for an audit of a job",
    "data audit --checkpoint recorded --newest 9 --only prod": "--newest is for the rows of all clusters",
    "data decode nowhere.log": "cannot read nowhere.log: no such file or directory",
    "data decode .": ". is a folder: name one of the .log or .checkpoint files in it",
    "data decode job.yaml": "job.yaml is not a Kafka log: name a .log or .checkpoint file of __cluster_metadata-0",
    "data decode job.yaml --kafka 2.8": "--kafka 2.8: unknown version; known versions: 3.3.2, 3.6.2, 3.7.2, 3.8.1",
    "data decode /dev/zero": "is not a regular file: name a .log or .checkpoint file",
    "data decode orders.log": "orders.log is the log of another topic: name a .log or .checkpoint file of __cluster",
    "repair --checkpoint nowhere": "nowhere: no such folder; give the --checkpoint folder",
    "repair --checkpoint s3a://b/k": "only Spark reads and writes there; give the job's work_dir instead",
    "repair --checkpoint job": "has neither journal/ nor spark/: there is nothing to repair",
    "data quarantine list --checkpoint nowhere": "nowhere: no such folder",
    "silence list --checkpoint .": NO_DATABASE,
    "silence add --checkpoint . --rule voter-* --for 2h --comment why": NO_DATABASE,
    "silence add --checkpoint job --rule no-* --comment why": "give --for DURATION or --until TIME: every silence must",
    f"{ADD} --rule no-* --for soon": "--for: invalid value 'soon': expected seconds or a duration such as 30s, 5m",
    f"{ADD} --rule no-* --for 0h": "--for: invalid value '0h': expected more than 0 seconds",
    f"{ADD} --rule no-* --for 2000d": "a silence may last at most 366 days",
    "silence add --checkpoint job --rule no-* --comment why --until 2020-01-01": "2020-01-01: this time is in the past",
    "silence add --checkpoint job --rule no-* --comment why --until noon": "--until noon: expected a TIME",
    "silence add --checkpoint job --rule no-* --for 2h": "--comment is missing",
    f"{ADD} --rule no-leadr": "--rule: 'no-leadr' matches no rule; did you mean 'no-leader'?",
    f"{ADD} --severity CRITICAL": "--severity: 'CRITICAL' matches no severity; did you mean 'critical'?",
    ADD: "this would silence every alert",
    f"{ADD} --subject **": "this would silence every alert",
    f"{ADD} --cluster prod --cluster stagin": "--cluster: 'stagin' matches no cluster; did you mean 'staging'?",
    f"{DISKS} --move 2": "--move 2: expected NODE=HOST:PORT",
    f"{DISKS} --move 2=a:1 --move 2=b:1": "--move names controller 2 twice",
    f"{DISKS} --move 2=a:1 --lose 2": "controller 2 cannot be moved and lost",
    f"{DISKS} --lose 9": "its voters are 1, 2 and 3",
    f"{DISKS} --restart one": "--restart one: expected all, or node ids",
    "rescue plan --log-dir node-2 --initial-controllers 1@c1": "is not ID@HOST:PORT:DIRECTORY_ID",
    "lab down --directory empty": "there is no lab in ",
    "relay --config job-alone.yaml --only prod": "relay is missing in the configuration: add relay with the bootstrap",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory: a checkpoint with rows, the one of a job that has begun, disks, configurations."""
    place = tmp_path_factory.mktemp("place")
    with JournalWriter(place / "recorded" / "journal") as writer:
        writer.append([Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)])
    (place / "job").mkdir()
    Checkpoint(folder=place / "job").record_cluster_ids({"prod": "id-1", "staging": "id-2"})
    stopped_quorum(place)
    (place / "orders.log").write_bytes(batch([b'{"order": 1}', b'{"order": 2}']))
    alone = f"clusters: [{{name: prod, bootstrap: ['{FREE}']}}]\n"
    (place / "job-alone.yaml").write_text(alone)
    relay = "source: kafka\nrelay: {bootstrap: ['k1.example:9092'], topic: observations}\n"
    (place / "job.yaml").write_text(alone + relay)
    return place


@pytest.fixture(autouse=True)
def _short_wait_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.job.cluster_identity.IDENTIFY_S", 1.0)


@pytest.mark.parametrize("command", MISTAKES)
def test_usage_error_is_one_sentence_and_leaves_no_file_behind(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    before = {*place.rglob("*")}

    assert MISTAKES[command] in usage_error(*shlex.split(command))

    # `run` may have created the checkpoint folder, `export` that of the tables; and SQLite has its log.
    assert {path.name for path in {*place.rglob("*")} - before} <= MAY_BE_LEFT


def test_page_that_other_machines_can_read_is_a_warning_before_the_start(folder: Path) -> None:
    ended = kraftwatch("run", *A.split(), "--listen", "0.0.0.0:9847")

    assert ended.stderr.startswith("kraftwatch: warning: listen: 0.0.0.0:9847 is not a loopback address, and others")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_stream_is_no_error(closed: str, folder: Path) -> None:
    # `config check` writes to a file of its own: it must not be at the number of a closed stream.
    (folder / "kraftwatch.yaml").write_text(f"clusters: [{{name: prod, bootstrap: ['{FREE}']}}]\nsinks: ['jsonl:a']")
    command = f"{sys.executable} -m streaming config check kraftwatch.yaml {closed}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=180)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_unknown_option_suggests_the_nearest() -> None:
    ended = kraftwatch("run", "--clutser", "x")

    assert ended.exit_code == 2
    assert "--cluster" in ended.stderr


def test_sink_of_a_file_may_name_a_cluster_of_the_command_line(folder: Path) -> None:
    (folder / "kraftwatch.yaml").write_text(
        "clusters: [{name: prod, bootstrap: ['c1:9093']}]\n"
        "sinks: [{webhook: {url: 'http://127.0.0.1:1/', clusters: [a]}}]\n"
    )
    run = ["run", "--config", "kraftwatch.yaml"]

    assert "line 2: sinks.0.webhook.clusters.0: 'a' matches no cluster; known: prod" in usage_error(*run)
    assert f"cluster a: none of {FREE} could be queried" in usage_error(*run, *A.split(), "--only", "a")
