"""The manifests are valid by Kubernetes' schemas and consistent, and the ConfigMap is a valid configuration."""

import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from streaming.config import Config, load
from streaming.config.exposure import open_page
from streaming.web.application import START_S
from tests.unit.command_line import parse_command
from tests.unit.deploy.recipes.manifests import (
    FILES,
    JOB,
    NEWEST,
    OLDEST,
    POD_MONITOR,
    RELAY,
    ROOT,
    SPARK,
    SPARK_JOB,
    STATEFUL,
    Manifest,
    all_of_kind,
    of_kind,
    selectors,
    validate,
)

MANIFESTS = [each for found in FILES.values() for each in found]


LABELS = STATEFUL["template"]["metadata"]["labels"]
POD = STATEFUL["template"]["spec"]
(CONTAINER,) = POD["containers"]
PROBES = {kind: CONTAINER[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
APACHE = of_kind("SparkApplication", "sparkapp.yaml")["spec"]
AUDIT = of_kind("CronJob")["spec"]["jobTemplate"]["spec"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['metadata']['name']}-{each['kind']}")
def test_manifest_is_valid(manifest: Manifest, version: str) -> None:
    validate(manifest, version)


def loaded(file: str, folder: Path, mounted: str = "/etc/kraftwatch-secrets") -> Config:
    """Returns the configuration in a file's ConfigMap, with the files of its Secret."""
    for name, value in of_kind("Secret", file)["stringData"].items():
        (folder / name).write_text(value)
    text = of_kind("ConfigMap", file)["data"]["kraftwatch.yaml"]
    (folder / "kraftwatch.yaml").write_text(text.replace(mounted, str(folder)))
    return load(folder / "kraftwatch.yaml")


@pytest.mark.parametrize("file", [JOB, RELAY, SPARK_JOB])
def test_config_map_is_a_valid_configuration(tmp_path: Path, file: str) -> None:
    config = loaded(file, tmp_path)
    assert open_page(config) is None, "other machines reach the page: it needs a certificate and a token"
    named = (config.listen_certfile, config.listen_token_file, config.listen_read_token_file)
    assert all(path.is_file() for path in named if path is not None)
    config.page_access().check_tokens()


def test_config_map_of_the_job_fits_its_pod(tmp_path: Path) -> None:
    mounted, config = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}, loaded(JOB, tmp_path)

    assert str(config.checkpoint).startswith(mounted["checkpoint"])
    assert config.listen == f"0.0.0.0:{CONTAINER['ports'][0]['containerPort']}"
    assert str(config.clusters[0].ssl_cafile) == str(tmp_path / "ca.pem")


def test_config_map_of_the_relay_fits_its_pod(tmp_path: Path) -> None:
    pod = of_kind("StatefulSet", RELAY)["spec"]["template"]["spec"]
    (container,), config = pod["containers"], loaded(RELAY, tmp_path)
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}

    assert config.relay is not None
    assert str(config.relay.folder).startswith(mounted["relay"])
    assert config.listen == f"0.0.0.0:{container['ports'][0]['containerPort']}" == container["args"][-1]
    assert (pod["securityContext"], container["securityContext"]) == (
        POD["securityContext"],
        CONTAINER["securityContext"],
    )


def test_driver_on_kubernetes_keeps_nothing(tmp_path: Path) -> None:
    config = loaded(SPARK_JOB, tmp_path)

    assert (config.source, config.spark_uri, config.store is not None) == ("kafka", "s3a://kraftwatch/a", True)
    assert str(config.work_dir).startswith("/tmp/")
    claims = [each for each in SPARK["volumes"] if "persistentVolumeClaim" in each]
    assert claims == []


@pytest.mark.parametrize("file", [JOB, RELAY, SPARK_JOB])
def test_network_policy_lets_through_what_the_configuration_names(tmp_path: Path, file: str) -> None:
    config = loaded(file, tmp_path)
    named = {address.rpartition(":")[2] for address in config.relay.bootstrap} if config.relay else set()
    if config.store is not None:
        named.add(str(urlsplit(config.store).port))
    if config.spark_uri is not None:
        named.add("443")
    if config.source == "gatherer":
        named |= {address.rpartition(":")[2] for one in config.clusters for address in one.bootstrap}
    rules = of_kind("NetworkPolicy", file)["spec"]["egress"]

    assert named <= {str(port["port"]) for rule in rules for port in rule.get("ports", ())}


