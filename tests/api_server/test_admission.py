"""Kubernetes' API server admits the manifests and what the chart renders, without a warning, and the pods of both.

The namespaces have the label of deploy/kubernetes: Pod Security admission refuses a pod that is not `restricted`. No
controller runs, so the tests create the pods of the workloads as the controllers would.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api_server.real_api_server import ADMITTED, API_SERVER, DEFINITIONS, RealApiServer
from tests.unit.deploy.recipes.helm_chart import EVERYTHING, HELM, SINKS, template
from tests.unit.deploy.recipes.manifests import FOLDER, Manifest
from tests.unit.deploy.recipes.strimzi_manifests import CHECK, POLICY, USER, VALUES

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not API_SERVER.exists(), reason="kube-apiserver is missing: `make api-server` builds it"),
]


def documents(text: str) -> list[str]:
    """Returns the YAML documents as they are written: a parsed one would hide a key that is there twice."""
    return [each for each in re.split(r"^---$", text, flags=re.MULTILINE) if yaml.safe_load(each) is not None]


MANIFESTS = {
    f"{file.stem}-{parsed['kind']}": text
    for file in sorted(FOLDER.glob("*.yaml"))
    for text in documents(file.read_text())
    for parsed in [yaml.safe_load(text)]
}
NAMESPACE, STATEFUL, AUDIT = (MANIFESTS[f"kraftwatch-{kind}"] for kind in ("Namespace", "StatefulSet", "CronJob"))
LONGEST = "a" * 53
"""Helm accepts no longer name of a release."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApiServer]:
    """With what the manifests expect: their namespace, and what administrators, operators and controllers create."""
    with RealApiServer(tmp_path_factory.mktemp("api-server")) as running:
        for text in (
            NAMESPACE,
            MANIFESTS["kraftwatch-ServiceAccount"],
            MANIFESTS["sparkapplication-ServiceAccount"],
            account("kraftwatch", "default"),
            yaml.safe_dump(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": EVERYTHING["priorityClassName"]},
                    "value": 1,
                }
            ),
        ):
            assert running.apply(text) == ADMITTED
        yield running


def labelled_namespace(name: str) -> str:
    return NAMESPACE.replace("name: kraftwatch", f"name: {name}")


def account(namespace: str, name: str) -> str:
    metadata = {"name": name, "namespace": namespace}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def admit(server: RealApiServer, text: str) -> None:
    """Asserts that the API server admits each pod of an object, and the object, in a dry run and for good."""
    manifest = yaml.safe_load(text)
    for pod in pods(manifest):
        assert server.apply(yaml.safe_dump(pod), dry_run=True) == ADMITTED
    if not server.knows(manifest):
        kind = f"{manifest['apiVersion']} {manifest['kind']}"
        pytest.skip(f"no definition of {kind}: copy that of its operator to {DEFINITIONS}")
    for dry_run in (True, False):
        assert server.apply(text, dry_run=dry_run) == ADMITTED


def pods(workload: Manifest) -> Iterator[Manifest]:
    """Yields a workload's pods as its controller creates them, with names and labels that are as long as its."""
    name, namespace = (workload["metadata"].get(key) for key in ("name", "namespace"))
    spec = workload.get("spec", {})
    match workload["kind"]:
        case "StatefulSet":
            claims = [each["metadata"]["name"] for each in spec["volumeClaimTemplates"]]
            pod = {"hostname": f"{name}-0", "subdomain": spec["serviceName"], **spec["template"]["spec"]}
            pod["volumes"] = [
                *pod["volumes"],
                *({"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{name}-0"}} for one in claims),
            ]
            own = {"controller-revision-hash": f"{name}-5d4f6b7c98", "statefulset.kubernetes.io/pod-name": f"{name}-0"}
            yield _pod(f"{name}-0", namespace, spec["template"], own, pod)
        case "CronJob":
            job, template = f"{name}-29999999", spec["jobTemplate"]["spec"]["template"]
            generated = f"{f'{job}-':.58}abcde"
            yield _pod(generated, namespace, template, {"batch.kubernetes.io/job-name": job}, template["spec"])
        case "Job":
            template = spec["template"]
            yield _pod(f"{name}-abcde", namespace, template, {"batch.kubernetes.io/job-name": name}, template["spec"])
        case "DaemonSet":
            template = spec["template"]
            yield _pod(f"{name}-abcde", namespace, template, {"controller-revision-hash": "1"}, template["spec"])
        case "SparkApplication" if workload["apiVersion"].startswith("spark.apache.org/"):
            for role in ("driver", "executor"):
                template = spec[f"{role}Spec"]["podTemplateSpec"]
                (container,) = template["spec"]["containers"]
                container = {**container, "image": spec["sparkConf"]["spark.kubernetes.container.image"]}
                yield _pod(f"{name}-{role}", namespace, template, {}, {**template["spec"], "containers": [container]})


