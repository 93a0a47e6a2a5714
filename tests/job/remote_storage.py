"""File systems that the nodes of a Spark cluster reach over the network, on loopback: HDFS, and an S3 store."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.lab.addresses import Ports
from deploy.lab.jars import cache_folder, made_once
from deploy.lab.spark_jars import HADOOP_VERSION, S3A, JarSet, spark_jars
from tests.eventually import eventually
from tests.job.spark_cluster import HOME, assert_logged, start_java

HADOOP_CLUSTER = JarSet(
    name="hadoop-cluster",
    title="Hadoop's servers for tests",
    size="60 MB",
    lock=Path(__file__).with_name("hadoop_jars.lock"),
    dependencies=(
        *(
            ("org.apache.hadoop", f"hadoop-client-{name}", HADOOP_VERSION, False)
            for name in ("api", "runtime", "minicluster")
        ),
        ("org.mockito", "mockito-core", "4.11.0", False),
        ("net.bytebuddy", "byte-buddy", "1.12.19", False),
        ("net.bytebuddy", "byte-buddy-agent", "1.12.19", False),
        ("org.objenesis", "objenesis", "3.3", False),
        ("org.slf4j", "slf4j-api", "1.7.36", False),
        ("org.slf4j", "slf4j-nop", "1.7.36", False),
        ("commons-logging", "commons-logging", "1.3.0", False),
        ("com.google.code.findbugs", "jsr305", "3.0.2", False),
        ("org.xerial.snappy", "snappy-java", "1.1.10.4", False),
        ("org.junit.jupiter", "junit-jupiter-api", "5.11.4", False),
        ("org.junit.platform", "junit-platform-commons", "1.11.4", False),
        ("org.opentest4j", "opentest4j", "1.3.0", False),
        *(("org.bouncycastle", f"bc{name}-jdk18on", "1.78.1", False) for name in ("prov", "pkix", "util")),
    ),
)
VERSITYGW = "1.8.0"
"""The version of the S3 server (github.com/versity/versitygw)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStorage:
    """A running file system."""

    uri: str
    """Of its root."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings for it."""


@contextlib.contextmanager
def hdfs(folder: Path, *, yarn: Path | None = None) -> Iterator[RemoteStorage]:
    """Runs a name node and a data node of HDFS; and YARN, if `yarn` is the folder for its configuration."""
    port = Ports().claim()
    # Spark's Log4j: Hadoop's servers for tests call it.
    jars = [*spark_jars(HADOOP_CLUSTER), *(HOME / "jars").glob("log4j-[1ac]*.jar")]
    program = [str(Path(__file__).with_name("HadoopCluster.java")), str(folder), str(port)]
    with ExitStack() as stack:
        command = [*program, *([] if yarn is None else [str(yarn)])]
        log = start_java(stack, folder, command, jars=os.pathsep.join(map(str, jars)))
        eventually(lambda: assert_logged(log, "ready"), within_s=120, every_s=1)
        yield RemoteStorage(uri=f"hdfs://127.0.0.1:{port}", settings={"spark.hadoop.dfs.replication": "1"})


@contextlib.contextmanager
def s3(folder: Path) -> Iterator[RemoteStorage]:
    """Runs an S3 server with one bucket; skips the test where Go is missing, which builds the server."""
    server, port = _versitygw(), Ports().claim()
    (folder / "bucket").mkdir(parents=True)
    key, secret = "test-key", "do-not-print-me"
    environment = {**os.environ, "ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret}
    log = folder / "log"
    with log.open("wb") as output, ExitStack() as stack:
        command = [str(server), "--port", f"127.0.0.1:{port}", "posix", str(folder)]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        stack.callback(process.wait)
        stack.callback(process.kill)
        eventually(lambda: assert_logged(log, str(port)), within_s=30)
        settings = {
            "spark.jars": ",".join(map(str, spark_jars(S3A))),
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.aws.credentials.provider": ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"),
            "spark.hadoop.fs.s3a.access.key": key,
            "spark.hadoop.fs.s3a.secret.key": secret,
        }
        yield RemoteStorage(uri="s3a://bucket", settings=settings)


def _versitygw() -> Path:
    """Returns the server, built once for this machine."""

    def built(folder: Path) -> Path:
        go = shutil.which("go")
        if go is None:
            pytest.skip("Go is missing: it builds the S3 server of this test")
        package = f"github.com/versity/versitygw/cmd/versitygw@v{VERSITYGW}"
        subprocess.run([go, "install", package], env={**os.environ, "GOBIN": str(folder)}, check=True)
        return folder / "versitygw"

    return made_once(cache_folder().with_name("go") / f"versitygw-{VERSITYGW}", built)
