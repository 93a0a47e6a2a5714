"""Which files beside the log keep a controller from its start: `start_states` has what a real one did with each."""

from pathlib import Path

import pytest

from connectors.logdir.log_dir_files import PARTITION
from connectors.logdir.start_files import ENDS, start_problems
from tests.unit.connectors.logdir.start_states import START_STATES, StartState


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """The files beside a log as Kafka 4.4.0 writes them."""
    (tmp_path / PARTITION).mkdir()
    for name, text in {
        "meta.properties": "#\n#Sun Nov 29 17:10:34 UTC 2026\nnode.id=1\ndirectory.id=Yq5UaeDVREWcxp5BzEtOmQ\n"
        "version=1\ncluster.id=o6hPmzMrQKKl95qh8haO5g\n",
        f"{PARTITION}/quorum-state": '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":'
        '"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        f"{PARTITION}/leader-epoch-checkpoint": "0\n1\n1 0\n",
        f"{PARTITION}/partition.metadata": "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("state", START_STATES, ids=lambda state: f"{Path(state.file).name}: {state.name}")
def test_a_problem_is_found_where_kafka_ends(state: StartState, log_dir: Path) -> None:
    state.put(log_dir)

    found = start_problems(log_dir / PARTITION)

    assert [problem.effect for problem in found] == [ENDS] * state.ends
    assert all(problem.what.startswith(f"{Path(state.file).name} ") for problem in found)


def test_a_file_that_may_not_be_read_leaves_it_unknown(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("connectors.logdir.start_files.open_regular_file", denied)

    problem, *_ = start_problems(log_dir)

    assert str(problem) == (
        "meta.properties cannot be read: permission denied: whether Kafka starts with it is unknown"
    )
