"""The files of a state in HDFS or S3 do not answer: the start of Spark is repeated, the understudy counts meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from connectors.process.signals import SignalFlag
from streaming.config import Config
from streaming.job import monitoring as module
from streaming.job.dependencies import Dependencies
from streaming.job.monitoring import Monitoring
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import KAFKA, CheckpointSource, record_source
from streaming.pipeline.spark.errors import JobError
from streaming.pipeline.spark.spark_files import Folder, SparkFiles
from tests.unit.streaming.job.running_configuration import running_with

AWAY = "checkpoint s3a://bucket/job: Spark cannot read it: the connection was refused"


class UnreachableFolder(Folder):
    """A folder of a file system that does not answer."""

    place = "s3a://bucket/job"

    def names(self, folder: str) -> list[str]:
        raise JobError(AWAY)

    def text(self, file: str) -> str:
        raise JobError(AWAY)


@pytest.fixture
def monitoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Monitoring:
    relay = {"bootstrap": ["k:9092"], "topic": "observations"}
    config = Config.model_validate(
        {
            "clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}],
            "source": "kafka",
            "relay": relay,
            "checkpoint": "s3a://bucket/job",
            "work_dir": str(tmp_path),
        }
    )
    monkeypatch.setattr(module, "spark_files", lambda *_: SparkFiles(folder=UnreachableFolder()))
    checkpoint = Checkpoint(folder=tmp_path, uri="s3a://bucket/job")
    return Monitoring(running_with(config), checkpoint, Dependencies(print), SignalFlag())


def test_files_that_do_not_answer_at_the_start_are_no_invalid_input(monitoring: Monitoring) -> None:
    unused: Any = None
    with pytest.raises(JobError, match="the connection was refused"):
        monitoring._why_no_remote_state(unused)


def test_files_that_do_not_answer_at_the_very_first_start_are_no_invalid_input(monitoring: Monitoring) -> None:
    """The folder does not know yet where Spark's files are: they are asked whether another query has begun there."""
    record_source(monitoring.checkpoint, CheckpointSource(kind=KAFKA))
    unused: Any = None
    with pytest.raises(JobError, match="the connection was refused"):
        monitoring._why_no_remote_state(unused)
