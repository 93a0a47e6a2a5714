"""What a job has recorded, the disks of a stopped quorum, and a working directory."""

from pathlib import Path

import pytest

from tests.recordings import recorded_checkpoint
from tests.unit.connectors.logdir.log_dirs import stopped_quorum


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a job that recorded faults of two clusters; a test that changes it makes its own."""
    return recorded_checkpoint(tmp_path_factory.mktemp("recorded")).folder


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The folder of three controllers and broker 101; the log of controller 3 is behind."""
    return stopped_quorum(tmp_path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
