"""The recipes of the witness: a DaemonSet for nodes that run controllers, and a sidecar of controllers in pods."""

import pytest
import yaml

from tests.unit.command_line import parse_command
from tests.unit.deploy.recipes.manifests import FOLDER, NEWEST, OLDEST, Manifest, of_kind, validate

FILE = "witness.yaml"
POD = of_kind("DaemonSet", FILE)["spec"]["template"]["spec"]
SIDECAR = yaml.safe_load((FOLDER / "patches" / "witness-sidecar.yaml").read_text())
ADDED = SIDECAR["spec"]["template"]["spec"]
KAFKA = yaml.safe_load(
    """
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: controller, namespace: kafka}
    spec:
      serviceName: controllers
      selector: &selector {matchLabels: {app: controller}}
      template:
        metadata: {labels: {app: controller}}
        spec:
          containers: [{name: kafka, image: kafka}]
          volumes: [{name: config, configMap: {name: controller}}]
      volumeClaimTemplates:
      - metadata: {name: data}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
    """
)


def patched() -> Manifest:
    """Returns a StatefulSet of controllers with the sidecar: lists are joined, as their elements have other names."""
    spec = KAFKA["spec"]["template"]["spec"]
    spec = {name: [*spec[name], *ADDED[name]] for name in ("containers", "volumes")}
    template = {**KAFKA["spec"]["template"], "spec": spec}
    return {**KAFKA, "spec": {**KAFKA["spec"], "template": template}}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_sidecar_is_valid_in_a_pod_of_controllers(version: str) -> None:
    validate(patched(), version)
    assert SIDECAR["metadata"] == KAFKA["metadata"]
    claims = [each["metadata"]["name"] for each in KAFKA["spec"]["volumeClaimTemplates"]]
    volumes = {*claims, *(each["name"] for each in patched()["spec"]["template"]["spec"]["volumes"])}
    (container,) = ADDED["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_both_run_the_same_command_with_the_token_of_their_secret() -> None:
    (container,), (beside,) = POD["containers"], ADDED["containers"]
    for each in (container, beside):
        parse_command(each["args"])
        mounted = {one["mountPath"]: one for one in each["volumeMounts"]}
        token = each["args"][each["args"].index("--token-file") + 1]
        assert token.rpartition("/")[0] in mounted
        assert token.rpartition("/")[2] in of_kind("Secret", FILE)["stringData"]
        assert [place for place, one in mounted.items() if not one.get("readOnly")] == ["/tmp"]
    for key in ("image", "args", "resources", "securityContext"):
        assert container[key] == beside[key]


def test_the_daemon_set_has_the_network_and_the_resolver_of_its_host() -> None:
    assert (POD["hostNetwork"], POD["dnsPolicy"], POD["securityContext"]["runAsNonRoot"]) == (True, "Default", True)
    assert {each["name"] for each in POD["volumes"]} == {each["name"] for each in POD["containers"][0]["volumeMounts"]}
    paths = {each["name"]: each["hostPath"]["path"] for each in POD["volumes"] if "hostPath" in each}
    mounts = {each["name"]: each["mountPath"] for each in POD["containers"][0]["volumeMounts"]}
    assert paths == {name: mounts[name] for name in paths}, "the properties name paths of the host"
