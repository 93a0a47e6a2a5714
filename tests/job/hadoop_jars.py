"""The jars of Hadoop's servers, for the tests of remote checkpoints."""

from pathlib import Path

from deploy.lab.spark_jars import HADOOP_VERSION, JarSet

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
