"""The manifests of deploy/kubernetes, and their validation against the schemas of Kubernetes."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

ROOT = Path(__file__).parents[4]


FOLDER = ROOT / "deploy" / "kubernetes"


OLDEST, NEWEST = "1.29", "1.36"


Manifest = dict[str, Any]


FILES: dict[str, list[Manifest]] = {
    file.name: [*yaml.safe_load_all(file.read_text())] for file in sorted(FOLDER.glob("*.yaml"))
}


JOB, RELAY, SPARK_JOB = "kraftwatch.yaml", "relay.yaml", "sparkapplication.yaml"


def of_kind(kind: str, file: str = JOB) -> Manifest:
    (one,) = all_of_kind(kind, file)
    return one


def all_of_kind(kind: str, file: str) -> list[Manifest]:
    """Copies: a test may change them."""
    return [deepcopy(each) for each in FILES[file] if each["kind"] == kind]


STATEFUL = of_kind("StatefulSet")["spec"]


POD_MONITOR = of_kind("PodMonitor", "podmonitor.yaml")


SPARK = of_kind("SparkApplication", SPARK_JOB)["spec"]


def selectors(manifests: Iterable[Manifest]) -> Iterator[dict[str, str]]:
    """Yields the labels with which each manifest selects pods."""
    for spec in (each.get("spec", {}) for each in manifests):
        if found := spec.get("podSelector") or spec.get("selector"):
            either = {each["key"]: each["values"][0] for each in found.get("matchExpressions", ())}
            yield {**found.get("matchLabels", {} if either else found), **either}


def validate(manifest: Manifest, version: str) -> None:
    """Kinds of operators have no schema here."""
    if manifest["kind"] not in ("PodMonitor", "PrometheusRule", "SparkApplication"):
        kubernetes_validate.validate(manifest, version, strict=True)
