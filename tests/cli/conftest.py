"""What a job has recorded."""

from pathlib import Path

import pytest

from tests.recordings import recorded_checkpoint


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a job that recorded faults of two clusters; a test that changes it makes its own."""
    return recorded_checkpoint(tmp_path_factory.mktemp("recorded")).folder
