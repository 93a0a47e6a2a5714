"""The manifests are valid by Kubernetes' schemas and consistent, and the ConfigMap is a valid configuration."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from streaming.config import load
from streaming.config.exposure import open_page
from streaming.web.application import START_S

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "deploy" / "kubernetes"
OLDEST, NEWEST = "1.29", "1.36"

Manifest = dict[str, Any]


def manifests() -> list[Manifest]:
    return [each for file in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def of_kind(kind: str) -> Manifest:
    (one,) = (each for each in manifests() if each["kind"] == kind)
    return one


def policies() -> list[Manifest]:
    return [each for each in manifests() if each["kind"] == "NetworkPolicy"]


def validate(manifest: Manifest, version: str) -> None:
    """Kinds of operators have no schema here."""
    if manifest["kind"] not in ("PodMonitor", "SparkApplication"):
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: each["kind"])
def test_manifest_is_valid(manifest: Manifest, version: str) -> None:
    validate(manifest, version)


def test_config_map_is_a_valid_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stateful = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    mounted = {each["name"]: each["mountPath"] for each in stateful["volumeMounts"]}
    text = of_kind("ConfigMap")["data"]["kraftwatch.yaml"]
    secrets = of_kind("Secret")["stringData"]
    for name, value in secrets.items():
        (tmp_path / name).write_text(value)
    file = tmp_path / "kraftwatch.yaml"
    assert f"{mounted['secrets']}/password" in text
    file.write_text(text.replace(mounted["secrets"], str(tmp_path)))

    config = load(file)

    assert str(config.checkpoint).startswith(mounted["checkpoint"])
    assert config.listen == f"0.0.0.0:{stateful['ports'][0]['containerPort']}"
    assert str(config.clusters[0].ssl_cafile) == str(tmp_path / "ca.pem")
    assert open_page(config) is None, "other machines reach the page: it needs a certificate and a token"


def test_probes_and_prometheus_use_tls_and_prometheus_the_token() -> None:
    (container,) = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    config = yaml.safe_load(of_kind("ConfigMap")["data"]["kraftwatch.yaml"])
    secret, (endpoint,) = of_kind("Secret"), of_kind("PodMonitor")["spec"]["podMetricsEndpoints"]
    service = of_kind("Service")["metadata"]
    named = {key: Path(config[key]).name for key in ("listen_certfile", "listen_keyfile", "listen_token_file")}

    assert [container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")] == (
        ["HTTPS"] * 3
    )
    assert set(named.values()) <= set(secret["stringData"])
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "kraftwatch", "key": named["listen_certfile"]}
    assert endpoint["tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"
    assert endpoint["authorization"]["credentials"] == {"name": "kraftwatch", "key": named["listen_token_file"]}


def test_prometheus_scrapes_the_pod_under_the_job_name_of_the_alert_rules() -> None:
    """Without jobLabel the operator's name is NAMESPACE/NAME: KraftwatchAbsent would fire for ever."""
    labels = of_kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    job = labels[of_kind("PodMonitor")["spec"]["jobLabel"]]

    assert f'up{{job="{job}"}}' in (ROOT / "deploy" / "prometheus" / "kraftwatch-health.rules.yml").read_text()


def test_stateful_set_has_one_replica_probes_and_a_restricted_container() -> None:
    stateful = of_kind("StatefulSet")["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]

    assert stateful["replicas"] == 1
    assert [each["metadata"]["name"] for each in stateful["volumeClaimTemplates"]] == ["checkpoint"]
    assert {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")} == {
        "startup": "/readyz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= START_S
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    volumes = {
        each["name"] for each in (*pod["volumes"], *(each["metadata"] for each in stateful["volumeClaimTemplates"]))
    }
    assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_all_selectors_match_the_pod() -> None:
    labels = of_kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        of_kind("StatefulSet")["spec"]["selector"]["matchLabels"],
        of_kind("Service")["spec"]["selector"],
        *(each["spec"]["podSelector"]["matchLabels"] for each in policies()),
        of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind("PodMonitor")["spec"]["selector"]["matchLabels"],
    ]

    assert all(selector.items() <= labels.items() for selector in selectors)
    assert of_kind("SparkApplication")["spec"]["driver"]["labels"] == labels


def test_driver_and_executors_are_restricted_as_the_container_is() -> None:
    pod = of_kind("StatefulSet")["spec"]["template"]["spec"]
    spark = of_kind("SparkApplication")["spec"]

    for each in (spark["driver"], spark["executor"]):
        assert each["podSecurityContext"].items() <= pod["securityContext"].items()
        assert each["securityContext"].items() <= pod["containers"][0]["securityContext"].items()
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_network_policy_allows_driver_executors_and_api_server() -> None:
    spark = of_kind("SparkApplication")["spec"]
    each_other = [{"podSelector": {"matchLabels": spark["driver"]["labels"]}}]
    ingress = [rule for each in policies() for rule in each["spec"]["ingress"]]
    egress = [rule for each in policies() for rule in each["spec"]["egress"]]

    assert spark["executor"]["labels"] == spark["driver"]["labels"]
    assert {"from": each_other} in ingress
    assert {"to": each_other} in egress
    assert {443, 6443} <= {port["port"] for rule in egress if "to" not in rule for port in rule["ports"]}
