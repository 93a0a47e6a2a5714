"""`status` and `check` of a cluster that does not answer: both fall back to what the job recorded; `--only` selects."""

import json
from pathlib import Path

import pytest

from connectors.store.journal_writer import JournalWriter
from tests.cli.program import free_port, kraftwatch
from tests.recordings import TWO_CLUSTERS, recorded_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job's configuration and checkpoint; the bootstrap address and the recorded controllers refuse connections."""
    folder = tmp_path_factory.mktemp("recorded")
    checkpoint = recorded_checkpoint(folder)
    bootstrap, recorded = free_port(), free_port()
    known = {"prod": {"voters": {"1": [{"listener": "CONTROLLER", "host": "127.0.0.1", "port": recorded}]}}}
    with JournalWriter(checkpoint.journal) as writer:
        writer.note_endpoints({name: json.dumps(each) for name, each in known.items()})
        writer.append([TWO_CLUSTERS.observations()[-1]])
    (folder / "recorded-port").write_text(str(recorded))
    (folder / "kraftwatch.yaml").write_text(
        f"checkpoint: {checkpoint.folder}\nclusters: [{{name: prod, bootstrap: ['127.0.0.1:{bootstrap}']}}]\n"
    )
    return folder


def test_check_falls_back_to_the_recorded_state_as_status_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    options = ("--config", "kraftwatch.yaml", "--only", "prod", "--json", "--timeout", "3")
    check = json.loads(kraftwatch("check", *options).stdout)
    status = json.loads(kraftwatch("status", *options).stdout)

    assert (check["source"], status["source"]) == ("journal", "journal")
    assert {one["rule"] for one in check["findings"]} == {one["rule"] for one in status["findings"]}
    assert check["health"] == "unknown", (
        "where the voters are recorded, nothing refuses: their names do not resolve here"
    )
    # The recorded controllers are asked as well.
    recorded = f"127.0.0.1:{(folder / 'recorded-port').read_text()}"
    assert recorded in {one["endpoint"] for one in status["failing"]}


def test_a_journal_that_this_user_may_not_read_does_not_prevent_the_query(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of the systemd unit: its folder is open to the job's user alone."""
    exists = Path.exists

    def refused(path: Path) -> bool:
        if path.name == "observations.db":
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refused)
    monkeypatch.chdir(folder)

    ended = kraftwatch("check", "--config", "kraftwatch.yaml", "--json", "--timeout", "1")

    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    assert json.loads(ended.stdout)["source"] == "none"
    assert "the recorded state cannot be read" in ended.stderr
    assert "permission denied" in ended.stderr
