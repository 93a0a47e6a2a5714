"""docs/strimzi.md: its manifests are valid, and its values suit the chart and kraftwatch's configuration."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.config import load
from tests.unit.deploy.recipes.test_helm_chart import HELM, rendered
from tests.unit.deploy.recipes.test_kubernetes import NEWEST, OLDEST, validate

PAGE = Path(__file__).parents[4] / "docs" / "strimzi.md"
BLOCKS: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
]
(VALUES,) = (block for block in BLOCKS if "config" in block)
(POLICY,) = (block for block in BLOCKS if block.get("kind") == "NetworkPolicy")
(USER,) = (block for block in BLOCKS if block.get("kind") == "KafkaUser")
SECRETS = "/etc/kraftwatch-secrets"


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_network_policy_is_valid(version: str) -> None:
    validate(POLICY, version)


def test_configuration_names_the_control_plane_listener_and_files_of_the_secret(tmp_path: Path) -> None:
    text = yaml.safe_dump(VALUES["config"])
    for name in re.findall(rf"{SECRETS}/(\S+)", text):
        (tmp_path / name).write_text("x")
    (tmp_path / "kraftwatch.yaml").write_text(text.replace(SECRETS, str(tmp_path)))

    config = load(tmp_path / "kraftwatch.yaml")

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
