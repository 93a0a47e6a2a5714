"""Spark creates the pods of sparkapplication.yaml on Kubernetes' API server, and the job evaluates in them.

spark-submit gets what the operator gives it from the manifest. `PodRunner` runs the pods from the image; the job reads
the topic of a relay of a real quorum, and has its state in S3 and its alerts in PostgreSQL.
"""

import json
import os
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.lab.addresses import Ports
from deploy.lab.lab import Lab
from tests.api_server.pod_runner import Object, PodRunner
from tests.api_server.real_api_server import ADMITTED, API_SERVER, SERVICE, RealApiServer
from tests.eventually import eventually
from tests.job.built_image import build_image
from tests.job.configured_job import section
from tests.job.relay_process import RelayProcess
from tests.job.remote_storage import s3
from tests.job.spark_cluster import HOME
from tests.lab_certificate_authority import LabCertificateAuthority
from tests.postgres_server import PostgresServer
from tests.sinks.server import HttpDouble, serving
from tests.unit.deploy.recipes.manifests import SPARK, SPARK_JOB, Manifest, all_of_kind, of_kind

pytestmark = [
    pytest.mark.lab,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(3_600),
    pytest.mark.debian("buildah", "mmdebstrap", "postgresql"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root may change the root folder"),
    pytest.mark.skipif(not API_SERVER.exists(), reason="kube-apiserver is missing: `make api-server` builds it"),
]

NAMESPACE = of_kind("SparkApplication", SPARK_JOB)["metadata"]["namespace"]
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the job needs, running."""

    server: RealApiServer
    runner: PodRunner
    lab: Lab
    webhook: HttpDouble
    authority: Path
    """Of the page's certificate."""
    page: int
    """The port of the page."""
    folder: Path

    def pods(self, role: str) -> list[Object]:
        """Returns the pods of a role that run and are not deleted."""
        running = (each for each in self.all_pods(f"spark-role={role}") if each["status"]["phase"] == "Running")
        return [each for each in running if "deletionTimestamp" not in each["metadata"]]

    def all_pods(self, labels: str = "") -> list[Object]:
        self.runner.check()
        found = self.server.request("GET", f"{PODS}?labelSelector={labels}")
        assert found is not None
        items: list[Object] = found["items"]
        return items

    def pod(self, role: str) -> Object:
        (pod,) = self.pods(role)
        return pod

    def delete(self, pod: Object) -> None:
        assert self.server.request("DELETE", f"{PODS}/{pod['metadata']['name']}") is not None

    def alerts(self, rule: str) -> list[str]:
        """Returns the states of a rule's alert, in the order in which they arrived."""
        documents = [json.loads(each.body) for each in self.webhook.requests]
        return [one["state"] for each in documents for one in each["new_transitions"] if one["rule"] == rule]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="kraftwatch-test-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        buildah = build_image(folder / "image")
        lab = stack.enter_context(Lab(folder / "lab", brokers=0))
        topic_lab = stack.enter_context(Lab(folder / "topic-lab", controllers=0, combined=1, brokers=0))
        relay = RelayProcess(folder / "relay", topic_lab, topic="rows", clusters=[section("test", lab)])
        stack.callback(relay.stop)
        relay.start()
        relay.wait_for_rows(1)
        storage = stack.enter_context(s3(folder / "s3"))
        store = stack.enter_context(PostgresServer()).database("kraftwatch")
        webhook = stack.enter_context(serving())
        ports = Ports()
        page, authority = ports.claim(), LabCertificateAuthority(folder / "page")
        changed = {
            "relay": {"bootstrap": relay.section["bootstrap"], "topic": "rows"},
            "clusters": [section("test", lab)],
            "store": store.url,
            "checkpoint": f"{storage.uri}/a",
            # The image has the jars.
            "spark": {key: value for key, value in storage.settings.items() if key != "spark.jars"},
            "listen": f"0.0.0.0:{page}",
            "sinks": [f"webhook:{webhook.url}/"],
            "thresholds": {"alerts": {"clear": 3}, "no-leader": {"hold": 10}},
        }
        server = stack.enter_context(RealApiServer(folder / "api-server"))
        secret = {"page.crt": authority.issue("page").read_text(), "page.key": (folder / "page/page.pem").read_text()}
        for manifest in manifests(changed, secret, server.authority.read_text()):
            assert server.apply(yaml.safe_dump(manifest)) == ADMITTED
        runner = stack.enter_context(PodRunner(server, NAMESPACE, folder / "pods", buildah))
        yield Cluster(
            server=server,
            runner=runner,
            lab=lab,
            webhook=webhook,
            authority=authority.file,
            page=page,
            folder=folder,
        )


def manifests(changed: dict[str, Any], secret: dict[str, str], authority: str) -> Iterator[Manifest]:
    """Yields what the manifest has beside the SparkApplication, with another configuration, and what clusters add."""
    yield of_kind("Namespace")
    for kind in ("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"):
        yield from all_of_kind(kind, SPARK_JOB)
    ours = of_kind("Secret", SPARK_JOB)
    yield {**ours, "stringData": {**ours["stringData"], **secret}}
    ours = of_kind("ConfigMap", SPARK_JOB)
    config = yaml.safe_load(ours["data"]["kraftwatch.yaml"])
    del config["store_password"]
    yield {**ours, "data": {"kraftwatch.yaml": yaml.safe_dump({**config, **changed})}}
    metadata = {"name": "kube-root-ca.crt", "namespace": NAMESPACE}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": authority}}


def submit(cluster: Cluster) -> None:
    """Runs spark-submit with the settings and the pods' templates of the SparkApplication."""
    settings = {
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.container.image": SPARK["image"],
        "spark.kubernetes.container.image.pullPolicy": SPARK["imagePullPolicy"],
        "spark.kubernetes.submission.waitAppCompletion": "false",
        # Without the port in a cluster.
        "spark.kubernetes.driver.master": f"https://{SERVICE}:{cluster.server.port}",
        "spark.executor.instances": SPARK["executor"]["instances"],
        "spark.driver.extraJavaOptions": SPARK["driver"]["javaOptions"],
    }
    for role in ("driver", "executor"):
        spec = SPARK[role]
        settings[f"spark.kubernetes.{role}.podTemplateFile"] = write_template(cluster.folder, role)
        settings[f"spark.kubernetes.authenticate.{role}.serviceAccountName"] = spec["serviceAccount"]
        settings[f"spark.kubernetes.{role}.request.cores"] = spec["coreRequest"]
        settings |= {f"spark.{role}.{key}": spec[key] for key in ("cores", "memory", "memoryOverhead")}
        settings |= {f"spark.kubernetes.{role}.label.{key}": value for key, value in spec["labels"].items()}
    kubeconfig = cluster.folder / "kubeconfig"
    cluster.server.write_kubeconfig(kubeconfig)
    command = [str(HOME / "bin" / "spark-submit"), "--deploy-mode", SPARK["mode"]]
    command += ["--master", f"k8s://https://127.0.0.1:{cluster.server.port}", "--name", "kraftwatch"]
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [*command, SPARK["mainApplicationFile"], *SPARK["arguments"]],
        cwd=cluster.folder,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]


