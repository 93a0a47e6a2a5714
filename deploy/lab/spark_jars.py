"""Downloads jars that Spark does not contain from Maven Central into the user's cache: Hadoop's file system S3A.

They belong to the Hadoop in the installed pyspark. Each jar must have its checksum in a lock file. Nothing is resolved:
of the libraries that the AWS SDK names, Spark contains half.

`python -m deploy.lab.spark_jars s3a FOLDER` copies jars into a folder, and prints the value of `spark.jars`.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from deploy.lab import LabError
from deploy.lab.child_process import command_output
from deploy.lab.jars import (
    Dependency,
    cache_folder,
    jar_checksums,
    made_once,
    pyspark_jars,
    run_ivy,
    sha256,
    verify_jars,
)

HADOOP_VERSION = "3.5.0"
"""The version of Hadoop that the jars belong to."""
_AWS = "2.35.4"
"""The version of the AWS SDK that this Hadoop is built with."""
_COMPILE_S = 300.0
_AWS_SDK = (
    *("annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol"),
    *("checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws"),
    *("http-auth-aws-eventstream", "http-auth-spi", "http-client-spi", "identity-spi", "json-utils", "metrics-spi"),
    *("netty-nio-client", "profiles", "protocol-core", "regions", "retries", "retries-spi", "s3"),
    *("s3-transfer-manager", "sdk-core", "sts", "third-party-jackson-core", "utils", "utils-lite"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that are downloaded together."""

    name: str
    """Of their folder in the cache."""
    title: str
    """What they are, for messages."""
    size: str
    lock: Path
    """The file of their checksums, in the format of sha256sum."""
    dependencies: Sequence[Dependency]
    source: Path | None = None
    """A Java file that is compiled against them and Spark's jars, into one more jar."""


S3A = JarSet(
    name="s3a",
    title="Hadoop's file system S3A",
    size="13 MB",
    lock=Path(__file__).with_name("s3a_jars.lock"),
    dependencies=(
        ("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION, False),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", False),
        ("software.amazon.eventstream", "eventstream", "1.0.1", False),
        ("org.reactivestreams", "reactive-streams", "1.0.4", False),
        *(("software.amazon.awssdk", name, _AWS, False) for name in _AWS_SDK),
    ),
    source=Path(__file__).parents[1] / "spark" / "S3CheckpointFiles.java",
)


def spark_jars(wanted: JarSet) -> Sequence[Path]:
    """Returns the jars, verified by their checksums; downloads them if they are not in the cache."""
    installed = installed_hadoop()
    if installed != HADOOP_VERSION:
        raise LabError(
            f"the jars of {wanted.title} are of Hadoop {HADOOP_VERSION}, but pyspark {version('pyspark')} has Hadoop "
            f"{installed}: install a pyspark that has {HADOOP_VERSION}"
        )
    folder = cache_folder().with_name("spark") / f"{wanted.name}-{HADOOP_VERSION}"
    made_once(folder, partial(_download, wanted))
    jars = _verified(wanted, folder)
    return jars if wanted.source is None else [*jars, _compiled(wanted.source, jars)]


def installed_hadoop() -> str:
    """Returns the version of Hadoop in the installed pyspark."""
    for jar in pyspark_jars().glob("hadoop-client-api-*.jar"):
        return jar.stem.rpartition("-")[2]
    raise LabError("found no jars/hadoop-client-api-*.jar in the installed pyspark: install pyspark")


def _verified(wanted: JarSet, folder: Path) -> Sequence[Path]:
    checksums = jar_checksums(wanted.lock)
    missing = [name for name in checksums if not (folder / name).is_file()]
    if missing:
        raise LabError(f"{folder} does not have {missing[0]} of {wanted.title}: delete the folder")
    jars = [folder / name for name in sorted(checksums)]
    verify_jars(folder, checksums, lock=wanted.lock)
    return jars


def _download(wanted: JarSet, part: Path) -> Path:
    console = Console(stderr=True, highlight=False)
    console.print(f"Downloading {wanted.title} {HADOOP_VERSION} from Maven Central ({wanted.size}) ...")
    run_ivy(wanted.dependencies, part)
    _verified(wanted, part / "jars")
    return part / "jars"


def _compiled(source: Path, jars: Sequence[Path]) -> Path:
    """Returns the jar with the classes of a Java file, compiled once."""

    def compiled(folder: Path) -> Path:
        home = os.environ.get("JAVA_HOME")
        compiler = shutil.which(str(Path(home) / "bin" / "javac") if home else "javac")
        if compiler is None:
            raise LabError(f"javac, which compiles {source.name}, is missing: install a JDK, not only Java's runtime")
        paths = os.pathsep.join([f"{pyspark_jars()}/*", *map(str, jars)])
        command = [compiler, "--release", "17", "-cp", paths, "-d", str(folder / "classes"), str(source)]
        command_output(command, what=f"the compilation of {source.name}", timeout_s=_COMPILE_S)
        return Path(shutil.make_archive(str(folder / source.stem), "zip", folder / "classes"))

    name = f"{source.stem}-{version('pyspark')}-{sha256(source)[:12]}.jar"
    return made_once(cache_folder().with_name("spark") / name, compiled)


def _copied(wanted: JarSet, folder: Path) -> Sequence[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(jar, folder)).absolute() for jar in spark_jars(wanted)]


if __name__ == "__main__":
    sets = {one.name: one for one in (S3A,)}
    if len(sys.argv) != 3 or sys.argv[1] not in sets:
        sys.exit(f"usage: python -m deploy.lab.spark_jars {'|'.join(sets)} FOLDER")
    try:
        sys.stdout.write(",".join(map(str, _copied(sets[sys.argv[1]], Path(sys.argv[2])))) + "\n")
    except LabError as problem:
        sys.exit(str(problem))
