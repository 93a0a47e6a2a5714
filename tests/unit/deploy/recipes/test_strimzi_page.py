"""docs/strimzi.md: its manifests are valid, and its values suit the chart and kraftwatch's configuration."""

import re
from pathlib import Path

import pytest
import yaml

from streaming.config import load
from tests.cli.program import kraftwatch
from tests.unit.deploy.recipes.helm_chart import HELM, rendered
from tests.unit.deploy.recipes.manifests import NEWEST, OLDEST, Manifest, validate
from tests.unit.deploy.recipes.strimzi_manifests import CHECK, POLICY, VALUES

SECRETS = "/etc/kraftwatch-secrets"


def written_config(folder: Path) -> Path:
    """Returns the file with the page's configuration, beside the files of the Secret."""
    text, file = yaml.safe_dump(VALUES["config"]), folder / "kraftwatch.yaml"
    for name in re.findall(rf"{SECRETS}/(\S+)", text):
        (folder / name).write_text("x")
    file.write_text(text.replace(SECRETS, str(folder)))
    return file


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("manifest", [POLICY, CHECK], ids=["NetworkPolicy", "Job"])
def test_manifests_are_valid(manifest: Manifest, version: str) -> None:
    validate(manifest, version)


def test_configuration_names_the_control_plane_listener_and_files_of_the_secret(tmp_path: Path) -> None:
    config = load(written_config(tmp_path))

    assert [one.name for one in config.clusters] == ["my-cluster", "payments"]
    assert {address.rpartition(":")[2] for one in config.clusters for address in one.bootstrap} == {"9090"}


@pytest.mark.skipif(HELM is None, reason="helm is missing: `make helm` builds it")
def test_rendered_policies_of_both_sides_fit_together(tmp_path: Path) -> None:
    ours = rendered(tmp_path, VALUES)

    (peer,) = (
        rule for rule in ours["NetworkPolicy"]["spec"]["egress"] if {"port": 9090, "protocol": "TCP"} in rule["ports"]
    )
    assert [to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for to in peer["to"]] == [
        "kafka",
        "kafka-payments",
    ]
    (admitted,) = POLICY["spec"]["ingress"]
    (client,) = admitted["from"]
    labels = ours["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert client["podSelector"]["matchLabels"].items() <= labels.items()
    assert client["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kraftwatch"}


def test_the_check_fails_without_an_answer_and_needs_no_volume_of_the_job(tmp_path: Path) -> None:
    (container,) = CHECK["spec"]["template"]["spec"]["containers"]
    config = written_config(tmp_path)
    mounts = {each["mountPath"] for each in container["volumeMounts"]}

    words = [config if word == "/etc/kraftwatch/kraftwatch.yaml" else word for word in container["args"]]
    ended = kraftwatch(*words, "--timeout", "1")

    assert ended.exit_code == 3, f"unknown: nothing answers, and there is no journal: {ended.output}"
    assert mounts == {"/etc/kraftwatch", SECRETS}


@pytest.mark.skipif(HELM is None, reason="helm is missing: `make helm` builds it")
def test_the_check_runs_as_the_job_does_and_both_network_policies_admit_it(tmp_path: Path) -> None:
    ours = rendered(tmp_path, VALUES)
    pod, job = CHECK["spec"]["template"]["spec"], ours["StatefulSet"]["spec"]["template"]["spec"]
    labels = CHECK["spec"]["template"]["metadata"]["labels"]
    (client,) = POLICY["spec"]["ingress"][0]["from"]

    assert client["podSelector"]["matchLabels"].items() <= labels.items()
    selector = ours["NetworkPolicy"]["spec"]["podSelector"]
    assert selector["matchLabels"].items() <= labels.items()
    assert labels["app.kubernetes.io/name"] in selector["matchExpressions"][0]["values"]
    assert not ours["Service"]["spec"]["selector"].items() <= labels.items(), "the page is not looked for there"
    assert pod["securityContext"].items() <= job["securityContext"].items()
    assert pod["containers"][0]["securityContext"] == job["containers"][0]["securityContext"]
    assert pod["containers"][0]["image"] == job["containers"][0]["image"]
    assert all(volume in job["volumes"] for volume in pod["volumes"])