def write_template(folder: Path, role: str) -> Path:
    """Writes a pod with what the operator adds to the pods of this role."""
    spec = SPARK[role]
    mounts = spec.get("volumeMounts", [])
    mounted = {each["name"] for each in mounts}
    container = {
        "name": f"spark-kubernetes-{role}",
        "securityContext": spec["securityContext"],
        "ports": spec.get("ports", []),
        "volumeMounts": mounts,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "securityContext": spec["podSecurityContext"],
            "volumes": [each for each in SPARK["volumes"] if each["name"] in mounted],
            "containers": [container],
        },
    }
    file = folder / f"{role}.yaml"
    file.write_text(yaml.safe_dump(pod))
    return file


def test_driver_and_executors_run_from_the_image_in_pods_that_spark_creates(cluster: Cluster) -> None:
    submit(cluster)
    eventually(lambda: assert_ready(cluster), within_s=240, every_s=1)
    driver, first = cluster.pod("driver"), cluster.pod("executor")

    cluster.lab.pause(*cluster.lab.controllers[:2])
    try:
        eventually(lambda: "firing" in cluster.alerts("no-leader"), within_s=120)
        cluster.delete(first)
        second = eventually(lambda: another(cluster, first), within_s=120, every_s=1)
        cluster.runner.crash(second["metadata"]["name"])
        third = eventually(lambda: another(cluster, second), within_s=120, every_s=1)
    finally:
        cluster.lab.resume(*cluster.lab.controllers[:2])
    eventually(lambda: cluster.alerts("no-leader")[-1] == "resolved", within_s=120)
    assert_ready(cluster)
    assert (uid(cluster.pod("driver")), uid(cluster.pod("executor"))) == (uid(driver), uid(third))

    cluster.delete(driver)
    name = driver["metadata"]["name"]
    eventually(lambda: name in cluster.runner.exit_codes, within_s=60)
    assert cluster.runner.exit_codes[name] == 0, cluster.runner.log(name)[-3_000:]
    eventually(lambda: cluster.all_pods() == [], within_s=60)
    assert_least_rights(cluster)


def assert_ready(cluster: Cluster) -> None:
    """Asserts that the job's page, at the address of the driver's pod, says that the job evaluates."""
    drivers = cluster.pods("driver")
    assert drivers, "no driver"
    trusting = ssl.create_default_context(cafile=cluster.authority)
    # The certificate is for 127.0.0.1, not for the addresses of pods.
    trusting.check_hostname = False
    url = f"https://{drivers[0]['status']['podIP']}:{cluster.page}/readyz"
    try:
        with closing(urllib.request.urlopen(url, timeout=5, context=trusting)) as answer:
            assert answer.status == 200
    except OSError as problem:
        log = cluster.runner.log(drivers[0]["metadata"]["name"])
        raise AssertionError(f"{problem}: {log[-3_000:]}") from None


def another(cluster: Cluster, pod: Object) -> Object:
    """Returns the running executor that replaces a deleted one."""
    found = cluster.pods("executor")
    assert len(found) == 1
    assert uid(found[0]) != uid(pod)
    return found[0]


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def assert_least_rights(cluster: Cluster) -> None:
    """Asserts that the driver may do all that it asks for, and nothing else, and that executors ask for nothing."""
    assert [*cluster.server.requests_of(NAMESPACE, SPARK["executor"]["serviceAccount"])] == []
    requests = [*cluster.server.requests_of(NAMESPACE, SPARK["driver"]["serviceAccount"])]
    assert [each for each in requests if each.status == 403] == []
    used = {(each.resource, each.verb) for each in requests}
    rules = of_kind("Role", SPARK_JOB)["rules"]
    given = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert used == given
