"""Every file and folder that a real job creates is accessible to its owner alone, under the usual umask."""

import fnmatch
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from streaming.demo.job_process import JobProcess
from tests.eventually import eventually

SPARK = ("spark/offsets/[0-9]*", "spark/commits/[0-9]*", "spark/state/*.changelog", "spark/state/*.zip")
pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Returns the permissions of everything in the folder, and its own as `.`."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = Path(parent, name)
            # Spark deletes temporary files while the job runs.
            with suppress(FileNotFoundError):
                found[str(path.relative_to(folder))] = stat.S_IMODE(path.lstat().st_mode)
    return found


def test_files_of_the_checkpoint_and_of_the_jsonl_sink_are_for_the_owner_alone(job: JobProcess) -> None:
    job.kill()
    # Written under the usual umask by an earlier release.
    job.checkpoint.chmod(0o755)
    job.start()

    def written() -> dict[str, int]:
        found = modes(job.checkpoint)
        # Of each writer: the gatherer, the driver, and Java for the query, for state changes and for state snapshots.
        for pattern in ("journal/*", "log/gather-stats.json", "log/spark.log", *SPARK):
            assert fnmatch.filter(found, pattern), pattern
        return found

    found = eventually(written, within_s=120)

    wider = {name: oct(mode) for name, mode in found.items() if mode & 0o077}
    assert wider == {}
    assert len(found) > 50
    assert stat.S_IMODE(job.jsonl.stat().st_mode) == 0o600
