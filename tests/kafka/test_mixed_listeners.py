"""Only controllers or only brokers require a login: each printed command has the options that its listener needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.node import BROKER, CONTROLLER
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from rules.remedies.remedy_commands import LEGEND, describe_status, describe_topic, with_legend
from streaming.config import ClusterSection
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.live import QueryTarget, query_clusters
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long]
LOGIN = "--command-config $NODE_PROPERTIES"
TOPIC = "orders"


def observed_quorum(lab: Lab, login: dict[str, Any]) -> Quorum:
    section = ClusterSection.model_validate(
        {"name": "mixed", "bootstrap": lab.bootstrap, "cluster_id": lab.cluster_id, **login}
    )
    (state,) = query_clusters(
        [QueryTarget(cluster=section.cluster(), settings=ClusterSettings(name="mixed", access=section.access))],
        timeout_s=60,
    )
    assert state.missing == ()
    return state.quorum


@pytest.mark.parametrize("plaintext", [BROKER, CONTROLLER])
def test_printed_commands_reach_controllers_and_brokers(
    lab: Callable[..., Lab], tmp_path: Path, plaintext: str
) -> None:
    mixed = lab(controllers=0, combined=1, brokers=0, users=[], plaintext=[plaintext])
    mixed.create_topic(TOPIC)
    admin = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": mixed.security.ca_file,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "admin",
        "sasl_plain_password": mixed.security.passwords["admin"],
    }
    quorum = observed_quorum(mixed, {} if plaintext == CONTROLLER else admin)
    # The operator's configuration file for the one listener that requires a login.
    properties = tmp_path / "admin.properties"
    properties.write_text(mixed.security.admin_file.read_text())

    to_controllers, to_brokers = describe_status(quorum), describe_topic(quorum, TOPIC, [NodeId(1)])

    assert (LOGIN in to_controllers, LOGIN in to_brokers) == (plaintext == BROKER, plaintext == CONTROLLER)
    assert with_legend(quorum, (to_controllers, to_brokers))[-1] == LEGEND
    assert mixed.cluster_id in str(mixed.run_remedy(to_controllers, node_properties=properties))
    assert f"Topic: {TOPIC}" in str(mixed.run_remedy(to_brokers, node_properties=properties))