def _pod(name: str, namespace: str, template: Manifest, labels: dict[str, str], spec: dict[str, Any]) -> Manifest:
    metadata = {**template["metadata"], "name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": {**metadata["labels"], **labels}},
        "spec": spec,
    }


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_is_admitted(server: RealApiServer, name: str) -> None:
    admit(server, MANIFESTS[name])


@pytest.mark.skipif(HELM is None, reason="helm is missing: `make helm` builds it")
@pytest.mark.parametrize(
    ("release", "values"),
    [
        ("defaults", {}),
        ("everything", EVERYTHING),
        ("relays-at-edge", {"relays": [{"name": "east"}, {"name": "west-0123456789-abcd"}], "job": {"enabled": False}}),
        ("sinks", SINKS),
        ("strimzi", VALUES),
        (LONGEST, {}),
    ],
)
def test_what_the_chart_renders_is_admitted(
    server: RealApiServer, tmp_path: Path, release: str, values: dict[str, Any]
) -> None:
    admit(server, labelled_namespace(release))

    for text in documents(template(tmp_path, values, release=release)):
        admit(server, text)


@pytest.mark.skipif(HELM is None, reason="helm is missing: `make helm` builds it")
def test_upgrade_changes_every_value_but_the_sizes_of_volumes(server: RealApiServer, tmp_path: Path) -> None:
    changed = {key: value for key, value in EVERYTHING.items() if key != "persistence"}
    changed["relay"] = {"resources": EVERYTHING["relay"]["resources"]}
    admit(server, labelled_namespace("upgrade"))
    for values in ({"relays": EVERYTHING["relays"]}, changed):
        for text in documents(template(tmp_path, values, release="upgrade")):
            admit(server, text)

    for volume in ({"persistence": {"size": "20Gi"}}, {"relay": {"size": "3Gi"}}):
        rendered = documents(template(tmp_path, {**changed, **volume}, release="upgrade"))
        (refused,) = {server.apply(text, dry_run=True) for text in rendered} - {ADMITTED}
        assert "updates to statefulset spec" in refused.message


@pytest.mark.parametrize("manifest", [POLICY, USER, CHECK], ids=lambda each: each["kind"])
def test_manifest_of_the_strimzi_page_is_admitted(server: RealApiServer, manifest: Manifest) -> None:
    admit(server, labelled_namespace(manifest["metadata"]["namespace"]))

    admit(server, yaml.safe_dump(manifest))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (STATEFUL.replace("  replicas: 1", "  replicsa: 1"), "replicsa"),
        (STATEFUL.replace("  replicas: 1", "  replicas: 1\n  replicas: 1"), "replicas"),
        (AUDIT.replace('"17 3 * * *"', '"17 3 * *"'), "schedule"),
        (MANIFESTS["podmonitor-PodMonitor"].replace("jobLabel", "jobLable"), "jobLable"),
    ],
    ids=["unknown field", "field that is there twice", "schedule", "unknown field of an operator's kind"],
)
def test_broken_manifest_is_refused_with_its_reason(server: RealApiServer, text: str, reason: str) -> None:
    answer = server.apply(text, dry_run=True)

    assert answer.status != 200
    assert reason in answer.message


def test_workload_whose_pods_are_not_restricted_is_noticed(server: RealApiServer) -> None:
    text = re.sub(r"\n +seccompProfile:\n +type: RuntimeDefault", "", STATEFUL)
    (pod,) = pods(yaml.safe_load(text))

    assert "seccompProfile" in server.apply(text, dry_run=True).warnings
    assert "seccompProfile" in server.apply(yaml.safe_dump(pod), dry_run=True).message
