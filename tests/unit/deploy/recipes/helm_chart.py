"""The Helm chart, rendered by helm."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.unit.deploy.recipes.manifests import (
    NEWEST,
    Manifest,
)

ROOT = Path(__file__).parents[4]


CHART = ROOT / "deploy" / "helm" / "kraftwatch"


_BUILT = Path(sys.executable).with_name("helm")


HELM = str(_BUILT) if _BUILT.exists() else shutil.which("helm")


EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example/kraftwatch", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "existingSecret": "own-secret",
    "persistence": {"size": "20Gi", "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "kafka"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "serviceAccount": {"annotations": {"c": "d"}},
    "openshift": True,
    "maxUnavailable": 0,
    "networkPolicy": {
        "enabled": True,
        "ingressNamespaces": ["monitoring", "ingress"],
        "kafka": [
            {"namespaces": ["kafka-a", "kafka-b"], "ports": [9090, 9091]},
            {"ipBlocks": ["10.1.2.0/24", "fd00::/64"], "ports": [9093]},
        ],
        "fromConfig": True,
        "extraEgress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
    },
    "job": {"enabled": True},
    "relays": [{"name": "east", "only": ["prod", "a-*"], "replicas": 1}],
    "relay": {"size": "3Gi", "resources": {"limits": {"memory": "1Gi"}}},
    "audit": {"enabled": True, "schedule": "5 4 * * 0", "newest": 900, "resources": {"requests": {"cpu": "10m"}}},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"},
    "prometheusRule": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "quorum": True,
        "docsUrl": "https://own.example/docs/",
    },
    "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "yes"}},
}
"""A value of every key that the chart has."""


SINKS: dict[str, Any] = {
    "config": {
        "source": "kafka",
        "clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}],
        "relay": {"bootstrap": ["k1:9094", "k2:9095"], "topic": "t"},
        "store": "postgresql://me@db.databases/kraftwatch",
        "sinks": [
            "console",
            "kafka:k3:9096/alerts",
            {"slack": {"webhook_file": "/s"}},
            "webhook:http://w.example:8080/x",
        ],
        "heartbeat": {"url": "https://beat.example/1"},
        "otlp": {"url": "http://otel.example:4318/v1/metrics"},
    },
    "networkPolicy": {"enabled": True, "kafka": [{"namespaces": ["kafka"], "ports": [9093]}]},
}
"""A configuration that names other ports than those of controllers."""


def helm_template(release: str, *arguments: str, version: str = NEWEST) -> subprocess.CompletedProcess[str]:
    """A helm that Go has built takes the cluster for Kubernetes 1.20 unless --kube-version names another."""
    assert HELM is not None
    command = [HELM, "template", release, str(CHART), "--kube-version", version, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def template(folder: Path, values: dict[str, Any], version: str = NEWEST, *, release: str = "kraftwatch") -> str:
    """Returns the manifests as YAML. The namespace is that of the release's name."""
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    ran = helm_template(release, "--namespace", release, "--values", str(folder / "values.yaml"), version=version)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rendered(folder: Path, values: dict[str, Any], version: str = NEWEST) -> dict[str, Manifest]:
    """The manifests by kind; those of the relay or the dashboard by kind and `-relay` or `-dashboard`."""
    manifests = [each for each in yaml.safe_load_all(template(folder, values, version)) if each is not None]
    suffixes = ("-relay", "-dashboard")
    names = [
        (each["kind"], next((one for one in suffixes if one in each["metadata"]["name"]), "")) for each in manifests
    ]
    assert len({*names}) == len(manifests)
    return {kind + of_relay: each for (kind, of_relay), each in zip(names, manifests, strict=True)}
