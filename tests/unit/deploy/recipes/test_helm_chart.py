"""The Helm chart: rendered by helm, valid by Kubernetes' schemas, and the same as the manifests in deploy/kubernetes.

`make helm` builds the pinned helm; without it these tests are skipped.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.config import load
from streaming.config.exposure import open_page
from tests.unit.deploy.recipes.helm_chart import CHART, EVERYTHING, HELM, ROOT, SINKS, helm_template, rendered
from tests.unit.deploy.recipes.manifests import (
    NEWEST,
    OLDEST,
    POD_MONITOR,
    RELAY,
    STATEFUL,
    of_kind,
    selectors,
    validate,
)

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is missing: `make helm` builds it")


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "every value"])
def test_rendered_manifests_are_valid(tmp_path: Path, values: dict[str, Any], version: str) -> None:
    for manifest in rendered(tmp_path, values, version).values():
        validate(manifest, version)


def test_defaults_render_the_manifests_of_the_kubernetes_folder(tmp_path: Path) -> None:
    """Apart from labels: there is one description of how the job runs on Kubernetes."""
    manifests = rendered(tmp_path, {"podMonitor": {"enabled": True}})

    ours, theirs = (each["template"]["spec"] for each in (manifests["StatefulSet"]["spec"], STATEFUL))
    ours["containers"][0].pop("imagePullPolicy")
    assert ours == theirs
    assert not [name for name in manifests if name.endswith("-relay")]
    for key in ("replicas", "serviceName", "volumeClaimTemplates"):
        assert manifests["StatefulSet"]["spec"][key] == STATEFUL[key]
    audit, theirs = (each["jobTemplate"]["spec"] for each in (manifests["CronJob"]["spec"], of_kind("CronJob")["spec"]))
    for each in (audit["template"], theirs["template"]):
        each.pop("metadata")
        (affinity,) = each["spec"].pop("affinity")["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert affinity["topologyKey"] == "kubernetes.io/hostname"
        each["spec"]["containers"][0].pop("imagePullPolicy", None)
    assert audit == theirs
    assert yaml.safe_load(manifests["ConfigMap"]["data"]["kraftwatch.yaml"])["listen"] == "0.0.0.0:9847"
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "kraftwatch.yaml").read_text())
    (policy,) = (each for each in documents if each["kind"] == "NetworkPolicy")
    assert manifests["NetworkPolicy"]["spec"]["ingress"] == policy["spec"]["ingress"]
    assert manifests["NetworkPolicy"]["spec"]["egress"] == policy["spec"]["egress"]
    for key in ("jobLabel", "podMetricsEndpoints"):
        assert manifests["PodMonitor"]["spec"][key] == POD_MONITOR["spec"][key]


def test_every_value_has_an_effect(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, EVERYTHING)
    stateful = manifests["StatefulSet"]["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    (claim,) = stateful["volumeClaimTemplates"]
    policy = manifests["NetworkPolicy"]["spec"]

    assert (container["image"], container["imagePullPolicy"]) == ("registry.example/kraftwatch:1.2.3", "Always")
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each} == {"own-secret"}
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    assert container["env"] == EVERYTHING["env"]
    assert stateful["template"]["metadata"]["annotations"] == {"a": "b"}
    assert stateful["template"]["metadata"]["labels"]["team"] == "kafka"
    for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod[key] == EVERYTHING[key]
    assert manifests["ServiceAccount"]["metadata"]["annotations"] == {"c": "d"}
    assert manifests["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 0
    assert len(policy["ingress"]) == 2
    assert policy["egress"][-1] == {"ports": [{"port": 443, "protocol": "TCP"}]}
    inside, outside = policy["egress"][1:3]
    names = [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in inside["to"]]
    assert (names, [each["port"] for each in inside["ports"]]) == (["kafka-a", "kafka-b"], [9090, 9091])
    assert [peer["ipBlock"]["cidr"] for peer in outside["to"]] == ["10.1.2.0/24", "fd00::/64"]
    assert outside["ports"] == [{"port": 9093, "protocol": "TCP"}]
    relay = manifests["StatefulSet-relay"]["spec"]
    (relaying,) = relay["template"]["spec"]["containers"]
    assert (relay["replicas"], relaying["args"][-1]) == (1, "--only=prod,a-*")
    assert relaying["resources"]["limits"]["memory"] == "1Gi"
    assert relay["volumeClaimTemplates"][0]["spec"]["resources"]["requests"] == {"storage": "3Gi"}
    assert manifests["PodMonitor"]["metadata"]["labels"]["release"] == "prometheus"
    assert manifests["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["interval"] == "30s"
    audit = manifests["CronJob"]["spec"]
    assert audit["schedule"] == "5 4 * * 0"
    audit_pod = audit["jobTemplate"]["spec"]["template"]["spec"]
    (audit_container,) = audit_pod["containers"]
    assert "--newest 900 --record" in audit_container["command"][-1]
    assert audit_container["resources"]["requests"]["cpu"] == "10m"
    assert (audit_pod["imagePullSecrets"], audit_pod["tolerations"]) == (pod["imagePullSecrets"], pod["tolerations"])
    rules = manifests["PrometheusRule"]
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    assert [group["name"] for group in rules["spec"]["groups"]] == ["kraftwatch-health", "kraftwatch-quorum"]
    runbooks = [rule["annotations"]["runbook_url"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert {url.partition("/docs/")[0] for url in runbooks} == {"https://own.example"}
    dashboard = manifests["ConfigMap-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "yes"
    original = ROOT / "deploy" / "grafana" / "kraftwatch.json"
    assert json.loads(dashboard["data"]["kraftwatch.json"]) == json.loads(original.read_text())
    assert EVERYTHING.keys() | {"config", "resources"} == yaml.safe_load((CHART / "values.yaml").read_text()).keys()


def test_selectors_match_their_pods(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, EVERYTHING)
    pods = {
        of_relay: manifests[f"StatefulSet{of_relay}"]["spec"]["template"]["metadata"]["labels"]
        for of_relay in ("", "-relay")
    }
    for name, manifest in manifests.items():
        if name == "CronJob":
            continue
        for selector in selectors([manifest]):
            mine = pods["-relay" if name.endswith("-relay") else ""]
            assert selector.items() <= mine.items()
            both = all(selector.items() <= labels.items() for labels in pods.values())
            assert both == (name == "NetworkPolicy"), "a service of the job has no relay behind it"
            assert "app.kubernetes.io/instance" in selector, "two releases in one namespace do not select each other"


def test_a_relay_of_the_chart_is_that_of_the_kubernetes_folder(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, {"relays": [{"name": "east"}], "job": {"enabled": False}})
    ours, theirs = (one["spec"] for one in (manifests["StatefulSet-relay"], of_kind("StatefulSet", RELAY)))
    pods = [one["template"]["spec"] for one in (ours, theirs)]
    for pod in pods:
        pod.pop("serviceAccountName", None)
        pod.pop("topologySpreadConstraints")
        pod.pop("volumes")
        for key in ("args", "imagePullPolicy"):
            pod["containers"][0].pop(key, None)
    assert pods[0] == pods[1]
    assert (ours["replicas"], ours["volumeClaimTemplates"]) == (theirs["replicas"], theirs["volumeClaimTemplates"])
    assert "StatefulSet" not in manifests


def test_a_standby_has_a_checkpoint_of_its_own_on_another_node(tmp_path: Path) -> None:
    values = {"job": {"enabled": True, "replicas": 2}, "config": {**SINKS["config"], "source": "gatherer"}}
    manifests = rendered(tmp_path, values)
    stateful = manifests["StatefulSet"]["spec"]
    assert (stateful["replicas"], stateful["podManagementPolicy"]) == (2, "Parallel")
    (spread,) = stateful["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= stateful["template"]["metadata"]["labels"].items()
    assert [claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]] == ["checkpoint"]
    (near,) = manifests["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert near["labelSelector"]["matchLabels"]["statefulset.kubernetes.io/pod-name"] == "kraftwatch-0"


def test_two_jobs_that_share_no_store_are_refused(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"job": {"replicas": 2}}))
    ran = helm_template("kraftwatch", "--values", str(tmp_path / "values.yaml"))
    assert "job.replicas: 2 needs store in config: two jobs without one would both notify" in ran.stderr


@pytest.mark.parametrize("arguments", [["--set", "openshift=true"], ["--api-versions", "security.openshift.io/v1"], []])
def test_user_and_group_are_left_to_openshift(arguments: list[str]) -> None:
    ran = helm_template("kraftwatch", "--set", "relays[0].name=east", *arguments)
    assert ran.returncode == 0, ran.stderr
    manifests = [one for one in yaml.safe_load_all(ran.stdout) if one is not None]
    pods = [one["spec"]["template"]["spec"] for one in manifests if one["kind"] == "StatefulSet"]
    pods += [one["spec"]["jobTemplate"]["spec"]["template"]["spec"] for one in manifests if one["kind"] == "CronJob"]
    assert len(pods) == 3
    left = {"runAsNonRoot", "fsGroupChangePolicy", "seccompProfile"}
    own = set() if arguments else {"runAsUser", "runAsGroup", "fsGroup"}
    assert [{*pod["securityContext"]} for pod in pods] == [left | own] * 3


def test_network_policy_lets_through_what_the_configuration_names(tmp_path: Path) -> None:
    rules = rendered(tmp_path, SINKS)["NetworkPolicy"]["spec"]["egress"]
    ports = (4318, 443, 5432, 8080, 9094, 9095, 9096)
    assert rules[-1] == {"ports": [{"port": one, "protocol": "TCP"} for one in ports]}


def test_config_map_of_the_chart_is_a_valid_configuration(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, {"config": {"maintenance": [], "master": "local[1]"}})
    text = manifests["ConfigMap"]["data"]["kraftwatch.yaml"]
    for name in ("password", "page-token", "page-read-token", "page.crt", "page.key", "ca.pem"):
        (tmp_path / name).write_text("x")
    (tmp_path / "kraftwatch.yaml").write_text(text.replace("/etc/kraftwatch-secrets", str(tmp_path)))

    config = load(tmp_path / "kraftwatch.yaml")

    assert (str(config.checkpoint), config.master) == ("/var/lib/kraftwatch/checkpoint", "local[1]")
    assert open_page(config) is None, "other machines reach the page: it needs a certificate and a token"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"imgae": {}}, "imgae"),
        ({"image": {"tga": "1"}}, "tga"),
        ({"config": {"listen": "0.0.0.0:1"}}, "config"),
        ({"config": {"clusters": []}}, "clusters"),
        ({"persistence": {"size": "ten"}}, "size"),
        ({"persistence": {"accessModes": ["ReadWriteMany"]}}, "accessModes"),
        ({"existingSecret": ""}, "existingSecret"),
        ({"relays": [{"name": "East"}]}, "name"),
        ({"relays": [{"name": "east", "replicas": 3}]}, "replicas"),
        ({"maxUnavailable": 2}, "maxUnavailable"),
        ({"job": {"enabled": True, "replicas": 3}}, "replicas"),
        ({"networkPolicy": {"enabled": True, "kafkaPort": 9093}}, "kafkaPort"),
        ({"networkPolicy": {"kafka": [{"namespaces": ["kafka"], "ports": ["9093"]}]}}, "ports"),
        ({"networkPolicy": {"kafka": [{"ports": [9093]}]}}, "namespaces"),
        ({"networkPolicy": {"kafka": [{"ipBlocks": ["10.1.2.3"], "ports": [9093]}]}}, "ipBlocks"),
    ],
)
def test_invalid_value_is_refused_with_its_name(tmp_path: Path, values: dict[str, Any], named: str) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))

    ran = helm_template("kraftwatch", "--values", str(tmp_path / "values.yaml"))

    assert ran.returncode != 0
    assert named in ran.stderr


def test_release_whose_name_is_too_long_for_a_relay_is_refused_with_the_limit(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"relays": [{"name": "west-0123456789-abcd"}]}))

    accepted, refused = (
        helm_template(release, "--values", str(tmp_path / "values.yaml")) for release in ("a" * 14, "a" * 15)
    )

    assert (accepted.returncode, refused.returncode) == (0, 1)
    assert "53 characters, of which Kubernetes allows 52" in refused.stderr
