"""Downloads the jars of Spark's Kafka source (spark-sql-kafka-0-10) from Maven Central into the user's cache.

The version is that of the installed pyspark. Each jar must have its checksum in spark_jars.lock. Nothing is resolved:
Maven Central has no spark-token-provider-kafka-0-10 of Spark 4.2, which only delegation tokens need, so that the
resolution of Spark's own `spark.jars.packages` fails; the jar of Spark 4.0 takes its place.
"""

import shutil
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from deploy.lab import LabError
from deploy.lab.jars import Dependency, cache_folder, jar_checksums, locked, run_ivy, verify_jars

LOCK = Path(__file__).with_name("spark_jars.lock")
_DEPENDENCIES: Sequence[Dependency] = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", False),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", False),
    ("org.apache.kafka", "kafka-clients", "3.9.2", False),
    ("org.apache.commons", "commons-pool2", "2.13.1", False),
)
SPARK_VERSION = _DEPENDENCIES[0][2]
"""The version of Spark that the jars belong to."""


def spark_kafka_jars(folder: Path | None = None, *, cache: Path | None = None) -> Sequence[Path]:
    """Returns the jars, verified by their checksums; downloads them if they are not in the cache (10 MB).

    Args:
        folder: a folder that has them already, for machines that do not reach Maven Central.
        cache: the folder of the download; default: in the user's cache.

    Raises:
        LabError: the installed pyspark is of another version, the download failed, a jar is missing, or one differs
            from its checksum.
    """
    installed = version("pyspark")
    if installed != SPARK_VERSION:
        raise LabError(f"the jars of Spark's Kafka source are of Spark {SPARK_VERSION}, but pyspark is {installed}")
    if folder is None:
        cache = cache or cache_folder().with_name("spark")
        folder = cache / f"kafka-source-{SPARK_VERSION}"
        if not folder.is_dir():
            _download(cache, folder)
    return _verified(folder)


def _verified(folder: Path) -> Sequence[Path]:
    checksums = jar_checksums(LOCK)
    missing = [name for name in checksums if not (folder / name).is_file()]
    if missing:
        raise LabError(
            f"{folder} does not have {missing[0]} of Spark's Kafka source: copy it there, or delete the folder"
        )
    jars = [folder / name for name in sorted(checksums)]
    verify_jars(folder, checksums, lock=LOCK)
    return jars


def _download(cache: Path, folder: Path) -> None:
    """Downloads the jars into a folder that gets its name only when it is complete."""
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / ".kafka-source.lock"):
        if folder.is_dir():
            return
        for stale in cache.glob(".kafka-source.part-*"):
            shutil.rmtree(stale, ignore_errors=True)
        console = Console(stderr=True, highlight=False)
        console.print(f"Downloading the Kafka source of Spark {SPARK_VERSION} from Maven Central (10 MB) ...")
        part = Path(tempfile.mkdtemp(prefix=".kafka-source.part-", dir=cache))
        try:
            run_ivy(_DEPENDENCIES, part)
            _verified(part / "jars")
            (part / "jars").rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