def test_probes_and_prometheus_use_tls_and_prometheus_the_token_that_reads() -> None:
    config = yaml.safe_load(of_kind("ConfigMap")["data"]["kraftwatch.yaml"])
    secret, (endpoint,) = of_kind("Secret"), POD_MONITOR["spec"]["podMetricsEndpoints"]
    service = of_kind("Service")["metadata"]
    named = {key: Path(config[key]).name for key in ("listen_certfile", "listen_keyfile", "listen_read_token_file")}

    assert {each["scheme"] for each in PROBES.values()} == {"HTTPS"}
    assert set(named.values()) <= set(secret["stringData"])
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "kraftwatch", "key": named["listen_certfile"]}
    assert endpoint["tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"
    assert endpoint["authorization"]["credentials"] == {"name": "kraftwatch", "key": named["listen_read_token_file"]}


def test_prometheus_scrapes_the_pod_under_the_job_name_of_the_alert_rules() -> None:
    """Without jobLabel the operator's name is NAMESPACE/NAME: KraftwatchAbsent would fire for ever."""
    job = LABELS[POD_MONITOR["spec"]["jobLabel"]]

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


def test_the_audit_runs_beside_the_job_and_is_restricted_as_it_is() -> None:
    pod = AUDIT["template"]["spec"]
    (container,) = pod["containers"]
    (beside,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    shell, _, script = container["command"]
    command, _, accepted = script.partition(" || ")

    assert (shell, accepted) == ("/bin/sh", "[ $? -eq 1 ]"), "violated contracts are a result"
    parse_command(shlex.split(command)[1:])
    assert pod["securityContext"] == POD["securityContext"]
    for key in ("image", "securityContext", "volumeMounts"):
        assert container[key] == CONTAINER[key]
    (claim,) = (each for each in pod["volumes"] if each not in POD["volumes"])
    assert claim["persistentVolumeClaim"] == {"claimName": "checkpoint-kraftwatch-0"}
    assert STATEFUL["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert (beside["topologyKey"], beside["labelSelector"]["matchLabels"]) == ("kubernetes.io/hostname", LABELS)
    labels = AUDIT["template"]["metadata"]["labels"]
    assert not LABELS.items() <= labels.items(), "the Service and the disruption budget are about the job"
    (either,) = of_kind("NetworkPolicy")["spec"]["podSelector"]["matchExpressions"]
    assert labels[either["key"]] in either["values"]


@pytest.mark.parametrize("file", [JOB, RELAY])
def test_all_selectors_match_the_pod(file: str) -> None:
    labels = of_kind("StatefulSet", file)["spec"]["template"]["metadata"]["labels"]
    found = [*selectors(FILES[file] + ([POD_MONITOR] if file == JOB else []))]

    assert len(found) == 4 + (file == JOB)
    assert all(selector.items() <= labels.items() for selector in found)


def test_driver_and_executors_are_restricted_as_the_container_is() -> None:
    for each in (SPARK["driver"], SPARK["executor"]):
        assert each["podSecurityContext"].items() <= POD["securityContext"].items()
        assert each["securityContext"].items() <= CONTAINER["securityContext"].items()
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_network_policy_allows_driver_executors_and_api_server() -> None:
    policy = of_kind("NetworkPolicy", SPARK_JOB)["spec"]
    labels = policy["podSelector"]["matchLabels"]
    each_other = [{"podSelector": {"matchLabels": labels}}]

    assert SPARK["driver"]["labels"] == SPARK["executor"]["labels"] == labels
    assert {"from": each_other} in policy["ingress"]
    assert {"to": each_other} in policy["egress"]
    assert {443, 6443} <= {port["port"] for rule in policy["egress"] if "to" not in rule for port in rule["ports"]}


def test_only_the_driver_has_the_rights_of_the_role() -> None:
    driver, executor = all_of_kind("ServiceAccount", SPARK_JOB)
    bound = of_kind("RoleBinding", SPARK_JOB)

    for role, account in (("driver", driver), ("executor", executor)):
        name = account["metadata"]["name"]
        assert SPARK[role]["serviceAccount"] == name
        assert APACHE["sparkConf"][f"spark.kubernetes.authenticate.{role}.serviceAccountName"] == name
    assert bound["roleRef"]["name"] == of_kind("Role", SPARK_JOB)["metadata"]["name"]
    assert [each["name"] for each in bound["subjects"]] == [driver["metadata"]["name"]]
    assert executor["automountServiceAccountToken"] is False


def test_both_operators_run_the_same_job() -> None:
    conf, driver, executor = (
        APACHE["sparkConf"],
        APACHE["driverSpec"]["podTemplateSpec"],
        APACHE["executorSpec"]["podTemplateSpec"],
    )
    (container,) = driver["spec"]["containers"]

    assert (APACHE["pyFiles"], APACHE["driverArgs"]) == (SPARK["mainApplicationFile"], SPARK["arguments"])
    assert APACHE["runtimeVersions"]["sparkVersion"] == SPARK["sparkVersion"]
    assert conf["spark.kubernetes.container.image"] == SPARK["image"]
    for role in ("driver", "executor"):
        assert conf[f"spark.{role}.memory"] == SPARK[role]["memory"]
        assert conf[f"spark.{role}.memoryOverhead"] == SPARK[role]["memoryOverhead"]
        assert conf[f"spark.kubernetes.{role}.request.cores"] == SPARK[role]["coreRequest"]
    assert conf["spark.driver.extraJavaOptions"] == SPARK["driver"]["javaOptions"]
    assert driver["metadata"]["labels"] == executor["metadata"]["labels"] == SPARK["driver"]["labels"]
    assert driver["spec"]["securityContext"] == SPARK["driver"]["podSecurityContext"]
    assert driver["spec"]["volumes"] == SPARK["volumes"]
    assert (container["securityContext"], container["volumeMounts"]) == (
        SPARK["driver"]["securityContext"],
        SPARK["driver"]["volumeMounts"],
    )
