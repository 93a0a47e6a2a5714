"""An archive of the classes that Spark's Java loads in a job: a job of a test then starts with half of Java's CPU time.

`make test` makes it. Java ignores an archive of another Java or of other jars: the tests take longer then.
"""

import os
import subprocess
import tempfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "build" / "spark.jsa"
_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Options for Spark's Java in the environment (`SparkSubmitCommandBuilder`)."""


def use_archive() -> None:
    """Lets each Spark that this process or its children start use the archive, if there is one."""
    if ARCHIVE.exists():
        os.environ.setdefault(_OPTIONS, f'"-XX:SharedArchiveFile={ARCHIVE}" -Xlog:disable -Xlog:all=error:stderr')


def main() -> None:
    """Runs a job until its first batch; then its Java writes the archive."""
    # Imported here: every test runs `use_archive`.
    import psutil

    from tests.job.configured_job import ConfiguredJob

    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kraftwatch-classes-") as name:
        job = ConfiguredJob(
            folder=Path(name), bootstrap=(), environment={_OPTIONS: "-XX:+RecordDynamicDumpInfo -Xlog:disable"}
        )
        # No node answers there: the job observes that.
        job.write_config(clusters=[{"name": "demo", "bootstrap": ["127.0.0.1:1"], "cluster_id": "none"}])
        written = ARCHIVE.with_name(f"{ARCHIVE.name}.{os.getpid()}")
        with job:
            java = next(each for each in psutil.Process(job.pid).children() if each.name() == "java")
            command = ["jcmd", str(java.pid), "VM.cds", "dynamic_dump", str(written)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        written.rename(ARCHIVE)


if __name__ == "__main__":
    main()
