"""The examples of docs/dataframes.md, of which `spark-submit` runs one; and the page lists every column."""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.dataframes.cluster_states import CLUSTER_STATE
from streaming.dataframes.job_tables import SCHEMAS
from streaming.dataframes.journal_dataframe import EVENT
from streaming.dataframes.metadata_log_source import RECORD
from streaming.pipeline.schema import OBSERVATION
from tests.job.spark_cluster import standalone_cluster
from tests.spark.pipeline_run import PipelineRun
from tests.unit.connectors.metadata.metadata_bytes import tinylog
from tests.wheel import ROOT, build_wheel, environment_with_libraries

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

PAGE = ROOT / "docs" / "dataframes.md"
SCRIPT = ROOT / "deploy" / "spark" / "metadata_log_report.py"
PRINTED = """
|audit.commands.v2-000068|1        |1         |2026-09-21 15:03:18.372|
|1001  |4           |16071 |2026-09-21 14:53:49.033|2026-09-21 15:06:03.364|734.3  |
"""
"""A row of each of its two tables."""


@pytest.mark.long
def test_the_script_prints_elections_and_leaders(tmp_path: Path) -> None:
    python = environment_with_libraries(tmp_path / "environment") / "python"
    archive = build_wheel(tmp_path).rename(tmp_path / "kraftwatch.zip")
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(tinylog()[0])
    submit = Path(sysconfig.get_path("scripts")) / "spark-submit"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}

    # The executors are processes of their own: they too import kraftwatch from the archive.
    with standalone_cluster(tmp_path / "cluster", workers=2) as master:
        options = ["--master", master, "--conf", "spark.executor.memory=600m", "--conf", "spark.driver.host=127.0.0.1"]
        command: list[str | Path] = [submit, *options, "--py-files", archive, SCRIPT, log]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    assert ran.returncode == 0, ran.stderr[-3000:]
    assert {*PRINTED.split("\n")} <= {*ran.stdout.split("\n")}


def test_the_example_of_states_prints_what_a_job_believed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = PipelineRun(spark, tmp_path)
    run.start()
    run.batch(lambda: run.have_a_leader(times=2))
    run.close()
    (example,) = re.findall(r"<!-- example: cluster_states -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    ours = example.replace("/var/lib/kraftwatch/checkpoint", str(run.checkpoint.folder))
    ours, times = re.subn(r"datetime\([^)]*\)", "datetime.now(UTC)", ours)
    assert times == 1

    exec(ours, {"spark": spark})

    assert re.search(r"\|prod *\|2027-01-15 08:00:0\d *\|1 *\|\d+ *\|\[\] *\|", capsys.readouterr().out)


def test_the_page_lists_every_column_with_its_type() -> None:
    tables = PAGE.read_text().split("| column | type | content |")[1:]

    listed = [re.findall(r"^\| `(\w+)` \| (\S+) \|", table, re.MULTILINE) for table in tables]

    schemas = (RECORD, OBSERVATION, EVENT, CLUSTER_STATE, SCHEMAS["alerts"], SCHEMAS["audits"])
    assert listed == [[(field.name, field.dataType.simpleString()) for field in schema] for schema in schemas]
