"""The manifests are valid by Kubernetes' schemas and consistent, and the ConfigMap is a valid configuration."""

from collections.abc import Iterable, Iterator
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


MANIFESTS: list[Manifest] = [
    each for file in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())
]


def of_kind(kind: str) -> Manifest:
    (one,) = (each for each in MANIFESTS if each["kind"] == kind)
    return one


STATEFUL = of_kind("StatefulSet")["spec"]
LABELS = STATEFUL["template"]["metadata"]["labels"]
POD = STATEFUL["template"]["spec"]
(CONTAINER,) = POD["containers"]
PROBES = {kind: CONTAINER[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
SPARK = of_kind("SparkApplication")["spec"]
POLICIES = [each for each in MANIFESTS if each["kind"] == "NetworkPolicy"]
CONFIG: str = of_kind("ConfigMap")["data"]["kraftwatch.yaml"]


def selectors(manifests: Iterable[Manifest]) -> Iterator[dict[str, str]]:
    """Yields the labels with which each manifest selects pods."""
    for spec in (each.get("spec", {}) for each in manifests):
        if found := spec.get("podSelector") or spec.get("selector"):
            yield found.get("matchLabels", found)


def validate(manifest: Manifest, version: str) -> None:
    """Kinds of operators have no schema here."""
    if manifest["kind"] not in ("PodMonitor", "SparkApplication"):
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: each["kind"])
def test_manifest_is_valid(manifest: Manifest, version: str) -> None:
    validate(manifest, version)


def test_config_map_is_a_valid_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}
    secrets = of_kind("Secret")["stringData"]
    for name, value in secrets.items():
        (tmp_path / name).write_text(value)
    file = tmp_path / "kraftwatch.yaml"
    assert f"{mounted['secrets']}/password" in CONFIG
    file.write_text(CONFIG.replace(mounted["secrets"], str(tmp_path)))

    config = load(file)

    assert str(config.checkpoint).startswith(mounted["checkpoint"])
    assert config.listen == f"0.0.0.0:{CONTAINER['ports'][0]['containerPort']}"
    assert str(config.clusters[0].ssl_cafile) == str(tmp_path / "ca.pem")
    assert open_page(config) is None, "other machines reach the page: it needs a certificate and a token"


def test_probes_and_prometheus_use_tls_and_prometheus_the_token() -> None:
    config = yaml.safe_load(CONFIG)
    secret, (endpoint,) = of_kind("Secret"), of_kind("PodMonitor")["spec"]["podMetricsEndpoints"]
    service = of_kind("Service")["metadata"]
    named = {key: Path(config[key]).name for key in ("listen_certfile", "listen_keyfile", "listen_token_file")}

    assert {each["scheme"] for each in PROBES.values()} == {"HTTPS"}
    assert set(named.values()) <= set(secret["stringData"])
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "kraftwatch", "key": named["listen_certfile"]}
    assert endpoint["tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"
    assert endpoint["authorization"]["credentials"] == {"name": "kraftwatch", "key": named["listen_token_file"]}


def test_prometheus_scrapes_the_pod_under_the_job_name_of_the_alert_rules() -> None:
    """Without jobLabel the operator's name is NAMESPACE/NAME: KraftwatchAbsent would fire for ever."""
    job = LABELS[of_kind("PodMonitor")["spec"]["jobLabel"]]

    assert f'up{{job="{job}"}}' in (ROOT / "deploy" / "prometheus" / "kraftwatch-health.rules.yml").read_text()


def test_stateful_set_has_one_replica_probes_and_a_restricted_container() -> None:
    claims = [each["metadata"]["name"] for each in STATEFUL["volumeClaimTemplates"]]
    startup = CONTAINER["startupProbe"]

    assert (STATEFUL["replicas"], claims) == (1, ["checkpoint"])
    assert [each["path"] for each in PROBES.values()] == ["/readyz", "/healthz", "/readyz"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= START_S
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    volumes = {*claims, *(each["name"] for each in POD["volumes"])}
    assert {each["name"] for each in CONTAINER["volumeMounts"]} == volumes


def test_all_selectors_match_the_pod() -> None:
    found = [*selectors(MANIFESTS)]

    assert len(found) == 4 + len(POLICIES)
    assert all(selector.items() <= LABELS.items() for selector in found)
    assert SPARK["driver"]["labels"] == LABELS


def test_driver_and_executors_are_restricted_as_the_container_is() -> None:
    for each in (SPARK["driver"], SPARK["executor"]):
        assert each["podSecurityContext"].items() <= POD["securityContext"].items()
        assert each["securityContext"].items() <= CONTAINER["securityContext"].items()
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_network_policy_allows_driver_executors_and_api_server() -> None:
    each_other = [{"podSelector": {"matchLabels": LABELS}}]
    ingress, egress = ([rule for each in POLICIES for rule in each["spec"][way]] for way in ("ingress", "egress"))

    assert SPARK["executor"]["labels"] == LABELS
    assert {"from": each_other} in ingress
    assert {"to": each_other} in egress
    assert {443, 6443} <= {port["port"] for rule in egress if "to" not in rule for port in rule["ports"]}
